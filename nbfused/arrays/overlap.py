"""Tests for shared memory between arrays: from addresses alone, on any device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .description import Array
from .memory import array_over

__all__ = ["ByteRange", "byte_range", "may_overlap", "same_memory", "self_overlaps"]

# Deciding exactly is hard for contrived strides; beyond this effort the answer is yes.
_EFFORT = 10_000
_COUNTED = 1 << 20


class ByteRange(NamedTuple):
    """A range of addresses, ``low <= address < high``, on a device."""

    device: str
    low: int
    high: int

    def overlaps(self, other: ByteRange) -> bool:
        """Whether two ranges have an address in common."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return low < high and self.device == other.device


def byte_range(a: Array) -> ByteRange:
    """The range of addresses of the elements of `a`; none for empty arrays."""
    low = high = 0
    for extent, stride in zip(a.shape, a.strides, strict=True):
        if extent == 0:
            return ByteRange(a.device, a.pointer, a.pointer)
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    itemsize = a.dtype.itemsize
    return ByteRange(a.device, a.pointer + low * itemsize,
                     a.pointer + (high + 1) * itemsize)


def may_overlap(a: Array, b: Array) -> bool:
    """Whether an element of `a` and one of `b` share a byte.

    Exact, except for strides so contrived that deciding it would take long: then True.
    """
    if not byte_range(a).overlaps(byte_range(b)):
        return False
    try:
        return np.shares_memory(
            _bits(a), _bits(b), max_work=_EFFORT)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def same_memory(a: Array, b: Array) -> bool:
    """Whether two arrays have the same element at every index."""
    return (a.pointer == b.pointer and a.shape == b.shape and a.device == b.device
            and a.dtype.itemsize == b.dtype.itemsize
            and (a.strides == b.strides or _steps(a) == _steps(b)))


def self_overlaps(a: Array) -> bool:
    """Whether two indices of `a` refer to the same element.

    Exact below a million elements; above, strides that interleave count as yes.
    """
    steps = sorted((abs(stride), extent) for extent, stride in _steps(a))
    if 0 in a.shape or not steps:
        return False
    if steps[0][0] == 0:
        return True
    reach = 0  # the largest offset of the dimensions so far
    for stride, extent in steps:
        if stride <= reach:
            return _counts_twice(steps)
        reach += stride * (extent - 1)
    return False


def _steps(a: Array) -> list[tuple[int, int]]:
    """Extents and strides of the dimensions with more than one element."""
    return [(extent, stride) for extent, stride
            in zip(a.shape, a.strides, strict=True) if extent != 1]


def _counts_twice(steps: list[tuple[int, int]]) -> bool:
    offsets = np.zeros(1, np.int64)
    for stride, extent in steps:
        if offsets.size * extent > _COUNTED:
            return True
        offsets = np.add.outer(offsets, stride * np.arange(extent)).ravel()
    return np.unique(offsets).size < offsets.size


def _bits(a: Array) -> np.ndarray:
    return array_over(a.pointer, a.shape, a.strides, a.dtype.itemsize)
