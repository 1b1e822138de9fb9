"""Generated source text that reads an argument's address and cache key.

`describe` says everything and checks it.  A reading gives only the address of an array
(or the number itself) and a key: for arguments of one type, equal keys mean equal
descriptions, but for the address, so that what was decided for one holds for the other.
Keys hold values, never an array.  Readings are text, so that all arguments of a call
can be read by one function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .description import Array, Reading
from .detect import exact_library

__all__ = ["reading_of"]

_NUMBER = Reading("{x}")
_NUMBERS: dict[type, Reading] = {
    bool: _NUMBER, float: _NUMBER, complex: _NUMBER,
    int: Reading("{x}", unless="not -0x8000000000000000 <= {x} <= 0x7fffffffffffffff"),
    np.bool_: Reading("bool({x})"),  # it has no __index__, which packing asks for
}
_DESCRIBED = Reading("{x}.pointer", (
    "{x}.library", "{x}.dtype", "{x}.shape", "{x}.strides", "{x}.device", "{x}.stream",
    "{x}.readonly"))


def reading_of(kind: type, number: bool) -> Reading | None:
    """The source text that reads arguments of a type; None if it has none.

    Parameters
    ----------
    number
        Whether the argument is passed by value.
    """
    if number:
        return _NUMBER if issubclass(kind, np.generic) and kind is not np.bool_ \
            else _NUMBERS.get(kind)
    if kind is Array:
        return _DESCRIBED
    found: Any = getattr(exact_library(kind), "reading", None)
    return found() if found is not None else None
