"""The ROCm backend: HIP kernels, built by hipcc into shared libraries.

=========== ============================================================================
`backend`   `RocmBackend`
`build`     from the text of kernels to libraries: compilers, the cache, reports
`runtime`   devices, their memory, loaded kernels and their launches
`text`      the structs that the skeletons take, printed from scalar functions
`map`       text and launcher of Map; likewise `raw`
`reduce`    launcher of Reduce; likewise `row`, `contract`
``hip``     the skeletons, the runtime's C ABI, and the emulation of a device on the CPU
=========== ============================================================================
"""

from .backend import RocmBackend

__all__ = ["RocmBackend"]
