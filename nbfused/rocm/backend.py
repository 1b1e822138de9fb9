"""`RocmBackend`: AMD devices."""

from __future__ import annotations

import os
from functools import lru_cache
from glob import glob
from math import prod
from typing import Any

from ..backend import Call, Launcher, Signature, builder
from ..config import config
from ..errors import BackendNotAvailableError, DeviceError
from ..gpu.backend import DeviceModule, GpuBackend
from ..specs import Map, Spec
from .build.toolchain import EMULATION, NVIDIA, find
from .runtime.hip_library import hip_library, no_device

__all__ = ["RocmBackend"]

#: What builds the launchers of each kind of spec, imported with its first kernel.
_BUILDERS = {
    "Map": "map:build_map",
    "Reduce": "reduce:build_reduce",
    "Row": "row:build_row",
    "Contract": "contract:build_contract",
    "Raw": "raw:build_raw",
}

#: Device files of the driver: on Linux, under Windows.
_DEVICE_FILES = ("/dev/kfd", "/dev/dxg")


class RocmBackend(GpuBackend):
    """Owns arrays in the memory of AMD devices.

    Kernels are HIP text, built by hipcc into shared libraries when the cache has none.
    With ``NBFUSED_ROCM_EMULATE=1`` a C++ compiler builds the same text for the CPU, and
    with ``nvidia`` nvcc builds it for NVIDIA devices.  Work is launched on the stream
    that the call names.
    """

    name = "rocm"

    def available(self) -> str | None:
        """None if it can be used, else why not; compiles nothing.

        The runtime is not started where a device file shows that there is a driver, so
        that the process can still fork.
        """
        try:
            return _missing_of(config.rocm_emulate, config.hipcc)
        except BackendNotAvailableError as error:
            return str(error)
        except Exception as error:  # a broken installation: its own words are the cause
            return f"looking for a device failed: {error}"

    def _module(self) -> DeviceModule:
        from .runtime import device

        return device

    def build(self, spec: Spec, signature: Signature) -> Launcher:
        """A launcher; its kernels are compiled, or loaded, when a call needs them."""
        build = builder(_BUILDERS, spec, __package__)
        return _Checked(spec, build(spec, signature))

    def source(self, spec: Map, signature: Signature) -> str:
        """The HIP text that runs; needs neither a device nor a compiler."""
        from .map import map_kernel

        return map_kernel(spec, signature).text


class _Checked:
    """A launcher that is called with addresses on a device only.

    A kernel that reads from any other address ends the process.
    """

    def __init__(self, spec: Spec, launcher: Launcher) -> None:
        self._launcher, self._name = launcher, spec.name
        arrays = [(kind, name) for kind, name in spec.parameters if kind != "scalar"]
        self._names = [name for _, name in arrays]
        #: Windows' addresses are those of points where they may not be.
        self._windows = [k for k, (kind, _) in enumerate(arrays) if kind == "window"]

    def __call__(self, call: Call) -> None:
        """Look at the addresses, then launch."""
        from .runtime.device import device

        empty = not prod(call.shape) or not all(map(prod, call.extents))
        if not empty:
            pointers = list(call.pointers)
            for k in self._windows:
                pointers[k] = pointers[-1]
            unknown = device(call.device).first_unknown(pointers)
            if unknown < len(call.pointers):
                raise DeviceError(self._refusal(unknown, call.pointers[unknown]))
        self._launcher(call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._launcher, name)

    def _refusal(self, at: int, address: int) -> str:
        name = self._names[at] if at < len(self._names) else "an output"
        what = "has no memory (its address is 0)" if address == 0 else (
            f"is at {address:#x}, where no device has memory")
        return (f"{self._name}: {name} {what}; expected memory of a device that has "
                "not been freed: make the array with nbfused.array(x, device='rocm')")


@lru_cache(maxsize=4)
def _missing_of(emulate: str, hipcc: str | None) -> str | None:
    """Say why the toolchain that these settings choose cannot run here."""
    toolchain = find()
    if toolchain.name == EMULATION:
        return None
    if toolchain.name == NVIDIA:
        return None if glob("/dev/nvidia[0-9]*") else "there is no /dev/nvidia0"
    hip_library()
    for variable in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        visible = os.environ.get(variable)
        if visible is not None and visible.split(",")[0].strip() in ("", "-1"):
            return f"{variable}={visible} hides every device"
    if any(map(os.path.exists, _DEVICE_FILES)):
        return None
    return no_device()
