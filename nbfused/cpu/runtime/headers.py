"""Addresses and layouts of NumPy arrays, read from their objects by machine code.

Reading ``dtype``, ``shape``, ``strides``, ``flags`` and the address of an array in
Python takes 0.45 µs, and comparing them with earlier ones as much again; here 21 arrays
take 0.9 together: benchmarks/notes/host.md#plans-of-fused-functions.

The fields lie where NumPy's ABI has them since its version 1.7: data, rank, extents,
strides, base, dtype, flags; of a dtype kind, type, byte order, flags, type number.
That they do is tried once.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from ...arrays.libraries.numpy import OWNER
from .compile import build
from .objects import address_of

__all__ = ["FLAGS", "HeaderReader", "header_reader", "machine_code"]

#: ``read(arrays)``: what their layouts are, equal for equal ones, and their addresses.
#: None for more dimensions than expected.  Each has to be of the type
#: `numpy.ndarray`, and the tuple is not checked.
HeaderReader = Callable[
    [tuple[np.ndarray, ...]], tuple[bytes, tuple[int, ...]] | None]

#: The flags of an array that are a part of its layout.
FLAGS = 0xffffffff - OWNER
_OBJECT, _ITEMS = object.__basicsize__, tuple.__basicsize__

#: ``kernel(room, tuple, count + 2³²·words)``: addresses, then the layouts.
_TEXT = f"""\
# Headers of NumPy arrays
def kernel(a, begin, end):
    count = end & 0xffffffff
    last = count + (end >> 32)
    items = i64_pointer(begin + {_ITEMS})
    at = count
    for k in range(count):
        fields = i64_pointer(items[k] + {_OBJECT})
        rank = fields[1] & 0xffffffff
        if at + 2 + 2*rank > last:
            return 1
        a[k] = fields[0]
        a[at] = rank | (fields[0] & 15) << 8 | (fields[6] & {FLAGS}) << 16
        a[at + 1] = i64_pointer(fields[5] + {_OBJECT + 8})[0]
        extents = i64_pointer(fields[2])
        strides = i64_pointer(fields[3])
        for d in range(rank):
            a[at + 2 + d] = extents[d]
            a[at + 2 + rank + d] = strides[d]
        at += 2 + 2*rank
    return at - last
"""


def header_reader(ranks: Sequence[int]) -> HeaderReader | None:
    """A function that reads as many arrays, of these ranks; None without a way."""
    return _reader(tuple(ranks)) if _possible() else None


def _reader(ranks: tuple[int, ...]) -> HeaderReader:
    count = len(ranks)
    words = sum(2 + 2*rank for rank in ranks)
    read, size, end = machine_code(), 8*(count + words), count | words << 32
    addresses = struct.Struct(f"={count}q").unpack_from

    def headers(arrays: tuple[np.ndarray, ...],
                ) -> tuple[bytes, tuple[int, ...]] | None:
        room = bytes(size)  # new ones, which nobody else has, and which are filled
        if read(room, id(arrays), end):
            return None
        return room[8*count:], addresses(room)

    return headers


@cache
def machine_code() -> Callable[[bytes, int, int], int]:
    """The machine code, called with the interpreter's lock: it reads objects."""
    entry = build(_TEXT)
    prototype = ctypes.PYFUNCTYPE(
        ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
    found = prototype(address_of(entry))
    found.entry = entry  # type: ignore[attr-defined]  # keeps the code
    return found


@cache
def _possible() -> bool:
    """Whether arrays and interpreter are laid out as expected."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8 or \
            sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    x = np.zeros((5, 4, 3), np.int16)[1:, ::-2]
    y = np.zeros((), np.float64)
    y.flags.writeable = False
    found = _reader((3, 0))((x, y))
    if found is None or found[1] != (x.ctypes.data, y.ctypes.data):
        return False
    return struct.unpack("=10q", found[0]) == (
        _first_word(x), _dtype_word(x.dtype), *x.shape, *x.strides,
        _first_word(y), _dtype_word(y.dtype))


def _first_word(x: np.ndarray) -> int:
    return x.ndim | (x.ctypes.data & 15) << 8 | (x.flags.num & FLAGS) << 16


def _dtype_word(dtype: np.dtype) -> int:
    """The word of a dtype, with the flags that only NumPy knows."""
    here = ctypes.string_at(id(dtype) + _OBJECT + 8, 8)
    known = (dtype.kind + dtype.char + dtype.byteorder).encode()
    number = struct.unpack("=i", here[4:])[0]
    return int.from_bytes(here, "little") if (
        here[:3] == known and number == dtype.num) else -1
