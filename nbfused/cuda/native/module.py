"""Kernels in CUDA C++, PTX or machine code: loaded, described, launched."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from math import prod
from typing import Any

from ...backend import Extents, Native
from ...errors import CompileError, KernelTypeError, RangeError
from ..runtime.attributes import attributes, set_attribute
from ..runtime.driver import Device, DriverError, check, cu
from .nvrtc import compile_native

__all__ = ["Kernel", "Module", "load"]

_LOG_BYTES = 16384
_DEFAULT_SHARED = 48 * 1024  # more dynamic shared memory must be asked for
_NOT_FOUND = 500


def load(native: Native, device: Device) -> Module:
    """Compile source text, or find it in the cache; load it on `device`.

    Raises
    ------
    CompileError
        If NVRTC refuses the text or the driver what it was given.
    BackendNotAvailableError
        If there is text to compile and no NVRTC.
    """
    if isinstance(native.code, bytes):
        return Module(native, native.code, {}, device)
    machine = compile_native(native, device.arch)
    return Module(native, machine.code, machine.names, device)


class Module:
    """Code on a device; stays loaded as long as the program runs.

    Parameters
    ----------
    code
        Machine code or PTX.
    names
        The mangled name of each expression.
    """

    def __init__(self, native: Native, code: bytes, names: dict[str, str],
                 device: Device) -> None:
        self.native, self.names, self.device = native, names, device
        with device.current():
            self.handle = _load(native, code)

    def kernel(self, name: str) -> Kernel:
        """The kernel of this name.

        Raises
        ------
        KernelTypeError
            If there is none.
        """
        mangled = self.names.get(name, name)
        with self.device.current():
            found = self._find("cuModuleGetFunction", mangled, "kernel")
            return Kernel(name, found, self.native.cooperative, self.device)

    def variable(self, name: str) -> tuple[int, int]:
        """Address and bytes of a ``__device__`` or ``__constant__`` variable.

        Raises
        ------
        KernelTypeError
            If there is none.
        """
        mangled = self.names.get(name, name)
        with self.device.current():
            address, size = self._find("cuModuleGetGlobal", mangled, "variable")
        return int(address), int(size)

    def _find(self, call: str, name: str, what: str) -> Any:
        try:
            return check(getattr(cu(), call)(self.handle, name.encode()))
        except DriverError as error:
            if error.code != _NOT_FOUND:
                raise
        raise KernelTypeError(
            f"{self.native.label} has no {what} {name!r}; C++ mangles names: declare "
            f'it extern "C", or list it in name_expressions={[name]}')


def _load(native: Native, code: bytes) -> Any:
    """Load into the current context; PTX is compiled by the driver."""
    option = cu().CUjit_option
    log = bytearray(_LOG_BYTES)
    options = [option.CU_JIT_ERROR_LOG_BUFFER,
               option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    try:
        return check(cu().cuModuleLoadDataEx(code + b"\0", 2, options,
                                             [log, _LOG_BYTES]))
    except DriverError as error:
        text = log.split(b"\0", 1)[0].decode(errors="replace").strip()
        raise CompileError(f"the CUDA driver does not load {native.label}: {error}\n"
                           f"{text}", log=text) from error


class Kernel:
    """A kernel of a `Module`.

    Attributes
    ----------
    sizes : tuple of int or None
        Bytes of each parameter; None for drivers before CUDA 12.4.
    """

    def __init__(self, name: str, function: Any, cooperative: bool,
                 device: Device) -> None:
        self.name, self.function, self.device = name, function, device
        self.cooperative = cooperative
        self.sizes = _sizes(function)
        known = attributes(function)
        self._static = known["shared_size_bytes"]
        self._threads = known["max_threads_per_block"]
        self._allowed = known["max_dynamic_shared_size_bytes"]
        self._lock = threading.Lock()

    def attributes(self) -> dict[str, int]:
        """Registers, memory and limits: `nbfused.cuda.runtime.attributes.NAMES`."""
        with self.device.current():
            return attributes(self.function)

    def set_attribute(self, name: str, value: int) -> None:
        """Change one of `nbfused.cuda.runtime.attributes.SETTABLE`.

        Raises
        ------
        KernelTypeError, RangeError
            If it cannot be changed, or not to this value.
        """
        carveout = name == "preferred_shared_memory_carveout"
        most = 100 if carveout else self.device.shared_limit - self._static
        with self.device.current():
            set_attribute(self.function, name, value, most)
        if not carveout:
            self._allowed = value

    def launch(self, grid: Extents, block: Extents, values: Sequence[bytes],
               shared: int, stream: int) -> None:
        """Start blocks on `stream`.

        Raises
        ------
        RangeError
            More threads or shared memory than this kernel can have.
        DriverError
            If the driver refuses the launch.
        """
        if prod(block) > self._threads:
            raise RangeError(
                f"kernel {self.name!r}: block {block} has {prod(block)} threads; with "
                f"its registers it can have {self._threads}; launch smaller blocks, or "
                "compile with --maxrregcount")
        buffers = [ctypes.create_string_buffer(v, max(len(v), 8)) for v in values]
        table = (ctypes.c_void_p * max(len(buffers), 1))(
            *map(ctypes.addressof, buffers))
        with self.device.current():
            self._allow(shared)
            self._start(*grid, *block, shared, stream, ctypes.addressof(table))

    def _start(self, *arguments: Any) -> None:
        if self.cooperative:
            check(cu().cuLaunchCooperativeKernel(self.function, *arguments))
        else:
            check(cu().cuLaunchKernel(self.function, *arguments, 0))

    def _allow(self, shared: int) -> None:
        """Ask for shared memory beyond what every kernel may have."""
        most = self.device.shared_limit - self._static
        if shared > most:
            raise RangeError(
                f"kernel {self.name!r}: shared_mem={shared} bytes besides "
                f"{self._static} of its own; a block on this device has "
                f"{self.device.shared_limit} in all")
        with self._lock:
            if shared > max(self._allowed, _DEFAULT_SHARED - self._static):
                set_attribute(self.function, "max_dynamic_shared_size_bytes", shared,
                              most)
                self._allowed = shared


def _sizes(function: Any) -> tuple[int, ...] | None:
    """Bytes of each parameter, if the driver is new enough to say."""
    sizes: list[int] = []
    try:
        while True:
            status, _, size = cu().cuFuncGetParamInfo(function, len(sizes))
            if int(status):
                return tuple(sizes)
            sizes.append(int(size))
    except (AttributeError, RuntimeError):  # the bindings or the driver lack it
        return None
