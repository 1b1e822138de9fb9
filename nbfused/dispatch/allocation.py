"""New arrays for results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import Library
from ..errors import AllocationError

__all__ = ["allocate", "maker"]


def allocate(library: Library, shape: tuple[int, ...], dtype: np.dtype,
             device: str) -> Any:
    """Make an array; where memory has run out, free what the library caches first.

    Raises
    ------
    AllocationError
        There is not enough memory even then.
    """
    try:
        return library.empty(shape, dtype, device)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
    library.free_cache(device)
    try:
        return library.empty(shape, dtype, device)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        raise AllocationError(
            f"no memory on {device} for a result of shape {shape} and dtype {dtype}, "
            f"not even after {library.name}'s cache was freed: {error}; free arrays, "
            "or work on a part at a time") from error


def maker(library: Library, shape: tuple[int, ...], dtype: np.dtype,
          device: str) -> Callable[[], Any]:
    """A function that does what `allocate` does."""
    make = library.maker(shape, dtype, device)

    def made() -> Any:
        try:
            return make()
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
        return allocate(library, shape, dtype, device)

    return made


def _out_of_memory(error: Exception) -> bool:
    """PyTorch's error is a RuntimeError."""
    return isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
