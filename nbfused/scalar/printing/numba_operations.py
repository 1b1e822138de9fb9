"""Single operations as Python expressions that Numba compiles without widening.

Numba gives int32·int32 the type int64 and mixes uint64 with signed numbers, so that
integer results of less than 64 bits are cast to their dtype.  Others keep theirs.  The
operands are names or literals wherever an expression repeats them.
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter

import numpy as np

from ...support.dtypes import BFLOAT16, HALVES, TYPES, short
from ..ir.nodes import Literal
from ..language.vocabulary import OPS
from ..typing.literals import number
from .printer import bare

__all__ = [
    "CUDA_CALLS", "IN_VECTORS", "NAMES", "Calls", "bits", "cast", "decode", "encode",
    "expression", "literal", "power", "repeats", "stored",
]

#: ``(operation, dtype name)`` to the function that computes it.
Calls = Mapping[tuple[str, str], str]

_F32 = np.dtype(np.float32)
_HALVES = {t.dtype: t.short for t in HALVES}

#: What the text refers to; the conversions of 16-bit floats are the backend's.
NAMES: dict[str, object] = {
    "math": math, "cmath": cmath, "np": np,
    **{t.short: t.dtype.type for t in TYPES.values() if t.computed == t.dtype},
}

#: Begins the name of an operation in `Calls` that has a way of its own in functions
#: without loops, which may become vectors, by a last operand that is not a constant.
IN_VECTORS = "vector "

#: `calls` for CUDA, where NumPy's functions do not compile and `%` is inexact.  The
#: namespace needs ``libdevice``, that is `numba.cuda.libdevice`.
CUDA_CALLS: dict[tuple[str, str], str] = {
    (name, dtype): op.cuda + suffix for name, op in OPS.items() if op.cuda
    for dtype, suffix in (("float32", "f"), ("float64", ""))
}

#: Numba gives operations on two of these the same dtype.
_CLOSED = frozenset({np.dtype(np.int64), np.dtype(np.uint64)})


_name: Callable[[np.dtype], str] = cache(attrgetter("name"))  # NumPy composes it


def literal(dtype: np.dtype, value: bool | int | float | complex) -> str:
    """A constant of `dtype`."""
    if dtype.kind == "b":
        return str(bool(value))
    if dtype.kind == "c":
        z = complex(value)
        return f"{short(dtype)}(complex({_real(z.real)}, {_real(z.imag)}))"
    assert not isinstance(value, complex)
    return f"{short(dtype)}({_real(value) if dtype.kind == 'f' else int(value)})"


def _real(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "math.nan" if math.isnan(value) else \
        "math.inf" if value > 0 else "-math.inf"


def cast(source: np.dtype, target: np.dtype, text: str) -> str:
    """A computing value as another; 16-bit floats as `target` are rounded to."""
    if source == target:
        return text
    if target in _HALVES:
        return decode(target, stored(source, target, text))
    if target.kind == "b":
        return f"({text} != {literal(source, 0)})"
    if source.kind == "c" and target.kind != "c":
        source, text = np.empty(0, source).real.dtype, f"{text}.real"
    # Through a signed type that holds it, a float out of range wraps around on every
    # machine; a direct conversion is undefined.
    if source.kind == "f" and target.kind in "iu" and target.name != "uint64":
        text = f"{'i32' if target.itemsize < 4 else 'i64'}({text})" \
            if target.name != "int32" else text
    return f"{short(target)}({text})"


def bits(source: np.dtype, target: np.dtype, text: str) -> str:
    """The bits of a computing value as a dtype of the same size, or of half of it."""
    if target in _HALVES:
        return decode(target, f"u16({bare(text)})")
    if target.itemsize == 2:
        return f"{short(target)}({encode(np.dtype(np.float16), text)})"
    return f"{short(source)}_as_{short(target)}({bare(text)})"


def stored(source: np.dtype, target: np.dtype, text: str) -> str:
    """The text stored as `target` for a value computed in `source`.

    16-bit floats are rounded to once: not by way of float32 where it would round too.
    """
    if target not in _HALVES:
        return encode(target, cast(source, target, text))
    if source.kind == "c":
        source, text = np.empty(0, source).real.dtype, f"{text}.real"
    if source == np.float64:
        return f"f64_to_{_HALVES[target]}({bare(text)})"
    # An integer that float32 does not hold is beyond float16.
    if source.kind in "iu" and source.itemsize >= 4 and target == BFLOAT16:
        wide = np.dtype(np.uint64 if source == np.uint64 else np.int64)
        return f"{short(wide)}_to_bf16({bare(cast(source, wide, text))})"
    return encode(target, cast(source, _F32, text))


def decode(dtype: np.dtype, text: str) -> str:
    """The computing value of a stored element.

    16-bit floats are stored as uint16, bools as uint8.
    """
    if dtype.kind == "b":
        return f"({text} != 0)"
    if dtype in _HALVES:
        return f"{_HALVES[dtype]}_to_f32({text})"
    return text


def encode(dtype: np.dtype, text: str) -> str:
    """The text stored for a value in the computing dtype of `dtype`."""
    if dtype.kind == "b":
        return f"u8({text})"
    if dtype in _HALVES:
        return f"f32_to_{_HALVES[dtype]}({text})"
    return text


def repeats(op: str, dtype: np.dtype) -> bool:
    """Whether the text of `op` may repeat its operands: they must be names."""
    if op == "cast" or op not in OPS:
        return op != "cast"
    row = OPS[op]
    if row.operator:
        return dtype.kind == "c" and bool(row.numba_complex)
    return dtype.kind != "f" or not row.numba or row.boolean or \
        row.numba.count("{a}") > 1


def expression(op: str, dtype: np.dtype, args: Sequence[str],
               values: Sequence[str | Literal], calls: Calls) -> str:
    """``op(*args)`` on operands of `dtype`; `values` are they before they were text."""
    function = calls.get((op, _name(dtype)))
    if function is not None:
        return _call(function, args)
    row = OPS[op]
    if (row.boolean and row.operator) or op == "select":
        return _written(row.operator, dtype, args)
    if dtype.kind in "iu":
        constant = number(values[-1]) if isinstance(values[-1], Literal) else None
        assert not isinstance(constant, (float, complex))
        return _integer(op, dtype, args, constant)
    text = row.numba or row.operator
    if dtype.kind == "c":
        text = row.numba_complex or text.replace("math.", "cmath.")
    return _written(text, dtype, args)


def _written(text: str, dtype: np.dtype, args: Sequence[str]) -> str:
    """A function of a row called, or its template filled in."""
    if "{" not in text:
        return _call(text, args)
    t = short(dtype)
    return text.format(t=t, zero=f"{'f32' if t == 'c64' else 'f64'}(0.0)",
                       **dict(zip("abc", args, strict=False)))


def _call(function: str, args: Sequence[str]) -> str:
    return f"{function}({', '.join(bare(a) for a in args)})"


def _integer(op: str, dtype: np.dtype, args: Sequence[str],
             constant: int | None) -> str:
    """Integer arithmetic as NumPy has it; `constant` is the last operand if known."""
    t, a, b = short(dtype), args[0], args[-1]
    if op in ("max", "min"):
        return f"({a} if {a} {'>' if op == 'max' else '<'} {b} else {b})"
    if op == "sign":
        negative = f"({t}(-1) if {a} < {t}(0) else {a})" if dtype.kind == "i" else a
        return f"({t}(1) if {a} > {t}(0) else {negative})"
    if op == "abs":
        return f"{t}(abs({a}))"
    if op in ("lshift", "rshift"):
        return _shift(op, dtype, a, b, constant)
    if op in ("floordiv", "truncdiv", "mod", "fmod"):
        return _division(op, dtype, a, b, constant)
    if len(args) == 1:
        return t + OPS[op].operator.format(a=a)
    return _wrapped(op, dtype, a, b)


def _wrapped(op: str, dtype: np.dtype, a: str, b: str) -> str:
    """An integer operation that wraps around.

    Numba tells LLVM that signed arithmetic does not overflow: narrow operands are
    widened first, but those of int64 have to be taken as unsigned.
    """
    text = OPS[op].operator
    if dtype == np.int64 and OPS[op].wraps:
        return "i64" + text.format(a=_unsigned(a), b=_unsigned(b))
    text = text.format(a=a, b=b)
    return text if dtype in _CLOSED else short(dtype) + text


def _unsigned(text: str) -> str:
    """An int64 as uint64; a constant that is not negative as one."""
    constant = re.fullmatch(r"i64\((\d+)\)", text)
    return f"u64({constant[1] if constant else bare(text)})"


def _shift(op: str, dtype: np.dtype, a: str, b: str, constant: int | None) -> str:
    """By the width or more, or by less than nothing: 0, or the sign."""
    t, bits = short(dtype), dtype.itemsize * 8
    shifted = f"({a} {'<<' if op == 'lshift' else '>>'} {b})"
    if dtype not in _CLOSED:
        shifted = t + shifted
    if constant is not None and 0 <= constant < bits:
        return shifted
    rest = f"({t}(-1) if {a} < {t}(0) else {t}(0))" \
        if op == "rshift" and dtype.kind == "i" else f"{t}(0)"
    return f"({shifted} if ({b} >= {t}(0)) & ({b} < {t}({bits})) else {rest})"


def _division(op: str, dtype: np.dtype, a: str, b: str, constant: int | None) -> str:
    """By zero: 0.  By -1 apart, as the quotient of the lowest number overflows."""
    t, signed = short(dtype), dtype.kind == "i"
    if op in ("floordiv", "truncdiv"):
        text, by_minus_one = f"{t}({a} // {b})", f"{t}(-{a})"
    else:
        text, by_minus_one = f"{t}({a} % {b})", f"{t}(0)"
    opposite = f"(({a} < {t}(0)) != ({b} < {t}(0)))"
    if op == "truncdiv" and signed:
        text = f"({t}({text} + {t}(1)) if ({t}({a} % {b}) != {t}(0)) & {opposite} " \
            f"else {text})"
    if op == "fmod" and signed:
        text = f"({t}({text} - {b}) if ({text} != {t}(0)) & {opposite} else {text})"
    if constant is not None and constant not in (0, -1):
        return text
    if signed:
        text = f"({by_minus_one} if {b} == {t}(-1) else {text})"
    return f"({t}(0) if {b} == {t}(0) else {text})"


def power(dtype: np.dtype, base: str, exponent: int,
          local: Callable[[str], str]) -> tuple[list[str], str]:
    """Assignments to names from `local`, and the expression of ``base**exponent``.

    The square of the square: as few products as there are bits, and exact where the
    products are.
    """
    lines: list[str] = []
    factors: list[str] = []
    square, bits = base, abs(exponent)
    while bits:
        if bits & 1:
            factors.append(square)
        bits >>= 1
        if bits > 1 or (bits and factors):
            name = local("square")
            lines.append(f"{name} = {_product(dtype, [square, square])}")
            square = name
        elif bits:
            factors, bits = [square, square], 0
    text = _product(dtype, factors)
    if exponent >= 0:
        return lines, text
    if dtype.kind != "c":
        return lines, f"({literal(dtype, 1)} / {text})"
    name = local("power")
    return [*lines, f"{name} = {text}"], _written(
        OPS["div"].numba_complex, dtype, [literal(dtype, 1), name])


def _product(dtype: np.dtype, factors: list[str]) -> str:
    """Integers wrap around after each multiplication."""
    if not factors:
        return literal(dtype, 1)
    text, *rest = factors
    for factor in rest:
        text = _wrapped("mul", dtype, text, factor) if dtype.kind in "iu" \
            else f"({text} * {factor})"
    return text
