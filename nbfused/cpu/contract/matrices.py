"""Factors of a matrix product, viewed or packed as matrices that BLAS can read.

Products that need a factor packed are made in panels of rows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

from ...arrays.memory import array_over
from ...backend import Call, Launcher, Signature, Start
from ...scalar.typing.types import Typed, specialize
from ...specs import TypedMap
from ...specs.vjp.functions import identity
from ...support.dtypes import BFLOAT16, short
from ...support.records import record
from ..map import build_map
from ..runtime.binding import BindingLauncher
from ..runtime.objects import has_bfloat16_products, has_float16

__all__ = ["Factor", "Loops", "Ranges", "Side", "View", "apart_from",
           "bind_epilogue", "dense", "matrix", "merged_stride", "moves_of",
           "multiply_by_blas", "panels", "view_of"]

#: Extent and stride of each of several loops, outermost first.
Loops = tuple[tuple[int, int], ...]

#: Start and count of each of several loops.
Ranges = tuple[tuple[int, int], ...]

# Not measured, these three.
#: Elements of a panel of products, to stay in the cache …
_PANEL = 1 << 20

#: … but so many rows at least: BLAS packs the other factor for each panel, and its
#: threads wait for one another …
_ROWS = 512

#: … where they do not take more elements than these.
_LARGE = 1 << 23


def merged_stride(loops: Loops) -> int | None:
    """The stride of several loops merged into one, or None if they are uneven."""
    steps = [(n, s) for n, s in loops if n != 1]
    for (_, outer), (n, inner) in pairwise(steps):
        if outer != n * inner:
            return None
    return steps[-1][1] if steps else 1


def dense(extents: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in C order."""
    return tuple(prod(extents[d + 1:]) for d in range(len(extents)))


def _count(loops: Loops) -> int:
    return prod(n for n, _ in loops)


def _layout(batch: Loops, rows: Loops, columns: Loops,
            ) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shape and strides as ``(*batch, rows, columns)``; None if BLAS cannot read it."""
    down, along = merged_stride(rows), merged_stride(columns)
    if down is None or along is None:
        return None
    m, n = _count(rows), _count(columns)
    straight = along == 1 and (down >= n or m <= 1)
    if not straight and not (down == 1 and (along >= m or n <= 1)):
        return None
    return (*(n for n, _ in batch), m, n), (*(s for _, s in batch), down, along)


def matrix(pointer: int, dtype: np.dtype, batch: Loops, rows: Loops,
           columns: Loops) -> np.ndarray | None:
    """View memory as matrices, ``(*batch, rows, columns)``.

    Returns
    -------
    numpy.ndarray or None
        None if BLAS could not work on it: it needs unit stride in one dimension.
    """
    found = _layout(batch, rows, columns)
    if found is None:
        return None
    return array_over(pointer, *found, dtype.itemsize).view(dtype)


#: Views memory at an address.
View = Callable[[int], np.ndarray]


def view_of(dtype: np.dtype, batch: Loops, rows: Loops, columns: Loops) -> View | None:
    """A function that views any address as `matrix` does; None if it cannot."""
    found = _layout(batch, rows, columns)
    if found is None or min(found[1]) < 0 or 0 in found[0]:
        return None
    shape, steps = found
    strides = tuple(s * dtype.itemsize for s in steps)
    span = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    memory: Any = ctypes.c_uint8 * (span + dtype.itemsize)
    return lambda at: np.ndarray(shape, dtype, memory.from_address(at), 0, strides)


class Factor:
    """A factor of a matrix product: viewed if possible, else packed.

    Parameters
    ----------
    dtype
        Of its elements in memory.
    accumulator
        The dtype that the product is computed in.
    prologue
        What is applied to each element first, or None.
    rank
        Number of its loops.
    code
        Stride codes of its last loop over rows and over columns.
    """

    def __init__(self, dtype: np.dtype, accumulator: np.dtype, prologue: Typed | None,
                 rank: int, code: str) -> None:
        self.dtype, self.accumulator = dtype, accumulator
        self.viewable = prologue is None and dtype == accumulator
        self.is_widened = prologue is None and accumulator == np.float32 and (
            short(dtype) == "bf16" or (short(dtype) == "f16" and has_float16()))
        self.is_paired = (prologue is None and accumulator == np.float32
                          and dtype == BFLOAT16 and has_bfloat16_products())
        self.transposed = code[0] == "1" and code[1] != "1"
        self._typed = prologue or specialize(identity(), (dtype,))
        inner = code[0] if self.transposed else code[1]
        self._signature = Signature((dtype,), (accumulator,), (rank,), (inner, "1"))
        self._pack: Launcher | None = None

    def matrix(self, pointer: int, batch: Loops, rows: Loops,
               columns: Loops) -> np.ndarray:
        """The factor as ``(*batch, rows, columns)`` in the accumulator's dtype.

        The extent of a batch loop along which the factor is repeated is 1.
        """
        batch = tuple((n if s else 1, s) for n, s in batch)
        if self.viewable:
            found = matrix(pointer, self.dtype, batch, rows, columns)
            if found is not None:
                return found
        return self._packed(pointer, batch, rows, columns)

    def view(self, batch: Loops, rows: Loops, columns: Loops) -> View | None:
        """A function that views the factor at an address; None if it needs packing."""
        if not self.viewable:
            return None
        batch = tuple((n if s else 1, s) for n, s in batch)
        return view_of(self.dtype, batch, rows, columns)

    def steps(self, own: Loops, inner: Loops,
              widened: bool = False) -> tuple[int, int] | None:
        """Row and column stride in elements; None if the factor needs packing.

        It does not where a kernel reads its dtype as it is, `widened`.
        """
        down, along = merged_stride(own), merged_stride(inner)
        readable = self.viewable or widened
        return None if not readable or down is None or along is None else (down, along)

    def packed_steps(self, rows: Loops, columns: Loops) -> tuple[int, int]:
        """Row and column stride of a packed copy."""
        return (1, _count(rows)) if self.transposed else (_count(columns), 1)

    def pack(self, pointer: int, batch: int, sides: tuple[Loops, Loops]) -> np.ndarray:
        """Copy one matrix of a batch in the accumulator's dtype."""
        return self._packed(pointer, ((1, 0),) * batch, *sides)

    def _packed(self, pointer: int, batch: Loops, rows: Loops,
                columns: Loops) -> np.ndarray:
        matrices = (columns, rows) if self.transposed else (rows, columns)
        loops = (*batch, *matrices[0], *matrices[1])
        extents = tuple(n for n, _ in loops)
        room = np.empty((*(n for n, _ in batch), *map(_count, matrices)),
                        self.accumulator)
        if room.size:
            if self._pack is None:
                self._pack = build_map(TypedMap(self._typed, ("element",)),
                                       self._signature)
            self._pack(Call(extents, (pointer, room.ctypes.data),
                            (tuple(s for _, s in loops), dense(extents))))
        return room.swapaxes(-1, -2) if self.transposed else room


def apart_from(call: Call, loop: int, batch: int) -> Call:
    """The call with a loop moved in front of those over rows, behind the `batch`."""
    order = [*range(batch), loop,
             *(d for d in range(batch, len(call.shape)) if d != loop)]
    return replace(call, shape=tuple(call.shape[d] for d in order),
                   strides=tuple(tuple(own[d] for d in order) for own in call.strides))


def moves_of(call: Call, batch: int, itemsizes: Sequence[int]) -> list[list[int]]:
    """Byte offsets of every array for each product of the `batch`'s loops."""
    return [[size * sum(i * s for i, s in zip(index, strides, strict=False))
             for strides, size in zip(call.strides, itemsizes, strict=True)]
            for index in product(*(range(n) for n in call.shape[:batch]))]


def bind_epilogue(epilogue: BindingLauncher, extents: tuple[int, ...],
                  strides: Sequence[tuple[int, ...]]) -> Start:
    """Bind an epilogue on sums in C order, as one row where all arrays allow it."""
    every = dense(extents), *strides
    if len(extents) > 1 and all(s[-2] == extents[-1]*s[-1] for s in every):
        extents = (*extents[:-2], 1, extents[-2]*extents[-1])
    return epilogue.bind(Call(extents, (), every))


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


@record(frozen=True)
class Side:
    """A factor as the blocked kernel reads it.

    Attributes
    ----------
    extent
        Rows of the left one, columns of the right one.
    steps
        Strides in elements, from one of these to the next and along it.
    pack
        Copies what lies at an address, where `gemm` cannot read it as it is.
    """

    extent: int
    steps: tuple[int, int]
    pack: Callable[[int], np.ndarray] | None

    def place(self, at: int, which: int, kept: list[Any]) -> int:
        """The address to read at; a packed copy is kept while it is the same."""
        if self.pack is None:
            return at
        if kept[which] is None or kept[which][0] != at:
            kept[which] = at, self.pack(at)
        found: int = kept[which][1].ctypes.data
        return found


def multiply_by_blas(a: np.ndarray, b: np.ndarray, out: np.ndarray,
                     swapped: bool) -> None:
    """``out = a @ b``; as ``out.T = b.T @ a.T`` if `out` is in Fortran order."""
    if swapped:
        a, b, out = b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2)
    np.matmul(a, b, out=out)
