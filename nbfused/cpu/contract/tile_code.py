"""The inner loop of a matrix product, as an LLVM intrinsic for generated text.

An iteration loads a row of the right panel, multiplies it by each number of the left
one, and adds: every sum is made in the order of ``k``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..mathematics.number import fma_is_fast
from .tile import VECTORS, tile_of

__all__ = ["FLOATS", "LINE", "TILES", "TileEmitter", "prefetch"]

_I64 = ir.IntType(64)
LINE = 64  # bytes of a cache line

#: Element type and bytes of each kind.
FLOATS = {"f32": (ir.FloatType(), 4), "f64": (ir.DoubleType(), 8)}

class TileEmitter:
    """Emits the LLVM code of one register tile."""

    def __init__(self, builder: Any, kind: str) -> None:
        self.builder = builder
        self.element, self.itemsize = FLOATS[kind]
        self.tile = tile_of(self.itemsize)
        self.rows, self.vectors = self.tile.rows, VECTORS
        self.vector = ir.VectorType(self.element, self.tile.lanes)
        self.zero = ir.Constant(self.vector, [0.0] * self.tile.lanes)

    def _at(self, address: Any, index: Any, target: Any) -> Any:
        """A pointer to an element of an array, or to a vector there."""
        bytes_ = self.builder.mul(index, _I64(self.itemsize))
        return self.builder.inttoptr(self.builder.add(address, bytes_),
                                     target.as_pointer())

    def _load(self, address: Any, index: Any, target: Any) -> Any:
        return self.builder.load(self._at(address, index, target), align=self.itemsize)

    def _places(self, stride: Any) -> list[Any]:
        """Row and column of every vector of the tile."""
        b = self.builder
        return [b.add(b.mul(stride, _I64(r)), _I64(v * self.tile.lanes))
                for r in range(self.rows) for v in range(self.vectors)]

    def _repeated(self, number: Any) -> Any:
        b = self.builder
        one = b.insert_element(ir.Constant(self.vector, ir.Undefined), number,
                               ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.tile.lanes),
                            [0] * self.tile.lanes)
        return b.shuffle_vector(one, ir.Constant(self.vector, ir.Undefined), zeros)

    def _add_product(self, a: Any, b: Any, total: Any) -> Any:
        if not fma_is_fast():
            return self.builder.fadd(self.builder.fmul(a, b), total)
        bits = self.itemsize * 8
        name = f"llvm.fma.v{self.tile.lanes}f{bits}"
        module = self.builder.module
        function = module.globals.get(name) or ir.Function(
            module, ir.FunctionType(self.vector, [self.vector] * 3), name)
        return self.builder.call(function, [a, b, total])

    def initial(self, first: Any, load: Callable[[], list[Any]]) -> list[Any]:
        """The initial sums: zeros if it is the `first` part of them, else loaded."""
        b = self.builder
        entry, more = b.block, b.append_basic_block("sums.more")
        begin = b.append_basic_block("sums.begin")
        b.cbranch(first, begin, more)
        b.position_at_end(more)
        loaded = load()
        b.branch(begin)
        b.position_at_end(begin)
        values = []
        for value in loaded:
            phi = b.phi(self.vector)
            phi.add_incoming(self.zero, entry)
            phi.add_incoming(value, more)
            values.append(phi)
        return values

    def _prefetch(self, address: Any, index: Any) -> None:
        """Prefetch a row of the right panel into the second-level cache."""
        for offset in range(0, self.tile.columns * self.itemsize, LINE):
            place = self.builder.add(index, _I64(offset // self.itemsize))
            prefetch(self.builder, self._at(address, place, ir.IntType(8)), 2)

    def _step(self, left: Any, right: Any, k: Any, totals: list[Any],
              ahead: Any) -> list[Any]:
        b, tile = self.builder, self.tile
        place = b.mul(k, _I64(tile.columns))
        self._prefetch(ahead, place)
        row = [self._load(right, b.add(place, _I64(v * tile.lanes)), self.vector)
               for v in range(VECTORS)]
        place = b.mul(k, _I64(tile.rows))
        numbers = [self._repeated(self._load(left, b.add(place, _I64(r)), self.element))
                   for r in range(tile.rows)]
        return [self._add_product(numbers[i // VECTORS], row[i % VECTORS], total)
                for i, total in enumerate(totals)]

    def emit(self, left: Any, right: Any, sums: Any, count: Any, stride: Any,
             first: Any, ahead: Any) -> None:
        """Emit the loop that adds `count` products to `sums`."""
        b = self.builder
        initial = self.initial(first, lambda: [
            self._load(sums, p, self.vector) for p in self._places(stride)])
        entry, loop = b.block, b.append_basic_block("tile.loop")
        done = b.append_basic_block("tile.end")
        b.branch(loop)
        b.position_at_end(loop)
        k = b.phi(_I64)
        totals = [b.phi(self.vector) for _ in initial]
        after = self._step(left, right, k, totals, ahead)
        following = b.add(k, _I64(1))
        b.cbranch(b.icmp_signed("<", following, count), loop, done)
        k.add_incoming(_I64(0), entry)
        k.add_incoming(following, loop)
        for phi, start, value in zip(totals, initial, after, strict=True):
            phi.add_incoming(start, entry)
            phi.add_incoming(value, loop)
        b.position_at_end(done)
        self.finish(after, sums, stride)

    def finish(self, totals: list[Any], sums: Any, stride: Any) -> None:
        """Store the sums."""
        for place, value in zip(self._places(stride), totals, strict=True):
            self.builder.store(value, self._at(sums, place, self.vector),
                               align=self.itemsize)


def prefetch(builder: Any, pointer: Any, locality: int) -> None:
    """Emit the prefetch of a line: `locality` 3 is the first-level cache, 2 second."""
    switches = [ir.IntType(32)(n) for n in (0, locality, 1)]  # read, …, data
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, *(s.type for s in switches)])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
    builder.call(function, [pointer, *switches])


def _tile(kind: str) -> Any:
    @intrinsic
    def tile(typing: Any, left: Any, right: Any, sums: Any, count: Any, stride: Any,
             first: Any, ahead: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            TileEmitter(builder, kind).emit(*values)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5, types.boolean, types.int64), codegen

    return tile


#: ``tile_f32(left, right, sums, count, stride, first, ahead)``: addresses of two panels
#: and of the sums, which begin at zero if it is the `first` part of them; and of the
#: right panel to bring nearer meanwhile.
TILES: dict[str, Any] = {f"tile_{kind}": _tile(kind) for kind in FLOATS}
