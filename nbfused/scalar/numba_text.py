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

from .ir import Literal
from .literals import number
from .printing import bare
from .promotion import BFLOAT16

__all__ = [
    "CUDA_CALLS", "NAMES", "Calls", "cast", "decode", "encode", "expression",
    "literal", "power", "repeats", "short", "stored",
]

#: ``(operation, dtype name)`` to the function that computes it.
Calls = Mapping[tuple[str, str], str]

_TYPES = {
    "bool": "b1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128",
}

_F32 = np.dtype(np.float32)
_HALVES = {np.dtype(np.float16): "f16", BFLOAT16: "bf16"}

#: What the text refers to; the conversions of 16-bit floats are the backend's.
NAMES: dict[str, object] = {
    "math": math, "cmath": cmath, "np": np,
    **{short: np.dtype(name).type for name, short in _TYPES.items()},
}

#: `calls` for CUDA, where NumPy's functions do not compile and `%` is inexact.  The
#: namespace needs ``libdevice``, that is `numba.cuda.libdevice`.
CUDA_CALLS: dict[tuple[str, str], str] = {
    (op, dtype): f"libdevice.{op}{suffix}"
    for dtype, suffix in (("float32", "f"), ("float64", ""))
    for op in ("floor", "ceil", "trunc", "rint", "fmod", "cbrt")
}

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "eq": "==", "ne": "!=", "and": "&", "or": "|", "xor": "^",
    "logical_and": "&", "logical_or": "|",
}
_PREFIX = {"neg": "-", "invert": "~", "logical_not": "not "}
_MATH = frozenset({
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "erf", "erfc", "lgamma", "copysign", "atan2", "hypot", "pow",
})
_NUMPY = frozenset({"floor", "ceil", "trunc", "rint", "fmod", "cbrt"})
#: Numba gives operations on two of these the same dtype.
_CLOSED = frozenset({np.dtype(np.int64), np.dtype(np.uint64)})
#: Results of these are bools and need no cast.
_BOOLEAN = frozenset({
    "lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_not",
})


def short(dtype: np.dtype) -> str:
    """What the text calls a computing dtype."""
    return _TYPES[_name(dtype)]


_t = short
_name: Callable[[np.dtype], str] = cache(attrgetter("name"))  # NumPy composes it


def literal(dtype: np.dtype, value: bool | int | float | complex) -> str:
    """A constant of `dtype`."""
    if dtype.kind == "b":
        return str(bool(value))
    if dtype.kind == "c":
        z = complex(value)
        return f"{_t(dtype)}(complex({_real(z.real)}, {_real(z.imag)}))"
    assert not isinstance(value, complex)
    return f"{_t(dtype)}({_real(value) if dtype.kind == 'f' else int(value)})"


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
        text = f"{text}.real"
    # Through a signed type that holds it, a float out of range wraps around on every
    # machine; a direct conversion is undefined.
    if source.kind == "f" and target.kind in "iu" and target.name != "uint64":
        text = f"{'i32' if target.itemsize < 4 else 'i64'}({text})" \
            if target.name != "int32" else text
    return f"{_t(target)}({text})"


def stored(source: np.dtype, target: np.dtype, text: str) -> str:
    """What is stored as `target` for a value computed in `source`.

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
    """What is stored for a value in the computing dtype of `dtype`."""
    if dtype.kind == "b":
        return f"u8({text})"
    if dtype in _HALVES:
        return f"f32_to_{_HALVES[dtype]}({text})"
    return text


def repeats(op: str, dtype: np.dtype) -> bool:
    """Whether the text of `op` may repeat its operands: they must be names."""
    if op == "div" and dtype.kind == "c":
        return True
    if op in _INFIX or op in _PREFIX or op in ("select", "cast"):
        return False
    return dtype.kind != "f" or op not in _MATH | _NUMPY | {"abs", "rsqrt"}


def expression(op: str, dtype: np.dtype, args: Sequence[str],
               values: Sequence[str | Literal], calls: Calls) -> str:
    """``op(*args)`` on operands of `dtype`; `values` are they before they were text."""
    function = calls.get((op, _name(dtype)))
    if function is not None:
        return _call(function, args)
    if op == "select":
        return f"({args[1]} if {args[0]} else {args[2]})"
    if op in _BOOLEAN:
        return f"({args[0]} {_INFIX[op]} {args[1]})" if op in _INFIX \
            else f"(not {args[0]})"
    if dtype.kind in "iu":
        constant = number(values[-1]) if isinstance(values[-1], Literal) else None
        assert not isinstance(constant, (float, complex))
        return _integer(op, dtype, args, constant)
    special = (_COMPLEX if dtype.kind == "c" else _FLOATING).get(op)
    if special is not None:
        return special(_t(dtype), *args)
    if op in _INFIX:
        return f"({args[0]} {_INFIX[op]} {args[1]})"
    if op in _PREFIX:
        return f"({_PREFIX[op]}{args[0]})"
    module = "np" if op in _NUMPY else "cmath" if dtype.kind == "c" else "math"
    return _call(f"{module}.{op}", args)


def _call(function: str, args: Sequence[str]) -> str:
    return f"{function}({', '.join(bare(a) for a in args)})"


_FLOATING: dict[str, Callable[..., str]] = {
    "abs": lambda t, a: f"abs({a})",
    # The first operand if it is a NaN; the second if that is, for then a > b is false.
    "max": lambda t, a, b: f"({a} if ({a} > {b}) | ({a} != {a}) else {b})",
    "min": lambda t, a, b: f"({a} if ({a} < {b}) | ({a} != {a}) else {b})",
    "rsqrt": lambda t, a: f"({t}(1.0) / math.sqrt({a}))",
    "sign": lambda t, a: f"({t}(1.0) if {a} > {t}(0.0) else "
                         f"({t}(-1.0) if {a} < {t}(0.0) else {a}))",
    "isnan": lambda t, a: f"({a} != {a})",
    "isinf": lambda t, a: f"(abs({a}) == {t}(math.inf))",
    "isfinite": lambda t, a: f"(abs({a}) < {t}(math.inf))",
}


def _quotient(t: str, a: str, b: str) -> str:
    """Complex ``a / b``; by 0 what NumPy has, where Numba raises: nothing is stored."""
    zero = f"{_part(t)}(0.0)"
    by_zero = f"{t}(complex({a}.real / {zero}, {a}.imag / {zero}))"
    nonzero = f"({b}.real != {zero}) | ({b}.imag != {zero})"
    return f"(({a} / {b}) if {nonzero} else {by_zero})"


def _complex_power(t: str, a: str, b: str) -> str:
    """Complex ``a**b``; of 0 and by 0 what NumPy has.

    Where both real parts are 0, numba-cuda gives 0.
    """
    part = _part(t)
    zero, one, nan = (f"{t}(complex({x}, {y}))" for x, y in (
        ("0.0", "0.0"), ("1.0", "0.0"), ("math.nan", "math.nan")))
    of_zero = f"({zero} if {b}.real > {part}(0.0) else {nan})"
    imaginary = f"({a}.real == {part}(0.0)) & ({b}.real == {part}(0.0))"
    return (f"({one} if {b} == {zero} else {of_zero} if {a} == {zero} else "
            f"cmath.exp({b} * cmath.log({a})) if {imaginary} else ({a} ** {b}))")


def _on_the_axis(op: str, imag: str) -> Callable[[str, str], str]:
    """A function that may overflow where its argument is real: inf times 0 is NaN."""
    def text(t: str, a: str) -> str:
        on_it = f"{t}(complex(math.{op}({a}.real), {imag.format(a=a)}))"
        return f"({on_it} if {a}.imag == {_part(t)}(0.0) else cmath.{op}({a}))"

    return text


def _part(t: str) -> str:
    """The type of a complex number's parts."""
    return "f32" if t == "c64" else "f64"


_COMPLEX: dict[str, Callable[..., str]] = {
    "div": _quotient,
    "abs": lambda t, a: f"abs({a})",
    "real": lambda t, a: f"{a}.real",
    "imag": lambda t, a: f"{a}.imag",
    "conj": lambda t, a: f"{a}.conjugate()",
    "pow": _complex_power,
    "exp": _on_the_axis("exp", "{a}.imag"),
    "sinh": _on_the_axis("sinh", "{a}.imag"),
    "cosh": _on_the_axis("cosh", "({a}.imag if {a}.real >= 0.0 else -{a}.imag)"),
    "isnan": lambda t, a: f"(({a}.real != {a}.real) | ({a}.imag != {a}.imag))",
    "isinf": lambda t, a: f"((abs({a}.real) == math.inf) | "
                          f"(abs({a}.imag) == math.inf))",
    "isfinite": lambda t, a: f"((abs({a}.real) < math.inf) & "
                             f"(abs({a}.imag) < math.inf))",
}


def _integer(op: str, dtype: np.dtype, args: Sequence[str],
             constant: int | None) -> str:
    """Integer arithmetic as NumPy has it; `constant` is the last operand if known."""
    t, a, b = _t(dtype), args[0], args[-1]
    if op in ("max", "min"):
        return f"({a} if {a} {'>' if op == 'max' else '<'} {b} else {b})"
    if op == "sign":
        negative = f"({t}(-1) if {a} < {t}(0) else {a})" if dtype.kind == "i" else a
        return f"({t}(1) if {a} > {t}(0) else {negative})"
    if op == "abs":
        return f"{t}(abs({a}))"
    if op in ("lshift", "rshift"):
        return _shift(op, dtype, a, b, constant)
    if op in ("floordiv", "mod", "fmod"):
        return _division(op, dtype, a, b, constant)
    if op in _PREFIX:
        return f"{t}({_PREFIX[op]}{a})"
    return _wrapped(dtype, a, _INFIX[op], b)


def _wrapped(dtype: np.dtype, a: str, operator: str, b: str) -> str:
    """An integer operation that wraps around.

    Numba tells LLVM that signed arithmetic does not overflow: narrow operands are
    widened first, but those of int64 have to be taken as unsigned.
    """
    if dtype == np.int64 and operator in "+-*":
        return f"i64({_unsigned(a)} {operator} {_unsigned(b)})"
    if dtype in _CLOSED:
        return f"({a} {operator} {b})"
    return f"{_t(dtype)}({a} {operator} {b})"


def _unsigned(text: str) -> str:
    """An int64 as uint64; a constant that is not negative as one."""
    constant = re.fullmatch(r"i64\((\d+)\)", text)
    return f"u64({constant[1] if constant else bare(text)})"


def _shift(op: str, dtype: np.dtype, a: str, b: str, constant: int | None) -> str:
    """By the width or more, or by less than nothing: 0, or the sign."""
    t, bits = _t(dtype), dtype.itemsize * 8
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
    t, signed = _t(dtype), dtype.kind == "i"
    if op == "floordiv":
        text, by_minus_one = f"{t}({a} // {b})", f"{t}(-{a})"
    else:
        text, by_minus_one = f"{t}({a} % {b})", f"{t}(0)"
    if op == "fmod" and signed:
        opposite = f"(({a} < {t}(0)) != ({b} < {t}(0)))"
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
    return [*lines, f"{name} = {text}"], _quotient(_t(dtype), literal(dtype, 1), name)


def _product(dtype: np.dtype, factors: list[str]) -> str:
    """Integers wrap around after each multiplication."""
    if not factors:
        return literal(dtype, 1)
    text, *rest = factors
    for factor in rest:
        text = _wrapped(dtype, text, "*", factor) if dtype.kind in "iu" \
            else f"({text} * {factor})"
    return text
