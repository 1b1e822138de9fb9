"""Pairs of bfloat16 made in registers, as LLVM intrinsics for packing."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ....support.llvm.masks import lanes_before, masked_load
from ..tile_code import prefetch
from ..transpose_code import Squares

__all__ = ["PACKS", "PAIRS"]

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)

#: Pairs of a vector.
PAIRS = 16

#: Rows from which neighbours are prefetched, as rows may be on pages of their own:
#: benchmarks/notes/cpu.md#products-of-bfloat16.
_AHEAD = 16


class _Emitter(Squares):
    """Emits the code that packs pairs, which are moved as 32-bit integers."""

    def __init__(self, builder: Any) -> None:
        super().__init__(builder, "i32")

    def emit_rows(self, source: Any, down: Any, target: Any, width: int, count: int,
                  rows: Any, terms: Any) -> None:
        """Emit the copy of a square of pairs to the places of a panel's `count` rows.

        What is beyond the `rows` that are there is the last one; numbers beyond the
        `terms` are zero.
        """
        b = self.builder
        mask, last = self._before(terms, 2*PAIRS), b.sub(rows, _I64(1))
        loaded = []
        for r in range(count):
            row = b.select(b.icmp_signed("<", _I64(r), last), _I64(r), last)
            loaded.append(b.bitcast(self._numbers(source, b.mul(down, row), mask),
                                    ir.VectorType(_I32, PAIRS)))
        nothing = ir.Constant(loaded[0].type, ir.Undefined)
        for k, column in enumerate(self.transposed(
                loaded + [nothing]*(PAIRS - count))):
            self.store_part(column, target, k*width, count)

    def emit_columns(self, source: Any, along: Any, target: Any, count: int,
                     columns: Any, terms: Any) -> None:
        """Emit the copy of pairs of two rows of `count` neighbours.

        Numbers beyond the `columns` are zero, and those of the second row where there
        is only one of the `terms` left.
        """
        b = self.builder
        lanes = -(-count // PAIRS)*PAIRS
        for row in (_AHEAD, _AHEAD + 1):
            prefetch(b, b.inttoptr(b.add(source, b.mul(along, _I64(2*row))),
                                   _I16.as_pointer()), 3)
        both = b.icmp_signed(">", terms, _I64(1))
        step = b.select(both, along, _I64(0))
        first = self._numbers(source, _I64(0), self._before(columns, lanes))
        second = self._numbers(source, step, self._before(
            b.select(both, columns, _I64(0)), lanes))
        for begin in range(0, count, PAIRS):
            pairs = self.chosen(first, second, [
                side*lanes + begin + i for i in range(PAIRS) for side in (0, 1)])
            self.store_part(b.bitcast(pairs, ir.VectorType(_I32, PAIRS)), target, begin,
                            min(PAIRS, count - begin))

    def _before(self, count: Any, lanes: int) -> Any:
        return lanes_before(self.builder, self.builder.trunc(count, _I32), lanes)

    def _numbers(self, address: Any, index: Any, mask: Any) -> Any:
        """Load bfloat16, zero where they are masked."""
        b, vector = self.builder, ir.VectorType(_I16, mask.type.count)
        place = b.inttoptr(b.add(address, b.mul(index, _I64(2))), vector.as_pointer())
        return masked_load(b, place, 2, mask, ir.Constant(
            vector, [ir.Constant(_I16, 0)]*vector.count))


@intrinsic(prefer_literal=True)
def _rows(typing: Any, source: Any, down: Any, target: Any, width: Any, count: Any,
          rows: Any, terms: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        x, step, y, _, _, height, length = values
        _Emitter(builder).emit_rows(x, step, y, width.literal_value,
                                    count.literal_value, height, length)
        return context.get_dummy_value()

    return types.void(*[types.int64]*3, width, count, *[types.int64]*2), codegen


@intrinsic(prefer_literal=True)
def _columns(typing: Any, source: Any, along: Any, target: Any, count: Any,
             columns: Any, terms: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        x, step, y, _, across, length = values
        _Emitter(builder).emit_columns(x, step, y, count.literal_value, across, length)
        return context.get_dummy_value()

    return types.void(*[types.int64]*3, count, *[types.int64]*2), codegen


#: ``pairs_of_rows(source, down, target, width, count, rows, terms)``: addresses of rows
#: that are `down` from one another, and of the place of `count` in a panel of `width`,
#: both literals; so many `rows` are left, and `terms` of each.
#: ``pairs_of_columns(source, along, target, count, columns, terms)``: of the numbers of
#: `count` neighbours, the next ones of which are `along`.
PACKS: dict[str, Any] = {"pairs_of_rows": _rows, "pairs_of_columns": _columns}
