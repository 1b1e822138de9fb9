"""Emission of LLVM code for the inner loops of narrow products.

Neither factor is packed; a lane that has no number reads none, and counts as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ...support.llvm.masks import lanes_before, masked_load, masked_store
from .tile_code import FLOATS, LINE, TileEmitter, prefetch

__all__ = ["I64", "KINDS", "Kinds", "NarrowEmitter"]

_I8, _I16, _I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))

#: Kinds of both factors in memory, and of the sums.
Kinds = tuple[str, str, str]
KINDS: tuple[Kinds, ...] = (("f64", "f64", "f64"), *(
    (a, b, "f32") for a in ("f32", "f16", "bf16") for b in ("f32", "f16", "bf16")))

#: 16-bit floats in memory.
_HALVES = {"f16": ir.HalfType(), "bf16": _I16}


class NarrowEmitter(TileEmitter):
    """Emits LLVM code over rows and columns that may be fewer than a tile's."""

    def __init__(self, builder: Any, kinds: Kinds) -> None:
        super().__init__(builder, kinds[-1])
        self.kinds = kinds

    def places(self, count: Any, most: int) -> list[Any]:
        """The first `most` rows, or columns; the last one for those beyond `count`."""
        b = self.builder
        last = b.sub(count, I64(1))
        return [b.select(b.icmp_signed("<", I64(r), last), I64(r), last)
                for r in range(most)]

    def mask(self, count: Any, first: int = 0) -> Any:
        """The lanes of a vector, from number `first` on, before number `count`."""
        return lanes_before(self.builder, count, self.tile.lanes, first)

    def load(self, address: Any, index: Any, mask: Any = None,
             kind: str = "") -> Any:
        """A vector from memory, of a `kind` or as the sums, zero where it is masked."""
        element, size = self._stored(kind)
        vector = ir.VectorType(element, self.tile.lanes)
        place = self._place(address, index, size, vector)
        if mask is None:
            return self._widened(self.builder.load(place, align=size), kind)
        zero = ir.Constant(vector, [ir.Constant(element, 0)]*self.tile.lanes)
        return self._widened(masked_load(self.builder, place, size, mask, zero), kind)

    def store(self, value: Any, address: Any, index: Any, mask: Any = None) -> None:
        """Store a vector, or those lanes that a mask has."""
        place = self._at(address, index, self.vector)
        if mask is None:
            self.builder.store(value, place, align=self.itemsize)
        else:
            masked_store(self.builder, value, place, self.itemsize, mask)

    def number(self, address: Any, index: Any) -> Any:
        """A number of the left factor in all lanes."""
        element, size = self._stored(self.kinds[0])
        place = self._place(address, index, size, element)
        return self._repeated(self._widened(self.builder.load(place, align=size),
                                            self.kinds[0]))

    def fetch(self, address: Any, index: Any, count: int, kind: str) -> None:
        """Have memory bring `count` vectors to the first-level cache."""
        size = self._stored(kind)[1]
        for first in range(0, count*self.tile.lanes, LINE // size):
            prefetch(self.builder, self._place(
                address, self.builder.add(index, I64(first)), size, _I8), 3)

    def add_to(self, sums: Any, places: Sequence[Any], values: Sequence[Any],
               first: Any) -> None:
        """Add to numbers in memory, or store the `first` values there.

        Of places that are the same all values are: what was there is read before.
        """
        b = self.builder
        targets = [self._at(sums, place, self.element) for place in places]
        before = [b.load(target, align=self.itemsize) for target in targets]
        after = [b.select(first, value, b.fadd(old, value))
                 for old, value in zip(before, values, strict=True)]
        for target, value in zip(targets, after, strict=True):
            b.store(value, target, align=self.itemsize)

    def total(self, vector: Any) -> Any:
        """The sum of a vector's lanes, by halves."""
        b, lanes = self.builder, self.tile.lanes
        while lanes > 1:
            lanes //= 2
            halves = [b.shuffle_vector(vector, vector, ir.Constant(
                ir.VectorType(_I32, lanes), [*range(first, first + lanes)]))
                for first in (0, lanes)]
            vector = b.fadd(*halves)
        return b.extract_element(vector, _I32(0))

    def repeat(self, begin: Any, end: Any, step: int, values: Sequence[Any],
               body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
        """Emit a loop, of no iteration too, that carries values.

        Parameters
        ----------
        begin, end, step
            Of the index; `end` is whole steps from `begin`, or less than one beyond.
        values
            Before the first iteration.
        body
            Gives those after an iteration, of the index and those before it.
        """
        b = self.builder
        entry, loop, done = b.block, b.append_basic_block(), b.append_basic_block()
        b.cbranch(b.icmp_signed("<", begin, end), loop, done)
        b.position_at_end(loop)
        index = b.phi(I64)
        carried = [b.phi(v.type) for v in values]
        after = body(index, carried)
        following = b.add(index, I64(step))
        back = b.block
        b.cbranch(b.icmp_signed("<", following, end), loop, done)
        index.add_incoming(begin, entry)
        index.add_incoming(following, back)
        b.position_at_end(done)
        results = [b.phi(v.type) for v in values]
        for phi, result, first, last in zip(carried, results, values, after,
                                            strict=True):
            phi.add_incoming(first, entry)
            phi.add_incoming(last, back)
            result.add_incoming(first, entry)
            result.add_incoming(last, back)
        return results

    def _stored(self, kind: str) -> tuple[Any, int]:
        """Type and bytes of a number in memory."""
        return (_HALVES[kind], 2) if kind in _HALVES else FLOATS[kind or self.kinds[-1]]

    def _place(self, address: Any, index: Any, size: int, target: Any) -> Any:
        b = self.builder
        return b.inttoptr(b.add(address, b.mul(index, I64(size))), target.as_pointer())

    def _widened(self, value: Any, kind: str) -> Any:
        """16-bit floats, a vector or one, as float32."""
        b, many = self.builder, isinstance(value.type, ir.VectorType)
        if kind == "f16":
            return b.fpext(value, self.vector if many else self.element)
        if kind != "bf16":
            return value
        lanes = self.tile.lanes
        bits = ir.VectorType(_I32, lanes) if many else _I32
        shift = ir.Constant(bits, [16]*lanes if many else 16)
        return b.bitcast(b.shl(b.zext(value, bits), shift),
                         self.vector if many else self.element)
