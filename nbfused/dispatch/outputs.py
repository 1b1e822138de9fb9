"""Checks of given outputs: shape, dtype, casting, place and overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import (
    Array,
    ByteRange,
    byte_range,
    may_overlap,
    same_memory,
    self_overlaps,
)
from ..arrays.libraries.numpy import NUMPY
from ..errors import (
    DeviceError,
    KernelTypeError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)
from ..support.dtypes import BFLOAT16
from ..support.loop_nests import Strides

__all__ = [
    "can_cast",
    "check_casting",
    "check_distinct",
    "check_output",
    "check_overlap",
    "check_shape",
]

Shape = tuple[int, ...]
Use = tuple[str, Array, bool]
_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)


def can_cast(source: np.dtype, target: np.dtype, casting: str) -> bool:
    """`numpy.can_cast`, extended to bfloat16 as a floating dtype."""
    if source == target or casting == "unsafe":
        return True
    if source == BFLOAT16 and casting == "same_kind":
        source = _FLOAT32
    if target == BFLOAT16 and casting == "same_kind":
        target = _FLOAT16
    return np.can_cast(source, target, casting)  # type: ignore[arg-type]


def check_shape(name: str, got: Shape, expected: Shape) -> None:
    """Raise `ShapeError` unless the shapes are equal: outputs never broadcast."""
    if got != expected:
        raise ShapeError(f"{name} has shape {got}, but the result has shape {expected};"
                         f" pass an array of shape {expected}, or leave {name} out")


def check_casting(name: str, source: np.dtype, target: np.dtype, casting: str) -> None:
    """Raise `KernelTypeError` unless results can be cast to `name`'s dtype."""
    if not can_cast(source, target, casting):
        raise KernelTypeError(
            f"{name} has dtype {target}, but the result is {source}, which does not "
            f"cast to it under '{casting}'; pass an array of dtype {source}, and use "
            "astype on the result")


def check_distinct(name: str, shape: Shape, strides: Strides) -> None:
    """Raise `OverlapError` if two elements of an output share an address."""
    if self_overlaps(Array(0, shape, strides, _FLOAT32, "", None, False, NUMPY, None)):
        raise OverlapError(
            f"{name} of shape {shape} and strides {strides} has elements that share "
            "memory, as a broadcast view has; pass a copy of it")


def check_output(name: str, out: Array, library: Any, device: str) -> None:
    """Check that `out` is writable, and of the inputs' library and device.

    Raises
    ------
    KernelTypeError
        Another library than the inputs', or one whose arrays are immutable.
    DeviceError
        Another device.
    ReadOnlyError
        Not writable.
    """
    if not out.library.writable:
        raise KernelTypeError(
            f"{name} is an array of {out.library.name}, whose arrays are immutable; "
            "leave it out and use the result")
    if out.library is not library:
        raise KernelTypeError(
            f"{name} is an array of {out.library.name}, the inputs are of "
            f"{library.name}; one call takes arrays of one library, convert one of "
            "them (from_dlpack does not copy)")
    if out.device != device:
        raise DeviceError(f"{name} is on {out.device}, the inputs are on {device}; "
                          "make it there, or move the inputs")
    if out.readonly:
        raise ReadOnlyError(f"{name} is read-only; pass a writable array, such as "
                            f"{name}.copy()")


def check_overlap(outs: Sequence[Use], inputs: Sequence[Use]) -> None:
    """Check that no output overlaps an input that is read after it is written.

    Parameters
    ----------
    outs
        Name and array of each output that the caller gave, and whether an element of
        it is written only after the inputs' elements at the same index were read.
    inputs
        Name and array of each array input, and whether it is read at that index only.

    Raises
    ------
    OverlapError
        Two outputs share memory, or an output and an input (unless both flags are set
        and they are the same elements).
    """
    read = [(other, byte_range(other[1])) for other in inputs]
    written: list[tuple[Use, ByteRange]] = []
    for use in outs:
        place = byte_range(use[1])
        for other, taken in written:
            if place.overlaps(taken):
                _compare(use, other, False)
        for other, taken in read:
            if place.overlaps(taken):
                _compare(use, other, True)
        written.append((use, place))


def _compare(use: Use, other: Use, is_input: bool) -> None:
    """Raise if two arrays with overlapping address ranges share an element."""
    (name, out, late), (label, array, local) = use, other
    exact = is_input and late and local
    if (exact and same_memory(out, array)) or not may_overlap(out, array):
        return
    if not is_input:
        raise OverlapError(f"{name} and {label} share memory; pass separate arrays")
    allowed = (f"only an output that is exactly '{label}' is allowed" if exact
               else "this operation cannot work in place")
    raise OverlapError(f"{name} shares memory with input '{label}'; {allowed}. Pass a "
                       f"separate array, or a copy of '{label}'")
