"""Transposition in registers, as LLVM intrinsics for packing across rows.

Storing a row's numbers one by one, each at its place in a panel, takes longer.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...support.llvm.masks import lanes_before, masked_load, masked_store
from .tile import square_lanes

__all__ = ["TRANSPOSES", "Squares"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_FLOATS = {"f32": (ir.FloatType(), 4), "f64": (ir.DoubleType(), 8)}

#: What squares are of; 16-bit floats are moved as their bits.
_MOVED = {**_FLOATS, "i32": (_I32, 4), "i64": (_I64, 8),
          "f16": (ir.IntType(16), 2), "bf16": (ir.IntType(16), 2)}


class Squares:
    """Emits code that transposes a square as wide as a vector."""

    def __init__(self, builder: Any, kind: str) -> None:
        self.builder = builder
        self.element, self.itemsize = _MOVED[kind]
        self.lanes = square_lanes(self.itemsize)

    def _pointer(self, address: Any, offset: Any, lanes: int) -> Any:
        b = self.builder
        target = ir.VectorType(self.element, lanes).as_pointer()
        return b.inttoptr(b.add(address, offset), target)

    def chosen(self, a: Any, b: Any, lanes: list[int]) -> Any:
        """Shuffle numbers of two vectors into one."""
        mask = ir.Constant(ir.VectorType(_I32, len(lanes)), lanes)
        return self.builder.shuffle_vector(a, b, mask)

    def transposed(self, rows: list[Any]) -> list[Any]:
        """Transpose a square: inside of the vectors' parts of 16 bytes, then these.

        AMD's first Zens take eight times as long to move numbers to another part.
        """
        n, part = self.lanes, min(self.lanes, 16 // self.itemsize)
        groups = [self._passes(rows[first:first + part], part, 1)
                  for first in range(0, n, part)]
        columns = [self._passes(list(group), n // part, part)
                   for group in zip(*groups, strict=True)]
        return [columns[k % part][k // part] for k in range(n)]

    def _passes(self, rows: list[Any], count: int, size: int) -> list[Any]:
        """Transpose `count` rows of as many blocks of `size` numbers, side by side.

        Each pass halves the distance of pairs.
        """
        n, half = self.lanes, count // 2
        for _ in range(count.bit_length() - 1):
            rows = [self.chosen(rows[i], rows[i + half], [
                side*n + first + block*size + number
                for first in range(0, n, count*size)
                for block in range(begin, begin + half) for side in (0, 1)
                for number in range(size)])
                for i in range(half) for begin in (0, half)]
        return rows

    def emit(self, source: Any, stride: Any, target: Any, width: int,
             count: int) -> None:
        """Emit the copy of the first numbers of `count` rows to panel columns."""
        b, n = self.builder, self.lanes
        bytes_ = b.mul(stride, _I64(self.itemsize))
        rows = [b.load(self._pointer(source, b.mul(bytes_, _I64(r)), n),
                       align=self.itemsize) for r in range(count)]
        nothing = ir.Constant(ir.VectorType(self.element, n), ir.Undefined)
        columns = self.transposed(rows + [nothing] * (n - count))
        for k, column in enumerate(columns):
            self.store_part(column, target, k * width, count)

    def store_part(self, column: Any, target: Any, at: int, count: int) -> None:
        """Store the first numbers of a vector, in powers of two."""
        done = 0
        while done < count:
            size = 1 << ((count - done).bit_length() - 1)
            part = self.chosen(column, column, list(range(done, done + size)))
            place = _I64((at + done) * self.itemsize)
            self.builder.store(part, self._pointer(target, place, size),
                               align=self.itemsize)
            done += size


class _Masked(Squares):
    """Emits code that transposes a square of which not all columns are there."""

    def emit_from(self, source: Any, stride: Any, target: Any, width: Any,
                  columns: Any) -> None:
        """Emit the copy of `columns` of each row; further ones are undefined."""
        mask = self._mask(columns)
        places = self._places(source, stride)
        for place, column in zip(self._places(target, width), self.transposed(
                [self._load(p, mask) for p in places]), strict=True):
            self.builder.store(column, place, align=self.itemsize)

    def emit_to(self, source: Any, stride: Any, target: Any, width: Any,
                columns: Any) -> None:
        """Emit the copy of whole rows to `columns` of each column."""
        mask = self._mask(columns)
        rows = [self.builder.load(p, align=self.itemsize)
                for p in self._places(source, stride)]
        for place, row in zip(self._places(target, width), self.transposed(rows),
                              strict=True):
            self._masked_store(row, place, mask)

    def emit_any(self, source: Any, stride: Any, target: Any, width: Any, rows: Any,
                 columns: Any) -> None:
        """Emit the copy of at most so many `rows`, of so many `columns` each.

        What is beyond them is at the last one's place: of addresses that are not there
        processors take long to see that they are masked.
        """
        b, inside, own = self.builder, self._mask(columns), self._mask(rows)
        loaded = [self._load(p, inside)
                  for p in self._places(source, stride, b.sub(rows, _I64(1)))]
        nothing = ir.Constant(own.type, None)
        for c, (place, row) in enumerate(zip(
                self._places(target, width, b.sub(columns, _I64(1))),
                self.transposed(loaded), strict=True)):
            mask = b.select(b.icmp_signed("<", _I64(c), columns), own, nothing)
            self._masked_store(row, place, mask)

    def emit_padded(self, source: Any, stride: Any, target: Any, width: Any, rows: Any,
                    columns: Any) -> None:
        """Emit the copy of at most so many `rows` and `columns` to a whole square.

        Processors without AVX-512 take ten times as long to store some of a vector.
        """
        b, inside = self.builder, self._mask(columns)
        loaded = [self._load(p, inside)
                  for p in self._places(source, stride, b.sub(rows, _I64(1)))]
        for place, row in zip(self._places(target, width), self.transposed(loaded),
                              strict=True):
            b.store(row, place, align=self.itemsize)

    def _places(self, address: Any, stride: Any, last: Any = None) -> list[Any]:
        """Pointers to the square's rows, up to the `last` one."""
        b = self.builder
        step = b.mul(stride, _I64(self.itemsize))
        rows = [_I64(r) if last is None else b.select(
            b.icmp_signed("<", _I64(r), last), _I64(r), last)
            for r in range(self.lanes)]
        return [self._pointer(address, b.mul(step, row), self.lanes) for row in rows]

    def _mask(self, columns: Any) -> Any:
        """A truth value for each lane: whether there is such a column."""
        return lanes_before(self.builder, self.builder.trunc(columns, _I32), self.lanes)

    def _load(self, place: Any, mask: Any) -> Any:
        nothing = ir.Constant(ir.VectorType(self.element, self.lanes), ir.Undefined)
        return masked_load(self.builder, place, self.itemsize, mask, nothing)

    def _masked_store(self, row: Any, place: Any, mask: Any) -> None:
        masked_store(self.builder, row, place, self.itemsize, mask)


def _square(kind: str, which: str) -> Any:
    @intrinsic
    def square(typing: Any, source: Any, stride: Any, target: Any, width: Any,
               columns: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            getattr(_Masked(builder, kind), which)(*values)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), codegen

    return square


def _part_of_square(kind: str, which: str) -> Any:
    @intrinsic
    def square(typing: Any, source: Any, stride: Any, target: Any, width: Any,
               rows: Any, columns: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            getattr(_Masked(builder, kind), which)(*values)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), codegen

    return square


def _transpose(kind: str) -> Any:
    @intrinsic(prefer_literal=True)
    def transpose(typing: Any, source: Any, stride: Any, target: Any, width: Any,
                  count: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            Squares(builder, kind).emit(values[0], values[1], values[2],
                                         width.literal_value, count.literal_value)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 3, width, count), codegen

    return transpose


#: ``transpose_f32(source, stride, target, width, count)``: addresses of `count` rows
#: and of their place in a panel of `width`; both are literals.
#: ``square_from_f32(source, stride, target, width, columns)`` and ``square_to_f32``
#: transpose a square; the rows that are read or those that are written may be shorter.
#: ``square_any_f32(source, stride, target, width, rows, columns)`` does for at most as
#: many rows and columns as a square has; ``square_padded_f32`` stores a whole one.
TRANSPOSES: dict[str, Any] = {
    **{f"transpose_{kind}": _transpose(kind) for kind in _FLOATS},
    **{f"square_{which}_{kind}": _part_of_square(kind, f"emit_{which}")
       for which in ("any", "padded") for kind in _MOVED},
    **{f"square_{which}_{kind}": _square(kind, f"emit_{which}")
       for which in ("from", "to") for kind in _MOVED}}
