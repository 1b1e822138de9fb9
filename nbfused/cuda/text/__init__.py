"""Writing kernel text in Numba's Python, for kernels of every spec.

=========== ============================================================================
`source`    lines and parameters of a kernel, index arithmetic, printed functions
`functions` statements that a kernel repeats, as a function of its own
`skeletons` writers of kernels that are written as code with slots
`branches`  short branches as selections
`states`    states of reductions, combined within a thread, a warp and a block
`hints`     which lines the second cache gives up first
=========== ============================================================================
"""
