"""The CPU backend: kernels compiled by Numba, run by a pool of threads.

================= ==================================================================
`ahead`           compilation of the kernels of calls to come, in other processes
`backend`         `CpuBackend`: the backend of host arrays
`contract`        `Contract`: our own blocked and narrow kernels, or BLAS
`long_rows`       few long rows, by chunks, and what is held of many
`map`             `Map`: one loop nest, vectorised along the last dimension
`map_copies`      rows of a `Map` that are copies of rows of a table
`map_short`       generated text of the kernels of `Map` for short rows
`mathematics`     elementary functions that vectorise
`raw`             `Raw`: blocks run by the pool, their threads in loops
`reduce`          `Reduce`: elements to states, long reductions in chunks, then `post`
`reduce_as_row`   a reduction along one short loop as a `Row` with one stage
`reduce_extremes` places of extreme elements in long rows
`reduce_spans`    lanes of a `Reduce` whose loop along neighbours is short
`reduce_text`     generated text of the kernels of `Reduce`
`row`             `Row`: rows in turn, or many at once, while they are in the cache
`row_across`      generated text of the kernel of `Row` that runs across rows
`row_short`       generated text of the kernels of `Row` for short rows
`row_text`        generated text of the kernel of `Row`
`runtime`         machine code of kernels, and the thread pool
`short_rows`      rows of few elements: a row in each iteration
`text`            generated text, and the LLVM intrinsics that it calls
================= ==================================================================
"""

from .backend import CpuBackend

__all__ = ["CpuBackend"]
