"""Division of integers without a branch, in LLVM: by zero 0, by -1 wrapping around.

LLVM's own is undefined for both, and Numba's tests the divisor in a branch, divides
twice for a quotient and a remainder, and rounds down where C rounds to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import DTYPES

__all__ = ["DIVISION_CALLS", "emit_division"]

#: ``(operation, dtype)`` of the scalar language to its name in generated text.
DIVISION_CALLS = {(op, name): f"integer_{op}"
                  for op in ("floordiv", "truncdiv", "mod", "fmod")
                  for name, dtype in DTYPES.items() if dtype.kind in "iu"}


def emit_division(op: str) -> Callable[[Any, bool, Any, Any], Any]:
    """A function of (builder, whether signed, dividend, divisor) that emits `op`."""
    return _EMITTERS[op]


def _divided(b: Any, signed: bool, x: Any, y: Any) -> tuple[Any, Any]:
    """Quotient and remainder, rounded to zero; where `y` is 0 or -1, `x` and 0."""
    unsafe = b.icmp_unsigned("==", y, y.type(0))
    if signed:
        unsafe = b.or_(unsafe, b.icmp_unsigned("==", y, y.type(-1)))
    safe = b.select(unsafe, y.type(1), y)
    q = (b.sdiv if signed else b.udiv)(x, safe)
    return q, b.sub(x, b.mul(q, safe))


def _settled(b: Any, signed: bool, x: Any, y: Any, q: Any) -> Any:
    """The quotient `q`, or what stands for it where `y` is 0 or -1."""
    if signed:
        q = b.select(b.icmp_unsigned("==", y, y.type(-1)), b.sub(x.type(0), x), q)
    return b.select(b.icmp_unsigned("==", y, y.type(0)), y.type(0), q)


def _between(b: Any, y: Any, r: Any) -> Any:
    """Whether rounding down and to zero differ: a remainder of the other sign."""
    opposite = b.icmp_signed("<", b.xor(r, y), y.type(0))
    return b.and_(b.icmp_unsigned("!=", r, y.type(0)), opposite)


def _truncdiv(b: Any, signed: bool, x: Any, y: Any) -> Any:
    return _settled(b, signed, x, y, _divided(b, signed, x, y)[0])


def _floordiv(b: Any, signed: bool, x: Any, y: Any) -> Any:
    q, r = _divided(b, signed, x, y)
    if signed:
        q = b.sub(q, b.zext(_between(b, y, r), y.type))
    return _settled(b, signed, x, y, q)


def _fmod(b: Any, signed: bool, x: Any, y: Any) -> Any:
    return _divided(b, signed, x, y)[1]


def _mod(b: Any, signed: bool, x: Any, y: Any) -> Any:
    r = _fmod(b, signed, x, y)
    return b.add(r, b.select(_between(b, y, r), y, y.type(0))) if signed else r


_EMITTERS = {"floordiv": _floordiv, "truncdiv": _truncdiv, "mod": _mod, "fmod": _fmod}
