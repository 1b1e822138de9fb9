"""Single operations as C++ expressions, with the functions of ``rocm/hip/numbers.h``.

C++ computes integers narrower than int in int, and has no wrap-around of signed ones:
where an operator would do either, a function of `nbf` stands in its place, or a cast.
Operands may be any expressions: no text repeats one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...support.dtypes import BFLOAT16, DTYPES, TYPES, storage
from ..language.vocabulary import OPS
from ..typing.promotion import compute_dtype
from .printer import bare

__all__ = ["bits", "cast", "ctype", "decode", "encode", "expression", "literal",
           "storage_type", "stored"]

_F64 = np.dtype(np.float64)


def ctype(dtype: np.dtype) -> str:
    """The C++ type that values of `dtype` are computed in."""
    return TYPES[compute_dtype(dtype)].cpp


def storage_type(dtype: np.dtype) -> str:
    """The C++ type of a stored element: bools are bytes, 16-bit floats their bits."""
    return ctype(DTYPES[storage(dtype)])


def literal(dtype: np.dtype, value: bool | int | float | complex) -> str:
    """A constant of the computing dtype of `dtype`, exact to the last bit."""
    dtype = compute_dtype(dtype)
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "c":
        part = np.empty(0, dtype).real.dtype
        z = complex(value)
        return (f"{ctype(dtype)}{{{bare(_real(part, z.real))}, "
                f"{bare(_real(part, z.imag))}}}")
    assert not isinstance(value, complex)
    return _real(dtype, value) if dtype.kind == "f" else _integer(dtype, int(value))


def _real(dtype: np.dtype, number: float) -> str:
    """The shortest decimal that reads as `number` rounded to `dtype`."""
    with np.errstate(over="ignore"):
        value = dtype.type(number)
    if math.isnan(value):
        return f"nbf::nan<{ctype(dtype)}>()"
    suffix = "f" if dtype == np.float32 else ""
    text = f"{abs(value)!s}{suffix}" if math.isfinite(value) else \
        f"nbf::infinity<{ctype(dtype)}>()"
    return f"(-{text})" if math.copysign(1, value) < 0 else text


def _integer(dtype: np.dtype, number: int) -> str:
    """C++ reads a minus apart from the digits, and the lowest number has too many."""
    suffix = "u" if dtype.kind == "u" else ""
    text = f"-{-1 - number} - 1" if number == np.iinfo(dtype).min and number < 0 \
        else f"{number}{suffix}"
    if dtype.name in ("int32", "uint32"):
        return f"({text})" if number < 0 else text
    return f"{ctype(dtype)}({text})"


def bits(target: np.dtype, text: str) -> str:
    """The bits of a computing value as a dtype of the same size, or of half of it."""
    if target == np.float16:
        return decode(target, f"uint16_t({bare(text)})")
    if target.itemsize == 2:
        return f"{ctype(target)}({encode(np.dtype(np.float16), text)})"
    return f"nbf::from_bits<{ctype(target)}>({bare(text)})"


def cast(source: np.dtype, target: np.dtype, text: str) -> str:
    """A computing value as another; 16-bit floats as `target` are rounded to."""
    if source == target:
        return text
    if source.kind == "c" and target.kind not in "bc":
        source, text = np.empty(0, source).real.dtype, f"{text}.real"
    if compute_dtype(target) != target:
        return decode(target, stored(source, target, text))
    if source == target:
        return text
    if target.kind == "b":
        return f"nbf::nonzero({bare(text)})" if source.kind == "c" else \
            f"({text} != {literal(source, 0)})"
    if target.kind == "c" and source.kind != "c":
        part = np.empty(0, target).real.dtype
        return f"{ctype(target)}{{{bare(cast(source, part, text))}, 0}}"
    if target.kind == "c":
        return f"nbf::convert<{_part(target)}>({bare(text)})"
    # Through a signed type that holds it, a float out of range wraps around; a direct
    # conversion is undefined.
    if source.kind == "f" and target.kind in "iu" and target.name not in (
            "int32", "int64", "uint64"):
        text = f"{'int32_t' if target.itemsize < 4 else 'int64_t'}({bare(text)})"
    return f"{ctype(target)}({bare(text)})"


def stored(source: np.dtype, target: np.dtype, text: str) -> str:
    """The text stored as `target` for a value computed in `source`.

    16-bit floats are rounded to once: not by way of float where it would round too.
    """
    if compute_dtype(target) == target:
        return encode(target, cast(source, target, text))
    if source.kind == "c":
        source, text = np.empty(0, source).real.dtype, f"{text}.real"
    if source.kind in "iu" and source.itemsize == 4 and target == BFLOAT16:
        wide = np.dtype(f"{source.kind}8")
        source, text = wide, cast(source, wide, text)
    # An integer that float does not hold is beyond float16.
    if source != _F64 and (source.kind == "f" or source.itemsize < 8
                           or target != BFLOAT16):
        text = cast(source, compute_dtype(target), text)
    return encode(target, text)


def _part(dtype: np.dtype) -> str:
    return ctype(np.empty(0, dtype).real.dtype)


def decode(dtype: np.dtype, text: str) -> str:
    """The computing value of a stored element."""
    if dtype.kind == "b":
        return f"({text} != 0)"
    if compute_dtype(dtype) != dtype:
        return f"nbf::from_{TYPES[dtype].short}({bare(text)})"
    return text


def encode(dtype: np.dtype, text: str) -> str:
    """The text stored for a value in the computing dtype of `dtype`."""
    if dtype.kind == "b":
        return f"uint8_t({bare(text)})"
    if compute_dtype(dtype) != dtype:
        return f"nbf::to_{TYPES[dtype].short}({bare(text)})"
    return text


def expression(op: str, dtype: np.dtype, args: Sequence[str]) -> str:
    """``op(*args)`` on operands of `dtype`."""
    row, wide = OPS[op], dtype.kind not in "iu" or dtype.itemsize >= 4
    if row.wraps and dtype.kind in "iu" and not (wide and dtype.kind == "u"):
        return _call(row.wraps, args)
    text = row.hip or row.operator or op
    if "{" not in text:
        return _call(text, args)
    text = text.format(**dict(zip("abc", args, strict=False)))
    return text if wide or row.boolean or op == "select" else f"{ctype(dtype)}{text}"


def _call(function: str, args: Sequence[str]) -> str:
    return f"nbf::{function}({', '.join(bare(a) for a in args)})"
