"""`CudaBackend`: NVIDIA devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from ctypes import CDLL
from functools import lru_cache
from glob import glob
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..errors import BackendNotAvailableError
from ..gpu.backend import GpuBackend

if TYPE_CHECKING:
    from ..backend import (
        Foreseen,
        Launcher,
        Native,
        NativeModule,
        SequencedCall,
        SequencedExchange,
        SequenceStart,
        Signature,
    )
    from ..gpu.backend import DeviceModule
    from ..specs import Map, Spec

__all__ = ["CudaBackend"]

#: What builds the launchers of each kind of spec, imported with its first kernel.
_BUILDERS = {
    "Map": "map.launcher:build_map",
    "Reduce": "reduce.launcher:build_reduce",
    "Row": "row.launcher:build_row",
    "Contract": "contract.launcher:build_contract",
    "Raw": "raw:build_raw",
}

#: Device files of the driver: on a server or desktop, under Windows, on a Jetson.  The
#: usual one is no pattern, which is found ten times as fast.
_DEVICE_FILES = ("/dev/nvidia0", "/dev/nvidia[0-9]*", "/dev/dxg", "/dev/nvgpu/*",
                 "/dev/nvhost-gpu")


class CudaBackend(GpuBackend):
    """Owns arrays in the memory of NVIDIA devices.

    Kernels are compiled by numba-cuda when the cache has none; everything else needs
    only the package cuda-bindings and the driver.  Work is launched on the stream that
    the call names, in the device's primary context, which other libraries share.
    """

    name = "cuda"

    def available(self) -> str | None:
        """None if it can be used, else why not.

        The driver is not started where device files show that there is one, so that
        the process can still fork.
        """
        return _why_not()

    def _module(self) -> DeviceModule:
        from .runtime import driver

        return driver

    def start(self, device: str, meanwhile: Callable[[], None]) -> None:
        """Start a device, at its first array; `meanwhile` runs beside that."""
        from ..arrays.devices import ordinal
        from .runtime.first_call import start

        start(ordinal(device), meanwhile)

    def build(self, spec: Spec, signature: Signature) -> Launcher:
        """A launcher; its kernels are compiled, or loaded, when a call needs them."""
        from ..backend import builder

        return builder(_BUILDERS, spec, __package__)(spec, signature)

    def sequence(self, calls: Sequence[SequencedCall | SequencedExchange],
                 ) -> SequenceStart | None:
        """A graph of calls on one device, if there are enough of them."""
        from .graphs.sequence import make_sequence

        return make_sequence(calls)

    def headers(self, kind: type, ranks: Sequence[int]) -> Any:
        """Read tensors by machine code: see `Backend`."""
        from .graphs.tensor_headers import tensor_reader

        return tensor_reader(kind, ranks)

    def ahead(self, calls: Sequence[Foreseen]) -> None:
        """Compile and load the kernels of calls side by side: see `Backend`.

        Raises
        ------
        CompileError
            Numba refuses one of them.
        """
        from .runtime.ahead import compile_ahead

        compile_ahead(calls)

    def expect(self) -> None:
        """Start the compiler in another process, unless this one has imported it."""
        from .runtime.ahead import expect_kernels

        expect_kernels()

    def ptx(self, spec: Map, signature: Signature) -> str:
        """The PTX that runs on the device at hand or, without one, on sm_80."""
        from .map.launcher import map_ptx
        from .runtime.driver import device as found

        arch = found(0).arch if self.available() is None else (8, 0)
        return map_ptx(spec, signature, arch)

    def native(self, code: Native, device: str) -> NativeModule:
        """CUDA C++ through NVRTC, PTX or a cubin, loaded."""
        from ..arrays.devices import ordinal
        from .native.module import load
        from .runtime.driver import device as found

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
    """Ask for devices, for want of their files; without one no threads are started."""
    from .runtime.driver import DriverError, device_count

    try:
        count = device_count()
    except (BackendNotAvailableError, DriverError) as error:
        return str(error)
    return None if count else "the NVIDIA driver shows no device"

