"""Kernels as callables: loaded once per device, launched with packed parameters.

A launch costs a few microseconds: numbers are packed by one `struct.pack_into` into a
buffer whose addresses the driver was given once.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..backend import Extents
from ..errors import KernelTypeError
from .compile import DESCRIPTOR, Kernel, cubin
from .driver import Device, check, cu

__all__ = ["Program"]

#: How a parameter of each dtype lies in 8 bytes; a complex one is two parameters.
_FORMATS = {
    "int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q", "uint8": "B7x",
    "uint16": "H6x", "uint32": "I4x", "uint64": "Q", "float32": "f4x", "float64": "d",
    "complex64": "f4x f4x", "complex128": "d d", DESCRIPTOR: "128s",
}
_DEFAULT_SHARED = 48 * 1024  # more shared memory than this must be asked for


def _formats(parameters: Sequence[str]) -> list[str]:
    """Of the words, and of the tensor maps, that the machine code takes."""
    return [word for p in parameters
            for word in ("Q" if p.startswith("*") else _FORMATS[p]).split()]


class Program:
    """A kernel; compiled, or found in the cache, when a device first needs it.

    Parameters
    ----------
    kernel
        The text and its parameters.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        formats = _formats(kernel.parameters)
        self._layout = struct.Struct("=" + "".join(formats))
        self._buffer = ctypes.create_string_buffer(max(self._layout.size, 8))
        base = ctypes.addressof(self._buffer)
        starts = accumulate(map(struct.calcsize, ("=" + f for f in formats)), initial=0)
        self._pointers = (ctypes.c_void_p * max(len(formats), 1))(
            *(base + start for start, _ in zip(starts, formats, strict=False)))
        self._address = ctypes.addressof(self._pointers)
        self._complex = any(p.startswith("complex") for p in kernel.parameters)
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
            self._pack(values)
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

    def _pack(self, values: Sequence[Any]) -> None:
        if self._complex:
            values = _split_complex(self.kernel.parameters, values)
        try:
            self._layout.pack_into(self._buffer, 0, *values)
        except OverflowError:  # beyond float32's range: inf, as NumPy has it
            with np.errstate(over="ignore"):
                values = [float(np.float32(v)) if p == "float32" else v for p, v in
                          zip(self.kernel.parameters, values, strict=True)]
            self._layout.pack_into(self._buffer, 0, *values)
        except struct.error as error:
            raise KernelTypeError(
                f"kernel {self.kernel.name!r} got {tuple(values)} for its parameters "
                f"{self.kernel.parameters}: {error}; pass a number in range") from error


def _split_complex(parameters: Sequence[str], values: Sequence[Any]) -> list[Any]:
    parts: list[Any] = []
    for parameter, value in zip(parameters, values, strict=True):
        if parameter.startswith("complex"):
            number = complex(value)
            parts += (number.real, number.imag)
        else:
            parts.append(value)
    return parts
