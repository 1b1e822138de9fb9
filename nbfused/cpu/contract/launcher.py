"""Launcher of `Contract` on the CPU: chooses the kernels or BLAS.

Large products are `gemm`'s, narrow ones `direct`'s, batches of the smallest `small`'s,
bfloat16 is for `pairs` where the processor multiplies it; BLAS makes those of other
dtypes than float32 and float64, in panels of rows.  What none can read as it lies in
memory (dtypes other than the accumulator's, of which `direct` reads 16-bit floats,
prologues, uneven strides) is packed by a Map first; the epilogue is a Map too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...arrays.libraries.numpy import NUMPY
from ...backend import Call, Launcher, Signature, Start
from ...specs import TypedContract, TypedMap
from ...support.dtypes import BFLOAT16
from ...support.forks import cached_property
from ..map import Kernel, compile_map, map_launcher
from ..runtime.binding import BindingLauncher
from .direct import bind_direct
from .direct_ways import is_better_apart, is_narrow, way_of
from .gemm import Epilogue, Factors, Multiply, bind_product, is_suitable, start_of
from .matrices import (
    Factor,
    Loops,
    Ranges,
    Side,
    View,
    apart_from,
    bind_epilogue,
    dense,
    matrix,
    moves_of,
    multiply_by_blas,
    panels,
    view_of,
)
from .pairs.batches import bind_batch
from .pairs.choice import is_better_packed
from .pairs.columns import bind_columns
from .small import Finish, is_identity, small_products

__all__ = ["build_contract"]

#: Multiplications of each product of a batch, fewer of which are left to BLAS; not
#: measured.
_BATCHED = 1 << 20

#: Multiplications of each narrow product of a batch, fewer of which are left to BLAS,
#: as are all whose factors it can read: benchmarks/notes/cpu.md#small-products.
_EACH = 1 << 16


class _Product:
    """The launcher of a matrix product with its epilogue."""

    def __init__(self, typed: TypedContract, signature: Signature) -> None:
        self.batch, self.m, self.n, self.k = signature.ranks
        self.accumulator = typed.accumulator
        kinds = ("element", "element", *typed.kinds)  # numbers may have dtypes too
        dtypes = [t for t, kind in zip(signature.inputs, kinds, strict=True)
                  if kind != "scalar" and isinstance(t, np.dtype)]
        codes = signature.inner
        self.factors = [
            Factor(dtypes[i], typed.accumulator, typed.prologues[i],
                   self.batch + rank + self.k, codes[i])
            for i, rank in enumerate((self.m, self.n))]
        self.paired = all(factor.is_paired for factor in self.factors)
        self.outputs = signature.outputs
        self.itemsizes = [d.itemsize for d in (*dtypes, *signature.outputs)]
        self.plain = is_identity(typed) and signature.outputs == (typed.accumulator,)
        self.rounds = is_identity(typed) and signature.outputs == (BFLOAT16,)
        first = codes[-len(signature.outputs)]
        self.swapped = first[0] == "1" and first[1] != "1"
        self._typed, self._signature = typed, signature
        self._small = small_products(typed, signature)

    @cached_property
    def kernel(self) -> Kernel:
        """The epilogue on sums in the order of the result's memory."""
        return self._compiled(self.swapped)

    @cached_property
    def epilogue(self) -> BindingLauncher:
        """The launcher of the epilogue."""
        return map_launcher(self.kernel)

    @cached_property
    def _other(self) -> BindingLauncher:
        """The launcher of the epilogue on sums in the other order."""
        return map_launcher(self._compiled(not self.swapped))

    @cached_property
    def _batched(self) -> _Product:
        """The same where the outer one of two loops over rows, or columns, is a batch.

        ``W @ x`` of one matrix and many is such a product.
        """
        return _Product(self._typed, self._signature._replace(
            ranks=(self.batch + 1, 1, 1, self.k)))

    def _compiled(self, swapped: bool) -> Kernel:
        """The epilogue on sums in rows, or in columns where they are `swapped`."""
        typed, signature = self._typed, self._signature
        inner = tuple(c[0] if swapped else c[1] for c in signature.inner[2:])
        epilogue = TypedMap(typed.epilogue, ("element", *typed.kinds))
        return compile_map(epilogue, Signature(
            (typed.accumulator, *signature.inputs[2:]), signature.outputs,
            (self.batch + self.m + self.n,), ("1", *inner)))

    def __call__(self, call: Call) -> None:
        """Launch; return when the results are there."""
        start = self.bind(call)
        if start is None:
            self._by_panels(call)
        else:
            start(call.pointers, call.scalars, call.stream)

    def bind(self, call: Call) -> Start | None:
        """Bind a call; None where panels, or copies for BLAS, are needed."""
        if {self.m, self.n} == {1, 2}:
            outer = self.batch + (self.m if self.n > 1 else 0)
            apart = apart_from(call, outer, self.batch)
            *_, m, n, k = apart.shape
            if self.k == 1 and is_better_apart(*((n, m) if self.n > 1 else (m, n)), k):
                return self._batched.bind(apart)
        narrow, start = self._is_narrow(call), None
        if self._small and (narrow or self.batch or not self._pairs(call)):
            start = self._small.bind(call, self._in_memory_order)
        if start is None and narrow:
            start = self._directly(call)
        if start is not None:
            return start
        return self._by_blocks(call) if self._can_block(call) else self._by_blas(call)

    def _is_narrow(self, call: Call) -> bool:
        """Whether the product is better multiplied as its factors lie in memory."""
        if self.m != 1 or self.n != 1 or 0 in call.shape:
            return False
        pairs = self._pairs(call)
        if pairs is not None:
            return 1 in (self.batch, pairs.batch) and not is_better_packed(
                pairs, self.swapped)
        m, n, *k = call.shape[self.batch:]
        return is_narrow(self.accumulator, m, n, prod(k))

    def _pairs(self, call: Call) -> Factors | None:
        """The products of a call, if they can be made of pairs of bfloat16."""
        if not self.paired or self.m != 1 or self.n != 1 or 0 in call.shape:
            return None
        sides = [self._side(which, call, True) for which in (0, 1)]
        if any(side.pack is not None for side in sides):
            return None
        return self._factors(call, sides, prod(call.shape[:self.batch]))

    def _directly(self, call: Call) -> Start | None:
        """Bind to the kernels of narrow products; None of batches of packed ones."""
        sides = [self._side(which, call, self.factors[which].is_widened)
                 for which in (0, 1)]
        count = prod(call.shape[:self.batch])
        lie = all(side.pack is None for side in sides)
        if count > 1 and self.batch == 1 and lie:
            multiply = self._narrow(call, sides, call.shape[:1])
            if multiply is not None:
                return start_of(multiply, False)
        if count > 1 and (None not in self._views(call) or (self.paired and lie)
                          or prod(call.shape[self.batch:]) < _EACH):
            return None
        multiply = self._narrow(call, sides, (1,)*self.batch)
        assert multiply is not None
        return self._each(call, sides, multiply, False)

    def _narrow(self, call: Call, sides: Sequence[Side], batch: tuple[int, ...],
                ) -> Multiply | None:
        """Bind so many products to these kernels; None where they have no way."""
        rows, columns, count = self.batch, self.batch + 1, prod(batch)
        factors = self._factors(call, sides, count)
        dtypes = [factor.dtype if side.pack is None else self.accumulator
                  for factor, side in zip(self.factors, sides, strict=True)]
        lie = all(side.pack is None for side in sides)
        way = way_of(factors, self.swapped, self.paired and lie)
        if way is None:
            return None
        order = [*range(self.batch), *((columns, rows) if way.swapped else
                                       (rows, columns))]
        extents = (*batch, *call.shape[rows:columns + 1])
        loop = tuple(extents[d] for d in order)
        strides = tuple(tuple(s[d] for d in order) for s in call.strides[2:])
        near = way.form == "dots" or strides[-1][-1] == 1 or loop[-1] == 1
        into = (strides[-1][0], *strides[-1][-2:]) if self.plain and near else None
        return bind_direct(factors, dtypes, way, into, lambda: bind_epilogue(
            self.epilogue if way.swapped == self.swapped else self._other, loop,
            strides))

    def _factors(self, call: Call, sides: Sequence[Side], count: int = 1) -> Factors:
        """The product, or so many of a batch, as kernels see it."""
        (down, along), (b_down, b_along) = (side.steps for side in sides)
        return Factors(self.accumulator, sides[0].extent, sides[1].extent,
                       prod(call.shape[self.batch + 2:]), down, along, b_down, b_along,
                       count, *(own[0] if count > 1 else 0
                                for own in call.strides[:2]))

    def _can_block(self, call: Call) -> bool:
        """Whether the blocked kernel can run the call, and pays."""
        if self._pairs(call) is not None:
            return True
        if self.m != 1 or self.n != 1:
            return False
        m, n, *terms = call.shape[self.batch:]
        batch, k = prod(call.shape[:self.batch]), prod(terms)
        return is_suitable(self.accumulator, m, n, k, None in self._views(call)) and (
            batch == 1 or (batch > 1 and m * n * k >= _BATCHED))

    def _views(self, call: Call) -> tuple[View | None, View | None]:
        """The factors as BLAS reads them; None for one that has to be packed."""
        rows, columns = self.batch + self.m, self.batch + self.m + self.n
        batch, m, n, k = (slice(0, self.batch), slice(self.batch, rows),
                          slice(rows, columns), slice(columns, None))
        a, b = (tuple(zip(call.shape, s, strict=True)) for s in call.strides[:2])
        return (self.factors[0].view(a[batch], a[m], a[k]),
                self.factors[1].view(b[batch], b[k], b[n]))

    def _by_blocks(self, call: Call) -> Start | None:
        """Bind to the blocked kernel; to BLAS if the epilogue is too large."""
        paired = self._pairs(call) is not None
        sides = [self._side(which, call, paired) for which in (0, 1)]
        rows, columns = self.batch, self.batch + 1
        order = [*range(self.batch), *((columns, rows) if self.swapped else
                                       (rows, columns))]
        extents = (*(1,)*self.batch, *call.shape[rows:columns + 1])
        whole = Call(tuple(extents[d] for d in order), (),
                     tuple(tuple(s[d] for d in order) for s in call.strides[2:]))
        left, right = sides[::-1] if self.swapped else sides
        factors = Factors(
            self.factors[0].dtype if paired else self.accumulator, left.extent,
            right.extent, prod(call.shape[columns + 1:]), *left.steps, *right.steps)
        epilogue = Epilogue(self.kernel, whole, self.itemsizes[2:], self.rounds)
        if paired and prod(call.shape[:self.batch]) > 1:
            every = bind_batch(factors, epilogue, moves_of(
                call, self.batch, self.itemsizes), self.swapped)
            if every is not None:
                return start_of(every, self.swapped)
        multiply = (paired and bind_columns(factors, epilogue)) or bind_product(
            factors, epilogue)
        return self._by_blas(call) if multiply is None else \
            self._each(call, sides, multiply, self.swapped)

    def _side(self, which: int, call: Call, widened: bool = False) -> Side:
        """Describe a factor as a kernel reads it, which may widen it as it does."""
        at = self.batch + which
        loops = tuple(zip(call.shape, call.strides[which], strict=True))
        own, inner = loops[at:at + 1], loops[self.batch + 2:]
        factor = self.factors[which]
        sides = (inner, own) if which else (own, inner)
        steps = factor.steps(own, inner, widened)
        pack = None if steps else partial(factor.pack, batch=self.batch, sides=sides)
        if steps is None:
            down, along = factor.packed_steps(*sides)
            steps = (along, down) if which else (down, along)
        return Side(call.shape[at], steps, pack)

    def _each(self, call: Call, sides: Sequence[Side], multiply: Multiply,
              swapped: bool) -> Start:
        """A launch of the product, or of each product of a batch in turn."""
        moves = moves_of(call, self.batch, self.itemsizes)
        if len(moves) == 1 and all(side.pack is None for side in sides):
            return start_of(multiply, swapped)

        def start_each(pointers: Sequence[int], scalars: tuple[Any, ...], _: int,
                       ) -> None:
            kept: list[Any] = [None, None]
            for move in moves:
                at = [p + m for p, m in zip(pointers, move, strict=True)]
                places = [side.place(at[which], which, kept)
                          for which, side in enumerate(sides)]
                a_at, b_at = places[::-1] if swapped else places
                multiply(a_at, b_at, at[2:], scalars)

        return start_each

    def _by_blas(self, call: Call) -> Start | None:
        """Bind a whole product to BLAS; None if a factor needs packing."""
        rows, columns = self.batch + self.m, self.batch + self.m + self.n
        whole = next(self._panels(call, rows, prod(call.shape[rows:columns])), ())
        if tuple(n for _, n in whole) != call.shape[:rows]:
            return None
        left, right = self._views(call)
        if left is None or right is None:
            return None
        into = tuple(zip(call.shape, call.strides[-1], strict=False))
        out = view_of(self.accumulator, into[:self.batch], into[self.batch:rows],
                      into[rows:columns]) if self.plain else None
        if out is not None:
            place, swapped = out, self.swapped
            return lambda pointers, scalars, _: multiply_by_blas(
                left(pointers[0]), right(pointers[1]), place(pointers[-1]), swapped)
        return self._by_blas_then_epilogue(call, left, right)

    def _by_blas_then_epilogue(self, call: Call, left: View, right: View) -> Start:
        """A launch by BLAS into temporary memory, then of the epilogue."""
        columns = self.batch + self.m + self.n
        _, shape = self._order(call.shape[:columns])
        finish = self._in_memory_order(call).bind()
        swapped, dtype = self.swapped, self.accumulator

        def start(pointers: Sequence[int], scalars: tuple[Any, ...], _: int) -> None:
            products = np.empty(shape, dtype)
            multiply_by_blas(
                left(pointers[0]), right(pointers[1]),
                products.swapaxes(-1, -2) if swapped else products, swapped)
            finish((NUMPY.pointer(products), *pointers[2:]), scalars, 0)

        return start

    def _in_memory_order(self, call: Call) -> Finish:
        """The epilogue on sums that lie in the order of the result's memory."""
        order, _ = self._order(call.shape[:self.batch + self.m + self.n])
        loop = tuple(call.shape[d] for d in order)
        strides = tuple(tuple(s[d] for d in order) for s in call.strides[2:])
        steps = dict(zip(order, dense(loop), strict=True))
        return Finish(lambda: bind_epilogue(self.epilogue, loop, strides),
                      tuple(steps[d] for d in range(len(order))))

    def _order(self, extents: tuple[int, ...],
               ) -> tuple[list[int], tuple[int, ...]]:
        """The loops in the products' memory order, and their matrix shape."""
        rows = self.batch + self.m
        batch, m, n = [*range(self.batch)], [*range(self.batch, rows)], \
            [*range(rows, len(extents))]
        outer, inner = (n, m) if self.swapped else (m, n)
        return [*batch, *outer, *inner], (
            *extents[:self.batch], prod(extents[d] for d in outer),
            prod(extents[d] for d in inner))

    def _by_panels(self, call: Call) -> None:
        rows, columns = self.batch + self.m, self.batch + self.m + self.n
        n = call.shape[rows:columns]
        repeated: tuple[object, np.ndarray] | None = None
        for ranges in self._panels(call, rows, prod(n)):
            extents = (*(count for _, count in ranges), *n, *call.shape[columns:])
            pointers = [
                p + size * sum(start * s for (start, _), s in
                               zip(ranges, strides, strict=False))
                for p, strides, size in zip(call.pointers, call.strides, self.itemsizes,
                                            strict=True)]
            key = (pointers[1], extents[:self.batch])
            a = self._factor(0, call, pointers[0], extents)
            if repeated is None or repeated[0] != key:
                repeated = key, self._factor(1, call, pointers[1], extents)
            self._panel(call, a, repeated[1], pointers, extents[:columns])

    def _panels(self, call: Call, rows: int, columns: int) -> Iterator[Ranges]:
        if self.plain and all(f.viewable for f in self.factors):
            return iter([tuple((0, n) for n in call.shape[:rows])])
        return panels(call.shape[:rows], columns)

    def _factor(self, which: int, call: Call, pointer: int,
                extents: tuple[int, ...]) -> np.ndarray:
        loops = tuple(zip(extents, call.strides[which], strict=True))
        rows, columns = self.batch + self.m, self.batch + self.m + self.n
        batch, m, n, k = (loops[:self.batch], loops[self.batch:rows],
                          loops[rows:columns], loops[columns:])
        sides: tuple[Loops, Loops] = (k, n) if which else (m, k)
        return self.factors[which].matrix(pointer, batch, *sides)

    def _panel(self, call: Call, a: np.ndarray, b: np.ndarray, pointers: list[int],
               extents: tuple[int, ...]) -> None:
        """Compute one panel; `extents` are those of batch, rows and columns."""
        if self.plain:
            loops = tuple(zip(extents, call.strides[-1], strict=False))
            rows = self.batch + self.m
            out = matrix(pointers[-1], self.accumulator, loops[:self.batch],
                         loops[self.batch:rows], loops[rows:])
            if out is not None:
                return multiply_by_blas(a, b, out, self.swapped)
        order, shape = self._order(extents)
        products = np.empty(shape, self.accumulator)
        multiply_by_blas(a, b, products.swapaxes(-1, -2) if self.swapped else products,
                         self.swapped)
        loop = tuple(extents[d] for d in order)
        strides = tuple(tuple(s[d] for d in order) for s in call.strides[2:])
        self.epilogue(Call(loop, (products.ctypes.data, *pointers[2:]),
                           (dense(loop), *strides), call.scalars))
        return None


def build_contract(typed: TypedContract, signature: Signature) -> Launcher:
    """Compile the epilogue of a Contract and make its launcher."""
    return _Product(typed, signature)
