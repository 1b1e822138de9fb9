"""The driver's library with the functions of graphs."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from ..runtime.driver import DriverError, cu

__all__ = ["driver_library"]


@lru_cache(maxsize=1)
def driver_library() -> Any:
    """The driver's library; `DriverError` if it is missing or older than CUDA 12."""
    cu()
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError(f"the NVIDIA driver is not installed: {error}", 0) from error
    if not hasattr(library, "cuGraphExecKernelNodeSetParams_v2"):
        raise DriverError("the CUDA driver is older than CUDA 12", 0)
    return library
