"""``wgmma`` in TF32 for kernel text (sm_90a): one factor comes from registers.

``wgmma`` cannot transpose tiles of 32-bit elements, so both factors would have to have
k as their inner dimension.  Registers are loaded element by element, in any order.
TMA has rounded the elements on their way.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .hopper import product_wait
from .inline_ptx import (
    MEMORY,
    are_literals,
    instruction,
    parts_of,
    several,
    tied,
    tuple_of,
)

__all__ = ["tf32_namespace"]

_I32 = ir.IntType(32)
_F32 = ir.FloatType()
#: Sums of a thread: 64 rows by 256 columns for four warps.
_SUMS = 128
#: Of 8 places along k each, in a tile.
_STEPS = 4


def _load(builder: Any, base: Any, flip: int, at: int) -> Any:
    """An element at ``(base ^ flip) + at``: swizzling exchanges groups of 16 bytes."""
    address = builder.xor(base, _I32(flip)) if flip else base
    return several(builder, _F32, 1, f"ld.shared.f32 $0, [$1+{at}];", f"r,{MEMORY}",
                   address)[0]


def _fragment(builder: Any, base: Any, step: int, inner: bool) -> list[Any]:
    """Rows 0 and 8, then the same 4 places on along k.

    Where k is the inner dimension, 8 rows are 1024 bytes and a step 32 of a row; where
    it is the outer one, a step is 1024 bytes, and a row has 32 of the other dimension.
    """
    if inner:
        return [_load(builder, base, (2*step + half) << 4, 1024*low)
                for half in (0, 1) for low in (0, 1)]
    return [_load(builder, base, 64*half + 32*low, 1024*step + 512*half)
            for half in (0, 1) for low in (0, 1)]


@intrinsic
def fragments(typing: Any, address: Any, inner: Any) -> Any:
    """The fragments of a whole tile, 128 swizzled bytes a row."""
    if not are_literals(inner):
        return None

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        base = builder.trunc(values[0], _I32)
        return tuple_of(builder, [x for step in range(_STEPS) for x in _fragment(
            builder, base, step, bool(inner.literal_value))])

    return types.UniTuple(types.float32, 4*_STEPS)(types.int64, inner), codegen


@intrinsic
def product(typing: Any, sums: Any, now: Any, there: Any) -> Any:
    """``wgmma.mma_async``, one for each four registers of `now`; one group.

    `there` is the descriptor of the other factor's tile.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        registers = "{" + ",".join(f"${k}" for k in range(_SUMS)) + "}"
        first = 2*_SUMS
        lines = ["{ .reg .b64 b;", "wgmma.fence.sync.aligned;",
                 f"mov.b64 b, ${first + 4*_STEPS};"]
        for k in range(_STEPS):
            four = ",".join(f"${first + 4*k + r}" for r in range(4))
            lines += ["add.s64 b, b, 2;"]*bool(k) + [
                "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 "
                f"{registers}, {{{four}}}, b, 1, 1, 1;"]
        text = "\n".join([*lines, "wgmma.commit_group.sync.aligned; }"])
        words = [builder.bitcast(x, _I32) for x in parts_of(builder, values[1])]
        return tied(builder, text, values[0], ["r"]*len(words) + ["l"], *words,
                    values[2])

    return sums(sums, now, types.int64), codegen


def tf32_namespace() -> dict[str, Any]:
    """The names that kernel text for sm_90a may use."""
    return {"tf32_fragments": fragments, "tf32_product": product,
            "tf32_wait": product_wait(_SUMS, 0),
            # The 256 threads that multiply wait for one another.
            "consumers_sync": instruction("consumers_sync", "bar.sync 1, 256;")}
