"""Conversion of wide numbers to 16-bit floats with a single rounding, in LLVM.

By way of float32 a float64 is rounded twice: just above the middle of two float16 it
becomes the middle, and then the even one.  So what is cut off first is not rounded but
remembered in the last bit that stays ("round to odd"): with two bits more than the
target has, the second rounding comes out as a single one would (Boldo, Melquiond 2008,
"Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

__all__ = ["from_wide"]

_I64, _F32, _F64 = ir.IntType(64), ir.FloatType(), ir.DoubleType()

#: float16 has 11 bits; 13 stay of the 53.  In float32 they are exact, also where it is
#: subnormal and bfloat16 is not 0.
_CUT = 40
_LARGE = 1 << 53


#: (builder, value) → value.
Emitter = Callable[[Any, Any], Any]


def from_wide(to_f16: Emitter, to_bf16: Emitter) -> dict[str, tuple[str, Emitter]]:
    """Conversions by their names in generated text: input type and emitter.

    Parameters
    ----------
    to_f16, to_bf16
        The bits of a float32 that is rounded.
    """
    return {
        "f64_to_f16": ("float64", lambda b, x: to_f16(b, _from_double(b, x))),
        "f64_to_bf16": ("float64", lambda b, x: to_bf16(b, _from_double(b, x))),
        "i64_to_bf16": ("int64", lambda b, x: to_bf16(b, _from_integer(b, x, True))),
        "u64_to_bf16": ("uint64", lambda b, x: to_bf16(b, _from_integer(b, x, False))),
    }


def _from_double(builder: Any, x: Any) -> Any:
    """Convert float64 to a float32 that rounds correctly to 16 bits."""
    kept = _to_odd(builder, builder.bitcast(x, _I64), _CUT)
    return builder.fptrunc(builder.bitcast(kept, _F64), _F32)


def _from_integer(builder: Any, x: Any, signed: bool) -> Any:
    """Convert a 64-bit integer to a float32 that rounds correctly to 16 bits."""
    size = builder.add(x, _I64(_LARGE)) if signed else x
    large = builder.icmp_unsigned(">", size, _I64(_LARGE << signed))
    exact = builder.select(large, _to_odd(builder, x, 11), x)
    convert = builder.sitofp if signed else builder.uitofp
    return _from_double(builder, convert(exact, _F64))


def _to_odd(builder: Any, bits: Any, cut: int) -> Any:
    """Round `bits` to odd: drop the last `cut`, or their OR into the next one."""
    low = _I64((1 << cut) - 1)
    carried = builder.add(builder.and_(bits, low), low)
    return builder.and_(builder.or_(bits, carried), _I64(-1 << cut))
