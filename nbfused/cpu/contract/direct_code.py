"""The inner loop of a narrow product, as an LLVM intrinsic for generated text.

Neither factor is packed: of the one a vector is loaded, of the other a number from each
row.  A tile is so wide that its sums fill the registers, and narrower for few columns.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .tile_code import FLOATS, TileEmitter

__all__ = ["DIRECT"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


class _Emitter(TileEmitter):
    """Emits the LLVM code of one tile of `rows` rows of `vectors` vectors."""

    def __init__(self, builder: Any, kind: str, rows: int, vectors: int) -> None:
        super().__init__(builder, kind)
        self.rows, self.vectors = rows, vectors

    def _masks(self, columns: Any) -> list[Any]:
        """Masks of the lanes that are columns, one for each vector."""
        b, lanes = self.builder, self.tile.lanes
        kind = ir.VectorType(_I64, lanes)
        count = b.insert_element(ir.Constant(kind, ir.Undefined), columns, _I32(0))
        count = b.shuffle_vector(count, count, ir.Constant(
            ir.VectorType(_I32, lanes), [0]*lanes))
        return [b.icmp_signed("<", ir.Constant(kind, [*range(v*lanes, (v + 1)*lanes)]),
                              count) for v in range(self.vectors)]

    def _masked(self, name: str, result: Any, *values: Any) -> Any:
        full = f"llvm.masked.{name}.v{self.tile.lanes}f{8*self.itemsize}.p0"
        module = self.builder.module
        function = module.globals.get(full) or ir.Function(
            module, ir.FunctionType(result, [v.type for v in values]), full)
        return self.builder.call(function, values)

    def emit_direct(
            self, left: Any, down: Any, along: Any, right: Any, step: Any, sums: Any,
            stride: Any, count: Any, first: Any, rows_left: Any, columns: Any) -> None:
        """Emit the loop that adds `count` products to `sums`, zero if they are `first`.

        Where there are fewer rows, the last one takes the places of what is missing.
        """
        b, align = self.builder, _I32(self.itemsize)
        masks = self._masks(columns)
        last = b.sub(rows_left, _I64(1))
        places = [b.select(b.icmp_signed("<", _I64(r), last), _I64(r), last)
                  for r in range(self.rows)]
        rows = [b.mul(down, place) for place in places]
        targets = [self._at(sums, b.add(b.mul(stride, place), _I64(v*self.tile.lanes)),
                            self.vector) for place in places
                   for v in range(self.vectors)]
        initial = self._begin(targets, masks, first)
        zero = ir.Constant(self.vector, [0.0]*self.tile.lanes)
        entry, loop = b.block, b.append_basic_block("direct.loop")
        done = b.append_basic_block("direct.end")
        b.branch(loop)
        b.position_at_end(loop)
        k = b.phi(_I64)
        totals = [b.phi(self.vector) for _ in range(self.rows*self.vectors)]
        here = b.mul(k, step)
        vectors = [self._masked(
            "load", self.vector, self._at(right, b.add(here, _I64(v*self.tile.lanes)),
                                          self.vector), align, mask, zero)
            for v, mask in enumerate(masks)]
        place = b.mul(k, along)
        numbers = [self._repeated(self._load(left, b.add(place, row), self.element))
                   for row in rows]
        after = [self._add_product(numbers[i//self.vectors], vectors[i % self.vectors],
                                   total) for i, total in enumerate(totals)]
        following = b.add(k, _I64(1))
        b.cbranch(b.icmp_signed("<", following, count), loop, done)
        k.add_incoming(_I64(0), entry)
        k.add_incoming(following, loop)
        for phi, start, value in zip(totals, initial, after, strict=True):
            phi.add_incoming(start, entry)
            phi.add_incoming(value, loop)
        b.position_at_end(done)
        for i, (value, target) in enumerate(zip(after, targets, strict=True)):
            self._masked("store", ir.VoidType(), value, target, align,
                         masks[i % self.vectors])

    def _begin(self, targets: list[Any], masks: list[Any], first: Any) -> list[Any]:
        """The initial sums: zeros, or those in memory."""
        b, zero = self.builder, ir.Constant(self.vector, [0.0]*self.tile.lanes)
        entry, more = b.block, b.append_basic_block("direct.more")
        begin = b.append_basic_block("direct.begin")
        b.cbranch(first, begin, more)
        b.position_at_end(more)
        loaded = [self._masked("load", self.vector, target, _I32(self.itemsize),
                               masks[i % self.vectors], zero)
                  for i, target in enumerate(targets)]
        b.branch(begin)
        b.position_at_end(begin)
        values = []
        for value in loaded:
            phi = b.phi(self.vector)
            phi.add_incoming(zero, entry)
            phi.add_incoming(value, more)
            values.append(phi)
        return values


def _direct(kind: str) -> Any:
    @intrinsic(prefer_literal=True)
    def direct(typing: Any, left: Any, down: Any, along: Any, right: Any, step: Any,
               sums: Any, stride: Any, count: Any, first: Any, left_over: Any,
               columns: Any, rows: Any, vectors: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            _Emitter(builder, kind, rows.literal_value,
                     vectors.literal_value).emit_direct(*values[:-2])
            return context.get_dummy_value()

        return types.void(*[types.int64]*8, types.boolean, *[types.int64]*2, rows,
                          vectors), codegen

    return direct


#: ``direct_f32(left, down, along, right, step, sums, stride, count, first, left_over,
#: columns, rows, vectors)``: addresses of two factors and of the sums, which begin at
#: zero if it is the `first` part of them.  The left one's strides are `down` its rows
#: and `along` them; the right one's rows are `step` apart.  The last two are literals;
#: what is beyond the rows `left_over`, or `columns`, is not touched.
DIRECT: dict[str, Any] = {f"direct_{kind}": _direct(kind) for kind in FLOATS}
