"""The arguments of a launch as 8-byte words: addresses, integers, numbers."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from .errors import KernelTypeError

__all__ = ["Words"]

#: How a number of each dtype lies in 8 bytes; a complex one takes two words.  A tensor
#: map of CUDA is 128 bytes.
_FORMATS = {
    "int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q", "uint8": "B7x",
    "uint16": "H6x", "uint32": "I4x", "uint64": "Q", "float32": "f4x", "float64": "d",
    "complex64": "f4x f4x", "complex128": "d d", "descriptor": "128s",
}


class Words:
    """A buffer that one `struct.pack_into` fills for each launch.

    Parameters
    ----------
    name
        Of the kernel, for messages.
    parameters
        For each one the name of a dtype, after a ``*`` if it is a pointer, or
        ``"descriptor"``.

    Attributes
    ----------
    count : int
        Number of words.
    buffer
        Where they are.
    offset : int
        Of the first one in it.
    address : int
        Of the first one.
    addresses : tuple of int
        Of each word.
    """

    def __init__(self, name: str, parameters: Sequence[str]) -> None:
        self._lay(name, parameters)
        self.offset = 0
        self.buffer = ctypes.create_string_buffer(max(self._layout.size, 8))
        self.count = len(self._formats)
        self.address = ctypes.addressof(self.buffer)
        ends = accumulate(struct.calcsize(f"={f}") for f in self._formats)
        self.addresses = tuple([self.address, *(self.address + e for e in ends)][:-1])

    def _lay(self, name: str, parameters: Sequence[str]) -> None:
        self.name, self.parameters = name, tuple(parameters)
        self._formats = [word for p in parameters for word in
                         ("Q" if p.startswith("*") else _FORMATS[p]).split()]
        self._layout = struct.Struct("=" + "".join(self._formats))
        self._complex = any(p.startswith("complex") for p in parameters)

    def part(self, first: int, count: int) -> Words:
        """`count` of the parameters from `first` on, to be packed where they lie."""
        made = object.__new__(Words)
        made._lay(self.name, self.parameters[first:first + count])
        before = Words(self.name, self.parameters[:first])
        made.buffer, made.offset = self.buffer, before._layout.size
        return made

    def pack(self, values: Sequence[Any]) -> None:
        """Fill the buffer with one number for each parameter.

        Raises
        ------
        KernelTypeError
            If a number does not fit its parameter.
        """
        words = self._split(values) if self._complex else values
        try:
            self._layout.pack_into(self.buffer, self.offset, *words)
        except OverflowError:  # beyond float32's range: inf, as NumPy has it
            with np.errstate(over="ignore"):
                words = [float(np.float32(v)) if f[0] == "f" else v for f, v in
                         zip(self._formats, words, strict=True)]
            self._layout.pack_into(self.buffer, self.offset, *words)
        except struct.error as error:
            raise KernelTypeError(
                f"kernel {self.name!r} got {tuple(values)} for its parameters "
                f"{self.parameters}: {error}; pass a number in range") from error

    def _split(self, values: Sequence[Any]) -> list[Any]:
        parts: list[Any] = []
        for parameter, value in zip(self.parameters, values, strict=True):
            if parameter.startswith("complex"):
                number = complex(value)
                parts += (number.real, number.imag)
            else:
                parts.append(value)
        return parts
