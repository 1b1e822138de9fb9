"""Shared memory and the stream of a launch of native code."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from ...arrays import Array
from ...errors import KernelTypeError, RangeError

__all__ = ["as_integer", "bytes_of_shared", "current_or_given", "stream_handle"]


def bytes_of_shared(value: Any, label: str) -> int:
    """`value` as a number of bytes, 0 or more."""
    found = as_integer(value)
    if found is None:
        raise KernelTypeError(f"{label}: shared_mem is {value!r}; expected an integer")
    if found < 0:
        raise RangeError(f"{label}: shared_mem is {value}; expected 0 or more")
    return found


def as_integer(value: Any) -> int | None:
    """`value` as an integer; None if it is none."""
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def current_or_given(stream: Any, arrays: Sequence[Array]) -> int:
    """The stream's handle: given, or the current one of the arrays' library."""
    if stream is None:
        return arrays[0].library.stream(arrays[0].device) if arrays else 0
    return stream_handle(stream)


def stream_handle(stream: Any) -> int:
    """The handle of a stream of CuPy, PyTorch or cuda.core, or a handle itself."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("ptr", "cuda_stream", "handle"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    found = as_integer(stream)
    if found is None:
        raise KernelTypeError(f"stream is a {type(stream).__name__}; expected a "
                              "handle, or a stream of CuPy, PyTorch or cuda.core")
    return found
