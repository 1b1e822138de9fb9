"""Numbers of the caller: Python's own and those of classes derived from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .promotion import Type, Weak

__all__ = ["is_symbol", "number_type", "plain_number"]

_KINDS = {bool: Weak("bool"), int: Weak("int"), float: Weak("float"),
          complex: Weak("complex")}
_SYMBOLS = frozenset(("SymBool", "SymFloat", "SymInt"))
#: What gives a number of its own class, by the base and not by the class's methods.
_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__pos__, float: float.__pos__, complex: complex.__pos__}


def is_symbol(x: Any) -> bool:
    """Whether `x` is a number that PyTorch's compilers leave open."""
    return type(x).__name__ in _SYMBOLS and type(x).__module__ == "torch"


def plain_number(x: Any) -> Any:
    """`x` as bool, int, float or complex if its class is derived from one of them.

    Such are the members of an `enum.IntEnum`.  NumPy's scalars and everything else stay
    as they are.
    """
    if type(x) in _KINDS or isinstance(x, np.generic):
        return x
    for kind, plain in _PLAIN.items():
        if isinstance(x, kind):
            return plain(x)
    return x


def number_type(x: Any) -> Type:
    """The dtype of a NumPy scalar, the weak type of a Python number."""
    return x.dtype if isinstance(x, np.generic) else _KINDS[type(plain_number(x))]
