"""The CUDA backend: kernels compiled by Numba, launched through the driver by ctypes.

Importing it touches no driver and no compiler.
"""

from .backend import CudaBackend

__all__ = ["CudaBackend"]
