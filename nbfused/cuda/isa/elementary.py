"""Elementary functions of float32 to the last digits, without branches.

A quotient that may be subnormal is a call in ``div.rn``, which a warp makes for each of
its elements in turn, where few warps share a multiprocessor:
benchmarks/notes/products.md#the-epilogue.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .inline_ptx import asm

__all__ = ["elementary_namespace"]

_F32 = ir.FloatType()


@intrinsic
def sigmoid(typing: Any, a: Any) -> Any:
    """``1/(1 + exp(-a))``: the divisor is from 1 to 2; its inverse is improved once."""
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


def elementary_namespace() -> dict[str, Any]:
    """The names for kernel text."""
    return {"sigmoid": sigmoid}
