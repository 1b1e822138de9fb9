"""Numbers in the source: weak as written, then typed by what they meet."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...support.dtypes import DTYPES
from ..ir.nodes import Literal, Value, literal
from .promotion import KINDS, Type, Weak, compute_dtype

__all__ = ["convert", "is_weak", "literal_type", "number"]

Number = bool | int | float | complex

_PYTHON = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_CHARACTER = dict(zip(KINDS, "bifc", strict=True))


def number(value: Literal) -> Number:
    """The Python number of a weak or typed literal."""
    if value.kind in KINDS:
        return value.value
    return Literal(_PYTHON[DTYPES[value.kind].kind].__name__, value.text).value


def literal_type(value: Literal) -> Type:
    """`Weak`, or the dtype of a typed literal."""
    return Weak(value.kind) if value.kind in KINDS else DTYPES[value.kind]


def is_weak(args: Iterable[tuple[Value, Type]], *, types: bool = False) -> bool:
    """Whether all are literals as written; with `types`, all of weak type."""
    return all(isinstance(t, Weak) and (types or isinstance(v, Literal))
               for v, t in args)


def convert(value: Literal, target: np.dtype | str, *,
            explicit: bool = False) -> Literal:
    """`value` as a literal of the dtype, or Python kind, `target`.

    Parameters
    ----------
    value, target
        A 16-bit floating `target` gives the rounded number as float32.
    explicit : bool
        A cast that the user wrote: it may truncate and wrap around, as NumPy's does.

    Raises
    ------
    OverflowError
        An integer that the dtype cannot hold.
    """
    n = number(value)
    kind = _CHARACTER[target] if isinstance(target, str) else target.kind
    if kind in "if" and isinstance(n, complex):  # 1j is true
        n = n.real
    if isinstance(target, str):
        return literal(_PYTHON[kind](n))
    if kind == "V" or target == np.float16:
        n, target = float(target.type(n)), compute_dtype(target)
        kind = "f"
    if kind in "iu":
        n = _integer(int(n.real), target, explicit)
    return Literal(target.name, repr(_PYTHON[kind](n)))


def _integer(n: int, dtype: np.dtype, wrap: bool) -> int:
    info = np.iinfo(dtype)
    if info.min <= n <= info.max:
        return n
    if wrap:
        return (n - int(info.min)) % (1 << info.bits) + int(info.min)
    raise OverflowError(f"the integer {n} does not fit {dtype.name} (it holds "
                        f"{info.min} to {info.max}); cast the other operand")
