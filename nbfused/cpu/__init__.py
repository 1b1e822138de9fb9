"""The backend for host arrays: Numba's machine code, run by our own threads."""

from .backend import CpuBackend

__all__ = ["CpuBackend"]
