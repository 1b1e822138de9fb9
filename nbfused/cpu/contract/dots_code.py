"""The inner loop of a product whose factors both lie along their sums.

Vectors of both are multiplied; the lanes of each sum are added up in the end.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from .narrow_code import I64, KINDS, Kinds, NarrowEmitter

__all__ = ["DOTS", "DotsEmitter"]


class DotsEmitter(NarrowEmitter):
    """Emits the code of a tile of `rows` times `columns` sums of `parts` vectors."""

    def __init__(self, builder: Any, kinds: Kinds, rows: int, columns: int,
                 parts: int) -> None:
        super().__init__(builder, kinds)
        self.rows, self.columns, self.parts = rows, columns, parts
        self.length = self.tile.lanes  #: numbers of a vector

    def emit_dots(self, left: Any, down: Any, right: Any, own: Any, sums: Any,
                  stride: Any, aside: Any, count: Any, first: Any, rows: Any,
                  columns: Any) -> None:
        """Emit the loop that adds `count` products to `sums`, zero if they are `first`.

        Where there are fewer rows or columns, the last one takes the places of what is
        missing.
        """
        b, lanes = self.builder, self.length
        down_to, over_to = self.places(rows, self.rows), self.places(
            columns, self.columns)
        starts = ([b.mul(down, place) for place in down_to],
                  [b.mul(own, place) for place in over_to])
        step, size = lanes*self.parts, self.rows*self.columns

        def added(k: Any, sums: list[Any], parts: int, mask: Any = None) -> list[Any]:
            following = list[Any]()
            for part in range(parts):
                at = b.add(k, I64(part*lanes))
                ours = [self.load(left, b.add(start, at), mask, self.kinds[0])
                        for start in starts[0]]
                others = [self.load(right, b.add(start, at), mask, self.kinds[1])
                          for start in starts[1]]
                following += [self._add_product(
                    ours[i // self.columns], others[i % self.columns],
                    sums[part*size + i]) for i in range(size)]
            return following

        end = b.and_(count, I64(-step))
        sums_of_parts = self.repeat(I64(0), end, step, [self.zero]*size*self.parts,
                                    lambda k, sums: added(k, sums, self.parts))
        totals = sums_of_parts[:size]
        for part in range(1, self.parts):
            totals = [b.fadd(a, sums_of_parts[part*size + i])
                      for i, a in enumerate(totals)]
        totals = self.repeat(end, count, lanes, totals, lambda k, sums: added(
            k, sums, 1, self.mask(b.sub(count, k))))
        self.add_to(sums, [b.add(b.mul(stride, i), b.mul(aside, j))
                           for i in down_to for j in over_to],
                    [self.total(total) for total in totals], first)


def _dots(kinds: Kinds) -> Any:
    @intrinsic(prefer_literal=True)
    def dots(typing: Any, left: Any, down: Any, right: Any, own: Any, sums: Any,
             stride: Any, aside: Any, count: Any, first: Any, rows_left: Any,
             columns_left: Any, rows: Any, columns: Any, parts: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            DotsEmitter(builder, kinds, rows.literal_value, columns.literal_value,
                     parts.literal_value).emit_dots(*values[:-3])
            return context.get_dummy_value()

        return types.void(*[types.int64]*8, types.boolean, *[types.int64]*2, rows,
                          columns, parts), codegen

    return dots


#: ``dots_f16_f32_f32(left, down, right, own, sums, stride, aside, count, first,
#: rows_left, columns_left, rows, columns, parts)``: addresses of two factors, of two
#: dtypes, whose rows are `down` and whose columns are `own` from one another, and of
#: the sums of a third one, `stride` and `aside` from one another, which begin at zero
#: if it is the `first` part of them.  The last three are literals; what is beyond the
#: rows and columns that are left is not touched.
DOTS: dict[str, Any] = {f"dots_{'_'.join(kinds)}": _dots(kinds) for kinds in KINDS}
