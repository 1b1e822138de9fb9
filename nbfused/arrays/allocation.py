"""`DeviceArray` over memory that a backend allocates: what all backends do alike."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from math import prod
from typing import Protocol

import numpy as np

from ..layout import dense_strides
from .description import Array
from .device_array import DeviceArray
from .memory import array_over

__all__ = ["STREAM", "Allocation", "Memory", "allocated", "gathered"]

#: Our arrays belong to the default stream, with which all others synchronise.
STREAM = 0


class Memory(Protocol):
    """A device as far as arrays need it."""

    def current(self) -> AbstractContextManager[None]:
        """Make it the thread's device."""

    def allocate(self, size: int, stream: int) -> int:
        """The address of new bytes; 0 for none."""

    def drop(self, address: int) -> None:
        """Give them back: nothing refers to them any more.

        It is called by Python's collector of garbage, at any moment and in any thread.
        """


class Allocation:
    """Keeps device memory until nothing refers to it, then until its stream is done."""

    __slots__ = ("address", "device")

    def __init__(self, device: Memory, size: int) -> None:
        self.address = 0
        self.device = device
        with device.current():
            self.address = device.allocate(size, STREAM)

    # The module's names may be gone before the last array is.
    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.address and not ending():
            self.device.drop(self.address)


def allocated(device: Memory, shape: tuple[int, ...], dtype: np.dtype,
              name: str) -> DeviceArray:
    """A C-contiguous array on `device`, called `name`, not initialised.

    Raises
    ------
    AllocationError
        Out of memory.
    """
    owner = Allocation(device, prod(shape)*np.dtype(dtype).itemsize)
    return DeviceArray(owner.address, shape, dense_strides(shape), dtype, name, STREAM,
                       owner)


def gathered(array: DeviceArray | Array,
             copy: Callable[[int, int, int], None]) -> np.ndarray:
    """The elements on the host, C-contiguous.

    Parameters
    ----------
    array
        Views with gaps are copied with what lies between their elements.
    copy
        Called once, with an address on the host, one on the device, and how many bytes.
    """
    if array.size == 0:
        return np.empty(array.shape, array.dtype)
    steps = [(extent - 1)*stride for extent, stride in
             zip(array.shape, array.strides, strict=True)]
    first, last = sum(min(s, 0) for s in steps), sum(max(s, 0) for s in steps)
    item = array.dtype.itemsize
    buffer = np.empty((last - first + 1)*item, np.uint8)
    copy(buffer.ctypes.data, array.pointer + first*item, buffer.nbytes)
    bits = array_over(buffer.ctypes.data - first*item, array.shape, array.strides, item,
                      owner=buffer)
    return np.ascontiguousarray(bits).view(array.dtype).reshape(array.shape)
