"""Hopper's matrix instructions for kernel text: barriers, TMA, wgmma.

`tests/cuda/contract/test_wgmma.py`
compares what they do with float64.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .engines import WGMMA_SHAPES, WGMMA_SUMS
from .hopper_fragments import fragment_namespace, sums_of
from .inline_ptx import MEMORY, asm, instruction, tied, tuple_of, with_arity
from .mma_copies import shared_memory

__all__ = ["hopper_namespace", "product_wait"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_F32 = ir.FloatType()


# --- shared memory and the barriers in it


@intrinsic
def first_lane(typing: Any, value: Any) -> Any:
    """The first lane's value: known to be the same in the whole warp."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        word = asm(builder, _I32, "shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r",
                   builder.trunc(values[0], _I32), effect=True)
        return builder.zext(word, _I64)

    return types.int64(types.int64), codegen


@intrinsic
def prefetch_map(typing: Any, descriptor: Any) -> Any:
    """``prefetch.tensormap``: the first tile then waits less."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(), "prefetch.tensormap [$0];", f"l,{MEMORY}",
            values[0], effect=True)
        return context.get_dummy_value()

    return types.void(types.uint64), codegen


_WAIT = ("{ .reg .pred p; AGAIN: "
         "mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; "
         "@p bra DONE; bra AGAIN; DONE: }")
#: Without ``.release.cluster``, which would put a fence of the GPU into the main loop.
_ARRIVE_AT = ("{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; "
              "mbarrier.arrive.shared::cluster.b64 _, [there]; }")
_BARRIERS = {
    "barrier_init": ("mbarrier.init.shared::cta.b64 [$0], $1;", 2),
    "barrier_expect": ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", 2),
    "barrier_arrive": ("mbarrier.arrive.release.cta.shared::cta.b64 _, [$0];", 1),
    "barrier_arrive_at": (_ARRIVE_AT, 2),
    "barrier_wait": (_WAIT, 2),
    "barrier_fence": ("fence.mbarrier_init.release.cluster; fence.proxy.async;", 0),
    "stores_commit": ("cp.async.bulk.commit_group;", 0),
    "stores_read0": ("cp.async.bulk.wait_group.read 0;", 0),
    "stores_read1": ("cp.async.bulk.wait_group.read 1;", 0),
    "stores_done": ("cp.async.bulk.wait_group 0;", 0),
    "stores_fence": ("fence.proxy.async.shared::cta;", 0),
    "fewer_registers": ("setmaxnreg.dec.sync.aligned.u32 40;", 0),
    "more_registers": ("setmaxnreg.inc.sync.aligned.u32 232;", 0),
    # Where the loading warps bring extras, too.
    "fewer_registers_56": ("setmaxnreg.dec.sync.aligned.u32 56;", 0),
    "more_registers_224": ("setmaxnreg.inc.sync.aligned.u32 224;", 0),
}


# --- tiles between global and shared memory


def _tile_copy(rank: int, kind: str) -> Any:
    """``cp.async.bulk.tensor``: a box to shared memory, told to a barrier.

    ``tile_copy{rank}(target, map, barrier, x0, x1, …)``, innermost coordinate first.
    `kind` ``"once"``: it is the first to leave the L2 cache (``evict_first``), where
    what is read again, or was written and must go to memory, may stay; ``"share"``: to
    both blocks of a cluster (``.multicast::cluster``).
    """
    coordinates = ", ".join(f"${k + 3}" for k in range(rank))
    suffix, operand, before = {
        "": ("", "", ""),
        "once": (".L2::cache_hint", ", policy", ".reg .b64 policy; createpolicy."
                 "fractional.L2::evict_first.b64 policy, 1.0;"),
        "share": (".multicast::cluster", ", all", ".reg .b16 all; mov.b16 all, 3;"),
    }[kind]
    text = (f"{{ {before} cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile"
            f".mbarrier::complete_tx::bytes{suffix}"
            f" [$0], [$1, {{{coordinates}}}], [$2]{operand}; }}")
    constraints = ",".join(["r", "l", "r", *["r"]*rank, MEMORY])

    def typed() -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            target, descriptor, *rest = values
            asm(builder, ir.VoidType(), text, constraints,
                builder.trunc(target, _I32), descriptor,
                *(builder.trunc(v, _I32) for v in rest), effect=True)
            return context.get_dummy_value()

        return types.void(types.int64, types.uint64, *[types.int64]*(rank + 1)), codegen

    return intrinsic(with_arity("tile_copy", typed, rank + 3))


def _tile_store(rank: int) -> Any:
    """``cp.async.bulk.tensor``: shared memory to a box; what is outside is left out.

    ``tile_store{rank}(map, source, x0, x1, …)``, innermost coordinate first; done
    after `stores_commit` and `stores_done`.
    """
    coordinates = ", ".join(f"${k + 2}" for k in range(rank))
    text = (f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group "
            f"[$0, {{{coordinates}}}], [$1];")
    constraints = ",".join(["l", "r", *["r"]*rank, MEMORY])

    def typed() -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            asm(builder, ir.VoidType(), text, constraints, values[0],
                *(builder.trunc(v, _I32) for v in values[1:]), effect=True)
            return context.get_dummy_value()

        return types.void(types.uint64, *[types.int64]*(rank + 1)), codegen

    return intrinsic(with_arity(f"tile_store{rank}", typed, rank + 2))


# --- the product


def _product(kind: str, high: int, columns: int, steps: tuple[int, int]) -> Any:
    """`high` times 64 rows by `columns` by 64 along k: ``wgmma.mma_async``, one group.

    ``product(sums, left, right, again)``: the descriptors of the tiles, whether to add
    to the sums.  `steps` from 16 to 16 along k, in 16 bytes: 2 where k is the inner
    dimension of a tile, 128 where it is the outer one, which is then transposed.  The
    next 64 rows of the left tile are 8192 bytes further.
    """
    each, count = columns//2, high*columns//2
    left, right, again = (f"${2*count + k}" for k in range(3))
    transposed = ", ".join("1" if s == 128 else "0" for s in steps)
    lines = ["{ .reg .pred p; .reg .b64 a, b, c;", f"setp.ne.b32 p, {again}, 0;",
             "wgmma.fence.sync.aligned;", f"mov.b64 a, {left}; mov.b64 b, {right};"]
    for k in range(4):
        if k:
            lines.append(f"add.s64 a, a, {steps[0]}; add.s64 b, b, {steps[1]};")
        for h in range(high):
            registers = ",".join(f"${h*each + e}" for e in range(each))
            lines += [f"add.s64 c, a, {512*h};",
                      f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind}"
                      f" {{{registers}}}, c, b, {'1' if k else 'p'}, 1, 1,"
                      f" {transposed};"]
    text = "\n".join([*lines, "wgmma.commit_group.sync.aligned; }"])
    kind_of = sums_of(count)

    @intrinsic
    def product(typing: Any, sums: Any, left: Any, right: Any, again: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            total, a, b, go_on = values
            return tied(builder, text, total, "llr", a, b, builder.zext(go_on, _I32))

        return kind_of(kind_of, types.int64, types.int64, types.boolean), codegen

    return product


def product_wait(count: int, pending: int) -> Any:
    """``wgmma.wait_group``: until at most `pending` groups are on their way."""
    kind = sums_of(count)

    @intrinsic
    def wait(typing: Any, sums: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return tied(builder, f"wgmma.wait_group.sync.aligned {pending};",
                        values[0], "")

        return kind(kind), codegen

    return wait


def _zeros(count: int) -> Any:
    @intrinsic
    def zeros(typing: Any) -> Any:
        """Sums before the first product."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return tuple_of(builder, [ir.Constant(_F32, 0.0)]*count)

        return sums_of(count)(), codegen

    return zeros


def hopper_namespace() -> dict[str, Any]:
    """The names that kernel text for sm_90a may use besides the common ones."""
    found: dict[str, Any] = {
        "tiles_at": shared_memory("nbfused_tiles"), "first_lane": first_lane,
        "prefetch_map": prefetch_map, **fragment_namespace()}
    for name, (text, count) in _BARRIERS.items():
        found[name] = instruction(name, text, count)
    for rank in range(2, 6):
        for kind, name in (("", f"tile_copy{rank}"), ("once", f"tile_copy{rank}_once"),
                           ("share", f"tile_share{rank}")):
            found[name] = _tile_copy(rank, kind)
        found[f"tile_store{rank}"] = _tile_store(rank)
    for count in WGMMA_SUMS:
        found[f"zeros{count}"] = _zeros(count)
        for pending in (0, 1):
            found[f"product_wait{count}_{pending}"] = product_wait(count, pending)
    for high, columns in WGMMA_SHAPES:
        for kind, a, b in product(("f16", "bf16"), (2, 128), (2, 128)):
            found[f"product_{kind}_{high}x{columns}_{a}_{b}"] = _product(
                kind, high, columns, (a, b))
    return found
