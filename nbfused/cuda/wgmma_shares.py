"""Sums of blocks that share a tile: from registers to another block's shared memory.

For kernel text on Hopper, where the blocks of a cluster each have a part of k.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .accesses import asm
from .contract_wgmma import TILINGS
from .wgmma_fragments import parts_of, sums_of, tuple_of

__all__ = ["shares_namespace"]

_I32 = ir.IntType(32)
_F32 = ir.FloatType()
_MEMORY = "~{memory}"
#: Bytes between the fours of numbers of one thread: a group's 128 threads side by side.
_STEP = 16*128


def _give(count: int, part: int) -> Any:
    """``mapa``, ``st.shared::cluster.v4``: 32 of the sums to the block `rank`.

    `place` is where they go, as an address of this block's own shared memory.
    """

    @intrinsic
    def give(typing: Any, sums: Any, place: Any, rank: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            far = asm(builder, _I32, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r",
                      *(builder.trunc(v, _I32) for v in values[1:]))
            numbers = parts_of(builder, values[0], count)[32*part:32*part + 32]
            for k in range(8):
                asm(builder, ir.VoidType(),
                    f"st.shared::cluster.v4.f32 [$0+{_STEP*k}], {{$1, $2, $3, $4}};",
                    f"r,f,f,f,f,{_MEMORY}", far, *numbers[4*k:4*k + 4], effect=True)
            return context.get_dummy_value()

        return types.void(sums_of(count), types.int64, types.int64), codegen

    return give


def _total(shares: int, size: int) -> Any:
    """``ld.shared.v4``: 32 sums, added in the order of the blocks."""

    @intrinsic
    def total(typing: Any, place: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            at = builder.trunc(values[0], _I32)
            found: list[Any] = []
            for share in range(shares):
                for k in range(8):
                    four = asm(builder, ir.LiteralStructType([_F32]*4),
                               "ld.shared.v4.f32 {$0, $1, $2, $3}, "
                               f"[$4+{size*share + _STEP*k}];",
                               f"=f,=f,=f,=f,r,{_MEMORY}", at, effect=True)
                    for e, number in enumerate(parts_of(builder, four, 4)):
                        if share:
                            found[4*k + e] = builder.fadd(found[4*k + e], number)
                        else:
                            found.append(number)
            return tuple_of(builder, found)

        return sums_of(32)(types.int64), codegen

    return total


@intrinsic
def barrier_tell(typing: Any, barrier: Any, rank: Any) -> Any:
    """``mbarrier.arrive.release.cluster``: at the same barrier of the block `rank`."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(),
            "{ .reg .b32 far; mapa.shared::cluster.u32 far, $0, $1; "
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [far]; }",
            f"r,r,{_MEMORY}", *(builder.trunc(v, _I32) for v in values), effect=True)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def barrier_wait_all(typing: Any, barrier: Any, parity: Any) -> Any:
    """``mbarrier.try_wait.parity.acquire.cluster``: for what other blocks did."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(),
            "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.acquire.cluster"
            ".shared::cta.b64 p, [$0], $1; @p bra DONE; bra AGAIN; DONE: }",
            f"r,r,{_MEMORY}", *(builder.trunc(v, _I32) for v in values), effect=True)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


def _cluster(text: str) -> Any:
    @intrinsic
    def cluster(typing: Any) -> Any:
        """``barrier.cluster``: told, or waited for, by each thread that is there."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            asm(builder, ir.VoidType(), f"barrier.cluster.{text};", _MEMORY,
                effect=True)
            return context.get_dummy_value()

        return types.void(), codegen

    return cluster


def shares_namespace() -> dict[str, Any]:
    """The names for kernel text."""
    found: dict[str, Any] = {"barrier_tell": barrier_tell,
                             "barrier_wait_all": barrier_wait_all,
                             "cluster_arrive": _cluster("arrive.release"),
                             "cluster_wait": _cluster("wait.acquire")}
    for t in TILINGS:
        if t.split > 1:
            found[f"total{t.split}"] = _total(t.split, 32*4*128)
            for part in range(t.split):
                found[f"give{t.sums}_{part}"] = _give(t.sums, part)
    return found
