"""`CudaBackend`: NVIDIA devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from ctypes import CDLL
from functools import lru_cache
from glob import glob
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..errors import BackendNotAvailableError
from ..version import PROTOCOL_VERSION

if TYPE_CHECKING:
    import numpy as np

    from ..arrays import DeviceArray
    from ..backend import Launcher, Native, NativeModule, Signature
    from ..specs import Map, Spec

__all__ = ["CudaBackend"]

#: Device files of the driver: on a server or desktop, under Windows, on a Jetson.  The
#: usual one is no pattern, which is found ten times as fast.
_DEVICE_FILES = ("/dev/nvidia0", "/dev/nvidia[0-9]*", "/dev/dxg", "/dev/nvgpu/*",
                 "/dev/nvhost-gpu")


class CudaBackend:
    """Owns arrays in the memory of NVIDIA devices.

    Kernels are compiled by numba-cuda when the cache has none; everything else needs
    only the package cuda-bindings and the driver.  Work is launched on the stream that
    the call names, in the device's primary context, which other libraries share.
    """

    name = "cuda"
    protocol = PROTOCOL_VERSION

    def available(self) -> str | None:
        """None if it can be used, else why not.

        The driver is not started where device files show that there is one, so that
        the process can still fork.
        """
        return _why_not()

    def devices(self) -> tuple[str, ...]:
        """The devices that the driver shows; starts it."""
        from .driver import device_count

        return tuple(f"cuda:{k}" for k in range(device_count()))

    def owns(self, device: str) -> bool:
        """Whether `device` is one of NVIDIA's."""
        return device == "cuda" or device.startswith("cuda:")

    def start(self, device: str, meanwhile: Callable[[], None]) -> None:
        """Start a device, at its first array; `meanwhile` runs beside that."""
        from ..arrays.devices import ordinal
        from .starting import start

        start(ordinal(device), meanwhile)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype,
              device: str) -> DeviceArray:
        """An array of our own, not initialised.

        Raises
        ------
        AllocationError
            Out of memory, also after the cached memory was freed.
        """
        from .arrays import empty

        return empty(shape, dtype, device)

    def from_host(self, array: np.ndarray, device: str) -> DeviceArray:
        """A copy on the device."""
        from .arrays import from_host

        return from_host(array, device)

    def to_host(self, array: DeviceArray) -> np.ndarray:
        """A copy on the host, once everything that writes to it is done."""
        from .arrays import to_host

        return to_host(array)

    def synchronize(self) -> None:
        """Wait for everything launched on every device used so far."""
        from .driver import used_devices

        for device in used_devices():
            device.synchronize()

    def build(self, spec: Spec, signature: Signature) -> Launcher:
        """A launcher; its kernels are compiled, or loaded, when a call needs them."""
        from ..specs import Contract, Map, Raw, Reduce, Row
        from .bound import Bindable

        match spec:
            case Map():
                from .map import build_map

                return Bindable(build_map(spec, signature))
            case Reduce():
                from .reduce import build_reduce

                return Bindable(build_reduce(spec, signature))
            case Row():
                from .row import build_row

                return Bindable(build_row(spec, signature))
            case Contract():
                from .contract import build_contract

                return build_contract(spec, signature)
            case Raw():
                from .raw import build_raw

                return build_raw(spec, signature)
        raise TypeError(f"{spec!r} is no spec that runs as a kernel")

    def ptx(self, spec: Map, signature: Signature) -> str:
        """What runs, for the device at hand or, without one, for sm_80."""
        from .driver import device as found
        from .map import map_ptx

        arch = found(0).arch if self.available() is None else (8, 0)
        return map_ptx(spec, signature, arch)

    def native(self, code: Native, device: str) -> NativeModule:
        """CUDA C++ through NVRTC, PTX or a cubin, loaded."""
        from ..arrays.devices import ordinal
        from .driver import device as found
        from .native import load

        return load(code, found(ordinal(device)))


@lru_cache(maxsize=1)
def _why_not() -> str | None:
    try:
        return _missing()
    except Exception as error:  # a broken installation: its own words are the cause
        return f"looking for a device failed: {error}"


def _missing() -> str | None:
    if find_spec("cuda") is None or find_spec("cuda.bindings") is None:
        return ("the package cuda-bindings is not installed; install nbfused[cuda13] "
                "or nbfused[cuda12]")
    try:
        CDLL("libcuda.so.1")
    except OSError:
        return "the NVIDIA driver is not installed: no libcuda.so.1"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.split(",")[0].strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={visible} hides every device"
    if any(glob(pattern) for pattern in _DEVICE_FILES):
        return None
    return _ask_driver()


def _ask_driver() -> str | None:
    """For want of device files; a driver without a device starts no threads."""
    from .driver import DriverError, device_count

    try:
        count = device_count()
    except (BackendNotAvailableError, DriverError) as error:
        return str(error)
    return None if count else "the NVIDIA driver shows no device"

