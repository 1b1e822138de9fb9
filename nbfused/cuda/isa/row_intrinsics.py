"""Clusters and cheaper arithmetic of Row's kernels.

Arithmetic is cheap where a row's elements share an operand.

A cluster is 2 to 8 blocks on neighbouring multiprocessors (compute capability 9.0 and
newer) that can store to one another's shared memory.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .accesses import asm
from .row_loads import loads_namespace, shared_address

__all__ = ["row_namespace"]

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()


# --- conversions that are not kept


def _again(text: str) -> Any:
    @intrinsic
    def again(typing: Any, bits: Any) -> Any:
        """A 16-bit float as float32, converted anew wherever it is used.

        What is kept from stage to stage is then 16 bits wide.
        """

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return asm(builder, _F32, text, "=f,h", values[0], effect=True)

        return types.float32(types.uint16), codegen

    return again


bf16_again = _again("{ .reg .b16 low; mov.b16 low, 0; mov.b32 $0, {low, $1}; }")
f16_again = _again("cvt.f32.f16 $0, $1;")


# --- arithmetic with what a row has one of


@intrinsic
def divide_near(typing: Any, a: Any, b: Any) -> Any:
    """``a / b`` in float32 within 0.51 units in the last place; no branch.

    The inverse of `b` is ``high + low`` and the quotient ``a*high + a*low``; below
    2**-120 it is off by the smallest number at most.  What concerns only `b` is
    computed once where all elements have it.  Both parts have the sign of `b`:
    infinities are not subtracted from one another.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        x, y = values
        scale = _scale(builder, y)
        divisor = builder.fmul(y, scale)
        rough = asm(builder, _F32, "rcp.approx.f32 $0, $1;", "=f,f", divisor)
        less = builder.bitcast(  # than the inverse, by more than the error of `rough`
            builder.sub(builder.bitcast(rough, _I32), _I32(4)), _F32)
        minus = builder.fsub(_F32(-0.0), divisor)
        rest = builder.fmul(builder.fma(minus, less, _F32(1.0)), rough)
        high = _unless_nan(builder, rest, less, rough)  # of infinity it is 0, not less
        low = _unless_nan(builder, rest, rest, rough)
        quotient = builder.fma(x, high, builder.fmul(x, low))
        return builder.fmul(quotient, scale)

    return types.float32(types.float32, types.float32), codegen


@intrinsic
def divide_nearly(typing: Any, a: Any, b: Any) -> Any:
    """``a / b`` within 2 units in the last place: `divide_near` without correction."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        x, y = values
        scale = _scale(builder, y)
        inverse = asm(builder, _F32, "rcp.approx.f32 $0, $1;", "=f,f",
                      builder.fmul(y, scale))
        return builder.fmul(builder.fmul(x, inverse), scale)

    return types.float32(types.float32, types.float32), codegen


def _scale(builder: Any, y: Any) -> Any:
    """A power of two that keeps the inverse of `y` a normal number."""
    size = builder.bitcast(builder.and_(builder.bitcast(y, _I32), _I32(0x7FFFFFFF)),
                           _F32)
    return builder.select(
        builder.fcmp_ordered("<", size, _F32(2.0**-100)), _F32(2.0**64),
        builder.select(builder.fcmp_ordered(">", size, _F32(2.0**100)),
                       _F32(2.0**-64), _F32(1.0)))


def _unless_nan(builder: Any, x: Any, value: Any, otherwise: Any) -> Any:
    """`value`; where `x` is NaN, `otherwise`."""
    return builder.select(builder.fcmp_ordered("==", x, x), value, otherwise)


@intrinsic
def column_is(typing: Any, column: Any, number: Any) -> Any:
    """``column == number`` for a column below ``2**32``."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        low = builder.icmp_unsigned("==", *(builder.trunc(v, _I32) for v in values))
        high = builder.trunc(builder.lshr(values[1], _I64(32)), _I32)
        return builder.and_(low, builder.icmp_unsigned("==", high, _I32(0)))

    return types.boolean(types.int64, types.int64), codegen


# --- clusters


@intrinsic
def cluster_rank(typing: Any) -> Any:
    """``%cluster_ctarank``: which of its cluster's blocks this is."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        rank = asm(builder, _I32, "mov.u32 $0, %cluster_ctarank;", "=r")
        return builder.zext(rank, _I64)

    return types.int64(), codegen


@intrinsic
def cluster_sync(typing: Any) -> Any:
    """``barrier.cluster``: wait for all threads of the cluster and their stores."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(),
            "barrier.cluster.arrive.release.aligned; "
            "barrier.cluster.wait.acquire.aligned;", "~{memory}", effect=True)
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def cluster_store(typing: Any, pointer: Any, index: Any, value: Any, rank: Any,
                  barriers: Any, which: Any) -> Any:
    """``st.async``: to the shared memory of the block `rank`, told to a barrier there.

    `pointer` and `barriers` are those of the same places in this block's; elements of
    4 or 8 bytes.
    """
    kind = pointer.dtype
    size = kind.bitwidth

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = context.cast(builder, values[2], value, kind)
        if isinstance(kind, types.Float):
            number = builder.bitcast(number, ir.IntType(size))
        asm(builder, ir.VoidType(),
            "{ .reg .b32 far, told; mapa.shared::cluster.u32 far, $0, $3; "
            "mapa.shared::cluster.u32 told, $1, $3; "
            "st.async.shared::cluster.mbarrier::complete_tx::bytes"
            f".b{size} [far], $2, [told]; }}",
            f"r,r,{'l' if size == 64 else 'r'},r,~{{memory}}",
            shared_address(context, builder, kind, values[0], values[1]),
            shared_address(context, builder, types.uint64, values[4], values[5]),
            number, builder.trunc(values[3], _I32), effect=True)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value, types.int64, barriers,
                      types.int64), codegen


@intrinsic
def barrier_start(typing: Any, barriers: Any, which: Any) -> Any:
    """``mbarrier.init`` for one arrival; others see it after `cluster_sync`."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(), "mbarrier.init.shared::cta.b64 [$0], 1; "
            "fence.mbarrier_init.release.cluster;", "r,~{memory}",
            shared_address(context, builder, types.uint64, *values), effect=True)
        return context.get_dummy_value()

    return types.void(barriers, types.int64), codegen


@intrinsic
def barrier_bytes(typing: Any, barriers: Any, which: Any, size: Any) -> Any:
    """``mbarrier.arrive.expect_tx``: the phase ends when `size` bytes have come."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(),
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}",
            shared_address(context, builder, types.uint64, *values[:2]),
            builder.trunc(values[2], _I32), effect=True)
        return context.get_dummy_value()

    return types.void(barriers, types.int64, types.int64), codegen


@intrinsic
def barrier_until(typing: Any, barriers: Any, which: Any, phase: Any) -> Any:
    """``mbarrier.try_wait.parity``: until the phase of this parity has ended."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(),
            "{ .reg .pred p; AGAIN: "
            "mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; "
            "@p bra DONE; bra AGAIN; DONE: }", "r,r,~{memory}",
            shared_address(context, builder, types.uint64, *values[:2]),
            builder.trunc(values[2], _I32), effect=True)
        return context.get_dummy_value()

    return types.void(barriers, types.int64, types.int64), codegen


_FUNCTIONS = (column_is, divide_near, divide_nearly, cluster_rank, cluster_sync,
              cluster_store, barrier_start, barrier_bytes, barrier_until)


def row_namespace(arch: tuple[int, int]) -> dict[str, Any]:
    """The names that kernel text may use besides the common ones."""
    return {**loads_namespace(arch), "bf16_again": bf16_again, "f16_again": f16_again,
            **{f.__name__: f for f in _FUNCTIONS}}
