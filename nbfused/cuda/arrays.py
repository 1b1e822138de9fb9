"""Device memory of our own, for arrays where no other library is there to make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..arrays.allocation import STREAM, allocated, gathered
from ..arrays.devices import ordinal
from .driver import check, cu, device

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
    return allocated(device(number), shape, dtype, f"cuda:{number}")


def from_host(array: np.ndarray, name: str) -> DeviceArray:
    """A copy on the device; the host array may be changed as soon as this returns."""
    result = empty(array.shape, array.dtype, name)
    packed = np.ascontiguousarray(array)
    if packed.nbytes:
        with device(ordinal(name)).current():
            check(cu().cuMemcpyHtoD(result.pointer, packed.ctypes.data, packed.nbytes))
    return result


def to_host(array: DeviceArray) -> np.ndarray:
    """A copy on the host, once the array's stream has come so far."""
    with device(ordinal(array.device)).current():
        if array.stream not in (None, STREAM):
            check(cu().cuCtxSynchronize())
        return gathered(array, lambda to, source, size: check(
            cu().cuMemcpyDtoH(to, source, size)))
