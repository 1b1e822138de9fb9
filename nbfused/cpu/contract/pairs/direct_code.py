"""The inner loops of narrow products of pairs of bfloat16, as LLVM intrinsics.

Pairs of the right factor are made in registers of two of its rows, or both factors lie
along the sums.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ....support.llvm.masks import lanes_before, masked_load
from ..direct_code import ColumnsEmitter
from ..dots_code import DotsEmitter
from ..narrow_code import I64
from .tile_code import add_pairs

__all__ = ["PAIR_PRODUCTS"]

_I16, _I32 = ir.IntType(16), ir.IntType(32)
_KINDS = ("bf16", "bf16", "f32")


class _Columns(ColumnsEmitter):
    """Emits a tile along columns, whose left factor lies along the sums."""

    def emit_whole(
            self, left: Any, along: Any, right: Any, step: Any, sums: Any, count: Any,
            first: Any, starts: list[Any], below: list[Any], begins: list[Any],
            masks: list[Any]) -> None:
        """Emit the loop over pairs, and the last term of an odd number."""
        b = self.builder
        targets = [b.add(row, begin) for row in below for begin in begins]
        size = len(targets)

        def vectors(k: Any, both: bool) -> list[Any]:
            here = b.mul(k, step)
            if self.vectors > 1:
                for row in (here, b.add(here, step))[:1 + both]:
                    self.fetch(right, b.add(row, I64(self.vectors*self.tile.lanes)),
                               self.vectors, "bf16")
            return [self._interleaved(right, b.add(here, begin), both and step, mask)
                    for begin, mask in zip(begins, masks, strict=True)]

        def added(k: Any, totals: list[Any]) -> list[Any]:
            across = vectors(k, True)
            return [total for r, start in enumerate(starts) for total in self._row(
                b.add(left, b.mul(b.add(k, start), I64(2))), across,
                totals[r*self.vectors:(r + 1)*self.vectors])]

        def added_in_parts(k: Any, totals: list[Any]) -> list[Any]:
            return [total for part in range(self.parts) for total in added(
                b.add(k, I64(2*part)), totals[part*size:(part + 1)*size])]

        def added_last(k: Any, totals: list[Any]) -> list[Any]:
            across = vectors(k, False)
            return [add_pairs(b, self._alone(left, b.add(k, starts[i // self.vectors])),
                              across[i % self.vectors], total)
                    for i, total in enumerate(totals)]

        initial = self.initial(first, lambda: [
            self.load(sums, target, masks[i % self.vectors])
            for i, target in enumerate(targets)])
        even = b.and_(count, I64(-2))
        end = b.sub(even, b.srem(even, I64(2*self.parts)))
        parts = self.repeat(
            I64(0), end, 2*self.parts, initial + [self.zero]*size*(self.parts - 1),
            added_in_parts)
        totals = parts[:size]
        for part in range(1, self.parts):
            totals = [b.fadd(a, parts[part*size + i]) for i, a in enumerate(totals)]
        if self.parts > 1:
            totals = self.repeat(end, even, 2, totals, added)
        totals = self.repeat(even, count, 1, totals, added_last)
        for i, (value, target) in enumerate(zip(totals, targets, strict=True)):
            self.store(value, sums, target, masks[i % self.vectors])

    def _row(self, place: Any, across: list[Any], totals: list[Any]) -> list[Any]:
        """Emit the products of a row's pair, as assembly that leaves sums in place."""
        count = len(totals)
        kinds = [self.vector]*(count + 1)
        lines = [f"vbroadcastss (${count + 1}), ${count}", *(
            f"vdpbf16ps ${count + 2 + v}, ${count}, ${v}" for v in range(count))]
        constraints = ",".join([*["=&v"]*(count + 1), "r", *["v"]*count,
                                *map(str, range(count))])
        function = ir.FunctionType(ir.LiteralStructType(kinds),
                                   [I64, *[self.vector]*(2*count)])
        after = self.builder.call(
            ir.InlineAsm(function, "\\0A".join(lines), constraints, True),
            [place, *across, *totals])
        return [self.builder.extract_value(after, v) for v in range(count)]

    def _interleaved(self, address: Any, index: Any, step: Any, mask: Any) -> Any:
        """Pairs of a vector of a row and of the one a `step` further, else zeros."""
        b, lanes = self.builder, self.tile.lanes
        kind = ir.VectorType(_I16, lanes)
        zero = ir.Constant(kind, [ir.Constant(_I16, 0)]*lanes)

        def row(index: Any) -> Any:
            return masked_load(b, self._place(address, index, 2, kind), 2, mask, zero)

        pairs = b.shuffle_vector(
            row(index), row(b.add(index, step)) if step else zero, ir.Constant(
                ir.VectorType(_I32, 2*lanes), [side*lanes + i for i in range(lanes)
                                               for side in (0, 1)]))
        return b.bitcast(pairs, self.vector)

    def _alone(self, address: Any, index: Any) -> Any:
        """A number and a zero, in all lanes."""
        b = self.builder
        bits = b.load(self._place(address, index, 2, _I16), align=2)
        return self._repeated(b.bitcast(b.zext(bits, _I32), self.element))


class _Dots(DotsEmitter):
    """Emits a tile of dot products, of vectors of pairs."""

    def __init__(self, builder: Any, rows: int, columns: int, parts: int) -> None:
        super().__init__(builder, _KINDS, rows, columns, parts)
        self.length = 2*self.tile.lanes

    def mask(self, count: Any, first: int = 0) -> Any:
        """The numbers of a vector before number `count`."""
        return lanes_before(self.builder, count, self.length, first)

    def load(self, address: Any, index: Any, mask: Any = None, kind: str = "") -> Any:
        """A vector of numbers, zero where it is masked."""
        vector = ir.VectorType(_I16, self.length)
        place = self._place(address, index, 2, vector)
        if mask is None:
            return self.builder.load(place, align=2)
        return masked_load(self.builder, place, 2, mask, ir.Constant(
            vector, [ir.Constant(_I16, 0)]*self.length))

    def _add_product(self, a: Any, b: Any, total: Any) -> Any:
        return add_pairs(self.builder, a, b, total)


@intrinsic(prefer_literal=True)
def _direct(typing: Any, left: Any, down: Any, along: Any, right: Any, step: Any,
            sums: Any, stride: Any, count: Any, first: Any, left_over: Any,
            columns: Any, rows: Any, vectors: Any, parts: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _Columns(builder, _KINDS, rows.literal_value, vectors.literal_value,
                 parts.literal_value).emit_direct(*values[:-3])
        return context.get_dummy_value()

    return types.void(*[types.int64]*8, types.boolean, *[types.int64]*2, rows, vectors,
                      parts), codegen


@intrinsic(prefer_literal=True)
def _dots(typing: Any, left: Any, down: Any, right: Any, own: Any, sums: Any,
          stride: Any, aside: Any, count: Any, first: Any, rows_left: Any,
          columns_left: Any, rows: Any, columns: Any, parts: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _Dots(builder, rows.literal_value, columns.literal_value,
              parts.literal_value).emit_dots(*values[:-3])
        return context.get_dummy_value()

    return types.void(*[types.int64]*8, types.boolean, *[types.int64]*2, rows, columns,
                      parts), codegen


#: ``direct_pairs`` and ``dots_pairs``, as `DIRECT` and `DOTS` of bfloat16.
PAIR_PRODUCTS: dict[str, Any] = {"direct_pairs": _direct, "dots_pairs": _dots}
