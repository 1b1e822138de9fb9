"""JAX arrays: immutable, on the host and on CUDA or ROCm devices."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..errors import KernelTypeError
from .description import Array
from .device_array import DEVICE, DeviceArray
from .dlpack import HostExport
from .dtypes import check_dtype
from .host import NUMPY, aligned_empty
from .interface import describe_dlpack

__all__ = ["JAX", "JAX_TRACER", "JaxLibrary", "JaxTracer"]

_BOUNDARY = 64  # bytes; JAX copies what does not begin at such an address


class JaxLibrary:
    """`jax.Array`: results are filled as our own arrays and handed over at the end."""

    name = "jax"
    writable = False
    differentiates = False

    def describe(self, x: Any, name: str) -> Array:
        """Describe a concrete array on one device.

        Raises
        ------
        KernelTypeError
            If it is sharded, deleted (donated), or a random key.
        """
        check_dtype(x.dtype, name)
        return describe_dlpack(x, name, self)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """Allocate a NumPy array or a `DeviceArray`, which `finish` converts."""
        if device == "cpu":
            return aligned_empty(shape, dtype, _BOUNDARY)
        return DEVICE.empty(shape, dtype, device)

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: str,
              ) -> Callable[[], Any]:
        """A function that does what `empty` does."""
        return partial(self.empty, shape, dtype, device)

    def pointer(self, native: Any) -> int:
        """The address of what `empty` made."""
        made = NUMPY if isinstance(native, np.ndarray) else DEVICE
        return made.pointer(native)

    def view(self, native: Any, shape: tuple[int, ...], strides: tuple[int, ...],
             offset: int) -> Any:
        """View what `empty` made.

        Raises
        ------
        KernelTypeError
            If `native` is a JAX array: those have no strides.
        """
        if isinstance(native, np.ndarray):
            return NUMPY.view(native, shape, strides, offset)
        if isinstance(native, DeviceArray):
            return DEVICE.view(native, shape, strides, offset)
        raise KernelTypeError(
            "JAX arrays have no strided views; use jax.numpy.reshape, transpose or "
            "broadcast_to")

    def stream(self, device: str) -> int:
        """Give the legacy default stream, which JAX's export was ordered before."""
        return 0

    def streams(self, device: str) -> Callable[[], int]:
        """Give nothing but the default stream."""
        return int

    def free_cache(self, device: str) -> None:
        """Leave it: results are not made by JAX's allocator."""

    def tracks(self, x: Any) -> bool:
        """Concrete arrays are not traced; tracers do not come this far."""
        return False

    def finish(self, native: Any) -> Any:
        """Hand over without a copy; float64 becomes float32 unless JAX has x64 on."""
        if isinstance(native, np.ndarray):
            native = HostExport(native)
        return _jax().dlpack.from_dlpack(native)

    def to_host(self, x: Any) -> np.ndarray:
        """View an array on the host (not writable); copy one from a device."""
        return np.asarray(x)


class JaxTracer(JaxLibrary):
    """What JAX passes to a function that it transforms: a value without memory."""

    differentiates = True

    def describe(self, x: Any, name: str) -> Array:
        """Refuse."""
        raise KernelTypeError(
            f"{name} is a JAX tracer ({type(x).__name__}), which has no elements yet; "
            "call nbfused outside jax.jit, jax.grad and jax.vmap, or through "
            "jax.pure_callback")

    def tracks(self, x: Any) -> bool:
        """All of them are."""
        return True


JAX = JaxLibrary()
JAX_TRACER = JaxTracer()


def _jax() -> Any:
    return sys.modules["jax"]
