"""``wgmma`` in TF32 for kernel text (sm_90a): one factor comes from registers.

``wgmma`` cannot transpose tiles of 32-bit elements, so both factors would have to have
k as their inner dimension.  Registers are loaded element by element, in any order.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .accesses import asm
from .contract_mma_plan import ENGINES
from .mma import _are_literals, _Tiles

__all__ = ["tf32_namespace"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_F32 = ir.FloatType()
_MEMORY = "~{memory}"
#: Sums of a thread: 64 rows by 256 columns for four warps.
_SUMS = 128


def _parts(builder: Any, packed: Any) -> list[Any]:
    return [builder.extract_value(packed, k) for k in range(packed.type.count)]


def _whole(builder: Any, values: list[Any]) -> Any:
    packed = ir.Constant(ir.ArrayType(_F32, len(values)), ir.Undefined)
    for k, value in enumerate(values):
        packed = builder.insert_value(packed, value, k)
    return packed


@intrinsic
def fragments(typing: Any, address: Any, steps: Any, pitch: Any, inner: Any) -> Any:
    """Those of all steps of a tile, rounded to TF32."""
    if not _are_literals(steps, pitch, inner):
        return None  # Numba tries again, with the literals
    count = steps.literal_value
    tiles = _Tiles(ENGINES["tf32"], False, 1, pitch.literal_value,
                   bool(inner.literal_value))

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        base = builder.trunc(values[0], _I32)
        return _whole(builder, [x for step in range(count)
                                for x in tiles.load(builder, base, step)])

    return types.UniTuple(types.float32, 4*count)(
        types.int64, steps, pitch, inner), codegen


@intrinsic
def product(typing: Any, sums: Any, now: Any, there: Any) -> Any:
    """``wgmma.mma_async``, one for each four registers of `now`; one group.

    `there` is the descriptor of the other factor's tile.
    """
    steps = len(now)//4

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        total, a = _parts(builder, values[0]), _parts(builder, values[1])
        registers = "{" + ",".join(f"${k}" for k in range(_SUMS)) + "}"
        first = 2*_SUMS
        lines = ["{ .reg .b64 b;", "wgmma.fence.sync.aligned;",
                 f"mov.b64 b, ${first + 4*steps};"]
        for k in range(steps):
            four = ",".join(f"${first + 4*k + r}" for r in range(4))
            lines += ["add.s64 b, b, 2;"]*bool(k) + [
                "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 "
                f"{registers}, {{{four}}}, b, 1, 1, 1;"]
        text = "\n".join([*lines, "wgmma.commit_group.sync.aligned; }"])
        constraints = [*["=f"]*_SUMS, *map(str, range(_SUMS)), *["r"]*4*steps, "l",
                       _MEMORY]
        words = [builder.bitcast(x, _I32) for x in a]
        found = asm(builder, ir.LiteralStructType([_F32]*_SUMS), text,
                    ",".join(constraints), *total, *words, values[2], effect=True)
        return _whole(builder, [builder.extract_value(found, k) for k in range(_SUMS)])

    return sums(sums, now, types.int64), codegen


@intrinsic
def wait(typing: Any, sums: Any) -> Any:
    """``wgmma.wait_group``: until the sums are there."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        constraints = [*["=f"]*_SUMS, *map(str, range(_SUMS)), _MEMORY]
        found = asm(builder, ir.LiteralStructType([_F32]*_SUMS),
                    "wgmma.wait_group.sync.aligned 0;", ",".join(constraints),
                    *_parts(builder, values[0]), effect=True)
        return _whole(builder, [builder.extract_value(found, k) for k in range(_SUMS)])

    return sums(sums), codegen


@intrinsic
def copies_fence(typing: Any) -> Any:
    """``fence.proxy.async``: what this thread copied is there for ``wgmma``."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(), "fence.proxy.async.shared::cta;", _MEMORY,
            effect=True)
        return context.get_dummy_value()

    return types.void(), codegen


def tf32_namespace() -> dict[str, Any]:
    """The names that kernel text for sm_90a may use."""
    return {"tf32_fragments": fragments, "tf32_product": product, "tf32_wait": wait,
            "copies_fence": copies_fence}
