"""Map on CUDA.

============== ========================================================================
`launcher`     chooses the kernel by strides, alignment and extents
`text`         the kernels: vectorised, or general
`dense`        the kernel of results that are one run of memory, inputs that are not
`gathers`      counts loads of raw arrays at indices that are computed from data
`rows`         the kernel of lanes for each row: rows that are not aligned
`row_gathers`  the same where elements read rows of raw arrays, as a gather does
`columns`      the kernel for columns of arrays that lie side by side
`tile`         the kernel for inputs that lie across the output, through shared memory
`tile_pairs`   the same for 16-bit elements, two at once
`windows`      the kernel of a Map with windows: columns, and rows above one another
`wide_windows` the same for neighbouring columns, in whole accesses
`of_arrays`    a Map of arrays that another launcher has
`repeats`      calls whose inputs repeat along a loop, done once and copied
============== ========================================================================
"""
