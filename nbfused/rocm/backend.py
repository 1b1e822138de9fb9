"""`RocmBackend`: AMD devices."""

from __future__ import annotations

import os
from functools import lru_cache
from glob import glob
from math import prod
from typing import Any

from ..backend import Call, Launcher, Signature
from ..config import config
from ..errors import BackendNotAvailableError, DeviceError
from ..gpu.backend import DeviceModule, GpuBackend
from ..specs import Contract, Map, Raw, Reduce, Row, Spec
from .build.toolchain import EMULATION, NVIDIA, find
from .runtime.hip_library import hip_library, no_device

__all__ = ["RocmBackend"]

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
        return _Checked(spec, _launcher(spec, signature))

    def source(self, spec: Map, signature: Signature) -> str:
        """The HIP text that runs; needs neither a device nor a compiler."""
        from .map import map_kernel

        return map_kernel(spec, signature).text


def _launcher(spec: Spec, signature: Signature) -> Launcher:
    match spec:
        case Map():
            from .map import build_map

            return build_map(spec, signature)
        case Reduce():
            from .reduce import build_reduce

            return build_reduce(spec, signature)
        case Row():
            from .row import build_row

            return build_row(spec, signature)
        case Contract():
            from .contract import build_contract

            return build_contract(spec, signature)
        case Raw():
            from .raw import build_raw

            return build_raw(spec, signature)
    raise TypeError(f"{spec!r} is no spec that runs as a kernel")


class _Checked:
    """A launcher that is called with addresses on a device only.

    A kernel that reads from any other address ends the process.
    """

    def __init__(self, spec: Spec, launcher: Launcher) -> None:
        self._launcher, self._name = launcher, spec.name
        self._names = _array_names(spec)

    def __call__(self, call: Call) -> None:
        """Look at the addresses, then launch."""
        from .runtime.device import device

        empty = not prod(call.shape) or not all(map(prod, call.extents))
        if not empty:
            unknown = device(call.device).first_unknown(call.pointers)
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


def _array_names(spec: Spec) -> tuple[str, ...]:
    """Names of the array inputs, in the order of a call's pointers."""
    match spec:
        case Row():
            pairs = zip(spec.kinds, spec.inputs, strict=True)
        case Contract():
            pairs = zip(("element", "element", *spec.kinds),
                        ("a", "b", *spec.epilogue.params[1:]), strict=True)
        case Reduce():
            pairs = zip(spec.kinds, spec.map.params, strict=True)
        case Map() | Raw():
            pairs = zip(spec.kinds, spec.function.params, strict=False)
        case _:
            return ()
    return tuple(name for kind, name in pairs
                 if kind not in ("scalar", "index", "size", "scatter"))


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
