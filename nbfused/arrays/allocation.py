"""`DeviceArray` over memory that a backend allocates, the same for all backends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from math import prod
from typing import Protocol

import numpy as np

from ..support.loop_nests import dense_strides
from .description import Array
from .device_array import DeviceArray
from .memory import array_over

__all__ = ["STREAM", "Allocation", "Memory", "allocate_array", "copy_to_host"]

#: Our arrays belong to the default stream, with which all others synchronise.
STREAM = 0


class Memory(Protocol):
    """The memory of a device, as arrays use it: make current, allocate, free."""

    def current(self) -> AbstractContextManager[None]:
        """Make it the current device of the calling thread."""

    def allocate(self, size: int, stream: int) -> int:
        """Allocate device memory and return its address; 0 for no bytes."""

    def drop(self, address: int) -> None:
        """Free device memory to which nothing refers any more.

        It is called by Python's collector of garbage, at any moment and in any thread.
        """


class Allocation:
    """Device memory kept until nothing refers to it and its stream is done with it."""

    __slots__ = ("address", "device")

    def __init__(self, device: Memory, size: int) -> None:
        self.address = 0
        self.device: Memory = device
        with device.current():
            self.address = device.allocate(size, STREAM)

    # The module's names may be gone before the last array is.
    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.address and not ending():
            self.device.drop(self.address)


def allocate_array(device: Memory, shape: tuple[int, ...], dtype: np.dtype,
                   name: str) -> DeviceArray:
    """Allocate an uninitialised C-contiguous array on `device`, called `name`.

    Raises
    ------
    AllocationError
        Out of memory.
    """
    owner = Allocation(device, prod(shape)*np.dtype(dtype).itemsize)
    return DeviceArray(owner.address, shape, dense_strides(shape), dtype, name, STREAM,
                       owner)


def copy_to_host(array: DeviceArray | Array,
                 copy: Callable[[int, int, int], None]) -> np.ndarray:
    """Copy the elements to a C-contiguous array on the host.

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
