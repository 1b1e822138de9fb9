"""Numba's device arrays (``numba.cuda.to_device``)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..description import Array
from ..device_array import DeviceArray
from ..devices import ordinal
from ..dtypes import check_address, check_dtype, element_strides
from .interface import interface_stream

__all__ = ["NUMBA", "NumbaLibrary"]


class NumbaLibrary:
    """The library interface of Numba's `DeviceNDArray`."""

    name = "numba"
    writable = True
    differentiates = False

    def describe(self, x: Any, name: str) -> Array:
        """Describe a device array; its stream is the one it is bound to."""
        dtype = check_dtype(x.dtype, name)
        interface = x.__cuda_array_interface__
        device = f"cuda:{x.gpu_data.context.device.id}"
        return Array(
            check_address(interface["data"][0] or 0, dtype, name), x.shape,
            element_strides(x.strides, x.shape, dtype.itemsize, name), dtype, device,
            interface_stream(interface, name), interface["data"][1], self, x)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """Allocate with ``numba.cuda.device_array``."""
        with _cuda().gpus[ordinal(device)]:
            return _cuda().device_array(shape, dtype)

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: str,
              ) -> Callable[[], Any]:
        """A function that allocates as `empty` does."""
        return partial(self.empty, shape, dtype, device)

    def pointer(self, native: Any) -> int:
        """The array's address."""
        return int(native.__cuda_array_interface__["data"][0])

    def view(self, native: Any, shape: tuple[int, ...], strides: tuple[int, ...],
             offset: int) -> Any:
        """View the same memory with other strides."""
        whole = self.describe(native, "array")
        view = DeviceArray(
            whole.pointer + offset * whole.dtype.itemsize, shape, strides, whole.dtype,
            whole.device, whole.stream, native)
        with _cuda().gpus[ordinal(whole.device)]:
            return _cuda().as_cuda_array(view, sync=False)

    def stream(self, device: str) -> int:
        """The legacy default stream, which is Numba's default."""
        return 0

    def streams(self, device: str) -> Callable[[], int]:
        """A function that returns the default stream."""
        return int

    def free_cache(self, device: str) -> None:
        """Carry out the deallocations that Numba has deferred."""
        with _cuda().gpus[ordinal(device)]:
            _cuda().current_context().deallocations.clear()

    def tracks(self, x: Any) -> bool:
        """False: Numba has no automatic differentiation."""
        return False

    def finish(self, native: Any) -> Any:
        """Return the array unchanged."""
        return native

    def to_host(self, x: Any) -> np.ndarray:
        """Copy to a NumPy array."""
        return np.asarray(x.copy_to_host())


NUMBA = NumbaLibrary()


def _cuda() -> Any:
    return sys.modules["numba.cuda"]
