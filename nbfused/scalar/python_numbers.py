"""Numbers of the caller: Python's own and those of classes derived from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .promotion import Type, Weak

__all__ = ["number_type", "plain_number"]

_KINDS = {bool: Weak("bool"), int: Weak("int"), float: Weak("float"),
          complex: Weak("complex")}


def plain_number(x: Any) -> Any:
    """`x` as bool, int, float or complex if its class is derived from one of them.

    Such are the members of an `enum.IntEnum`.  NumPy's scalars and everything else stay
    as they are.
    """
    if type(x) in _KINDS or isinstance(x, np.generic):
        return x
    # By the base's own method: `__int__` of the class may give something else.
    for kind in (int, float, complex):
        if isinstance(x, kind):
            return kind.__pos__(x)
    return x


def number_type(x: Any) -> Type:
    """The dtype of a NumPy scalar, the weak type of a Python number."""
    return x.dtype if isinstance(x, np.generic) else _KINDS[type(plain_number(x))]
