"""Quotients and remainders of integers by an inverse, in LLVM.

Processors divide integers one at a time.  The product with a floating inverse is off by
one at most, or is once what it lacks is multiplied again, and the remainder says so.
The inverse is a vector, and computed once where the divisor is one number: see
benchmarks/notes/cpu.md#integers-divided.  Divisors that are literals LLVM multiplies
away by itself.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from ...support.llvm.division import emit_division
from ..runtime import objects
from ..text.function_names import QUOTIENT_CALLS
from .number import Number

__all__ = ["QUOTIENTS"]

#: Widths of integers up to which float32 is exact, and from which two products are
#: needed; divisors of uint64 from which remainders are no int64.
_SHORT, _LONG, _LARGE = 16, 64, 1 << 62


def _divided(b: Any, signed: bool, x: Any, y: Any) -> tuple[Any, Any]:
    """Quotient, rounded down, and remainder; by 0 and -1 some number, and 0."""
    width = x.type.width
    unsafe = b.icmp_unsigned("==", y, y.type(0))
    for small in (-1,)*signed + (1,)*(width == _LONG):  # whose quotients may overflow
        unsafe = b.or_(unsafe, b.icmp_unsigned("==", y, y.type(small)))
    safe = b.select(unsafe, y.type(2), y)
    q, r = _estimated(b, signed, x, safe)
    q, r = _corrected(b, q, r, _widened(b, signed, safe, q.type))
    if not signed and width == _LONG:
        q, r = _of_large(b, x, safe, q, r)
    r = b.select(unsafe, r.type(0), r)
    return _narrowed(b, q, x.type), _narrowed(b, r, x.type)


def _narrowed(b: Any, x: Any, target: Any) -> Any:
    return b.trunc(x, target) if x.type.width > target.width else x


def _widened(b: Any, signed: bool, x: Any, target: Any) -> Any:
    if x.type.width == target.width:
        return x
    return (b.sext if signed else b.zext)(x, target)


def _estimated(b: Any, signed: bool, x: Any, y: Any) -> tuple[Any, Any]:
    """A quotient that is off by one at most, and its remainder, which has a sign."""
    width = x.type.width
    real = ir.FloatType() if width <= _SHORT else ir.DoubleType()
    wide = ir.IntType(32 if width <= _SHORT else width if signed else 64)
    to_real = b.sitofp if signed else b.uitofp
    to_integer = b.fptosi if signed else b.fptoui
    inverse = b.fdiv(real(1.0), to_real(y, real))
    q = to_integer(b.fmul(to_real(x, real), inverse),
                   wide if width <= _SHORT else x.type)
    q, x, y = (_widened(b, signed, v, wide) for v in (q, x, y))
    r = b.sub(x, b.mul(q, y))
    if width < _LONG:
        return q, r
    # Rounded down, like the quotient: to zero it might be off by two.
    more = b.fptosi(Number(b, b.fmul(b.sitofp(r, real), inverse)).floor().value, wide)
    return b.add(q, more), b.sub(r, b.mul(more, y))


def _corrected(b: Any, q: Any, r: Any, y: Any) -> tuple[Any, Any]:
    """The quotient rounded down, and a remainder between 0 and the divisor."""
    zero, one = y.type(0), y.type(1)
    other_sign = b.icmp_signed("<", b.xor(r, y), zero)
    low = b.and_(b.icmp_unsigned("!=", r, zero), other_sign)
    q = b.select(low, b.sub(q, one), q)
    r = b.select(low, b.add(r, y), r)
    high = b.select(b.icmp_signed("<", y, zero), b.icmp_signed("<=", r, y),
                    b.icmp_signed(">=", r, y))
    return b.select(high, b.add(q, one), q), b.select(high, b.sub(r, y), r)


def _of_large(b: Any, x: Any, y: Any, q: Any, r: Any) -> tuple[Any, Any]:
    """The same of uint64, where divisors may be so large that remainders have no sign.

    They go into `x` three times at most.
    """
    count, rest = x.type(0), x
    for _ in range(3):
        more = b.icmp_unsigned(">=", rest, y)
        rest = b.select(more, b.sub(rest, y), rest)
        count = b.add(count, b.zext(more, x.type))
    large = b.icmp_unsigned(">=", y, y.type(_LARGE))
    return b.select(large, count, q), b.select(large, rest, r)


def _to_zero(b: Any, signed: bool, x: Any, y: Any) -> tuple[Any, Any]:
    """`_divided`, rounded to zero."""
    q, r = _divided(b, signed, x, y)
    if not signed:
        return q, r
    other = b.and_(b.icmp_unsigned("!=", r, r.type(0)),
                   b.icmp_signed("<", b.xor(r, x), x.type(0)))
    return b.select(other, b.add(q, q.type(1)), q), b.select(other, b.sub(r, y), r)


_WAYS = {"floordiv": (_divided, 0), "truncdiv": (_to_zero, 0), "mod": (_divided, 1),
         "fmod": (_to_zero, 1)}


def _settled(b: Any, signed: bool, x: Any, y: Any, q: Any) -> Any:
    """The quotient; what it is by 0 and by one of either sign."""
    if signed:
        q = b.select(b.icmp_unsigned("==", y, y.type(-1)), b.sub(x.type(0), x), q)
    q = b.select(b.icmp_unsigned("==", y, y.type(1)), x, q)
    return b.select(b.icmp_unsigned("==", y, y.type(0)), y.type(0), q)


def _quotient(op: str) -> Any:
    """``quotient_{op}(a, b)`` of two integers of one type."""
    divide, part = _WAYS[op]

    @intrinsic
    def operation(typing: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            x, y = values
            if x.type.width == _LONG and not objects.has_int64_vectors():
                return emit_division(op)(builder, a.signed, x, y)
            found = divide(builder, a.signed, x, y)[part]
            return found if part else _settled(builder, a.signed, x, y, found)

        return a(a, a), codegen

    return operation


#: Text of a kernel calls these by the names in `QUOTIENT_CALLS`.
QUOTIENTS = {name: _quotient(op) for (op, _), name in QUOTIENT_CALLS.items()}
