"""Device memory of our own, for arrays where no other library is there to make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..arrays.allocation import STREAM, allocated, gathered
from ..arrays.devices import ordinal
from .runtime import TO_DEVICE, TO_HOST, device

if TYPE_CHECKING:
    from ..arrays import DeviceArray

__all__ = ["empty", "from_host", "to_host"]


def empty(shape: tuple[int, ...], dtype: np.dtype, name: str) -> DeviceArray:
    """A C-contiguous array, not initialised.

    Raises
    ------
    AllocationError
        Out of memory.
    DeviceError
        No such device.
    """
    number = ordinal(name)
    return allocated(device(number), shape, dtype, f"rocm:{number}")


def from_host(array: np.ndarray, name: str) -> DeviceArray:
    """A copy on the device; the host array may be changed as soon as this returns."""
    result = empty(array.shape, array.dtype, name)
    packed = np.ascontiguousarray(array)
    if packed.nbytes:
        device(ordinal(name)).copy(result.pointer, packed.ctypes.data, packed.nbytes,
                                   TO_DEVICE)
    return result


def to_host(array: DeviceArray) -> np.ndarray:
    """A copy on the host, once the array's stream has come so far."""
    where = device(ordinal(array.device))
    if array.stream not in (None, STREAM):
        where.synchronize()
    return gathered(array, lambda to, source, size: where.copy(
        to, source, size, TO_HOST))
