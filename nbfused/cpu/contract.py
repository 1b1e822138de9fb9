"""`Contract`: products in blocks, the epilogue while a block is in the cache.

Large products are `gemm`'s; BLAS makes small and narrow ones, and those of other dtypes
than float32 and float64, in panels of rows.  What neither can read as it lies in memory
(16-bit floats, other dtypes than the accumulator's, prologues, uneven strides) is
packed by a Map first; the epilogue is a Map too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np

from ..backend import Call, Launcher, Signature
from ..specs import TypedContract, TypedMap
from .factors import Factor, Loops, dense, matrix
from .gemm import blocked_product, suits
from .map import build_map

__all__ = ["build_contract", "panels"]

#: Elements of a panel of products, to stay in the cache …
_PANEL = 1 << 20

#: … but so many rows at least: BLAS packs the other factor for each panel, and its
#: threads wait for one another …
_ROWS = 512

#: … where they do not take more elements than these.
_LARGE = 1 << 23

Ranges = tuple[tuple[int, int], ...]


def panels(extents: tuple[int, ...], columns: int) -> Iterator[Ranges]:
    """Cut loops over batch and rows into panels.

    Yields
    ------
    tuple of (start, count)
        For each loop.
    """
    limit = max(_PANEL, min(_ROWS * columns, _LARGE))
    size, at = max(columns, 1), len(extents) - 1
    while at >= 0 and size * extents[at] <= limit:
        size *= extents[at]
        at -= 1
    whole = tuple((0, n) for n in extents[at + 1:])
    if at < 0:
        yield whole
        return
    step = max(1, limit // size)
    for outer in product(*(range(n) for n in extents[:at])):
        for start in range(0, extents[at], step):
            count = min(step, extents[at] - start)
            yield (*((i, 1) for i in outer), (start, count), *whole)


class _Product:
    """The launcher."""

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
        self.outputs = signature.outputs
        self.itemsizes = [d.itemsize for d in (*dtypes, *signature.outputs)]
        self.plain = _is_identity(typed) and signature.outputs == (typed.accumulator,)
        first = codes[-len(signature.outputs)]
        self.swapped = first[0] == "1" and first[1] != "1"
        inner = tuple(c[0] if self.swapped else c[1] for c in codes[2:])
        epilogue = TypedMap(typed.epilogue, ("element", *typed.kinds))
        self.epilogue = build_map(epilogue, Signature(
            (typed.accumulator, *signature.inputs[2:]), signature.outputs,
            (self.batch + self.m + self.n,), ("1", *inner)))

    def __call__(self, call: Call) -> None:
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

    def _is_large(self, call: Call) -> bool:
        """Whether it is worth packing, and blocks of the result have two strides."""
        columns = self.batch + self.m + self.n
        m, n, k = call.shape[self.batch], call.shape[columns - 1], call.shape[columns:]
        return self.m == self.n == 1 and suits(self.accumulator, m, n, prod(k))

    def _panels(self, call: Call, rows: int, columns: int) -> Iterator[Ranges]:
        if self._is_large(call):
            batches = product(*(range(n) for n in call.shape[:self.batch]))
            return ((*((i, 1) for i in batch), (0, call.shape[self.batch]))
                    for batch in batches)
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
        """One panel; `extents` are those of batch, rows and columns."""
        if self._is_large(call):
            first = (0,) * self.batch
            return self._blocks(call, a[first], b[first], pointers[2:])
        if self.plain:
            loops = tuple(zip(extents, call.strides[-1], strict=False))
            rows = self.batch + self.m
            out = matrix(pointers[-1], self.accumulator, loops[:self.batch],
                         loops[self.batch:rows], loops[rows:])
            if out is not None:
                return _multiply(a, b, out, self.swapped)
        order = [*range(self.batch + self.m), *range(self.batch + self.m, len(extents))]
        shape = (*extents[:self.batch], a.shape[-2], b.shape[-1])
        if self.swapped:
            order = [*range(self.batch), *range(self.batch + self.m, len(extents)),
                     *range(self.batch, self.batch + self.m)]
            shape = (*shape[:-2], shape[-1], shape[-2])
        products = np.empty(shape, self.accumulator)
        _multiply(a, b, products.swapaxes(-1, -2) if self.swapped else products,
                  self.swapped)
        loop = tuple(extents[d] for d in order)
        strides = tuple(tuple(s[d] for d in order) for s in call.strides[2:])
        self.epilogue(Call(loop, (products.ctypes.data, *pointers[2:]),
                           (dense(loop), *strides), call.scalars))
        return None

    def _blocks(self, call: Call, a: np.ndarray, b: np.ndarray,
                pointers: list[int]) -> None:
        """One large product; `pointers` are those of the extras and the outputs."""
        axes = self.batch, self.batch + 1
        if self.swapped:
            a, b, axes = b.T, a.T, axes[::-1]
        steps = [tuple(s[d] for d in axes) for s in call.strides[2:]]
        outer = (0,) * self.batch

        def finish(products: np.ndarray, at: tuple[int, int],
                   shape: tuple[int, int]) -> None:
            moved = [p + size*(at[0]*down + at[1]*along) for p, size, (down, along)
                     in zip(pointers, self.itemsizes[2:], steps, strict=True)]
            strides = [(*outer, products.shape[1], 1), *((*outer, *s) for s in steps)]
            self.epilogue(Call(
                (*(1 for _ in outer), *shape), (products.ctypes.data, *moved),
                tuple(strides), call.scalars))

        blocked_product(a, b, finish)


def _multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray, swapped: bool) -> None:
    """``out = a @ b``, as ``out.T = b.T @ a.T`` where `out` runs down its columns."""
    if swapped:
        a, b, out = b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2)
    np.matmul(a, b, out=out)


def _is_identity(typed: TypedContract) -> bool:
    function = typed.epilogue.function
    return function.results == function.params[:1] and not function.body.statements


def build_contract(typed: TypedContract, signature: Signature) -> Launcher:
    """Make the launcher of a Contract and compile its epilogue."""
    return _Product(typed, signature)
