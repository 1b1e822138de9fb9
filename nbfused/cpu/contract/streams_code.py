"""The inner loop of a product of few rows and many columns, as an LLVM intrinsic.

Some rows of the right factor are read side by side from their beginnings to their ends,
as memory delivers them, and the sums stay in the first-level cache.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from .narrow_code import I64, KINDS, Kinds, NarrowEmitter

__all__ = ["STREAMED"]


class _Emitter(NarrowEmitter):
    """Emits the code of `rows` rows of sums, of `depth` products at once."""

    def __init__(self, builder: Any, kinds: Kinds, rows: int, depth: int) -> None:
        super().__init__(builder, kinds)
        self.rows, self.depth = rows, depth

    def emit_stream(self, left: Any, down: Any, along: Any, right: Any, step: Any,
                    sums: Any, stride: Any, first: Any, columns: Any) -> None:
        """Emit the loop that adds products to sums, zero if they are the `first`."""
        b, lanes = self.builder, self.tile.lanes
        numbers = [[self.number(left, b.add(b.mul(down, I64(r)), b.mul(along, I64(d))))
                    for d in range(self.depth)] for r in range(self.rows)]
        ahead = [b.mul(step, I64(d)) for d in range(self.depth)]
        below = [b.mul(stride, I64(r)) for r in range(self.rows)]

        def add(j: Any, mask: Any = None) -> list[Any]:
            vectors = [self.load(right, b.add(start, j), mask, self.kinds[1])
                       for start in ahead]
            for row, start in zip(numbers, below, strict=True):
                place = b.add(start, j)
                total = b.select(first, self.zero, self.load(sums, place, mask))
                for number, vector in zip(row, vectors, strict=True):
                    total = self._add_product(number, vector, total)
                self.store(total, sums, place, mask)
            return []

        end = b.and_(columns, I64(-lanes))
        self.repeat(I64(0), end, lanes, [], lambda j, _: add(j))
        self.repeat(end, columns, lanes, [], lambda j, _: add(
            j, self.mask(b.sub(columns, j))))


def _stream(kinds: Kinds) -> Any:
    @intrinsic(prefer_literal=True)
    def stream(typing: Any, left: Any, down: Any, along: Any, right: Any, step: Any,
               sums: Any, stride: Any, first: Any, columns: Any, rows: Any, depth: Any,
               ) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            _Emitter(builder, kinds, rows.literal_value,
                     depth.literal_value).emit_stream(*values[:-2])
            return context.get_dummy_value()

        return types.void(*[types.int64]*7, types.boolean, types.int64, rows,
                          depth), codegen

    return stream


#: ``stream_f32_f16_f32(left, down, along, right, step, sums, stride, first, columns,
#: rows, depth)``: addresses of two factors and of the sums, of three dtypes; the sums'
#: rows are `stride` apart and begin at zero if it is the `first` part of them.  The
#: left factor's strides are `down` its rows and `along` them; the right one's rows are
#: `step` apart.  The last two are literals.
STREAMED: dict[str, Any] = {
    f"stream_{'_'.join(kinds)}": _stream(kinds) for kinds in KINDS}
