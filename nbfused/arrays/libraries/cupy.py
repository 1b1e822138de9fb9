"""CuPy arrays, on CUDA or ROCm devices."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np

from ..description import Array, Reading
from ..devices import ordinal
from ..dtypes import check_address, check_dtype, element_strides

__all__ = ["CUPY", "CupyLibrary"]

#: Bytes that may be taken from the wrong device's pool, and are given back at once.
_SMALL = 1 << 16


class CupyLibrary:
    """The library interface of `cupy.ndarray`."""

    name = "cupy"
    writable = True
    differentiates = False

    def describe(self, x: Any, name: str) -> Array:
        """Describe an array."""
        dtype = check_dtype(x.dtype, name)
        strides = element_strides(x.strides, x.shape, dtype.itemsize, name)
        kind = "rocm" if _cupy().cuda.runtime.is_hip else "cuda"
        device = f"{kind}:{x.device.id}"
        return Array(check_address(x.data.ptr, dtype, name), x.shape, strides, dtype,
                     device, self.stream(device), False, self, x)

    def reading(self) -> Reading:
        """The text by which calls read an array; contiguous ones need no strides."""
        strides = "{x}.strides"
        if hasattr(_cupy().ndarray, "_c_contiguous"):  # a third of the time
            strides = "{x}._c_contiguous or {x}.strides"
        return Reading("{x}_data.ptr", (
            "{x}.dtype", "{x}.shape", strides, "{x}_data.device_id"),
            first="{x}_data = {x}.data")

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """Allocate from CuPy's pool."""
        with _cupy().cuda.Device(ordinal(device)):
            return _cupy().ndarray(shape, dtype)

    def from_numpy(self, host: np.ndarray, device: str) -> Any:
        """Copy an array from the host."""
        with _cupy().cuda.Device(ordinal(device)):
            made = _cupy().empty(host.shape, host.dtype)
            made.set(np.asarray(host, order="C"))
        return made

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: str,
              ) -> Callable[[], Any]:
        """A function that allocates from CuPy's pool.

        By `alloc` and then `ndarray`, 1.25 µs where `ndarray` alone takes 1.87:
        benchmarks/notes/host.md#what-a-launch-costs.
        """
        cupy, number = _cupy(), ordinal(device)
        ndarray, alloc, size = cupy.ndarray, cupy.cuda.alloc, prod(shape)*dtype.itemsize
        # CuPy finds a character sooner than a dtype; it has none for bfloat16.
        kind: Any = dtype if dtype.kind == "V" else dtype.char
        elsewhere = partial(self.empty, shape, dtype, device)

        def make() -> Any:
            memory = alloc(size)
            # Asking for the current device before takes longer.
            return ndarray(shape, kind, memory) if memory.device_id == number \
                else elsewhere()

        if size <= _SMALL:
            return make
        current = cupy.cuda.runtime.getDevice
        return lambda: make() if current() == number else elsewhere()

    #: Its address.
    pointer = staticmethod(attrgetter("data.ptr"))

    def view(self, native: Any, shape: tuple[int, ...], strides: tuple[int, ...],
             offset: int) -> Any:
        """View the same memory with other strides."""
        itemsize = native.dtype.itemsize
        return _cupy().ndarray(
            shape, native.dtype, native.data + offset * itemsize,
            tuple([stride * itemsize for stride in strides]))

    def stream(self, device: str) -> int:
        """Handle of ``cupy.cuda.get_current_stream``."""
        return int(sys.modules["cupy"].cuda.get_current_stream(ordinal(device)).ptr)

    def streams(self, device: str) -> Callable[[], int]:
        """A function that returns the handle of the current stream."""
        number, current = ordinal(device), sys.modules["cupy"].cuda.get_current_stream
        return lambda: current(number).ptr

    def free_cache(self, device: str) -> None:
        """Empty CuPy's memory pool."""
        with _cupy().cuda.Device(ordinal(device)):
            _cupy().get_default_memory_pool().free_all_blocks()

    def tracks(self, x: Any) -> bool:
        """False: CuPy has no automatic differentiation."""
        return False

    def finish(self, native: Any) -> Any:
        """Return the array unchanged."""
        return native

    def to_host(self, x: Any) -> np.ndarray:
        """Copy to a NumPy array."""
        return np.asarray(_cupy().asnumpy(x))


CUPY = CupyLibrary()


def _cupy() -> Any:
    return sys.modules["cupy"]
