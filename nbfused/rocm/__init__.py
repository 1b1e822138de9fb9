"""The ROCm backend: HIP kernels, built by hipcc into shared libraries."""

from .backend import RocmBackend

__all__ = ["RocmBackend"]
