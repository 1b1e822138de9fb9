"""Prepared calls: decided except for addresses, numbers and the stream.

A prepared call is looked up by the keys that its arguments are read by
(`arrays.reading`); what is left for later calls is arithmetic on integers, the
results' memory, and the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import add
from typing import Any

from ..arrays import Array, Library, byte_range, same_memory
from ..arrays.libraries.numpy import NUMPY
from ..backend import Backend, Call, DirectCall, Launcher, SequencedCall, Start
from ..specs import Spec
from ..support.loop_nests import dense_strides
from ..support.records import record
from .allocation import OUT_OF_MEMORY, allocate
from .launch_plans import LaunchPlan, Result
from .launches import LAUNCHES, Launch, bytes_of

__all__ = ["OverlapTest", "Place", "PreparedCall", "bind", "overlap_test"]

#: Positions of two addresses in a call; the distances between which the arrays may
#: share memory; whether they may be the same.
OverlapTest = tuple[int, int, int, int, bool]


@record
class Place:
    """The library, device and backend of a call."""

    library: Library
    device: str
    backend: Backend


def overlap_test(at: int, out: Array, other_at: int, other: Array, exact: bool,
                 ) -> OverlapTest | None:
    """Distances between the addresses of an output and an array that mean overlap.

    Parameters
    ----------
    at, other_at
        Positions of their addresses among those of a call.
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
    """Bind a launcher to a call's layout; addresses and numbers come later."""
    own: Callable[[Call], Start | None] | None = getattr(launcher, "bind", None)
    bound = None if own is None else own(call)
    if bound is not None:
        return bound

    def start(pointers: Sequence[int], scalars: tuple[Any, ...], stream: int) -> None:
        launcher(Call(call.shape, tuple(pointers), call.strides, scalars, call.device,
                      stream, call.extents, call.grid, call.block, call.shared,
                      call.boxes))

    return start


class PreparedCall:
    """A prepared call of a spec, for arguments that differ in addresses and numbers.

    Parameters
    ----------
    spec, plan, place
        What runs, and where.
    arrays
        The array inputs.
    outs
        The outputs that were given.
    pointers
        Of arrays and outputs, in the call at hand; of others each has the same
        remainder by 16.
    scalars
        The numbers of the call at hand.
    streams
        Those that arrays may still be made or used on.
    pairs
        Arrays that should not overlap.
    clearing
        Prepares the call that fills an array with zeros.

    Attributes
    ----------
    outputs
        Layout of the outputs.
    makers
        For each output that was not given, what allocates it.
    new, bound, stream
        Where a call only makes one result and launches: how to allocate it, how to
        launch, and who knows on which stream; `new` is None of others.
    """

    def __init__(self, spec: Spec, plan: LaunchPlan, place: Place,
                 arrays: Sequence[Array], outs: Sequence[Array | None] | None,
                 pointers: Sequence[int], scalars: tuple[Any, ...],
                 streams: tuple[int, ...],
                 pairs: Sequence[OverlapTest],
                 clearing: Callable[[Array], PreparedCall]) -> None:
        self.pairs: tuple[OverlapTest, ...] = tuple(pairs)
        self.place, self.streams = place, streams
        self._moves = plan.moves
        self.stream: Callable[[], int] = place.library.streams(place.device)
        self.address_of: Callable[[Any], int] = getattr(
            place.library, "address_reader", place.library.pointer)
        given = outs or (None,) * len(plan.results)
        self._outs: list[None] = [None] * len(plan.results)
        self._first = len(arrays)
        self._holes = (0,) * (len(arrays) + len(given) - len(pointers))
        self._results = plan.results
        self._news = [(k, _maker(place, plan.results[k]))
                      for k, out in enumerate(given) if out is None]
        self.makers: dict[int, Callable[[], Any]] = dict(self._news)
        self.outputs = [
            replace(out, stream=None, owner=None) if out else
            Array(0, r.shape, r.strides or dense_strides(r.shape), r.dtype,
                  place.device, None, False, place.library, None)
            for out, r in zip(given, plan.results, strict=True)]
        #: What fills outputs with zeros first, and the number of the address of each.
        self._clears = [(self._first + k, clearing(self.outputs[k]))
                        for k in plan.zeros]
        self._launch = Launch(type(spec).__name__, spec.name, plan.shape,
                              place.backend.name, bytes_of([*arrays, *self.outputs]))
        self._launcher = plan.launcher
        self.new: Callable[[], Any] | None = None
        self.bound: Start | None = None
        self._call = Call(plan.shape, self._moved((*pointers, *self._holes)),
                          plan.strides, scalars, plan.ordinal, 0, plan.extents,
                          boxes=plan.boxes)
        self._start: Start | None = plan.launcher and self._start_unbound
        self._alone = not (self._clears or streams or plan.launcher is None)
        self._plain = not (self._clears or streams or plan.moves) and (
            not self._news or len(given) == len(self._holes) == 1)

    def begin(self, pointers: Sequence[int], scalars: tuple[Any, ...]) -> Sequence[Any]:
        """Run the first call, in which a launcher may measure, then bind it."""
        made = self.start(pointers, scalars)
        for one in (self, *(clear for _, clear in self._clears)):
            one._bind()
        return made

    def _bind(self) -> None:
        """Bind the launcher, and choose what calls by it."""
        if self._launcher is None:
            return
        start = self._start = self.bound = bind(self._launcher, self._call)
        if self._plain and self._news:
            self.new = self._news[0][1]
        elif self._plain:
            self.start = self._bound_start(start)  # type: ignore[method-assign]

    def _bound_start(self, start: Start) -> Callable[..., Sequence[Any]]:
        """A faster `start` for calls that only launch."""
        traced, launch, stream = LAUNCHES.get, self._launch, self.stream
        nothing = (None,) * len(self._outs)

        def launched(pointers: Sequence[int], scalars: tuple[Any, ...],
                     ) -> Sequence[Any]:
            trace = traced()
            if trace is not None:
                trace.append(launch)
            start(pointers, scalars, stream())
            return nothing

        return launched

    def start(self, pointers: Sequence[int], scalars: tuple[Any, ...]) -> Sequence[Any]:
        """Launch; return the new results, None for those that were given."""
        natives: list[Any] = self._outs.copy()
        start = self._start
        if self._news:
            pointers = [*pointers, *self._holes]
            for k, new in self._news:
                try:
                    native = new()
                except OUT_OF_MEMORY:
                    native = _allocate_again(self.place, self._results[k])
                natives[k] = native
                address = pointers[self._first + k] = self.address_of(native)
                if address & 15 and start:  # no library's own allocator gives such
                    start = self._start_unbound
        stream = self.stream()
        if self._alone:  # what `launch` does, with fewer calls
            trace = LAUNCHES.get()
            if trace is not None:
                trace.append(self._launch)
            start(tuple(pointers) if self._moves is None else  # type: ignore[misc]
                  tuple(map(add, pointers, self._moves)), scalars, stream)
            return natives
        if self.streams:
            self._wait(stream)
        self.launch(pointers, scalars, stream, LAUNCHES.get(), start)
        if self.streams:
            self._wait(stream)
        return natives

    def launch(self, pointers: Sequence[int], scalars: tuple[Any, ...], stream: int,
               trace: list[Launch] | None, start: Start | None = None) -> None:
        """Launch on arrays that are all there: inputs, outputs.

        `start` is what launches, if not what was bound.
        """
        for at, clear in self._clears:
            clear.launch((pointers[at],), (), stream, trace)
        start = start or self._start
        if start is not None:
            if trace is not None:
                trace.append(self._launch)
            start(self._moved(pointers), scalars, stream)

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The entries in recordings of launches."""
        own = () if self._launcher is None else (self._launch,)
        return (*(one for _, clear in self._clears for one in clear.launches), *own)

    def sequenced(self, places: Sequence[tuple[int, int]], numbers: tuple[Any, ...],
                  spans: tuple[tuple[int, int, int], ...]) -> list[SequencedCall]:
        """Describe its launches as parts of a sequence, in their order.

        Parameters are as of `SequencedCall`.
        """
        found = [one for at, clear in self._clears for one in clear.sequenced(
            places[at:at + 1], (), spans[at:at + 1])]
        if self._launcher is not None:
            moves = self._moves or (0,) * len(places)
            found.append(SequencedCall(self._launcher, self._call, tuple(
                [(k, more + move)
                 for (k, more), move in zip(places, moves, strict=True)]),
                numbers, spans, len(self.outputs)))
        return found

    def direct(self, outs: int, numbers: tuple[Any, ...], kinds: tuple[type, ...],
               given: Sequence[bool]) -> DirectCall | None:
        """Describe it as a direct call; None if it is more than its launch.

        Parameters
        ----------
        outs
            How many arguments are outputs, the first ones.
        numbers
            The numbers of a call; `NumberOf` in place of those that are arguments.
        kinds
            Their types.
        given
            For each argument after the outputs, whether it is a number.
        """
        count = self._first + len(self.outputs)
        orders = [_order(result) for result in self._results]
        cleared = tuple([at - self._first for at, _ in self._clears])
        if not self._launcher or self.streams or None in orders or not all(
                self.place.library is NUMPY and k in self.makers for k in cleared):
            return None
        *_, call = self.sequenced([(k, 0) for k in range(count)], numbers,
                                  ((0, 0, 0),)*count)
        makers: tuple[Callable[[], Any] | None, ...] = tuple([
            None if self.place.library is NUMPY else self.makers.get(k)
            for k in range(len(self._results))])
        position = {True: iter(range(len(numbers))), False: iter(range(self._first))}
        return DirectCall(
            call, (*range(self._first, self._first + outs),
                   *(next(position[number]) for number in given)), kinds, tuple([
                (self._first + k, result.shape, result.dtype, bool(order))
                if k in self.makers else None
                for k, (result, order) in enumerate(
                    zip(self._results, orders, strict=True))]), makers, self.pairs,
            zeros=cleared)

    def _moved(self, pointers: Sequence[int]) -> tuple[int, ...]:
        return tuple(pointers if self._moves is None else
                     map(add, pointers, self._moves))

    def _wait(self, stream: int) -> None:
        """Synchronise if arrays may be in use on other streams.

        After it: nobody there knows that it is still read, or made, on ours.
        """
        if any(other != stream for other in self.streams):
            self.place.backend.synchronize()

    def _start_unbound(self, pointers: Sequence[int], scalars: tuple[Any, ...],
                       stream: int) -> None:
        assert self._launcher is not None
        self._launcher(replace(self._call, pointers=tuple(pointers), scalars=scalars,
                               stream=stream))


def _maker(place: Place, result: Result) -> Callable[[], Any]:
    """A function that allocates a result, which may run out of memory."""
    if result.strides is not None and hasattr(place.library, "strided_maker"):
        made: Callable[[], Any] = place.library.strided_maker(
            result.shape, result.strides, result.dtype, place.device)
        return made
    make = place.library.maker(result.shape, result.dtype, place.device)
    if result.strides is None:
        return make
    shape, strides, own = result.shape, result.strides, getattr(
        place.library, "viewer", None)
    if own is None:
        return lambda: place.library.view(make(), shape, strides, 0)
    view: Callable[[Any], Any] | None = None

    def strided() -> Any:
        nonlocal view
        native = make()
        if view is None:
            view = own(native, shape, strides, 0)
        return view(native)

    return strided


def _order(result: Result) -> bool | None:
    """Whether a result is in Fortran's order, or in C's; None of another one."""
    shape, strides = result.shape, result.strides
    if strides is None or strides == dense_strides(shape):
        return False
    return True if strides[::-1] == dense_strides(shape[::-1]) else None


def _allocate_again(place: Place, result: Result) -> Any:
    """Allocate a result after freeing cached memory."""
    native = allocate(place.library, result.shape, result.dtype, place.device)
    if result.strides is None:
        return native
    if hasattr(place.library, "strided_maker"):
        del native  # there is memory now
        return _maker(place, result)()
    return place.library.view(native, result.shape, result.strides, 0)
