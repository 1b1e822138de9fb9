"""Functions of few instructions and no branches, by instructions that approximate.

Those named ``_rough`` are for results that are rounded to 16 bits: their relative error
is 2**-15 at most, wherever a float32 holds the result, subnormal ones too: bfloat16 has
those.  The special unit (``ex2.approx``, ``rcp.approx``) takes
an instruction of a warp in 8 cycles, so there are no more than two of them in each.
With ``.ftz`` they are one instruction; scaling by powers of 2 keeps what they see
within the normal numbers.  `tests/cuda/isa/test_approximate_gpu.py` compares with
mpmath.  `sigmoid` is right to the last digits of float32.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .inline_ptx import asm

__all__ = ["approximate_namespace"]

_F32 = ir.FloatType()
_LOG2E = 1.4426950408889634
#: ``erfc(z) = exp(-z*z)*t*(c0 + t*(c1 + …))`` with ``t = 1/(1 + SLOPE*z)`` for z >= 0:
#: fitted so that the largest relative error is least, 1.7e-5.
SLOPE = 0.4607173501290396
ERFC = (0.25993639568425264, 0.2594495830475111, 0.24063531420272244,
        0.12626735204674763, 0.2400992697928331, -0.12640468233537636)


def _power(builder: Any, x: Any) -> Any:
    """``2**x``."""
    return asm(builder, _F32, "ex2.approx.ftz.f32 $0, $1;", "=f,f", x)


def _inverse(builder: Any, x: Any) -> Any:
    """``1/x`` for ``x`` from 2**-126 to 2**126; 0 for larger ones."""
    return asm(builder, _F32, "rcp.approx.ftz.f32 $0, $1;", "=f,f", x)


@intrinsic
def divide_rough(typing: Any, a: Any, b: Any) -> Any:
    """``a / b`` within 2 units in the last place, by ``div.full.f32``; no branch."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return asm(builder, _F32, "div.full.f32 $0, $1, $2;", "=f,f,f", *values)

    return types.float32(types.float32, types.float32), codegen


@intrinsic
def sqrt_rough(typing: Any, a: Any) -> Any:
    """``sqrt(a)`` within 2 units in the last place; no branch."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return asm(builder, _F32, "sqrt.approx.f32 $0, $1;", "=f,f", *values)

    return types.float32(types.float32), codegen


@intrinsic
def exp_rough(typing: Any, a: Any) -> Any:
    """``exp(a)``: the square of its root, which is never subnormal."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        root = _power(builder, builder.fmul(values[0], _F32(_LOG2E/2)))
        return builder.fmul(root, root)

    return types.float32(types.float32), codegen


@intrinsic
def sigmoid_rough(typing: Any, a: Any) -> Any:
    """``1/(1 + exp(-a))``: scaled, since the divisor may be too large for its inverse.

    The scale is 2**-24: the smallest number of float32 is 2**-149.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        scale = _F32(2.0**-24)
        scaled = builder.fma(values[0], _F32(-_LOG2E), _F32(-24.0))
        divisor = builder.fadd(_power(builder, scaled), scale)
        return builder.fmul(_inverse(builder, divisor), scale)

    return types.float32(types.float32), codegen


@intrinsic
def erfc_rough(typing: Any, a: Any) -> Any:
    """``erfc(a)`` by a polynomial; ``exp(-a*a)`` times 2**64, so that none is lost."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        (z,) = values
        size = asm(builder, _F32, "abs.f32 $0, $1;", "=f,f", z)
        t = _inverse(builder, builder.fma(size, _F32(SLOPE), _F32(1.0)))
        total = _F32(ERFC[-1]*2.0**-64)
        for c in reversed(ERFC[:-1]):
            total = builder.fma(total, t, _F32(c*2.0**-64))
        bell = _power(builder, builder.fma(builder.fmul(z, z), _F32(-_LOG2E),
                                           _F32(64.0)))
        right = builder.fmul(builder.fmul(total, t), bell)
        left = builder.fsub(_F32(2.0), right)
        return builder.select(builder.fcmp_ordered("<", z, _F32(0.0)), left, right)

    return types.float32(types.float32), codegen


@intrinsic
def sigmoid(typing: Any, a: Any) -> Any:
    """``1/(1 + exp(-a))``: the divisor is from 1 to 2; its inverse is improved once.

    A quotient that may be subnormal is a call in ``div.rn``, which a warp makes for
    each of its elements in turn: benchmarks/notes/products.md#the-epilogue.
    """
    kind = types.float32(types.float32)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        (x,) = values
        one, zero = _F32(1.0), _F32(0.0)

        def negative(value: Any) -> Any:  # NVVM's LLVM has no `fneg`
            return builder.fsub(_F32(-0.0), value)

        size = asm(builder, _F32, "abs.f32 $0, $1;", "=f,f", x)
        power = context.get_function(math.exp, kind)(builder, (negative(size),))
        above = builder.select(builder.fcmp_ordered(">=", x, zero), one, power)
        below = builder.fadd(one, power)
        inverse = asm(builder, _F32, "rcp.approx.ftz.f32 $0, $1;", "=f,f", below)
        near = builder.fmul(above, inverse)
        rest = builder.fma(negative(near), below, above)
        return builder.fma(rest, inverse, near)

    return kind, codegen


def approximate_namespace() -> dict[str, Any]:
    """The names for kernel text."""
    return {f.__name__: f for f in (divide_rough, sqrt_rough, exp_rough, sigmoid_rough,
                                    erfc_rough, sigmoid)}
