"""The namespace of kernel text: functions built from LLVM IR and inline PTX.

Imported only when a kernel is compiled.  `tests/cuda/simulation/simulated.py` has a
Python stand-in for each of them, so that the same text runs under Numba's simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from llvmlite import ir
from numba import cuda, types
from numba.cuda import libdevice
from numba.cuda.extending import intrinsic

from ...scalar.printing import numba as print_numba
from ...support.dtypes import TYPES
from ...support.llvm.bits import bit_casts
from ...support.llvm.division import DIVISION_CALLS, emit_division
from ...support.llvm.rounding import from_wide
from .accesses import accesses
from .approximate import approximate_namespace
from .hopper import hopper_namespace
from .hopper_f32 import f32_namespace
from .hopper_tf32 import tf32_namespace
from .inline_ptx import asm
from .mma import mma_namespace
from .mma_copies import copies_namespace
from .raw_intrinsics import in_word, raw_namespace
from .row_intrinsics import row_namespace
from .row_pairs import pairs_namespace

__all__ = ["namespace"]

_I16, _I32, _I64 = (ir.IntType(n) for n in (16, 32, 64))
_F16, _F32, _F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()


def _unary(result: Any, operand: Any, emit: Callable[[Any, Any], Any]) -> Any:
    @intrinsic
    def operation(typing: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return emit(builder, values[0])

        return result(operand), codegen

    return operation


def _division(op: str) -> Any:
    """``integer_{op}(a, b)`` of two integers of one type."""
    emit = emit_division(op)

    @intrinsic
    def operation(typing: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return emit(builder, a.signed, *values)

        return a(a, a), codegen

    return operation


@intrinsic
def select(typing: Any, condition: Any, a: Any, b: Any) -> Any:
    """``a if condition else b`` without a branch; both have one type."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.select(*values)

    return a(types.boolean, a, a), codegen


def _extremum(which: str, arch: tuple[int, int]) -> Any:
    """The larger or smaller of two floats; NaN if either is."""

    @intrinsic
    def extremum(typing: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            x, y = values
            if a == types.float32 and arch >= (8, 0):
                return asm(builder, _F32, f"{which}.NaN.f32 $0, $1, $2;", "=f,f,f",
                            x, y)
            order = builder.fcmp_ordered(">" if which == "max" else "<", x, y)
            first = builder.or_(order, builder.fcmp_unordered("uno", x, x))
            return builder.select(first, x, y)

        return a(a, a), codegen

    return extremum


# --- between the threads of a warp


def _words(builder: Any, value: Any) -> list[Any]:
    """A number as 32-bit integers."""
    kind = value.type
    if isinstance(kind, (ir.FloatType, ir.DoubleType)):
        bits = _I32 if isinstance(kind, ir.FloatType) else _I64
        return _words(builder, builder.bitcast(value, bits))
    if kind.width < 32:
        return [builder.zext(value, _I32)]
    return [builder.trunc(builder.lshr(value, kind(k)) if k else value, _I32)
            for k in range(0, kind.width, 32)]


def _number(builder: Any, words: list[Any], kind: Any) -> Any:
    """The inverse of `_words`."""
    if isinstance(kind, ir.FloatType):
        return builder.bitcast(words[0], kind)
    if isinstance(kind, ir.DoubleType):
        return builder.bitcast(_number(builder, words, _I64), kind)
    if kind.width <= 32:
        return words[0] if kind.width == 32 else builder.trunc(words[0], kind)
    low, high = (builder.zext(w, _I64) for w in words)
    return builder.or_(low, builder.shl(high, _I64(32)))


@intrinsic
def shuffle_xor(typing: Any, value: Any, mask: Any) -> Any:
    """The value of the lane whose number differs by `mask`; all 32 lanes call it."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number, lanes = values[0], builder.trunc(values[1], _I32)

        def exchange(x: Any) -> Any:
            words = [asm(builder, _I32, "shfl.sync.bfly.b32 $0, $1, $2, 31, -1;",
                          "=r,r,r", w, lanes, effect=True)
                     for w in _words(builder, x)]
            return _number(builder, words, x.type)

        if not isinstance(value, types.Complex):
            return exchange(number)
        result = number
        for part in (0, 1):
            result = builder.insert_value(
                result, exchange(builder.extract_value(number, part)), part)
        return result

    return value(value, types.int64), codegen


# --- 16-bit floats as their bits


def _to_bf16(arch: tuple[int, int]) -> Callable[[Any, Any], Any]:
    """Rounded to nearest even; NaN stays NaN."""
    def hardware(builder: Any, x: Any) -> Any:
        return asm(builder, _I16, "cvt.rn.bf16.f32 $0, $1;", "=h,f", x)

    def integer(builder: Any, x: Any) -> Any:
        bits = builder.bitcast(x, _I32)
        odd = builder.and_(builder.lshr(bits, _I32(16)), _I32(1))
        rounded = builder.lshr(builder.add(bits, builder.add(odd, _I32(0x7FFF))),
                               _I32(16))
        chosen = builder.select(builder.fcmp_unordered("uno", x, x), _I32(0x7FFF),
                                rounded)
        return builder.trunc(chosen, _I16)

    return hardware if arch >= (8, 0) else integer


def _from_bf16(builder: Any, bits: Any) -> Any:
    return builder.bitcast(builder.shl(builder.zext(bits, _I32), _I32(16)), _F32)


def _from_f16(builder: Any, bits: Any) -> Any:
    return builder.fpext(builder.bitcast(bits, _F16), _F32)


def _to_f16(builder: Any, x: Any) -> Any:
    return builder.bitcast(builder.fptrunc(x, _F16), _I16)


# --- atomics


@intrinsic
def atomic_add(typing: Any, pointer: Any, index: Any, value: Any) -> Any:
    """``pointer[index] += value`` without losing an update; no result."""
    kind = pointer.dtype

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address = builder.gep(values[0], [values[1]],
                              source_etype=context.get_data_type(kind))
        number = context.cast(builder, values[2], value, kind)
        if isinstance(kind, types.Complex):
            part = _F32 if kind == types.complex64 else _F64
            base = builder.bitcast(address, part.as_pointer())
            for k in (0, 1):
                _add_float(builder, builder.gep(base, [_I64(k)], source_etype=part),
                           builder.extract_value(number, k))
        elif isinstance(kind, types.Float):
            _add_float(builder, address, number)
        elif kind.bitwidth >= 32:
            builder.atomic_rmw("add", address, number, "monotonic")
        else:
            in_word(builder, address, number.type,
                    lambda old: builder.add(old, number))
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value), codegen


def _atomic_add_half(decode: Callable[[Any, Any], Any],
                     encode: Callable[[Any, Any], Any]) -> Any:
    @intrinsic
    def add(typing: Any, pointer: Any, index: Any, value: Any) -> Any:
        """`atomic_add` to a 16-bit float, which is stored as its bits."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = builder.gep(values[0], [values[1]], source_etype=_I16)
            number = context.cast(builder, values[2], value, types.float32)
            in_word(builder, address, _I16, lambda old: encode(
                builder, builder.fadd(decode(builder, old), number)))
            return context.get_dummy_value()

        return types.void(pointer, types.int64, value), codegen

    return add


def _add_float(builder: Any, address: Any, number: Any) -> None:
    code, letter = ("f32", "f") if number.type == _F32 else ("f64", "d")
    asm(builder, ir.VoidType(), f"red.global.add.{code} [$0], $1;",
         f"l,{letter},~{{memory}}", builder.ptrtoint(address, _I64), number,
         effect=True)


@intrinsic
def divide(typing: Any, a: Any, b: Any) -> Any:
    """``a // b`` of integers >= 0; NVVM divides in 32 bits where both fit."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.udiv(*values)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def short(typing: Any, a: Any) -> Any:
    """An integer of 32 bits, which takes arithmetic of 32 bits to compute."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.sext(builder.trunc(values[0], _I32), _I64)

    return types.int64(types.int64), codegen


@intrinsic
def inverse(typing: Any, b: Any) -> Any:
    """The inverse of ``0 < b < 2**32`` that `divide_short` multiplies by."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        short = builder.trunc(values[0], _I32)
        return builder.zext(builder.udiv(_I32(-1), short), _I64)

    return types.int64(types.int64), codegen


@intrinsic
def divide_short(typing: Any, a: Any, b: Any, by: Any) -> Any:
    """``a // b`` of integers from 0 on below 2**32, `by` being the inverse of `b`.

    The high half of a product, which is the quotient or 1 less, and a correction: less
    than half of what a division takes (benchmarks/notes/memory.md#short-divisions).
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        short, divisor = (builder.trunc(v, _I32) for v in values[:2])
        high = builder.lshr(builder.mul(builder.zext(short, _I64), values[2]), _I64(32))
        less = builder.trunc(high, _I32)
        left = builder.sub(short, builder.mul(less, divisor))
        more = builder.zext(builder.icmp_unsigned(">=", left, divisor), _I32)
        return builder.zext(builder.add(less, more), _I64)

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def uncounted(typing: Any, a: Any) -> Any:
    """The integer itself; NVVM does not unroll a loop that goes on from it.

    It unrolls even those of three turns, and the kernel has the registers of that.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return asm(builder, _I64, "", "=l,0", *values)

    return types.int64(types.int64), codegen


#: How thread-local memory holds the computing dtypes.
_STORED = {t.short: getattr(types, t.stored) for t in TYPES.values()
           if t.computed == t.dtype}


def _local(stored: Any) -> Any:
    """Thread-local memory for a constant number of elements."""
    result = types.CPointer(stored)

    @intrinsic
    def local(typing: Any, count: Any) -> Any:
        if not isinstance(count, types.IntegerLiteral):
            return None  # Numba tries again, with the literal

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            with builder.goto_entry_block():
                return builder.alloca(context.get_data_type(stored),
                                      size=_I32(count.literal_value))

        return result(count), codegen

    return local


@lru_cache(maxsize=8)
def namespace(arch: tuple[int, int]) -> dict[str, Any]:
    """The names that kernel text for compute capability `arch` may use."""
    u16, f32 = types.uint16, types.float32
    return {
        **print_numba.NAMES, "cuda": cuda, "libdevice": libdevice,
        **accesses(arch),
        **row_namespace(arch),
        **pairs_namespace(arch, {"f16": _from_f16, "bf16": _from_bf16}),
        **raw_namespace(_words, _number, {"f16": (_from_f16, _to_f16),
                                          "bf16": (_from_bf16, _to_bf16(arch))}),
        "select": select, "maximum": _extremum("max", arch),
        "minimum": _extremum("min", arch), "shuffle_xor": shuffle_xor,
        "atomic_add": atomic_add,
        "atomic_add_f16": _atomic_add_half(_from_f16, _to_f16),
        "atomic_add_bf16": _atomic_add_half(_from_bf16, _to_bf16(arch)),
        "f16_to_f32": _unary(f32, u16, _from_f16),
        "f32_to_f16": _unary(u16, f32, _to_f16),
        "bf16_to_f32": _unary(f32, u16, _from_bf16),
        "f32_to_bf16": _unary(u16, f32, _to_bf16(arch)),
        **{name: _unary(getattr(types, to), getattr(types, of), emit)
           for name, (to, of, emit) in bit_casts().items()},
        **{name: _unary(u16, getattr(types, kind), emit) for name, (kind, emit)
           in from_wide(_to_f16, _to_bf16(arch)).items()},
        **{name: _division(op) for (op, _), name in DIVISION_CALLS.items()},
        "divide": divide, "divide_short": divide_short, "inverse": inverse,
        "short": short, "uncounted": uncounted, **approximate_namespace(),
        **({**hopper_namespace(), **tf32_namespace(), **f32_namespace()}
           if arch[0] == 9 else {}),
        **({**copies_namespace(), **mma_namespace()} if arch >= (8, 0) else {}),
        **{f"{name}_local": _local(stored) for name, stored in _STORED.items()},
    }
