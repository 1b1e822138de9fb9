"""Arrays of unknown libraries, through DLPack or ``__cuda_array_interface__``."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...config import config
from ...errors import KernelTypeError
from ...registry.backends import registry
from ...support.loop_nests import dense_strides
from ..description import Array, Library
from ..device_array import DEVICE, DeviceArray
from ..dtypes import check_address, check_dtype, check_extents, element_strides
from .dlpack import MAX_VERSION, device_name, read
from .numpy import NUMPY, host_view

__all__ = [
    "FOREIGN", "ForeignLibrary", "as_device_array", "describe_dlpack",
    "interface_stream",
]


#: ``CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`` of the CUDA driver.
_DEVICE_ORDINAL = 9


class ForeignLibrary:
    """Arrays that can be read but not made: results are NumPy's or `DeviceArray`."""

    name = "foreign"
    writable = True
    differentiates = False

    def describe(self, x: Any, name: str) -> Array:
        """Describe by DLPack, which names the device, or by the interface."""
        if hasattr(x, "__dlpack_device__"):
            return describe_dlpack(x, name)
        return _describe_interface(x, name)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """Allocate a NumPy array or a `DeviceArray`."""
        return _ours(device).empty(shape, dtype, device)

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: str,
              ) -> Callable[[], Any]:
        """A function that allocates as `empty` does."""
        return partial(self.empty, shape, dtype, device)

    def pointer(self, native: Any) -> int:
        """The address of an array that `empty` made."""
        return _ours(getattr(native, "device", "cpu")).pointer(native)

    def view(self, native: Any, shape: tuple[int, ...], strides: tuple[int, ...],
             offset: int) -> Any:
        """View the memory of an array that `empty` made."""
        return _ours(getattr(native, "device", "cpu")).view(
            native, shape, strides, offset)

    def stream(self, device: str) -> int:
        """The legacy default stream, to which imported arrays are synchronised."""
        return 0

    def streams(self, device: str) -> Callable[[], int]:
        """A function that returns the default stream."""
        return int

    def free_cache(self, device: str) -> None:
        """Free memory that our own arrays cache."""
        _ours(device).free_cache(device)

    def tracks(self, x: Any) -> bool:
        """False: nothing is known of the library's differentiation."""
        return False

    def finish(self, native: Any) -> Any:
        """Return the array unchanged."""
        return native

    def to_host(self, x: Any) -> np.ndarray:
        """View an array on the host; copy one from a device."""
        array = self.describe(x, "array")
        if array.device == "cpu":
            return host_view(array)
        return DEVICE.to_host(as_device_array(array))


FOREIGN = ForeignLibrary()


def _ours(device: str) -> Library:
    return NUMPY if device == "cpu" else DEVICE


def as_device_array(array: Array) -> Any:
    """Wrap described device memory in a `DeviceArray`."""
    return DeviceArray(array.pointer, array.shape, array.strides, array.dtype,
                       array.device, array.stream, array.owner)


def describe_dlpack(x: Any, name: str, library: Library = FOREIGN) -> Array:
    """Describe a DLPack producer; device work is ordered before the default stream.

    Raises
    ------
    KernelTypeError
        If it refuses, or what it gives has no kernels.
    """
    try:
        kind, index = x.__dlpack_device__()
        device = device_name(int(kind), int(index), name)
        capsule = _capsule(x, device)
        tensor = read(capsule, name)
    except KernelTypeError:
        raise
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        # JAX: an array that was deleted, or lies on several devices.
        raise KernelTypeError(
            f"{name}: {type(x).__name__} does not export its memory: {error}"
        ) from error
    readonly = tensor.readonly or not library.writable
    pointer = check_address(tensor.pointer, tensor.dtype, name)
    return Array(pointer, tensor.shape, tensor.strides, tensor.dtype, device,
                 None if device == "cpu" else 0, readonly, library, (x, capsule))


def _capsule(x: Any, device: str) -> Any:
    stream = {} if device == "cpu" else {"stream": 0 if "rocm" in device else 1}
    try:
        return x.__dlpack__(max_version=MAX_VERSION, **stream)
    except TypeError:  # written before DLPack 1.0
        return x.__dlpack__(**stream)


def _describe_interface(x: Any, name: str) -> Array:
    interface = x.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise KernelTypeError(
            f"{name}: masked arrays have no kernels; fill the masked elements first")
    dtype = check_dtype(interface["typestr"], name)
    shape = check_extents(tuple(interface["shape"]), name)
    given = interface.get("strides")
    strides = (dense_strides(shape) if given is None
               else element_strides(tuple(given), shape, dtype.itemsize, name))
    pointer, readonly = interface["data"]
    address = check_address(pointer or 0, dtype, name)
    device = "rocm:0" if _speaks_hip() else f"cuda:{_ordinal(pointer or 0)}"
    return Array(address, shape, strides, dtype, device,
                 interface_stream(interface, name), readonly, FOREIGN, x)


def _speaks_hip() -> bool:
    """Whether array interfaces mean HIP devices: only rocm is usable."""
    return registry.why_not("cuda") is not None and registry.why_not("rocm") is None


def interface_stream(interface: dict[str, Any], name: str) -> int | None:
    """The stream to wait for; None if there is none, or waiting is off.

    Raises
    ------
    KernelTypeError
        If it is 0, which the interface does not allow.
    """
    stream = interface.get("stream")
    if stream is None or not config.cuda_array_interface_sync:
        return None
    if stream == 0:
        raise KernelTypeError(
            f"{name}: __cuda_array_interface__ has stream 0, which is ambiguous; "
            "expected 1, 2, a handle or None")
    return 0 if stream == 1 else int(stream)


def _ordinal(pointer: int) -> int:
    """Ask the driver for the device number, which the interface lacks.

    By ctypes: before 13.5 cuda-bindings answers 0 for every device (cuda-python, issue
    2928).
    """
    try:
        ask = ctypes.CDLL("libcuda.so.1").cuPointerGetAttribute
    except (OSError, AttributeError):  # no driver: several packages have their own
        return 0
    device = ctypes.c_int()
    unknown = ask(ctypes.byref(device), _DEVICE_ORDINAL, ctypes.c_uint64(pointer))
    return 0 if unknown else max(device.value, 0)
