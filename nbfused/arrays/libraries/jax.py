"""JAX arrays: immutable, on the host and on CUDA or ROCm devices."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...errors import KernelTypeError
from ..description import Array
from ..device_array import DEVICE, DeviceArray
from ..devices import ordinal
from ..dtypes import check_dtype
from .dlpack import HostExport
from .interface import describe_dlpack
from .numpy import NUMPY, aligned_empty

__all__ = ["JAX", "JAX_TRACER", "JaxLibrary", "JaxTracer"]

_BOUNDARY = 64  # bytes; JAX copies what does not begin at such an address


class JaxLibrary:
    """The library interface of `jax.Array`: results are converted once filled."""

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
        if x.is_deleted():
            raise KernelTypeError(
                f"{name}: this array of JAX was deleted: a function compiled with "
                "donate_argnums took its memory, or x.delete() was called; pass a "
                "copy to that function, or use what it returned")
        return describe_dlpack(x, name, self)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """Allocate a NumPy array or a `DeviceArray`, which `finish` converts."""
        if device == "cpu":
            return aligned_empty(shape, dtype, _BOUNDARY)
        return DEVICE.empty(shape, dtype, device)

    def from_numpy(self, host: np.ndarray, device: str) -> Any:
        """Copy an array from the host."""
        return _jax().device_put(host, _jax().devices(
            "cpu" if device == "cpu" else "gpu")[0 if device == "cpu" else
                                                  ordinal(device)])

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: str,
              ) -> Callable[[], Any]:
        """A function that allocates as `empty` does."""
        return partial(self.empty, shape, dtype, device)

    def pointer(self, native: Any) -> int:
        """The address of an array that `empty` made."""
        made = NUMPY if isinstance(native, np.ndarray) else DEVICE
        return made.pointer(native)

    def view(self, native: Any, shape: tuple[int, ...], strides: tuple[int, ...],
             offset: int) -> Any:
        """View the memory of an array that `empty` made.

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
        """The legacy default stream, to which JAX's export is synchronised."""
        return 0

    def streams(self, device: str) -> Callable[[], int]:
        """A function that returns the default stream."""
        return int

    def free_cache(self, device: str) -> None:
        """Do nothing: JAX's allocator makes none of the results."""

    def tracks(self, x: Any) -> bool:
        """False: tracers are `JaxTracer`'s, concrete arrays are not traced."""
        return False

    def finish(self, native: Any) -> Any:
        """Convert to JAX without a copy; float64 to float32 unless x64 is on."""
        if isinstance(native, np.ndarray):
            native = HostExport(native)
        return _jax().dlpack.from_dlpack(native)

    def to_host(self, x: Any) -> np.ndarray:
        """View an array on the host (not writable); copy one from a device."""
        return np.asarray(x)


class JaxTracer(JaxLibrary):
    """The library interface of JAX's tracers: values without memory, refused."""

    differentiates = True

    def describe(self, x: Any, name: str) -> Array:
        """Raise the error for a traced value."""
        raise KernelTypeError(
            f"{name} is a JAX tracer ({type(x).__name__}), and has no elements yet, "
            "which are needed here; inside of jax.jit, jax.grad and jax.vmap call "
            "operations of nf.ops and decorated functions of numbers; call anything "
            "else outside of them, or through jax.pure_callback")

    def symbolic(self, x: Any) -> bool:
        """True: JAX traces all of them."""
        return True

    def tracks(self, x: Any) -> bool:
        """True: JAX traces all of them."""
        return True


JAX = JaxLibrary()
JAX_TRACER = JaxTracer()


def _jax() -> Any:
    return sys.modules["jax"]
