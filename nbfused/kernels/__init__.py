"""Kernels that users write, from the ways of CuPy, Numba and Slang."""

from .elementwise_kernel import ElementwiseKernel

__all__ = ["ElementwiseKernel"]
