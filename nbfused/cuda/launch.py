"""Kernels as callables: loaded once per device, launched with packed parameters.

A launch costs a few microseconds: numbers are packed by one `struct.pack_into` into a
buffer whose addresses the driver was given once.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from ..backend import Extents
from ..words import Words
from .compile import Kernel, cubin
from .driver import Device, check, cu

__all__ = ["Program"]

_DEFAULT_SHARED = 48 * 1024  # more shared memory than this must be asked for


class Program:
    """A kernel; compiled, or found in the cache, when a device first needs it.

    Parameters
    ----------
    kernel
        The text and its parameters.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._words = Words(kernel.name, kernel.parameters)
        addresses = self._words.addresses
        self._pointers = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        self._address = ctypes.addressof(self._pointers)
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
        driver = cu()
        if int(driver.cuCtxGetCurrent()[1]) != device.address:
            with device.current():
                self.launch(device, stream, blocks, values, shared, block)
            return
        grid = (blocks, 1, 1) if isinstance(blocks, int) else blocks
        with self._lock:
            function = self._functions.get(device.ordinal)
            if function is None:
                function = self._load(device)
            if shared > self._allowed[device.ordinal]:
                self._allow(device, function, shared)
            self._words.pack(values)
            check(driver.cuLaunchKernel(
                function, *grid, *(block or (self.kernel.threads, 1, 1)), shared,
                stream, self._address, 0))

    def function(self, device: Device) -> Any:
        """The driver's handle; the device's context is current."""
        with self._lock:
            found = self._functions.get(device.ordinal)
            return self._load(device) if found is None else found

    def _load(self, device: Device) -> Any:
        driver = cu()
        module = check(driver.cuModuleLoadData(cubin(self.kernel, device)))
        function = check(driver.cuModuleGetFunction(module, self.kernel.name.encode()))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
        static = check(driver.cuFuncGetAttribute(attribute, function))
        self._functions[device.ordinal] = function
        self._allowed[device.ordinal] = _DEFAULT_SHARED - static
        return function

    def _allow(self, device: Device, function: Any, shared: int) -> None:
        attribute = cu().CUfunction_attribute
        most = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(cu().cuFuncSetAttribute(function, most, shared))
        self._allowed[device.ordinal] = shared
