"""Bounds checks in kernels, under ``NBFUSED_DEBUG=1``.

Every access runs behind a comparison with the extents of its array.  One that lies
outside is left out, and its index noted in an array that the launch reads afterwards.
Before a shuffle it is noted that the lane is not there which it reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..errors import RangeError
from ..scalar.ir.build import Builder, inline
from ..scalar.ir.clean import clean
from ..scalar.ir.nodes import (
    Block,
    Function,
    If,
    Let,
    Literal,
    Statement,
    Value,
    defined,
    literal,
    rewrite,
    walk,
)
from ..scalar.ir.positions import WARP, block_thread, shuffle_source, warp_place
from ..specs import Map, Raw, Spec
from ..support.records import record

__all__ = ["NOTE", "BoundsChecked", "Site", "bounds_checked_map", "bounds_checked_raw",
           "check_inside"]

#: The dtype of what is noted: a flag and an index for each site.
NOTE = np.dtype(np.int64)
_NOTES = "outside"
#: How many operands of an access come after its indices.
_VALUES = {"load": 0, "store": 1, "atomic_add": 1, "atomic": 1}

#: The size of an axis of an array, as a value of the function.
Extent = Callable[[Builder, str, int], Value]


@record(frozen=True)
class Site:
    """An array access in a kernel, and the axis of one of its indices.

    Attributes
    ----------
    array
        The parameter, or the array of the block.
    axis, line
        Of the array, and in the source.
    extent
        None for that of an argument.
    """

    array: str
    axis: int
    line: int
    extent: int | None


@record(frozen=True)
class LaneSite:
    """A shuffle in a kernel; what is noted is ``32 * thread + lane``."""

    line: int


@record(frozen=True)
class BoundsChecked:
    """A spec with bounds checks, and the accesses that they cover.

    Attributes
    ----------
    spec
        Its last parameter is the array of notes, ``(len(sites), 2)``.
    sites
        What each row of the notes is about.
    extents
        The further numbers of a Map, before the notes: ``(array, axis)``.
    """

    spec: Any
    sites: tuple[Site | LaneSite, ...]
    extents: tuple[tuple[str, int], ...] = ()


@lru_cache(maxsize=1024)
def bounds_checked_raw(spec: Raw) -> BoundsChecked | None:
    """Add bounds checks to a kernel of threads; None if it indexes nothing."""
    def extent(b: Builder, array: str, axis: int) -> Value:
        return b.let("extent", array, attr=str(axis))

    function, sites = _add_checks(spec.function, extent)
    return BoundsChecked(Raw(function, (*spec.kinds, "array")), sites) if sites \
        else None


@lru_cache(maxsize=1024)
def bounds_checked_map(spec: Spec) -> BoundsChecked | None:
    """Add bounds checks to a Map; None if it indexes nothing or has them.

    Functions of other specs index no arrays.
    """
    if not isinstance(spec, Map) or not {"raw", "scatter"} & {*spec.kinds} \
            or _NOTES in spec.function.params:
        return None
    names: dict[tuple[str, int], str] = {}

    def extent(b: Builder, array: str, axis: int) -> Value:
        if (array, axis) not in names:
            names[array, axis] = b.fresh("extent")
        return names[array, axis]

    function, sites = _add_checks(spec.function, extent)
    *params, notes = function.params
    kinds = (*spec.kinds, *("scalar" for _ in names), "scatter")
    function = replace(function, params=(*params, *names.values(), notes))
    shapes = (*spec.scatter_shapes, (len(sites), 2))
    return BoundsChecked(Map(function, kinds, shapes), sites, tuple(names)) if sites \
        else None


def _add_checks(function: Function, extent: Extent,
                ) -> tuple[Function, tuple[Site | LaneSite, ...]]:
    function = inline(function)
    writer = _CheckWriter(function, extent)
    body = rewrite(function.body, writer.access)
    return clean(replace(function, params=(*function.params, _NOTES), body=body)), \
        tuple(writer.sites)


class _CheckWriter:
    """Rewriter that guards accesses by comparisons with the extents."""

    def __init__(self, function: Function, extent: Extent) -> None:
        self.builder = Builder({*function.params, *defined(function.body)})
        self.extent = extent
        self.sites: list[Site | LaneSite] = []
        self.sizes = {s.results[0]: [int(v.text) for v in s.args
                                     if isinstance(v, Literal)]
                      for s in walk(function.body)
                      if isinstance(s, Let) and s.op == "shared"}

    def access(self, s: Let) -> Sequence[Statement]:
        """Replace an access by a guarded one; look at the lane of a shuffle."""
        if s.op == "shuffle":
            return (*self.lane_check(s), s)
        values = 2 if s.attr == "cas" else _VALUES.get(s.op)
        index = () if values is None else s.args[1:len(s.args) - values]
        if not index:
            return (s,)
        b, array = self.builder, str(s.args[0])
        b.line = s.line
        with b.region() as statements:
            places = [b.let("index", i, stem="place") for i in index]
            tests = [self.inside(array, k, i) for k, i in enumerate(places)]
            every = tests[0]
            for test in tests[1:]:
                every = b.let("logical_and", every, test)
            results = tuple(b.fresh(r) for r in s.results)
            statements.append(If(
                s.results, every, Block((replace(s, results=results),), results),
                self.notes(array, places, tests, len(results))))
        return statements

    def lane_check(self, s: Let) -> Sequence[Statement]:
        """Note a lane that is read and not there."""
        b = self.builder
        b.line = s.line
        with b.region() as statements:
            lane, lanes = warp_place(b)
            source = shuffle_source(b, s, lane)
            number = b.add(b.mul(block_thread(b)[0], literal(WARP)), source)
            statements.append(If((), b.let("lt", source, lanes), Block((), ()), Block(
                self.noted(number), ())))
        self.sites.append(LaneSite(s.line))
        return statements

    def inside(self, array: str, axis: int, place: Value) -> Value:
        """Emit the test whether an index lies inside."""
        b = self.builder
        size = literal(self.sizes[array][axis]) if array in self.sizes \
            else self.extent(b, array, axis)
        return b.let("logical_and", b.let("le", literal(0), place),
                     b.let("lt", place, size))

    def notes(self, array: str, places: Sequence[Value], tests: Sequence[Value],
              results: int) -> Block:
        """Emit the record of indices outside; False casts to zero of every dtype."""
        with self.builder.region() as statements:
            for axis, (place, test) in enumerate(zip(places, tests, strict=True)):
                statements.append(If((), test, Block((), ()), Block(
                    self.noted(place), ())))
                self.sites.append(self.site(array, axis))
        return Block(tuple(statements), (literal(False),) * results)

    def noted(self, number: Value) -> tuple[Statement, ...]:
        """The stores of a flag and a number into the row of the next site."""
        row, line = literal(len(self.sites)), self.builder.line
        return tuple(Let((), "store", (_NOTES, row, literal(k), v), None, line)
                     for k, v in enumerate((literal(1), number)))

    def site(self, array: str, axis: int) -> Site:
        """Describe an access; arrays of a block lose their generated suffix."""
        line = self.builder.line
        if array not in self.sizes:
            return Site(array, axis, line, None)
        return Site(re.sub(r"_\d+$", "", array), axis, line, self.sizes[array][axis])


def check_inside(bounded: BoundsChecked, notes: Any, names: Mapping[str, str],
                 shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise `RangeError` if a finished launch has recorded an index outside.

    Parameters
    ----------
    notes
        The array, of any library.
    names
        What messages call the parameters, where that differs.
    shapes
        Of the arguments, by the names of the parameters.

    Raises
    ------
    RangeError
        An `IndexError`: some index lay outside.
    """
    for site, index in _outside(bounded.sites, to_numpy(notes)):
        function = bounded.spec.function
        where = f"{function.pyfile}:{site.line}: " if function.pyfile and \
            site.line else f"line {site.line}: " if site.line else ""
        if isinstance(site, LaneSite):
            thread, lane = divmod(index, WARP)
            raise RangeError(
                f"{where}{function.name}: thread {thread} of a block reads lane {lane} "
                "of its warp by a shuffle, and the block has no such thread; what it "
                "gets is not defined: launch whole warps, or let the thread read a "
                "lane that is there, as with a width")
        array = names.get(site.array, site.array)
        size = shapes[site.array][site.axis] if site.extent is None else site.extent
        raise RangeError(
            f"{where}{function.name}: index {index} of '{array}' is out of bounds for "
            f"axis {site.axis} of size {size}; compare it with the size before")


def _outside(sites: Sequence[Site | LaneSite],
             notes: np.ndarray) -> Iterator[tuple[Site | LaneSite, int]]:
    for site, (flag, index) in zip(sites, notes.tolist(), strict=True):
        if flag:
            yield site, index
