"""A call that is decided but for addresses, numbers and the stream.

It is found again by what the readers of its arguments say (`arrays.readers`); what is
left for later calls is arithmetic on integers, the results' memory, and the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import add, itemgetter
from typing import Any

from ..arrays import Array, Library, byte_range, same_memory
from ..backend import Backend, Call, Launcher, Start
from ..layout import dense_strides
from ..specs import Map, Spec
from .allocation import allocate
from .launches import LAUNCHES, Launch, bytes_of
from .plans import Plan, Result

__all__ = ["Pair", "Place", "Prepared", "bind", "pair"]

#: Positions of two values, and of which distances between them mean that the arrays
#: may share memory; whether none at all is allowed.
Pair = tuple[int, int, int, int, bool]


@dataclass(slots=True)
class Place:
    """Where a call runs and who makes its results."""

    library: Library
    device: str
    backend: Backend


def pair(at: int, out: Array, other_at: int, other: Array, exact: bool) -> Pair | None:
    """How far apart an output and another array lie where they share memory.

    Parameters
    ----------
    at, other_at
        Positions of their addresses among the values of a call.
    exact
        Whether the output may be exactly the other array.
    """
    written, read = byte_range(out), byte_range(other)
    if written.low == written.high or read.low == read.high:
        return None
    low = (written.low - out.pointer) - (read.high - other.pointer)
    high = (written.high - out.pointer) - (read.low - other.pointer)
    same = exact and same_memory(replace(out, pointer=0), replace(other, pointer=0))
    return at, other_at, low, high, same


def bind(launcher: Launcher, call: Call) -> Start:
    """A launch that only pointers, numbers and the stream are missing from."""
    own = getattr(launcher, "bind", None)
    if own is not None:
        return own(call)  # type: ignore[no-any-return]

    def start(pointers: Sequence[int], scalars: tuple[Any, ...], stream: int) -> None:
        launcher(Call(call.shape, tuple(pointers), call.strides, scalars, call.device,
                      stream, call.extents))

    return start


class Prepared:
    """How to run one spec on arguments that differ in addresses and numbers only.

    The values of a call are what the readers of its inputs gave, then, if outputs were
    given, one for each output, 0 for one that was not.

    Parameters
    ----------
    spec, plan, place
        What runs, and where.
    kinds
        Of the inputs: ``"scalar"`` is a number.
    arrays
        The array inputs.
    outs
        The outputs that were given.
    streams
        Those that an input may still be made on.
    pairs
        Arrays that should not overlap.
    clear
        Fills an array with zeros.

    Attributes
    ----------
    finish
        Makes the caller's own arrays of results; None if they are so already.
    """

    def __init__(self, spec: Spec, plan: Plan, place: Place, kinds: Sequence[str],
                 arrays: Sequence[Array], outs: Sequence[Array | None] | None,
                 streams: tuple[int, ...], pairs: Sequence[Pair],
                 clear: Callable[[Array], None]) -> None:
        self.place, self.pairs = place, tuple(pairs)
        self.finish = place.library.finish if not place.library.writable else None
        self._streams, self._clear, self._moves = streams, clear, plan.moves
        self._stream = partial(place.library.stream, place.device)
        self._pointer = place.library.pointer
        given = outs or (None,) * len(plan.results)
        self._outs: list[None] = [None] * len(plan.results)
        self._news = [(k, partial(_new, place, plan.results[k]))
                      for k, out in enumerate(given) if out is None]
        numbers = [i for i, kind in enumerate(kinds) if kind == "scalar"]
        self._pointers = _picker(_order(kinds, given, outs is not None))
        self._scalars = _picker(numbers) if numbers else None
        self._cleared = [k for k in plan.zeros
                         if given[k] is None or not isinstance(spec, Map)]
        stored = [out or Array(0, r.shape, r.strides or dense_strides(r.shape), r.dtype,
                               place.device, None, False, place.library, None)
                  for out, r in zip(given, plan.results, strict=True)]
        self._stored = [replace(out, stream=None, owner=None) for out in stored]
        self._launch = Launch(type(spec).__name__, spec.name, plan.shape,
                              place.backend.name, bytes_of([*arrays, *stored]))
        self._start = None if plan.launcher is None else bind(plan.launcher, Call(
            plan.shape, (0,) * len(plan.strides), plan.strides, (), plan.ordinal, 0,
            plan.extents))

    def start(self, values: list[Any]) -> list[Any]:
        """Launch; the results that were made, None for those that were given."""
        natives: list[Any] = self._outs.copy()
        for k, new in self._news:
            native = natives[k] = new()
            values.append(self._pointer(native))
        pointers = self._pointers(values)
        if self._cleared:
            self._zero(pointers)
        if self._start is None:
            return natives
        if self._moves is not None:
            pointers = tuple(map(add, pointers, self._moves))
        stream = self._stream()
        for other in self._streams:
            if other != stream:  # somebody makes it on another stream
                self.place.backend.synchronize()
        trace = LAUNCHES.get()
        if trace is not None:
            trace.append(self._launch)
        self._start(pointers, () if self._scalars is None else self._scalars(values),
                    stream)
        return natives

    def _zero(self, pointers: Sequence[int]) -> None:
        first = len(pointers) - len(self._stored)
        for k in self._cleared:
            self._clear(replace(self._stored[k], pointer=pointers[first + k]))


def _new(place: Place, result: Result) -> Any:
    native = allocate(place.library, result.shape, result.dtype, place.device)
    if result.strides is None:
        return native
    return place.library.view(native, result.shape, result.strides, 0)


def _picker(positions: Sequence[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Picks the values at some positions."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple([values[i] for i in positions])


def _order(kinds: Sequence[str], given: Sequence[Array | None], placed: bool,
           ) -> list[int]:
    """Where among the values the pointers are: of inputs, then of outputs."""
    count = len(kinds)
    order = [i for i, kind in enumerate(kinds) if kind != "scalar"]
    new = count + (len(given) if placed else 0)
    for k, out in enumerate(given):
        if out is not None:
            order.append(count + k)
        else:
            order.append(new)
            new += 1
    return order
