"""Fragments of wgmma's sums and memory: packing, keeping in rows, loading alike.

Lane 4·r + c of a warp has, of each 8 columns of 16 rows, 2c and 2c + 1 of rows r and
r + 8 (figure of ``wgmma`` fragment D).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .engines import WGMMA_SUMS
from .inline_ptx import MEMORY, asm, parts_of, several, tuple_of

__all__ = ["fragment_namespace", "sums_of"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_F32 = ir.FloatType()


def sums_of(count: int) -> Any:
    """The type of a thread's sums."""
    return types.UniTuple(types.float32, count)


def _shifted(count: int) -> Any:
    """The sums without the first 32: a loop over parts needs no index."""
    kind = sums_of(count)

    @intrinsic
    def shifted(typing: Any, sums: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            parts = parts_of(builder, values[0])
            nothing = ir.Constant(_F32, ir.Undefined)
            return tuple_of(builder, [*parts[32:], *[nothing]*32])

        return kind(kind), codegen

    return shifted


def _pack(kind: str) -> Any:
    """``cvt.rn``: two float32 rounded to 16 bits each, the first in the low half."""

    @intrinsic
    def pack(typing: Any, low: Any, high: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return asm(builder, _I32, f"cvt.rn.{kind}x2.f32 $0, $2, $1;", "=r,f,f",
                       *values)

        return types.uint32(types.float32, types.float32), codegen

    return pack


def _part(kind: Any, place: int) -> Any:
    @intrinsic
    def part(typing: Any, word: Any) -> Any:
        """The low bits of a word, or those next to them."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            word = builder.lshr(values[0], _I32(place*kind.bitwidth))
            return builder.trunc(word, ir.IntType(kind.bitwidth))

        return kind(types.uint32), codegen

    return part


def _keep16(unit: int) -> Any:
    """``stmatrix``: 16 rows of 16 columns, two a word, as TMA swizzles 128 bytes.

    `place`: of row ``lane & 15``, its 16 bytes number ``lane >> 4`` xor ``row & 7``;
    `unit`: which 16 of 64 columns.
    """

    @intrinsic
    def keep16(typing: Any, place: Any, words: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            at = builder.xor(builder.trunc(values[0], _I32), _I32(32*unit))
            asm(builder, ir.VoidType(),
                "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};",
                f"r,r,r,r,r,{MEMORY}", at, *parts_of(builder, values[1], 4),
                effect=True)
            return context.get_dummy_value()

        return types.void(types.int64, types.UniTuple(types.uint32, 4)), codegen

    return keep16


def _keep32(unit: int) -> Any:
    """``st.shared.v2``: 16 rows of 16 columns of float32, swizzled alike.

    `place`: of row r, its 16 bytes number c/2 xor r & 7, the first or second half;
    `unit`: which 16 of 32 columns.
    """

    @intrinsic
    def keep32(typing: Any, place: Any, numbers: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            at, parts = builder.trunc(values[0], _I32), parts_of(builder, values[1], 8)
            for k in range(4):
                where = builder.add(builder.xor(at, _I32(64*unit + 32*(k >> 1))),
                                    _I32(8*128*(k & 1)))
                asm(builder, ir.VoidType(), "st.shared.v2.f32 [$0], {$1, $2};",
                    f"r,f,f,{MEMORY}", where, *parts[2*k:2*k + 2], effect=True)
            return context.get_dummy_value()

        return types.void(types.int64, types.UniTuple(types.float32, 8)), codegen

    return keep32


def _held16(unit: int) -> Any:
    """``ldmatrix``: the mirror of `_keep16`, 4 words of 2 elements each."""

    @intrinsic
    def held16(typing: Any, place: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            at = builder.xor(builder.trunc(values[0], _I32), _I32(32*unit))
            return tuple_of(builder, several(
                builder, _I32, 4, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                "{$0, $1, $2, $3}, [$4];", f"r,{MEMORY}", at))

        return types.UniTuple(types.uint32, 4)(types.int64), codegen

    return held16


def _held32(unit: int) -> Any:
    """``ld.shared.v2``: the mirror of `_keep32`, 8 numbers."""

    @intrinsic
    def held32(typing: Any, place: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            at, found = builder.trunc(values[0], _I32), []
            for k in range(4):
                where = builder.add(builder.xor(at, _I32(64*unit + 32*(k >> 1))),
                                    _I32(8*128*(k & 1)))
                found += several(builder, _F32, 2, "ld.shared.v2.f32 {$0, $1}, [$2];",
                                 f"r,{MEMORY}", where)
            return tuple_of(builder, found)

        return types.UniTuple(types.float32, 8)(types.int64), codegen

    return held32


def _kept(result: Any, kind: Any, letter: str, suffix: str) -> Any:
    @intrinsic
    def kept(typing: Any, address: Any) -> Any:
        """``ld.shared`` of one element."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return asm(builder, kind, f"ld.shared.{suffix} $0, [$1];",
                       f"={letter},r,{MEMORY}", builder.trunc(values[0], _I32),
                       effect=True)

        return result(types.int64), codegen

    return kept


@intrinsic
def near(typing: Any, pointer: Any, index: Any, room: Any) -> Any:
    """``ld.global``: what a lane has of one row of 64 columns, 8 pairs.

    Pairs of 16-bit elements and of bytes are a word each; float32 are 16 numbers.
    Pairs from column `room` on are 0 and not read.
    """
    wide, byte = pointer.dtype == types.float32, pointer.dtype == types.uint8
    result = types.UniTuple(types.float32 if wide else types.uint32, 16 if wide else 8)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        element = context.get_data_type(pointer.dtype)
        at = builder.ptrtoint(builder.gep(values[0], [values[1]],
                                          source_etype=element), _I64)
        left = builder.trunc(values[2], _I32)
        found = []
        for k in range(8):
            head = f"{{ .reg .pred p; setp.gt.s32 p, ${3 if wide else 2}, {8*k}; "
            if wide:
                two = asm(builder, ir.LiteralStructType([_F32, _F32]), head + (
                    "mov.f32 $0, 0f00000000; mov.f32 $1, 0f00000000; "
                    f"@p ld.global.v2.f32 {{$0, $1}}, [$2+{32*k}]; }}"),
                    f"=&f,=&f,l,r,{MEMORY}", at, left, effect=True)
                found += parts_of(builder, two, 2)
            else:
                found.append(asm(builder, _I32, head + (
                    ".reg .b16 h; mov.b16 h, 0; "
                    f"@p ld.global.b16 h, [$1+{8*k}]; cvt.u32.u16 $0, h; }}" if byte
                    else f"mov.b32 $0, 0; @p ld.global.b32 $0, [$1+{16*k}]; }}"),
                    f"=&r,l,r,{MEMORY}", at, left, effect=True))
        return tuple_of(builder, found)

    return result(pointer, types.int64, types.int64), codegen


@intrinsic
def ask(typing: Any, pointer: Any, index: Any) -> Any:
    """``prefetch.global.L2``: the line of an element, which will be read soon."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        element = context.get_data_type(pointer.dtype)
        at = builder.gep(values[0], [values[1]], source_etype=element)
        asm(builder, ir.VoidType(), "prefetch.global.L2 [$0];", f"l,{MEMORY}",
            builder.ptrtoint(at, _I64), effect=True)
        return context.get_dummy_value()

    return types.void(pointer, types.int64), codegen


def fragment_namespace() -> dict[str, Any]:
    """The names for kernel text."""
    return {
        "ask": ask, "near": near,
        "low_half": _part(types.uint16, 0), "high_half": _part(types.uint16, 1),
        "low_byte": _part(types.uint8, 0), "high_byte": _part(types.uint8, 1),
        "pack_float16": _pack("f16"), "pack_bfloat16": _pack("bf16"),
        **{f"keep16_{k}": _keep16(k) for k in range(4)},
        **{f"keep32_{k}": _keep32(k) for k in (0, 1)},
        **{f"held16_{k}": _held16(k) for k in range(4)},
        **{f"held32_{k}": _held32(k) for k in (0, 1)},
        "kept_uint16": _kept(types.uint16, ir.IntType(16), "h", "u16"),
        "kept_float32": _kept(types.float32, _F32, "f", "f32"),
        **{f"shifted{n}": _shifted(n) for n in WGMMA_SUMS}}
