"""Scalar functions given in any of the ways a user may: object, function, name."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..errors import KernelTypeError
from ..scalar.ir import Function
from ..scalar.parse import parse
from ..scalar.vocabulary import OPS as VOCABULARY
from ..table import OPS

__all__ = ["scalar_function"]


@lru_cache(maxsize=1024)
def scalar_function(given: Callable[..., Any] | str, what: str = "function") -> Function:
    """The IR of a scalar function.

    Parameters
    ----------
    given
        A function, an ``@nf.func`` or ``@nf.elementwise`` object, an operation of the
        vocabulary, a function of `math`, or the name of an op.
    what : str
        How a message calls it.

    Raises
    ------
    KernelTypeError
        It is none of these.
    """
    if isinstance(given, Function):
        return given
    if isinstance(given, str):
        found = OPS.get(given)
        found = getattr(getattr(found, "scalar", found), "function", None)
        if isinstance(found, Function):
            return found
        if given in VOCABULARY:
            return parse(VOCABULARY[given])
        known = sorted(n for n, o in OPS.items() if hasattr(o, "nin"))
        raise KernelTypeError(f"unknown {what} {given!r}; known: {', '.join(known)}; or "
                              "pass a scalar function")
    given = getattr(given, "scalar", given)
    if not callable(given):
        raise KernelTypeError(f"'{what}' must be a scalar function or the name of one, "
                              f"got {type(given).__name__}")
    return parse(given)
