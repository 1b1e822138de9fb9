"""Tiles from global to shared memory for kernel text, by ``cp.async`` (sm_80)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .inline_ptx import MEMORY, SHARED, are_literals, asm, dynamic_shared, instruction

__all__ = ["copies_namespace"]

_I16, _I32, _I64 = (ir.IntType(bits) for bits in (16, 32, 64))


def shared_memory(name: str) -> Any:
    """The beginning of dynamic shared memory, at a multiple of 1024 for swizzling."""

    @intrinsic
    def shared_at(typing: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            base = dynamic_shared(builder, name, 1024)
            return builder.zext(builder.ptrtoint(base, _I32), _I64)

        return types.int64(), codegen

    return shared_at


def _copy(size: int, careful: bool) -> Any:
    """``cp.async``: `size` bytes; zeros instead where a careful one is told so."""
    cache = "cg" if size == 16 else "ca"
    text = f"cp.async.{cache}.shared.global [$0], [$1], {size}" + (
        ", $2;" if careful else ";")

    def emit(context: Any, builder: Any, kind: Any, values: Any) -> Any:
        target, pointer, index, *valid = values
        address = builder.gep(pointer, [index], source_etype=context.get_data_type(
            kind))
        sizes = [builder.select(v, _I32(size), _I32(0)) for v in valid]
        asm(builder, ir.VoidType(), text,
            ",".join(["r", "l", *["r"]*careful, MEMORY]), builder.trunc(target, _I32),
            builder.ptrtoint(address, _I64), *sizes, effect=True)
        return context.get_dummy_value()

    if careful:
        @intrinsic
        def copy_if(typing: Any, target: Any, pointer: Any, index: Any,
                    valid: Any) -> Any:
            def codegen(context: Any, builder: Any, signature: Any,
                        values: Any) -> Any:
                return emit(context, builder, pointer.dtype, values)

            return types.void(types.int64, pointer, types.int64,
                              types.boolean), codegen

        return copy_if

    @intrinsic
    def copy(typing: Any, target: Any, pointer: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return emit(context, builder, pointer.dtype, values)

        return types.void(types.int64, pointer, types.int64), codegen

    return copy


@intrinsic
def copies_wait(typing: Any, pending: Any) -> Any:
    """``cp.async.wait_group``: until at most `pending` groups are on their way."""
    if not are_literals(pending):
        return None

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(), f"cp.async.wait_group {pending.literal_value};",
            MEMORY, effect=True)
        return context.get_dummy_value()

    return types.void(pending), codegen


def _fetch(careful: bool) -> Any:
    """``ld.global.u16``: two bytes that no copy brings; a careful one may give 0."""
    text = "ld.global.u16 $0, [$1];" if not careful else (
        "{ .reg .pred p; setp.ne.b32 p, $2, 0; mov.b16 $0, 0; "
        "@p ld.global.u16 $0, [$1]; }")

    def emit(context: Any, builder: Any, kind: Any, values: Any) -> Any:
        pointer, index, *valid = values
        address = builder.gep(pointer, [index], source_etype=context.get_data_type(
            kind))
        return asm(builder, _I16, text, ",".join(["=h", "l", *["r"]*careful, MEMORY]),
                   builder.ptrtoint(address, _I64),
                   *(builder.zext(v, _I32) for v in valid), effect=True)

    if careful:
        @intrinsic
        def fetch_if(typing: Any, pointer: Any, index: Any, valid: Any) -> Any:
            def codegen(context: Any, builder: Any, signature: Any,
                        values: Any) -> Any:
                return emit(context, builder, pointer.dtype, values)

            return types.uint16(pointer, types.int64, types.boolean), codegen

        return fetch_if

    @intrinsic
    def fetch(typing: Any, pointer: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return emit(context, builder, pointer.dtype, values)

        return types.uint16(pointer, types.int64), codegen

    return fetch


@intrinsic
def put2(typing: Any, target: Any, value: Any) -> Any:
    """``st.shared.u16``: where `fetch2` is put."""
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address, element = values
        asm(builder, ir.VoidType(), "st.shared.u16 [$0], $1;", f"r,h,{MEMORY}",
            builder.trunc(address, _I32), element, effect=True)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint16), codegen


def copies_namespace() -> dict[str, Any]:
    """The names that kernel text may use."""
    return {
        "shared_at": shared_memory(SHARED), "copies_wait": copies_wait,
        "fetch2": _fetch(careful=False), "fetch2_if": _fetch(careful=True),
        "put2": put2,
        # The copies since the last call are one group.
        "copies_end": instruction("copies_end", "cp.async.commit_group;"),
        **{f"copy{size}": _copy(size, careful=False) for size in (4, 8, 16)},
        **{f"copy{size}_if": _copy(size, careful=True) for size in (4, 8, 16)},
    }
