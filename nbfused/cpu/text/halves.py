"""Conversions between float32 and float16 or bfloat16, stored as uint16.

float16 is converted by the processor if it has F16C (elsewhere LLVM would call a
function that does not exist), else by integer arithmetic; bfloat16 always by integers,
as the instructions of AVX-512 flush subnormals.  Every function is free of branches, so
that loops around it are vectorised.  Rounding is to nearest, ties to even; NaN stays
NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...support.llvm.bits import bit_casts
from ...support.llvm.rounding import from_wide
from ..runtime import objects

__all__ = ["BY_INTEGERS", "BY_PROCESSOR", "HALVES", "conversions"]

_I16, _I32, _F32 = ir.IntType(16), ir.IntType(32), ir.FloatType()

_F32_INFINITY = 0x7F800000
_F16_INFINITY = 0x7C00
_F16_QUIET_NAN = 0x7E00
_F16_REBIAS = (127 - 15) << 23
_TWO_POW_112 = 2.0 ** 112
_LEAST_F16_NORMAL = 0x38800000  # 2**-14
_BEYOND_F16 = 0x47800000  # 65536
_HALF = 0x3F000000  # 0.5: its last place is the smallest float16


def _f16_to_f32(b: Any, bits: Any) -> Any:
    wide = b.zext(bits, _I32)
    sign = b.shl(b.and_(wide, _I32(0x8000)), _I32(16))
    rest = b.and_(wide, _I32(0x7FFF))
    shifted = b.shl(rest, _I32(13))
    # A multiplication moves the exponent and makes subnormals normal, exactly.
    scaled = b.fmul(b.bitcast(shifted, _F32), ir.Constant(_F32, _TWO_POW_112))
    special = b.icmp_unsigned(">=", rest, _I32(_F16_INFINITY))
    finite = b.bitcast(scaled, _I32)
    result = b.select(special, b.or_(shifted, _I32(_F32_INFINITY)), finite)
    return b.bitcast(b.or_(result, sign), _F32)


def _f32_to_f16(b: Any, value: Any) -> Any:
    bits = b.bitcast(value, _I32)
    sign = b.and_(b.lshr(bits, _I32(16)), _I32(0x8000))
    rest = b.and_(bits, _I32(0x7FFFFFFF))
    odd = b.and_(b.lshr(rest, _I32(13)), _I32(1))
    rounded = b.add(b.add(rest, _I32(0xFFF)), odd)
    normal = b.lshr(b.sub(rounded, _I32(_F16_REBIAS)), _I32(13))
    # Adding 0.5 rounds at 2**-24; the float addition does it to even.
    moved = b.fadd(b.bitcast(rest, _F32), ir.Constant(_F32, 0.5))
    small = b.sub(b.bitcast(moved, _I32), _I32(_HALF))
    subnormal = b.icmp_unsigned("<", rest, _I32(_LEAST_F16_NORMAL))
    result = b.select(subnormal, small, normal)
    big = b.icmp_unsigned(">=", rest, _I32(_BEYOND_F16))
    result = b.select(big, _I32(_F16_INFINITY), result)
    nan = b.icmp_unsigned(">", rest, _I32(_F32_INFINITY))
    result = b.select(nan, _I32(_F16_QUIET_NAN), result)
    return b.trunc(b.or_(result, sign), _I16)


def _bf16_to_f32(b: Any, bits: Any) -> Any:
    return b.bitcast(b.shl(b.zext(bits, _I32), _I32(16)), _F32)


def _f32_to_bf16(b: Any, value: Any) -> Any:
    bits = b.bitcast(value, _I32)
    odd = b.and_(b.lshr(bits, _I32(16)), _I32(1))
    rounded = b.lshr(b.add(b.add(bits, _I32(0x7FFF)), odd), _I32(16))
    nan = b.fcmp_unordered("uno", value, value)
    quiet = b.or_(b.lshr(bits, _I32(16)), _I32(0x40))
    return b.trunc(b.select(nan, quiet, rounded), _I16)


def _conversion(result: Any, operand: Any, emit: Callable[[Any, Any], Any]) -> Any:
    @intrinsic
    def conversion(typing: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return emit(builder, values[0])

        return result(operand), codegen

    return conversion


def _widen(b: Any, bits: Any) -> Any:
    return b.fpext(b.bitcast(bits, ir.HalfType()), _F32)


def _narrow(b: Any, value: Any) -> Any:
    return b.bitcast(b.fptrunc(value, ir.HalfType()), _I16)


Emitter = Callable[[Any, Any], Any]

#: From and to float16.
BY_INTEGERS: tuple[Emitter, Emitter] = (_f16_to_f32, _f32_to_f16)
BY_PROCESSOR: tuple[Emitter, Emitter] = (_widen, _narrow)


def conversions(float16: tuple[Emitter, Emitter]) -> dict[str, Any]:
    """The conversion functions, by the names that generated text uses."""
    f32, u16 = types.float32, types.uint16
    return {
        **{name: _conversion(u16, getattr(types, kind), emit)
           for name, (kind, emit) in from_wide(float16[1], _f32_to_bf16).items()},
        **{name: _conversion(getattr(types, to), getattr(types, of), emit)
           for name, (to, of, emit) in bit_casts().items()},
        "f16_to_f32": _conversion(f32, u16, float16[0]),
        "f32_to_f16": _conversion(u16, f32, float16[1]),
        "bf16_to_f32": _conversion(f32, u16, _bf16_to_f32),
        "f32_to_bf16": _conversion(u16, f32, _f32_to_bf16),
    }


HALVES = conversions(BY_PROCESSOR if objects.has_float16() else BY_INTEGERS)
