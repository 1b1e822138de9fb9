"""Products of few rows or columns, multiplied as the factors lie in memory.

Packing a factor reads and writes it as often as a narrow product does.  So of one
factor, or of both, vectors are loaded along the extent in which its numbers are
neighbours; at most the shorter one is copied for that.  Where the result is small and
the sums are long, these are cut into chunks, by the shapes alone, that are added up in
order.  16-bit floats are widened as they are loaded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...backend import Start
from ...support.forks import once
from ..runtime.compile import build
from ..runtime.native import Arguments, Fill, Part, moved, native_of, with_native
from ..runtime.objects import Entry
from ..runtime.schedule import LINE, bind_parallel, runs_alone
from ..runtime.workspace import WORKSPACE
from .direct_text import (
    WORDS,
    move_text,
    product_text,
    split_text,
    sum_text,
    turn_text,
)
from .direct_ways import Cut, Way, cut_of, weight_of
from .gemm import Factors, Multiply
from .tile import square_lanes, tile_of

__all__ = ["bind_direct", "of_sums"]

#: Columns of a factor up to which LLVM takes apart vectors of whole rows:
#: benchmarks/notes/cpu.md#narrow-products.
_SPLIT = 8


class _Operand(NamedTuple):
    """A factor as a kernel reads it: rows, strides to the next one and along the sums.

    Attributes
    ----------
    fill
        Where its address comes from.
    apart
        The stride to the factor of the next product.
    """

    dtype: np.dtype
    extent: int
    own: int
    inner: int
    fill: Fill
    apart: int = 0


class _Step(NamedTuple):
    """A call of a kernel, whose first words each call gives."""

    entry: Entry
    fills: Sequence[Fill]
    words: Sequence[int]
    units: int
    weight: int

    def alone(self) -> bool:
        """Whether one thread runs it."""
        return runs_alone(self.units, self.weight)

    def part(self) -> Part:
        """The call, for machine code."""
        words = struct.pack(f"={len(self.fills) + len(self.words)}q",
                            *(0 for _ in self.fills), *self.words)
        return Part(self.entry, Arguments(words, tuple(
            [fill._replace(word=k) for k, fill in enumerate(self.fills)])), self.units)

    def bound(self) -> Callable[[Sequence[int], int], None]:
        """A function of addresses, and that of temporary memory, that starts it."""
        launch = bind_parallel(self.entry, self.units, self.weight)
        pack = struct.Struct(f"={len(self.fills)}q").pack
        words = struct.pack(f"={len(self.words)}q", *self.words)
        own = [(fill.kind == "room", fill.which, fill.add) for fill in self.fills]

        def start(pointers: Sequence[int], room: int) -> None:
            launch(pack(*[(room if inside else pointers[which]) + add
                          for inside, which, add in own]) + words)

        return start


def bind_direct(f: Factors, dtypes: Sequence[np.dtype], way: Way,
                into: tuple[int, int, int] | None, finish: Callable[[], Start],
                ) -> Multiply | None:
    """Bind a narrow product, or a batch of them, to its shape.

    Parameters
    ----------
    dtypes
        Of both factors in memory.
    way
        See `way_of`.
    into
        The strides of the result, from one product to the next, rows and columns as the
        kernel sees them, where the sums are the result; else what `finish` gives makes
        it from the sums, which lie as in C order.

    Returns
    -------
    Multiply or None
        None of a batch of products whose sums are cut into chunks.
    """
    sides = [
        _Operand(dtypes[0], f.m, f.a_down, f.a_along, Fill(0, "pointer", 0), f.a_apart),
        _Operand(dtypes[1], f.n, f.b_down, f.b_along, Fill(0, "pointer", 1), f.b_apart)]
    if way.swapped:
        sides.reverse()
    left, right = sides
    cut = cut_of(f.dtype, way, (left.dtype, right.dtype), left.extent,
                 right.extent, f.k)
    turned = f.batch > 1 and way.copied == 1 and way.form != "dots"
    if turned:  # in one unit
        cut = replace(cut, high=left.extent, wide=right.extent)
    if f.batch > 1 and (cut.chunks > 1 or (turned and right.dtype != f.dtype)):
        return None
    direct = into is not None and cut.chunks == 1
    count = left.extent*right.extent
    size = 0 if direct else _whole_lines(f.batch*cut.chunks*count*f.dtype.itemsize)
    steps = []
    if way.copied is not None and not turned:
        before = sides[way.copied]
        every = before if f.batch == 1 else _of_all(before, f.batch)
        copy, step = _copied(every, f.k, way.form == "dots" or way.copied == 0, size)
        sides[way.copied] = copy if f.batch == 1 else copy._replace(
            extent=1, apart=f.k if before.apart else 0)
        size += every.extent*f.k*before.dtype.itemsize
        steps.append(step)
    strides = into if direct and into is not None else (count, right.extent, 1)
    steps.append(_product(f, sides, cut, turned, strides, Fill(0, "pointer", -1)
                          if direct else Fill(0, "room")))
    if cut.chunks > 1:
        steps.append(_Step(_kernel(sum_text, f.dtype), [Fill(0, "room")],
                           (count, cut.chunks), count, cut.chunks))
    starts = [step.bound() for step in steps]
    last = None if direct else finish()

    def multiply(a_at: int, b_at: int, pointers: Sequence[int],
                 scalars: tuple[Any, ...]) -> None:
        at, _owner = WORKSPACE.reserve(size)
        every = a_at, b_at, *pointers
        for start in starts:
            start(every, at)
        if last is not None:
            last((at, *pointers), scalars, 0)

    after = native_of(last)
    if not all(step.alone() for step in steps) or (after is None and not direct):
        return multiply
    finishing = [] if after is None else moved(after, of_sums)
    return with_native(multiply, [*(step.part() for step in steps), *finishing], size)


def _of_all(side: _Operand, batch: int) -> _Operand:
    """The vectors of all products of a batch, one for each or for all, as a matrix."""
    return side._replace(extent=batch if side.apart else 1, own=side.apart)


def of_sums(fill: Fill) -> Fill:
    """A pointer of the epilogue: the sums, in temporary memory, or another array."""
    return fill._replace(which=fill.which + 1) if fill.which else Fill(
        fill.word, "room")


def _whole_lines(size: int) -> int:
    return -(-size // LINE)*LINE


def _copied(side: _Operand, k: int, along: bool, at: int) -> tuple[_Operand, _Step]:
    """A factor as its copy, whose numbers are neighbours `along` the sums or across."""
    after = side._replace(own=k if along else 1, inner=1 if along else side.extent,
                          fill=Fill(0, "room", 0, at))
    fills, rows, columns = [side.fill, after.fill], side.extent, k
    if (side.own if along else side.inner) != 1:
        return after, _Step(_kernel(move_text, side.dtype), fills, (
            side.own, side.inner, after.own, after.inner, k), rows, k)
    if along:
        rows, columns = columns, rows
        if side.inner == columns <= _SPLIT:
            return after, _Step(_kernel(split_text, side.dtype, columns), fills, (k,),
                                rows, columns)
    lanes = square_lanes(side.dtype.itemsize)
    return after, _Step(_kernel(turn_text, side.dtype, lanes), fills, (
        side.inner if along else side.own, after.own if along else after.inner, rows,
        columns), -(-rows // lanes), columns)


def _product(f: Factors, sides: Sequence[_Operand], cut: Cut, turned: bool,
             strides: tuple[int, int, int], sums: Fill) -> _Step:
    """The call that multiplies, and copies right factors that are `turned`."""
    left, right = sides
    over, across = -(-left.extent // cut.high), -(-right.extent // cut.wide)
    each = over*across*cut.chunks
    lanes = square_lanes(right.dtype.itemsize)
    step = -(-right.extent // lanes)*lanes if turned else right.inner
    words = dict(zip(WORDS, (
        left.own, left.inner, right.own, step, *strides[1:], left.extent,
        right.extent, f.k, cut.high, cut.wide, cut.chunk, cut.deep, over, across, each,
        left.apart, right.apart, strides[0]), strict=True))
    weight = max(1, weight_of(left.extent, right.extent, f.k) // each)
    kernel = _kernel(product_text, f.dtype, cut.loop, tile_of(f.dtype.itemsize).lanes,
                     turned)
    return _Step(kernel, [left.fill, right.fill, sums], [*words.values()], f.batch*each,
                 weight)


@once
def _kernel(text: Callable[..., list[str]], *of: Any) -> Entry:
    """The kernel of a text, of dtypes and what else it is written for."""
    return build("\n".join(text(*of)))
