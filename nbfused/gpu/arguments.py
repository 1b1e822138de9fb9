"""Arguments of a launch as 8-byte words: addresses, integers, numbers."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..errors import KernelTypeError
from ..support.dtypes import TYPES

__all__ = ["ArgumentBuffer"]

#: How a number of each dtype lies in 8 bytes; a complex one takes two words.  A tensor
#: map of CUDA is 128 bytes.
_FORMATS = {
    **{t.dtype.name: t.packed for t in TYPES.values() if t.packed},
    "descriptor": "128s",
}


class ArgumentBuffer:
    """A buffer that one `struct.pack_into` fills for each launch.

    Parameters
    ----------
    name
        Of the kernel, for messages.
    parameters
        For each parameter the name of a dtype, after a ``*`` if it is a pointer, or
        ``"descriptor"``.

    Attributes
    ----------
    count : int
        Number of words.
    buffer
        The memory that holds them.
    offset : int
        Place of the first word in the buffer.
    address : int
        Address of the first word.
    addresses : tuple of int
        Address of each word.
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

    def part(self, first: int, count: int) -> ArgumentBuffer:
        """`count` of the parameters from `first` on, to be packed where they lie."""
        made = object.__new__(ArgumentBuffer)
        made._lay(self.name, self.parameters[first:first + count])
        before = ArgumentBuffer(self.name, self.parameters[:first])
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
