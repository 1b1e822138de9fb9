"""Division of integers by float arithmetic, which has vectors where integers have none.

By zero the results are 0, and the lowest number by -1 wraps around.  The reciprocal of
a divisor that stays the same is taken out of its loop.  This is for straight code: in a
loop whose divisions wait for one another the processor's own is sooner.
Measured: benchmarks/notes/cpu.md#integer-divisions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from ...support.llvm.division import DIVISION_CALLS, emit_division
from ..runtime import objects
from ..text.function_names import VECTOR_DIVISIONS
from .number import Number, bits, select

__all__ = ["DIVISIONS"]

#: Adding it to a smaller whole number leaves that in the low bits, modulo 2**32.
_WHOLE = 1.5*2.0**52
#: Quotients are made smaller by more than four roundings can have made them larger.
_SMALLER = 1.0 - 2.0**-50


def _of_32_bits(op: str, signed: bool, x: Number, y: Number) -> Number:
    """The quotient of integers of at most 32 bits, by `floordiv` or `truncdiv`.

    A dividend that is larger by a half is at least ``0.5/y`` away from each multiple;
    two roundings move it by less, as a mantissa has 7 bits more than an integer.
    """
    b, narrow = x.builder, x.element.width <= 16
    kind = ir.FloatType() if narrow else ir.DoubleType()
    convert = b.sitofp if signed else b.uitofp
    dividend, divisor = (Number(b, convert(n.value, kind)) for n in (x, y))
    reciprocal = _reciprocal(divisor)
    half = Number(b, dividend.constant(0.5))
    toward = divisor if op == "floordiv" else dividend
    q = (dividend + half.copysign(toward))*reciprocal
    q = q.floor() if op == "floordiv" else q.trunc()
    whole = b.fptosi(q.value, ir.IntType(32)) if narrow else bits(q + _WHOLE).value
    return Number(b, b.trunc(whole, x.type) if whole.type != x.type else whole)


def _reciprocal(divisor: Number) -> Number:
    """``1/divisor``, and 0 for 0."""
    return select(divisor.equals(0.0), 0.0, 1.0/divisor)


def _of_64_bits(op: str, signed: bool, x: Number, y: Number) -> tuple[Number, Number]:
    """Quotient and remainder of 64-bit integers, where `y` is not 0.

    The quotient is found twice, then of what remains; each is at most as large as the
    exact one, so no remainder overflows, and the last is wrong by one at most.
    """
    b = x.builder
    kind = ir.DoubleType()
    to_float, to_integer = (b.sitofp, b.fptosi) if signed else (b.uitofp, b.fptoui)
    reciprocal = _reciprocal(Number(b, to_float(y.value, kind)))*_SMALLER
    q, r = Number(b, x.constant(0)), x
    for _ in range(2):
        part = Number(b, to_float(r.value, kind))*reciprocal
        part = Number(b, to_integer(part.value, x.type))
        q, r = q + part, r - part*y
    if not signed:
        more = Number(b, b.icmp_unsigned(">=", r.value, y.value))
        return select(more, q + 1, q), select(more, r - y, r)
    opposite = (x ^ y) < 0
    magnitudes = (select(n < 0, -n, n).value for n in (r, y))
    more = Number(b, b.icmp_unsigned(">=", *magnitudes))
    step = select(opposite, -1, Number(b, x.constant(1)))
    multiple = select(opposite, -y, y)
    q, r = select(more, q + step, q), select(more, r - multiple, r)
    if op in ("truncdiv", "fmod"):
        return q, r
    below = ((r ^ y) < 0) & Number(b, b.icmp_unsigned("!=", r.value, r.constant(0)))
    return select(below, q - 1, q), select(below, r + y, r)


def _divided(op: str, signed: bool, x: Number, y: Number) -> Number:
    """Emit `op`, without a branch."""
    quotient = op in ("floordiv", "truncdiv")
    if x.element.width == 64:
        q, r = _of_64_bits(op, signed, x, y)
    else:
        rounded = "floordiv" if op in ("floordiv", "mod") or not signed else "truncdiv"
        q = _of_32_bits(rounded, signed, x, y)
        r = q if quotient else x - q*y
    return select(y.equals(0), 0, q if quotient else r)


def _emit_vector(op: str) -> Callable[[Any, bool, Any, Any], Any]:
    """Like `emit_division`, by floats where the processor has vectors for that."""
    emit = emit_division(op)

    def emit_vector(builder: Any, signed: bool, x: Any, y: Any) -> Any:
        if x.type.width == 64 and not objects.has_wide_conversions():
            return emit(builder, signed, x, y)
        return _divided(op, signed, Number(builder, x), Number(builder, y)).value

    return emit_vector


def _intrinsic(emit: Callable[[Any, bool, Any, Any], Any]) -> Any:
    """A function of two integers of one type."""

    @intrinsic
    def operation(typing: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return emit(builder, a.signed, *values)

        return a(a, a), codegen

    return operation


#: Text of a kernel calls these by name.
DIVISIONS: dict[str, Any] = {
    called: _intrinsic(emit)
    for (op, _), name in DIVISION_CALLS.items()
    for called, emit in ((name, emit_division(op)),
                         (VECTOR_DIVISIONS[name], _emit_vector(op)))}
