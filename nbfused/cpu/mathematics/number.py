"""`Number`: LLVM values with Python operators that emit instructions.

A function written with them is a straight line of instructions, without calls and
branches, so a loop around it is vectorised.  No fast-math flag is ever set.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir

from ..runtime import objects

__all__ = ["Number", "bits", "fma", "fma_is_fast", "real", "select"]


def fma_is_fast() -> bool:
    """Whether the processor has a fused multiply-add instruction."""
    return ("+fma" in objects.host()[1].split(",")
            or platform.machine() in ("aarch64", "arm64"))


class Number:
    """An LLVM value: a float, an integer or a truth value, or a vector of them."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value

    @property
    def type(self) -> Any:
        """The LLVM type."""
        return self.value.type

    @property
    def floating(self) -> bool:
        """Whether the number is a float."""
        return isinstance(self.element, (ir.FloatType, ir.DoubleType))

    @property
    def element(self) -> Any:
        """The LLVM type of one lane."""
        return self.type.element if isinstance(self.type, ir.VectorType) else self.type

    def like(self, element: Any) -> Any:
        """The type of as many lanes of another type."""
        return ir.VectorType(element, self.type.count) \
            if isinstance(self.type, ir.VectorType) else element

    def constant(self, number: float) -> Any:
        """A constant of the same type, in all lanes."""
        value = float(number) if self.floating else int(number)
        return ir.Constant(self.type, [value]*self.type.count) \
            if isinstance(self.type, ir.VectorType) else ir.Constant(self.type, value)

    def _operand(self, other: Number | float) -> Any:
        return other.value if isinstance(other, Number) else self.constant(other)

    def _emit(self, floating: str, integer: str, a: Any, b: Any) -> Number:
        emit = getattr(self.builder, floating if self.floating else integer)
        return Number(self.builder, emit(a, b))

    def __add__(self, other: Number | float) -> Number:
        return self._emit("fadd", "add", self.value, self._operand(other))

    def __sub__(self, other: Number | float) -> Number:
        return self._emit("fsub", "sub", self.value, self._operand(other))

    def __rsub__(self, other: float) -> Number:
        return self._emit("fsub", "sub", self.constant(other), self.value)

    def __mul__(self, other: Number | float) -> Number:
        return self._emit("fmul", "mul", self.value, self._operand(other))

    def __truediv__(self, other: Number | float) -> Number:
        return self._emit("fdiv", "sdiv", self.value, self._operand(other))

    def __rtruediv__(self, other: float) -> Number:
        return self._emit("fdiv", "sdiv", self.constant(other), self.value)

    def __and__(self, other: Number | int) -> Number:
        value = self.builder.and_(self.value, self._operand(other))
        return Number(self.builder, value)

    def __or__(self, other: Number | int) -> Number:
        value = self.builder.or_(self.value, self._operand(other))
        return Number(self.builder, value)

    def __xor__(self, other: Number | int) -> Number:
        value = self.builder.xor(self.value, self._operand(other))
        return Number(self.builder, value)

    def __lshift__(self, places: int) -> Number:
        value = self.builder.shl(self.value, self.constant(places))
        return Number(self.builder, value)

    def __rshift__(self, places: int) -> Number:
        value = self.builder.ashr(self.value, self.constant(places))
        return Number(self.builder, value)

    def __neg__(self) -> Number:
        if self.floating:
            return Number(self.builder, self.builder.fneg(self.value))
        return 0 - self

    def _compare(self, sign: str, other: Number | float) -> Number:
        b, value = self.builder, self._operand(other)
        if self.floating:
            return Number(b, b.fcmp_ordered(sign, self.value, value))
        return Number(b, b.icmp_signed(sign, self.value, value))

    def __lt__(self, other: Number | float) -> Number:
        return self._compare("<", other)

    def __le__(self, other: Number | float) -> Number:
        return self._compare("<=", other)

    def __gt__(self, other: Number | float) -> Number:
        return self._compare(">", other)

    def __ge__(self, other: Number | float) -> Number:
        return self._compare(">=", other)

    def equals(self, other: Number | float) -> Number:
        """Whether two numbers are equal; NaN equals nothing."""
        return self._compare("==", other)

    def _intrinsic(self, name: str, *others: Number) -> Number:
        types = [self.type] * (1 + len(others))
        module, element = self.builder.module, self.element
        full = f"llvm.{name}.{element.intrinsic_name}" if element is self.type else \
            f"llvm.{name}.v{self.type.count}{element.intrinsic_name}"
        function = module.globals.get(full) or ir.Function(
            module, ir.FunctionType(self.type, types), full)
        values = [self.value, *(o.value for o in others)]
        return Number(self.builder, self.builder.call(function, values))

    def abs(self) -> Number:
        """The magnitude."""
        return self._intrinsic("fabs")

    def sqrt(self) -> Number:
        """The square root."""
        return self._intrinsic("sqrt")

    def floor(self) -> Number:
        """The largest whole number that is not larger."""
        return self._intrinsic("floor")

    def trunc(self) -> Number:
        """The whole number next to it towards zero."""
        return self._intrinsic("trunc")

    def rint(self) -> Number:
        """The nearest whole number, the even one of two."""
        return self._intrinsic("rint")

    def copysign(self, sign: Number) -> Number:
        """The magnitude with another number's sign."""
        return self._intrinsic("copysign", sign)

    def fma(self, factor: Number, term: Number) -> Number:
        """``self*factor + term`` in one rounding."""
        return self._intrinsic("fma", factor, term)

    def converted(self, target: Any) -> Number:
        """Convert to a float of another type, or an integer to a float."""
        b = self.builder
        if not self.floating:
            return Number(b, b.sitofp(self.value, target))
        emit = b.fpext if isinstance(target, ir.DoubleType) else b.fptrunc
        return Number(b, emit(self.value, target))


def fma(a: Number, b: Number, c: Number | float) -> Number:
    """``a*b + c``, rounded once if the processor has the instruction."""
    term = c if isinstance(c, Number) else Number(a.builder, a.constant(c))
    return a.fma(b, term) if fma_is_fast() else a*b + term


def select(condition: Number, yes: Number | float, no: Number | float) -> Number:
    """`yes` or `no` by a condition, without a branch."""
    typed = yes if isinstance(yes, Number) else no
    assert isinstance(typed, Number)
    values = [n.value if isinstance(n, Number) else typed.constant(n)
              for n in (yes, no)]
    return Number(typed.builder, typed.builder.select(condition.value, *values))


def bits(x: Number) -> Number:
    """Reinterpret the bits of a float as an integer."""
    width = 64 if isinstance(x.element, ir.DoubleType) else 32
    target = x.like(ir.IntType(width))
    return Number(x.builder, x.builder.bitcast(x.value, target))


def real(x: Number) -> Number:
    """Reinterpret the bits of an integer as a float."""
    target = ir.DoubleType() if x.element.width == 64 else ir.FloatType()
    return Number(x.builder, x.builder.bitcast(x.value, x.like(target)))
