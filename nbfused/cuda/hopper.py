"""Hopper's matrix instructions for kernel text: barriers, TMA, wgmma.

Addresses of shared memory are integers, as the instructions take them.  The PTX
manual's sections are named by the instructions.  `tests/cuda/test_contract_wgmma.py`
compares what they do with float64.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .accesses import asm
from .contract_wgmma import TILINGS

__all__ = ["hopper_namespace"]

_I8, _I32, _I64 = (ir.IntType(n) for n in (8, 32, 64))
_F32 = ir.FloatType()
_MEMORY = "~{memory}"
_BASE = "nbfused_tiles"


def _instruction(name: str, text: str, count: int) -> Any:
    """An instruction on `count` 32-bit integers, without result."""
    constraints = ",".join(["r"]*count + [_MEMORY])

    def typed() -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            asm(builder, ir.VoidType(), text, constraints,
                *(builder.trunc(v, _I32) for v in values), effect=True)
            return context.get_dummy_value()

        return types.void(*[types.int64]*count), codegen

    return intrinsic(_with_arity(name, typed, count))


def _with_arity(name: str, typed: Callable[[], Any], count: int) -> Any:
    """A function of the typing context and `count` more: Numba reads the signature."""
    parameters = "".join(f", a{k}" for k in range(count))
    scope: dict[str, Any] = {"typed": typed}
    exec(f"def {name}(typing{parameters}):\n    return typed()", scope)
    return scope[name]


# --- shared memory and the barriers in it


@intrinsic
def tiles_at(typing: Any) -> Any:
    """Where dynamic shared memory begins; a multiple of 1024, as swizzling needs."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        base = ir.GlobalVariable(builder.module, ir.ArrayType(_I8, 0), _BASE,
                                 addrspace=3)
        base.linkage, base.align = "external", 1024
        return builder.zext(builder.ptrtoint(base, _I32), _I64)

    return types.int64(), codegen


@intrinsic
def first_lane(typing: Any, value: Any) -> Any:
    """The first lane's value: known to be the same in the whole warp."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        word = asm(builder, _I32, "shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r",
                   builder.trunc(values[0], _I32), effect=True)
        return builder.zext(word, _I64)

    return types.int64(types.int64), codegen


_WAIT = ("{ .reg .pred p; AGAIN: "
         "mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; "
         "@p bra DONE; bra AGAIN; DONE: }")
_BARRIERS = {
    "barrier_init": ("mbarrier.init.shared::cta.b64 [$0], $1;", 2),
    "barrier_expect": ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", 2),
    "barrier_arrive": ("mbarrier.arrive.release.cta.shared::cta.b64 _, [$0];", 1),
    "barrier_wait": (_WAIT, 2),
    "barrier_fence": ("fence.mbarrier_init.release.cluster; fence.proxy.async;", 0),
    "stores_commit": ("cp.async.bulk.commit_group;", 0),
    "stores_read0": ("cp.async.bulk.wait_group.read 0;", 0),
    "stores_read1": ("cp.async.bulk.wait_group.read 1;", 0),
    "stores_done": ("cp.async.bulk.wait_group 0;", 0),
    "stores_fence": ("fence.proxy.async.shared::cta;", 0),
    "fewer_registers": ("setmaxnreg.dec.sync.aligned.u32 40;", 0),
    "more_registers": ("setmaxnreg.inc.sync.aligned.u32 232;", 0),
}


# --- tiles between global and shared memory


def _tile_copy(rank: int) -> Any:
    """``cp.async.bulk.tensor``: a box to shared memory, told to a barrier.

    ``tile_copy{rank}(target, map, barrier, x0, x1, …)``, innermost coordinate first.
    """
    coordinates = ", ".join(f"${k + 3}" for k in range(rank))
    text = (f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile"
            f".mbarrier::complete_tx::bytes [$0], [$1, {{{coordinates}}}], [$2];")
    constraints = ",".join(["r", "l", "r", *["r"]*rank, _MEMORY])

    def typed() -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            target, descriptor, *rest = values
            asm(builder, ir.VoidType(), text, constraints,
                builder.trunc(target, _I32), descriptor,
                *(builder.trunc(v, _I32) for v in rest), effect=True)
            return context.get_dummy_value()

        return types.void(types.int64, types.uint64, *[types.int64]*(rank + 1)), codegen

    return intrinsic(_with_arity(f"tile_copy{rank}", typed, rank + 3))


def _tile_store(rank: int) -> Any:
    """``cp.async.bulk.tensor``: shared memory to a box; what is outside is left out.

    ``tile_store{rank}(map, source, x0, x1, …)``, innermost coordinate first; done
    after `stores_commit` and `stores_done`.
    """
    coordinates = ", ".join(f"${k + 2}" for k in range(rank))
    text = (f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group "
            f"[$0, {{{coordinates}}}], [$1];")
    constraints = ",".join(["l", "r", *["r"]*rank, _MEMORY])

    def typed() -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            asm(builder, ir.VoidType(), text, constraints, values[0],
                *(builder.trunc(v, _I32) for v in values[1:]), effect=True)
            return context.get_dummy_value()

        return types.void(types.uint64, *[types.int64]*(rank + 1)), codegen

    return intrinsic(_with_arity(f"tile_store{rank}", typed, rank + 2))


# --- the product


def _sums(count: int) -> Any:
    return types.UniTuple(types.float32, count)


def _tuple(builder: Any, values: list[Any]) -> Any:
    packed = ir.Constant(ir.ArrayType(values[0].type, len(values)), ir.Undefined)
    for k, value in enumerate(values):
        packed = builder.insert_value(packed, value, k)
    return packed


def _parts(builder: Any, packed: Any, count: int) -> list[Any]:
    return [builder.extract_value(packed, k) for k in range(count)]


def _tied(builder: Any, text: str, sums: Any, count: int, letters: str,
          *more: Any) -> Any:
    """Inline PTX that reads and writes the sums in place."""
    constraints = ",".join([*["=f"]*count, *map(str, range(count)), *letters, _MEMORY])
    result = asm(builder, ir.LiteralStructType([_F32]*count), text, constraints,
                 *_parts(builder, sums, count), *more, effect=True)
    return _tuple(builder, _parts(builder, result, count))


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
    kind_of = _sums(count)

    @intrinsic
    def product(typing: Any, sums: Any, left: Any, right: Any, again: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            total, a, b, go_on = values
            return _tied(builder, text, total, count, "llr", a, b,
                         builder.zext(go_on, _I32))

        return kind_of(kind_of, types.int64, types.int64, types.boolean), codegen

    return product


def _product_wait(count: int, pending: int) -> Any:
    """``wgmma.wait_group``: until at most `pending` groups are on their way."""
    kind = _sums(count)

    @intrinsic
    def wait(typing: Any, sums: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _tied(builder, f"wgmma.wait_group.sync.aligned {pending};",
                         values[0], count, "")

        return kind(kind), codegen

    return wait


def _zeros(count: int) -> Any:
    @intrinsic
    def zeros(typing: Any) -> Any:
        """Sums before the first product."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _tuple(builder, [ir.Constant(_F32, 0.0)]*count)

        return _sums(count)(), codegen

    return zeros


# --- from a fragment to rows: lane 4·r + c of a warp has, of each 8 columns, 2c and
# 2c + 1 of rows r and r + 8 (figure of wgmma's fragment D)


def _turned(count: int) -> Any:
    """The sums, the first 32 behind the others: a loop over parts needs no index."""
    kind = _sums(count)

    @intrinsic
    def turned(typing: Any, sums: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            parts = _parts(builder, values[0], count)
            return _tuple(builder, [*parts[32:], *parts[:32]])

        return kind(kind), codegen

    return turned


def _pack(kind: str) -> Any:
    """``cvt.rn``: two float32 rounded to 16 bits each, the first in the low half."""

    @intrinsic
    def pack(typing: Any, low: Any, high: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return asm(builder, _I32, f"cvt.rn.{kind}x2.f32 $0, $2, $1;", "=r,f,f",
                       *values)

        return types.uint32(types.float32, types.float32), codegen

    return pack


def _half(high: bool) -> Any:
    @intrinsic
    def half(typing: Any, word: Any) -> Any:
        """The low or the high 16 bits."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            word = builder.lshr(values[0], _I32(16)) if high else values[0]
            return builder.trunc(word, ir.IntType(16))

        return types.uint16(types.uint32), codegen

    return half


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
                f"r,r,r,r,r,{_MEMORY}", at, *_parts(builder, values[1], 4), effect=True)
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
            at, parts = builder.trunc(values[0], _I32), _parts(builder, values[1], 8)
            for k in range(4):
                where = builder.add(builder.xor(at, _I32(64*unit + 32*(k >> 1))),
                                    _I32(8*128*(k & 1)))
                asm(builder, ir.VoidType(), "st.shared.v2.f32 [$0], {$1, $2};",
                    f"r,f,f,{_MEMORY}", where, *parts[2*k:2*k + 2], effect=True)
            return context.get_dummy_value()

        return types.void(types.int64, types.UniTuple(types.float32, 8)), codegen

    return keep32


def _kept(result: Any, kind: Any, letter: str, suffix: str) -> Any:
    @intrinsic
    def kept(typing: Any, address: Any) -> Any:
        """``ld.shared`` of one element."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return asm(builder, kind, f"ld.shared.{suffix} $0, [$1];",
                       f"={letter},r,{_MEMORY}", builder.trunc(values[0], _I32),
                       effect=True)

        return result(types.int64), codegen

    return kept


@intrinsic
def near(typing: Any, pointer: Any, index: Any, room: Any) -> Any:
    """``ld.global``: what a lane has of one row of 64 columns, 8 pairs.

    Pairs of 16-bit elements are a word each; float32 are 16 numbers.  Pairs from
    column `room` on are 0 and not read.
    """
    wide = pointer.dtype == types.float32
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
                    f"=&f,=&f,l,r,{_MEMORY}", at, left, effect=True)
                found += _parts(builder, two, 2)
            else:
                found.append(asm(builder, _I32, head + (
                    f"mov.b32 $0, 0; @p ld.global.b32 $0, [$1+{16*k}]; }}"),
                    f"=&r,l,r,{_MEMORY}", at, left, effect=True))
        return _tuple(builder, found)

    return result(pointer, types.int64, types.int64), codegen


def hopper_namespace() -> dict[str, Any]:
    """The names that kernel text for sm_90a may use besides the common ones."""
    found: dict[str, Any] = {
        "tiles_at": tiles_at, "first_lane": first_lane, "near": near,
        "low_half": _half(False), "high_half": _half(True),
        **{f"keep16_{k}": _keep16(k) for k in range(4)},
        **{f"keep32_{k}": _keep32(k) for k in (0, 1)}, "pack_float16": _pack("f16"),
        "pack_bfloat16": _pack("bf16"),
        "kept_uint16": _kept(types.uint16, ir.IntType(16), "h", "u16"),
        "kept_float32": _kept(types.float32, _F32, "f", "f32")}
    for name, (text, count) in _BARRIERS.items():
        found[name] = _instruction(name, text, count)
    for rank in range(2, 6):
        found[f"tile_copy{rank}"] = _tile_copy(rank)
        found[f"tile_store{rank}"] = _tile_store(rank)
    for count in {t.sums for t in TILINGS}:
        found |= {f"zeros{count}": _zeros(count), f"turned{count}": _turned(count),
                  **{f"product_wait{count}_{p}": _product_wait(count, p)
                     for p in (0, 1)}}
    for high, columns in {(t.high, t.columns) for t in TILINGS}:
        for kind, a, b in product(("f16", "bf16"), (2, 128), (2, 128)):
            found[f"product_{kind}_{high}x{columns}_{a}_{b}"] = _product(
                kind, high, columns, (a, b))
    return found
