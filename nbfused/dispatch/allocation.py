"""Allocation of results, with a second attempt when memory has run out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Library
from ..errors import AllocationError

__all__ = ["OUT_OF_MEMORY", "allocate"]


#: Errors that may mean it; `allocate` tells.
OUT_OF_MEMORY = (MemoryError, RuntimeError)


def allocate(library: Library, shape: tuple[int, ...], dtype: np.dtype,
             device: str) -> Any:
    """Allocate an array; when memory has run out, free the library's cache first.

    Raises
    ------
    AllocationError
        There is not enough memory even then.
    """
    try:
        return library.empty(shape, dtype, device)
    except OUT_OF_MEMORY as error:
        if not _out_of_memory(error):
            raise
    library.free_cache(device)
    try:
        return library.empty(shape, dtype, device)
    except OUT_OF_MEMORY as error:
        if not _out_of_memory(error):
            raise
        raise AllocationError(
            f"no memory on {device} for a result of shape {shape} and dtype {dtype}, "
            f"not even after {library.name}'s cache was freed: {error}; free arrays, "
            "or work on a part at a time") from error


def _out_of_memory(error: Exception) -> bool:
    """Whether an error means exhausted memory; PyTorch's is a RuntimeError."""
    return isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
