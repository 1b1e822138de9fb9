"""The inner loop of a product of pairs of bfloat16, as an LLVM intrinsic.

Sums are float32.  The instruction takes subnormal numbers, of factors and of sums, for
zero: benchmarks/notes/cpu.md#products-of-bfloat16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ....support.llvm.masks import lanes_before, masked_store
from ..tile_code import TileEmitter

__all__ = ["PAIR_TILES", "add_pairs"]

_PAIRS = 16
_I64 = ir.IntType(64)

#: Registers that take turns with the pairs of a row.
_SCRATCH = 4


class _BFloat(ir.Type):
    """LLVM's bfloat16, which llvmlite lacks."""

    null = "0.0"

    def __str__(self) -> str:
        """The type's name in LLVM text."""
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


_VECTOR = ir.VectorType(ir.FloatType(), _PAIRS)
_NUMBERS = ir.VectorType(_BFloat(), 2*_PAIRS)


def add_pairs(builder: Any, a: Any, b: Any, total: Any) -> Any:
    """Emit the addition of both products of each pair to a sum, 16 at once.

    `a` and `b` are vectors of 64 bytes of any type.
    """
    name = "llvm.x86.avx512bf16.dpbf16ps.512"
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(_VECTOR, [_VECTOR, _NUMBERS, _NUMBERS]), name)
    return builder.call(function, [total, builder.bitcast(a, _NUMBERS),
                                   builder.bitcast(b, _NUMBERS)])


class _Emitter(TileEmitter):
    """Emits a register tile whose factors are pairs, moved as float32.

    It may have fewer rows and vectors than the panels that it is multiplied of.

    Parameters
    ----------
    result
        Whether the sums are done and no epilogue follows, address of the result, its
        stride from row to row, and the rows and columns that are left.
    """

    def __init__(self, builder: Any, rows: int, vectors: int, result: Sequence[Any],
                 ) -> None:
        super().__init__(builder, "f32")
        self.rows, self.vectors, self.result = rows, vectors, result

    def _step(self, left: Any, right: Any, k: Any, totals: list[Any],
              ahead: Any) -> list[Any]:
        """Emit a step as assembly: LLVM would move the sums from place to place."""
        b, tile = self.builder, self.tile
        place = b.mul(k, _I64(tile.columns))
        self._prefetch(ahead, place)
        kinds = [self.vector]*(len(totals) + self.vectors + _SCRATCH)
        step = ir.InlineAsm(ir.FunctionType(
            ir.LiteralStructType(kinds), [_I64, _I64, *kinds[:len(totals)]]),
            _step(self.rows, self.vectors), _constraints(len(totals), self.vectors),
            True)
        after = b.call(step, [b.add(left, b.mul(k, _I64(4*tile.rows))),
                              b.add(right, b.mul(place, _I64(4))), *totals])
        return [b.extract_value(after, i) for i in range(len(totals))]


    def finish(self, totals: list[Any], sums: Any, stride: Any) -> None:
        """Store the sums, or what they are as bfloat16 where the result is."""
        b = self.builder
        with b.if_else(self.result[0]) as (end, more):
            with end:
                self._store_result(totals)
            with more:
                super().finish(totals, sums, stride)

    def _store_result(self, totals: list[Any]) -> None:
        """Store the sums as bfloat16, whole vectors if the tile is whole.

        Of a masked store a processor takes several instructions.
        """
        _, address, down, height, width = self.result
        b, lanes, last = self.builder, self.vectors*_PAIRS, _I64(self.rows - 1)
        values = [self._rounded(totals[r*self.vectors:(r + 1)*self.vectors])
                  for r in range(self.rows)]

        def place(row: Any) -> Any:
            step = b.mul(b.mul(down, row), _I64(2))
            return b.inttoptr(b.add(address, step), values[0].type.as_pointer())

        whole = b.and_(b.icmp_signed(">", height, last),
                       b.icmp_signed(">=", width, _I64(lanes)))
        with b.if_else(whole) as (plain, masked):
            with plain:
                for r, value in enumerate(values):
                    b.store(value, place(_I64(r)), align=2)
            with masked:
                inside = lanes_before(b, b.trunc(width, ir.IntType(32)), lanes)
                for r, value in enumerate(values):
                    with b.if_then(b.icmp_signed("<", _I64(r), height)):
                        masked_store(b, value, place(_I64(r)), 2, inside)

    def _rounded(self, row: list[Any]) -> Any:
        """The bits of one or two vectors as bfloat16; no sum is subnormal."""
        lanes, name = len(row)*_PAIRS, "cvtne2ps2bf16" if len(row) == 2 else \
            "cvtneps2bf16"
        name = f"llvm.x86.avx512bf16.{name}.512"
        kind = ir.FunctionType(ir.VectorType(_BFloat(), lanes), [_VECTOR]*len(row))
        module = self.builder.module
        function = module.globals.get(name) or ir.Function(module, kind, name)
        return self.builder.bitcast(self.builder.call(function, row[::-1]),
                                    ir.VectorType(ir.IntType(16), lanes))


def _step(rows: int, vectors: int) -> str:
    """The assembly of a step on sums, vectors, scratch, and two addresses."""
    sums = rows*vectors
    left, right = (f"(${sums + vectors + _SCRATCH + i})" for i in (0, 1))
    lines = [f"vmovups {64*v}{right}, ${sums + v}" for v in range(vectors)]
    for r in range(rows):
        pair = f"${sums + vectors + r % _SCRATCH}"
        lines.append(f"vbroadcastss {4*r}{left}, {pair}")
        lines += [f"vdpbf16ps ${sums + v}, {pair}, ${r*vectors + v}"
                  for v in range(vectors)]
    return "\\0A".join(lines)


def _constraints(sums: int, vectors: int) -> str:
    return ",".join([*["=&v"]*(sums + vectors + _SCRATCH), "r", "r",
                     *map(str, range(sums)), "~{memory}"])


@intrinsic(prefer_literal=True)
def _tile(typing: Any, left: Any, right: Any, sums: Any, count: Any, stride: Any,
          first: Any, ahead: Any, finished: Any, result: Any, down: Any,
          rows_left: Any, columns_left: Any, rows: Any, vectors: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _Emitter(builder, rows.literal_value, vectors.literal_value,
                 values[7:12]).emit(*values[:7])
        return context.get_dummy_value()

    return types.void(*[types.int64]*5, types.boolean, types.int64, types.boolean,
                      *[types.int64]*4, rows, vectors), codegen


#: ``tile_pairs(left, right, sums, count, stride, first, ahead, finished, result, down,
#: rows_left, columns_left, rows, vectors)``: as those of `TILES`, where `count` are
#: pairs.  Where the sums are `finished`, and the result, they are stored as bfloat16 at
#: the address `result`, in rows that are `down` apart, as many as are left.  The last
#: two are literals; the panels are as wide as they are for whole tiles.
PAIR_TILES: dict[str, Any] = {"tile_pairs": _tile}
