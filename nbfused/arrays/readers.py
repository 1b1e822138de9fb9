"""What a call has to know of its arguments, read as cheaply as their libraries allow.

`describe` says everything and checks it.  A reader gives only the address of an array
(or the number itself) and a key: arguments with equal keys have equal descriptions, but
for the address, so that what was decided for one holds for the other.  Keys hold
values, never an array.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from .description import Array
from .detect import exact_library
from .dtypes import check_dtype
from .host import NUMPY

__all__ = ["READERS", "Reader", "add_reader"]

#: Gives the address or the number, and the key; raises if a closer look is needed.
Reader = Callable[[Any], tuple[Any, Hashable]]


def _read_array(x: Array) -> tuple[int, Hashable]:
    return x.pointer, (x.library, x.dtype, x.shape, x.strides, x.device, x.stream,
                       x.readonly)


def _read_int(x: int) -> tuple[int, Hashable]:
    if not -2**63 <= x < 2**63:
        raise OverflowError("more than 64 bits")
    return x, int


def _read_number(x: Any) -> tuple[Any, Hashable]:
    return x, type(x)


def _read_bool(x: np.bool_) -> tuple[bool, Hashable]:
    return bool(x), np.bool_  # which has no __index__, as packing asks for


def _read_generic(x: Any, dtype: np.dtype) -> tuple[Any, Hashable]:
    return x, dtype


#: Readers by the type of the argument; where there is none, `describe` has to look.
READERS: dict[type, Reader] = {
    np.ndarray: NUMPY.read, Array: _read_array, int: _read_int, np.bool_: _read_bool,
    bool: _read_number, float: _read_number, complex: _read_number,
    type(None): lambda x: (0, None),
}


def add_reader(kind: type) -> None:
    """Find the reader for arguments of a type, if they have one."""
    if issubclass(kind, np.generic):
        READERS[kind] = partial(_read_generic, dtype=check_dtype(kind, "number"))
        return
    library = exact_library(kind)
    read = getattr(library, "read", None)
    if read is not None:
        READERS[kind] = read
