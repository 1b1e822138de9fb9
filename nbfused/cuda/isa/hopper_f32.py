"""Float32 products on Hopper: all they need besides multiply-adds.

Tiles are turned, so that k is their outer dimension.  Sums go from block to block: the
threads of both hold the same elements of a tile, and what thread t leaves, thread t
joins to its own.  A flag in global memory says that it is there.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .inline_ptx import MEMORY, are_literals, asm

__all__ = ["f32_namespace"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_F32 = ir.FloatType()


@intrinsic
def barrier_passed(typing: Any, barrier: Any, phase: Any) -> Any:
    """``mbarrier.test_wait``: whether there is no need to wait."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        found = asm(builder, _I32, "{ .reg .pred p; mbarrier.test_wait.parity"
                    ".shared::cta.b64 p, [$1], $2; selp.u32 $0, 1, 0, p; }",
                    f"=r,r,r,{MEMORY}", *(builder.trunc(v, _I32) for v in values),
                    effect=True)
        return builder.trunc(found, ir.IntType(1))

    return types.boolean(types.int64, types.int64), codegen


@intrinsic
def turn(typing: Any, target: Any, source: Any, pitch: Any, from_row: Any) -> Any:
    """``ld.shared``, ``st.shared``: four by four elements, rows become columns.

    `pitch` and `from_row`: bytes from row to row of the target and of the source.
    """
    if not are_literals(pitch, from_row):
        return None
    loads = [f"ld.shared.v4.f32 {{{', '.join(f'x{4*r + c}' for c in range(4))}}}, "
             f"[$1+{r*from_row.literal_value}];" for r in range(4)]
    stores = [f"st.shared.v4.f32 [$0+{c*pitch.literal_value}], "
              f"{{{', '.join(f'x{4*r + c}' for r in range(4))}}};" for c in range(4)]
    text = "\n".join(["{ .reg .f32 x<16>;", *loads, *stores, "}"])

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(), text, f"r,r,{MEMORY}",
            *(builder.trunc(v, _I32) for v in values[:2]), effect=True)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, pitch, from_row), codegen


def _address(builder: Any, pointer: Any, index: Any, item: int) -> Any:
    offset = builder.mul(index, _I64(item))
    return builder.add(builder.ptrtoint(pointer, _I64), offset)


@intrinsic
def sums_keep(typing: Any, state: Any, address: Any, part: Any, across: Any,
              rows: Any, units: Any, columns: Any) -> Any:
    """``st.shared``: the sums of a unit of rows, each in its place.

    Four rows `rows` bytes from one another; in each `across` times four elements,
    `columns` bytes from one another, the fours `units` bytes.
    """
    given = (part, across, rows, units, columns)
    if not are_literals(*given):
        return None
    which, count, down, along, side = (g.literal_value for g in given)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        base = builder.trunc(values[1], _I32)
        for unit, r, c in product(range(count), range(4), range(4)):
            # volatile: ptxas would store four at once, see `mma._places`.
            value = builder.extract_value(values[0], (which*count + unit)*16 + 4*r + c)
            asm(builder, ir.VoidType(), "st.volatile.shared.f32 "
                f"[$0+{r*down + unit*along + c*side}], $1;", f"r,f,{MEMORY}", base,
                value, effect=True)
        return context.get_dummy_value()

    return types.void(state, types.int64, *given), codegen


@intrinsic
def sums_leave(typing: Any, state: Any, pointer: Any, first: Any, count: Any,
               threads: Any) -> Any:
    """``st.global``: a thread's `count` sums, each beside its neighbours' ones."""
    if not are_literals(count, threads):
        return None
    apart = 4*threads.literal_value

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        base = _address(builder, values[1], values[2], 4)
        for k in range(count.literal_value):
            asm(builder, ir.VoidType(), f"st.global.f32 [$0+{apart*k}], $1;",
                f"l,f,{MEMORY}", base, builder.extract_value(values[0], k),
                effect=True)
        return context.get_dummy_value()

    return types.void(state, pointer, types.int64, count, threads), codegen


@intrinsic
def sums_join(typing: Any, state: Any, pointer: Any, first: Any, count: Any,
              threads: Any) -> Any:
    """``ld.relaxed.gpu``: another block's sums, added to a thread's own."""
    if not are_literals(count, threads):
        return None
    apart = 4*threads.literal_value

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        base, total = _address(builder, values[1], values[2], 4), values[0]
        for k in range(count.literal_value):
            other = asm(builder, _F32,
                        f"ld.relaxed.gpu.global.f32 $0, [$1+{apart*k}];",
                        f"=f,l,{MEMORY}", base, effect=True)
            own = builder.extract_value(total, k)
            total = builder.insert_value(total, builder.fadd(own, other), k)
        return total

    return state(state, pointer, types.int64, count, threads), codegen


@intrinsic
def sums_sync(typing: Any, threads: Any) -> Any:
    """``bar.sync``: the threads that hold sums wait for one another."""
    if not are_literals(threads):
        return None

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(), f"bar.sync 1, {threads.literal_value};", MEMORY,
            effect=True)
        return context.get_dummy_value()

    return types.void(threads), codegen


def _flag(text: str) -> Any:
    @intrinsic
    def change(typing: Any, pointer: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            asm(builder, ir.VoidType(), text, f"l,{MEMORY}",
                _address(builder, values[0], values[1], 4), effect=True)
            return context.get_dummy_value()

        return types.void(pointer, types.int64), codegen

    return change


def f32_namespace() -> dict[str, Any]:
    """The names that kernel text for sm_90a may use.

    ``flag_raise(flags, k)`` after a barrier: the fence is for what the threads stored
    before that; ``flag_lower(flags, k)`` waits until it is up.
    """
    lower = ("{ .reg .pred p; .reg .b32 up; AGAIN: ld.acquire.gpu.global.u32 up, [$0]; "
             "setp.eq.u32 p, up, 0; @p bra AGAIN; st.relaxed.gpu.global.u32 [$0], 0; }")
    return {"barrier_passed": barrier_passed, "turn_4x4": turn, "sums_keep": sums_keep,
            "sums_leave": sums_leave, "sums_join": sums_join, "sums_sync": sums_sync,
            "flag_raise": _flag(
                "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [$0], 1;"),
            "flag_lower": _flag(lower)}
