"""Kernels that users write, from the ways of CuPy, Numba and Slang."""

from .elementwise_kernel import ElementwiseKernel
from .reduction_kernel import ReductionKernel

__all__ = ["ElementwiseKernel", "ReductionKernel"]
