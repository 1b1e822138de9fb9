"""Kernels as callables: loaded once per device, launched with packed parameters.

What a launch needs lies in two blocks of memory, whose addresses the driver is given:
the configuration (grid, block, shared memory, stream) and the parameters.  A launch
writes what differs from the last one and makes one call, through ctypes.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..backend import Extents
from ..words import Words
from .compile import Kernel, cubin
from .driver import Device, check, cu, entries

__all__ = ["Bound", "Program"]

_DEFAULT_SHARED = 48 * 1024  # more shared memory than this must be asked for

#: ``CUlaunchConfig``: grid, block, bytes of shared memory; stream; attributes (none).
_CONFIGURATION = struct.Struct("=7I4xQQI4x")
_STREAM = struct.Struct("=Q")
_STREAM_AT = 32


class _Memory:
    """The configuration and the parameters of launches; its user keeps a lock."""

    def __init__(self, kernel: Kernel) -> None:
        self.words = Words(kernel.name, kernel.parameters)
        self.configuration = ctypes.create_string_buffer(_CONFIGURATION.size)
        addresses = self.words.addresses
        self._table = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        self.arguments = (ctypes.c_void_p(ctypes.addressof(self.configuration)),
                          ctypes.c_void_p(ctypes.addressof(self._table)))

    def configure(self, grid: Extents, block: Extents, shared: int,
                  stream: int) -> None:
        """Say how many threads, and where."""
        _CONFIGURATION.pack_into(self.configuration, 0, *grid, *block, shared, stream,
                                 0, 0)


class Program:
    """A kernel; compiled, or found in the cache, when a device first needs it.

    Parameters
    ----------
    kernel
        The text and its parameters.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._memory = _Memory(kernel)
        self._functions: dict[int, Any] = {}
        self._allowed: dict[int, int] = {}
        self._lock = threading.Lock()

    def launch(self, device: Device, stream: int, blocks: int | Extents,
               values: Sequence[Any], shared: int = 0,
               block: Extents | None = None) -> None:
        """Start blocks on `stream`.

        Parameters
        ----------
        blocks
            How many, or along each axis.
        values
            One number for each of the kernel's parameters; addresses are integers.
        shared
            Bytes of dynamic shared memory for each block.
        block
            Threads along each axis; by default as many as the kernel says.

        Raises
        ------
        KernelTypeError
            If a number does not fit its parameter.
        DriverError
            If the driver refuses the launch.
        """
        driver, memory = entries(), self._memory
        driver.ask_context()
        if driver.context.value != device.address:
            with device.current():
                self.launch(device, stream, blocks, values, shared, block)
            return
        grid = (blocks, 1, 1) if isinstance(blocks, int) else blocks
        with self._lock:
            function = self._ready(device, shared)
            memory.words.pack(values)
            memory.configure(grid, block or (self.kernel.threads, 1, 1), shared, stream)
            configuration, parameters = memory.arguments
            code = driver.launch(configuration, function, parameters, None)
        if code:
            check((code,))

    def bind(self, device: Device, blocks: int, values: Sequence[Any], pointers: int,
             scalars: int) -> Bound:
        """A launch of which only pointers, numbers and the stream are open.

        Parameters
        ----------
        values
            As of `launch`; any numbers for what is open.
        pointers, scalars
            How many parameters at the beginning, and how many at the end, are open.
        """
        with device.current():
            return Bound(self.kernel, device, self.function(device), blocks, values,
                         pointers, scalars)

    def function(self, device: Device) -> int:
        """The driver's handle; the device's context is current."""
        with self._lock:
            return int(self._ready(device, 0).value)

    def _ready(self, device: Device, shared: int) -> Any:
        """The function, which may have so much shared memory."""
        function = self._functions.get(device.ordinal)
        if function is None:
            function = self._load(device)
        if shared > self._allowed[device.ordinal]:
            self._allow(device, function, shared)
        return function

    def _load(self, device: Device) -> Any:
        driver = cu()
        module = check(driver.cuModuleLoadData(cubin(self.kernel, device)))
        function = check(driver.cuModuleGetFunction(module, self.kernel.name.encode()))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
        static = check(driver.cuFuncGetAttribute(attribute, function))
        self._allowed[device.ordinal] = _DEFAULT_SHARED - static
        handle = self._functions[device.ordinal] = ctypes.c_void_p(int(function))
        return handle

    def _allow(self, device: Device, function: Any, shared: int) -> None:
        attribute = cu().CUfunction_attribute
        most = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(cu().cuFuncSetAttribute(function.value, most, shared))
        self._allowed[device.ordinal] = shared


class Bound:
    """A launch of which only pointers, numbers and the stream are open.

    Parameters are those of `Program.bind`.
    """

    def __init__(self, kernel: Kernel, device: Device, function: int, blocks: int,
                 values: Sequence[Any], pointers: int, scalars: int) -> None:
        self._device, self._memory = device, _Memory(kernel)
        self._memory.words.pack(values)
        self._memory.configure((blocks, 1, 1), (kernel.threads, 1, 1), 0, 0)
        words = self._memory.words
        self._point = partial(struct.Struct(f"={pointers}Q").pack_into, words.buffer, 0)
        self._pack = words.part(len(values) - scalars, scalars).pack
        self._stream = 0
        self._driver, self._address = entries(), device.address
        configuration, parameters = self._memory.arguments
        self._arguments = (configuration, ctypes.c_void_p(function), parameters, None)
        self._lock = threading.Lock()

    def __call__(self, pointers: Sequence[int], scalars: tuple[Any, ...],
                 stream: int) -> None:
        """Start it on `stream`."""
        driver = self._driver
        driver.ask_context()
        if driver.context.value != self._address:
            with self._device.current():
                self(pointers, scalars, stream)
            return
        with self._lock:
            self._point(*pointers)
            if scalars:
                self._pack(scalars)
            if stream != self._stream:
                _STREAM.pack_into(self._memory.configuration, _STREAM_AT, stream)
                self._stream = stream
            code = driver.launch(*self._arguments)
        if code:
            check((code,))
