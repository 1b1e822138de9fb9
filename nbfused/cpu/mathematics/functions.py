"""Numba intrinsics of the elementary functions, by the names kernels call.

float32 within 2 ulp, float64 within 2 ulp, on the whole range; NaN, infinities, signed
zeros and subnormal results as in C.  PyPI's llvmlite has no vector library, and calls
of libm in a loop take 2 to 12 times as long: benchmarks/notes/cpu.md#maps-on-the-cpu.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..text.function_names import BINARY, CALLS, FOUND, FUNCTIONS
from .error_functions import erf, erfc, erfc_of_half
from .exponentials import cosh, exp, exp2, exp_of_product, expm1, sigmoid, sinh, tanh
from .integer_divisions import DIVISIONS
from .inverses import acos, acosh, asin, asinh, atan, atan2, atanh, cbrt
from .logarithms import log, log1p, log2, log10
from .number import Number, fma, select
from .powers import power
from .trigonometry import call_trigonometric

__all__ = ["MATH"]


def _hypot(x: Number, y: Number) -> Number:
    a, b = x.converted(ir.DoubleType()), y.converted(ir.DoubleType())
    result = (a*a + b*b).sqrt()
    infinite = a.abs().equals(math.inf) | b.abs().equals(math.inf)
    return select(infinite, math.inf, result).converted(x.type)


def _max(a: Number, b: Number) -> Number:
    """The larger number, NaN if either is, without a branch."""
    return select(a.equals(a), select(a > b, a, b), a)


def _min(a: Number, b: Number) -> Number:
    return select(a.equals(a), select(a < b, a, b), a)


_DEFINITIONS: dict[str, Callable[..., Number]] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log10": log10,
    "log1p": log1p, "sinh": sinh, "cosh": cosh, "tanh": tanh, "erf": erf, "erfc": erfc,
    "erfc_of_half": erfc_of_half, "exp_of_product": exp_of_product,
    **{name: partial(call_trigonometric, name) for name in ("sin", "cos", "tan")},
    "asin": asin, "acos": acos, "atan": atan, "atan2": atan2, "asinh": asinh,
    "acosh": acosh, "atanh": atanh, "cbrt": cbrt,
    "sigmoid": sigmoid, "pow": power, "hypot": _hypot, "max": _max, "min": _min,
}
_TYPES = {"float32": types.float32, "float64": types.float64}


def _unary(define: Callable[..., Number], kind: Any) -> Any:
    @intrinsic
    def function(typing: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return define(Number(builder, values[0])).value

        return kind(kind), codegen

    return function


def _binary(define: Callable[..., Number], kind: Any) -> Any:
    @intrinsic
    def function(typing: Any, x: Any, y: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return define(*(Number(builder, v) for v in values)).value

        return kind(kind, kind), codegen

    return function


@intrinsic
def _multiply_add(typing: Any, a: Any, b: Any, total: Any) -> Any:
    """``total + a*b``, rounded once where the processor does that."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return fma(*(Number(builder, value) for value in values)).value

    return total(a, b, total), codegen


#: Text of a kernel calls these by the names in `CALLS`, and ``multiply_add``.
MATH: dict[str, Any] = {
    "multiply_add": _multiply_add, **DIVISIONS,
    **{CALLS[op, dtype]: (_binary if op in BINARY else _unary)(
        _DEFINITIONS[op], _TYPES[dtype])
       for dtype, ops in FUNCTIONS.items() for op in (*ops, *FOUND)},
}
