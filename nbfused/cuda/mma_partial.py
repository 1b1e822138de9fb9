"""Sums that one block leaves for another, for kernel text.

The threads of both hold the same elements of a tile: what thread t leaves, thread t
joins to its own.  A flag in global memory says that it is there.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .accesses import asm
from .mma import _are_literals

__all__ = ["partial_namespace"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_F32 = ir.FloatType()
_MEMORY = "~{memory}"
#: Threads that hold sums.
_THREADS = 256


def _address(builder: Any, pointer: Any, index: Any, item: int) -> Any:
    offset = builder.mul(index, _I64(item))
    return builder.add(builder.ptrtoint(pointer, _I64), offset)


@intrinsic
def sums_leave(typing: Any, state: Any, pointer: Any, first: Any, count: Any) -> Any:
    """``st.global``: a thread's `count` sums, each beside its neighbours' ones."""
    if not _are_literals(count):
        return None  # Numba tries again, with the literal

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        base = _address(builder, values[1], values[2], 4)
        for k in range(count.literal_value):
            asm(builder, ir.VoidType(), f"st.global.f32 [$0+{4*_THREADS*k}], $1;",
                f"l,f,{_MEMORY}", base, builder.extract_value(values[0], k),
                effect=True)
        return context.get_dummy_value()

    return types.void(state, pointer, types.int64, count), codegen


@intrinsic
def sums_join(typing: Any, state: Any, pointer: Any, first: Any, count: Any) -> Any:
    """``ld.relaxed.gpu``: another block's sums, added to a thread's own."""
    if not _are_literals(count):
        return None

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        base, total = _address(builder, values[1], values[2], 4), values[0]
        for k in range(count.literal_value):
            other = asm(builder, _F32,
                        f"ld.relaxed.gpu.global.f32 $0, [$1+{4*_THREADS*k}];",
                        f"=f,l,{_MEMORY}", base, effect=True)
            own = builder.extract_value(total, k)
            total = builder.insert_value(total, builder.fadd(own, other), k)
        return total

    return state(state, pointer, types.int64, count), codegen


def _flag(text: str) -> Any:
    @intrinsic
    def change(typing: Any, pointer: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            asm(builder, ir.VoidType(), text, f"l,{_MEMORY}",
                _address(builder, values[0], values[1], 4), effect=True)
            return context.get_dummy_value()

        return types.void(pointer, types.int64), codegen

    return change


def partial_namespace() -> dict[str, Any]:
    """The names that kernel text may use.

    ``flag_raise(flags, k)`` after a fence of each thread and a barrier;
    ``flag_lower(flags, k)`` waits until it is up.
    """
    lower = ("{ .reg .pred p; .reg .b32 up; AGAIN: ld.acquire.gpu.global.u32 up, [$0]; "
             "setp.eq.u32 p, up, 0; @p bra AGAIN; st.relaxed.gpu.global.u32 [$0], 0; }")
    return {"sums_leave": sums_leave, "sums_join": sums_join,
            "flag_raise": _flag("st.release.gpu.global.u32 [$0], 1;"),
            "flag_lower": _flag(lower)}
