"""Kernels that users write.

- `cupy`: elementwise, reduction and native kernels as in CuPy.
- `threads`: kernels of threads as in Numba, launched and differentiated as in Slang.
- `fusing`: functions of arrays run in few launches.
"""

from .cupy.elementwise_kernel import ElementwiseKernel
from .cupy.reduction_kernel import ReductionKernel

__all__ = ["ElementwiseKernel", "ReductionKernel"]
