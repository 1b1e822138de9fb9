"""Device memory of our own, for arrays where no other library is there to make them."""

from __future__ import annotations

import sys
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ..arrays.memory import array_over
from ..layout import dense_strides
from .driver import Device, check, cu, device

if TYPE_CHECKING:
    from ..arrays import DeviceArray

__all__ = ["empty", "from_host", "ordinal_of", "to_host"]

#: Our arrays belong to the legacy default stream, with which all others synchronise.
STREAM = 0


def ordinal_of(name: str) -> int:
    """The number in ``"cuda:1"``."""
    return int(name.partition(":")[2] or 0)


class Allocation:
    """Keeps device memory until nothing refers to it, then until its stream is done."""

    __slots__ = ("address", "device")

    def __init__(self, where: Device, size: int) -> None:
        self.address = 0
        self.device = where
        with where.current():
            self.address = where.allocate(size, STREAM)

    def __del__(self) -> None:
        if self.address and not sys.is_finalizing():
            with self.device.current():
                self.device.free(self.address, STREAM)


def empty(shape: tuple[int, ...], dtype: np.dtype, name: str) -> DeviceArray:
    """A C-contiguous array, not initialised.

    Raises
    ------
    AllocationError
        Out of memory.
    DeviceError
        No such device.
    """
    from ..arrays import DeviceArray

    number = ordinal_of(name)
    memory = Allocation(device(number), prod(shape)*np.dtype(dtype).itemsize)
    return DeviceArray(memory.address, shape, dense_strides(shape), dtype,
                       f"cuda:{number}", STREAM, memory)


def from_host(array: np.ndarray, name: str) -> DeviceArray:
    """A copy on the device; the host array may be changed as soon as this returns."""
    result = empty(array.shape, array.dtype, name)
    packed = np.ascontiguousarray(array)
    if packed.nbytes:
        with device(ordinal_of(name)).current():
            check(cu().cuMemcpyHtoD(result.pointer, packed.ctypes.data, packed.nbytes))
    return result


def to_host(array: DeviceArray) -> np.ndarray:
    """A copy on the host, once the array's stream has come so far.

    Views with gaps are copied with what lies between their elements.
    """
    if array.size == 0:
        return np.empty(array.shape, array.dtype)
    steps = [(extent - 1)*stride for extent, stride in
             zip(array.shape, array.strides, strict=True)]
    first, last = sum(min(s, 0) for s in steps), sum(max(s, 0) for s in steps)
    item = array.dtype.itemsize
    buffer = np.empty((last - first + 1)*item, np.uint8)
    where = device(ordinal_of(array.device))
    with where.current():
        if array.stream not in (None, STREAM):
            check(cu().cuCtxSynchronize())
        check(cu().cuMemcpyDtoH(buffer.ctypes.data, array.pointer + first*item,
                                buffer.nbytes))
    bits = array_over(buffer.ctypes.data - first*item, array.shape, array.strides, item,
                      owner=buffer)
    return np.ascontiguousarray(bits).view(array.dtype).reshape(array.shape)
