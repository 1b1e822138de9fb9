"""Arrays in a GPU's memory, for where no other library makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..arrays.allocation import STREAM, Memory, allocate_array, copy_to_host

if TYPE_CHECKING:
    from ..arrays import DeviceArray

__all__ = ["CopyingDevice", "empty", "from_host", "to_host"]


class CopyingDevice(Memory, Protocol):
    """A device as far as arrays need it."""

    @property
    def label(self) -> str:
        """``"cuda:0"``."""

    def upload(self, to: int, source: int, size: int) -> None:
        """Copy `size` bytes from the host; they are on the device on return."""

    def download(self, to: int, source: int, size: int) -> None:
        """Copy `size` bytes to the host, once the default stream has come so far."""

    def synchronize(self) -> None:
        """Wait for everything launched on it."""


def empty(device: CopyingDevice, shape: tuple[int, ...],
          dtype: np.dtype) -> DeviceArray:
    """A C-contiguous array, not initialised.

    Raises
    ------
    AllocationError
        Out of memory.
    """
    return allocate_array(device, shape, dtype, device.label)


def from_host(device: CopyingDevice, array: np.ndarray) -> DeviceArray:
    """A copy on the device; the host array may be changed as soon as this returns."""
    result = empty(device, array.shape, array.dtype)
    packed = np.ascontiguousarray(array)
    if packed.nbytes:
        device.upload(result.pointer, packed.ctypes.data, packed.nbytes)
    return result


def to_host(device: CopyingDevice, array: DeviceArray) -> np.ndarray:
    """A copy on the host, once the array's stream has come so far."""
    if array.stream not in (None, STREAM):
        device.synchronize()
    return copy_to_host(array, device.download)
