"""The inner loop of a narrow product along the columns of its right factor.

Of the right factor vectors are loaded, of the left one a number from each row, and the
sums of a tile fill the registers.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from .narrow_code import I64, KINDS, Kinds, NarrowEmitter
from .tile import has_masks

__all__ = ["DIRECT", "ColumnsEmitter"]


class ColumnsEmitter(NarrowEmitter):
    """Emits the code of one tile of `rows` rows of `vectors` vectors.

    Each sum is made in `parts`, of every so many products, so that additions that wait
    for one another are as many as the processor has under way.
    """

    def __init__(self, builder: Any, kinds: Kinds, rows: int, vectors: int,
                 parts: int) -> None:
        super().__init__(builder, kinds)
        self.rows, self.vectors, self.parts = rows, vectors, parts

    def emit_direct(
            self, left: Any, down: Any, along: Any, right: Any, step: Any, sums: Any,
            stride: Any, count: Any, first: Any, rows: Any, columns: Any) -> None:
        """Emit the loop that adds `count` products to `sums`, zero if they are `first`.

        Where there are fewer rows, the last one takes the places of what is missing.
        """
        b, lanes = self.builder, self.tile.lanes
        places = self.places(rows, self.rows)
        starts = [b.mul(down, place) for place in places]
        below = [b.mul(stride, place) for place in places]
        begins = [I64(v*lanes) for v in range(self.vectors)]

        def emit(begins: list[Any], masks: list[Any]) -> None:
            self.emit_whole(left, along, right, step, sums, count, first, starts, below,
                            begins, masks)

        def some() -> None:
            emit(begins, [self.mask(columns, v*lanes) for v in range(self.vectors)])

        if has_masks():
            some()
            return
        last = b.sub(columns, I64(lanes))
        with b.if_else(b.icmp_signed(">=", last, I64(0))) as (whole, otherwise):
            with whole:
                emit([b.select(b.icmp_signed("<", begin, last), begin, last)
                      for begin in begins], [None]*self.vectors)
            with otherwise:
                some()

    def emit_whole(
            self, left: Any, along: Any, right: Any, step: Any, sums: Any, count: Any,
            first: Any, starts: list[Any], below: list[Any], begins: list[Any],
            masks: list[Any]) -> None:
        """Emit the loop for rows, and vectors of columns, that begin so far away.

        Vectors that overlap compute the same.
        """
        b, lanes = self.builder, self.tile.lanes
        targets = [b.add(row, begin) for row in below for begin in begins]

        def added(k: Any, totals: list[Any]) -> list[Any]:
            here, place = b.mul(k, step), b.mul(k, along)
            vectors = [self.load(right, b.add(here, begin), mask, self.kinds[1])
                       for begin, mask in zip(begins, masks, strict=True)]
            if self.vectors > 1:  # else the next ones are in lines that are read
                self.fetch(right, b.add(here, I64(self.vectors*lanes)), self.vectors,
                           self.kinds[1])
            numbers = [self.number(left, b.add(place, start)) for start in starts]
            return [self._add_product(numbers[i // self.vectors],
                                      vectors[i % self.vectors], total)
                    for i, total in enumerate(totals)]

        def added_in_parts(k: Any, totals: list[Any]) -> list[Any]:
            return [total for part in range(self.parts) for total in added(
                b.add(k, I64(part)), totals[part*size:(part + 1)*size])]

        size = len(targets)
        initial = self.initial(first, lambda: [
            self.load(sums, target, masks[i % self.vectors])
            for i, target in enumerate(targets)])
        end = b.sub(count, b.srem(count, I64(self.parts)))
        parts = self.repeat(
            I64(0), end, self.parts, initial + [self.zero]*size*(self.parts - 1),
            added_in_parts)
        totals = parts[:size]
        for part in range(1, self.parts):
            totals = [b.fadd(a, parts[part*size + i]) for i, a in enumerate(totals)]
        if self.parts > 1:
            totals = self.repeat(end, count, 1, totals, added)
        for i, (value, target) in enumerate(zip(totals, targets, strict=True)):
            self.store(value, sums, target, masks[i % self.vectors])


def _direct(kinds: Kinds) -> Any:
    @intrinsic(prefer_literal=True)
    def direct(typing: Any, left: Any, down: Any, along: Any, right: Any, step: Any,
               sums: Any, stride: Any, count: Any, first: Any, left_over: Any,
               columns: Any, rows: Any, vectors: Any, parts: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            ColumnsEmitter(builder, kinds, rows.literal_value, vectors.literal_value,
                     parts.literal_value).emit_direct(*values[:-3])
            return context.get_dummy_value()

        return types.void(*[types.int64]*8, types.boolean, *[types.int64]*2, rows,
                          vectors, parts), codegen

    return direct


#: ``direct_f32_f16_f32(left, down, along, right, step, sums, stride, count, first,
#: left_over, columns, rows, vectors, parts)``: addresses of two factors and of the
#: sums, of three dtypes; the sums begin at zero if it is the `first` part of them.  The
#: left factor's strides are `down` its rows and `along` them; the right one's rows are
#: `step` apart.  The last three are literals; what is beyond the rows `left_over`, or
#: `columns`, is not touched.
DIRECT: dict[str, Any] = {
    f"direct_{'_'.join(kinds)}": _direct(kinds) for kinds in KINDS}
