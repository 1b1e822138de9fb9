"""Several calls of specs that are prepared together, and started as one.

What is launched for the arrays of a tree (an optimiser's step, a norm) is small and
many.  The first call with arrays of a layout checks all of it before anything is
written, and prepares it; later calls read addresses and start one sequence: on `cuda` a
graph whose small kernels are one node, on `cpu` one call of machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..arrays import Array, DeviceArray, byte_range, describe
from ..backend import NumberOf, SequenceStart
from ..specs import Spec
from ..support.records import record
from .callers import read_layouts
from .calls import check_call, place_of, prepare_call
from .launches import LAUNCHES
from .prepared_call import OverlapTest, PreparedCall

__all__ = ["Names", "NumberOf", "SpecCall", "Together"]

_LIMIT = 64  # layouts of arrays


#: The names of arrays, for messages.
Names = Callable[[], Sequence[str]]


@record(frozen=True)
class SpecCall:
    """A call of a spec on arrays that are described.

    Attributes
    ----------
    inputs
        Arrays, and `NumberOf` in place of a number of the call.
    outs
        Where its results are stored.
    """

    spec: Spec
    inputs: tuple[Any, ...]
    outs: tuple[Array, ...]


@record(frozen=True)
class _Step:
    """A prepared call: where its arrays lie among those of the whole, its numbers."""

    call: PreparedCall
    places: tuple[tuple[int, int], ...]
    numbers: tuple[NumberOf, ...]


class Together:
    """Calls on many arrays, prepared once for each layout of these.

    Parameters
    ----------
    calls
        The calls in their order, for arrays as they are described and their names; it
        checks them, and may describe parts of the last ones by other pointers.
    """

    def __init__(self, calls: Callable[[Sequence[Array], Names],
                                       Sequence[SpecCall]]) -> None:
        self._calls = calls
        self._prepared: dict[Any, _Prepared] = {}

    def __call__(self, arrays: Sequence[Any], numbers: tuple[float, ...],
                 names: Names) -> None:
        """Run all calls.

        Parameters
        ----------
        arrays
            Of one library on one device.

        Raises
        ------
        NbFusedError
            What an array is, or where it lies, does not fit; nothing is written then.
        """
        types = tuple(map(type, arrays))
        layouts = read_layouts(types)
        read = layouts and layouts(arrays)
        if read:
            found = self._prepared.get((types, read[0]))
            if found is not None and found.start(read[1], numbers):
                return
        prepared = self._first(arrays, numbers, names)
        if read and prepared is not None:
            if len(self._prepared) >= _LIMIT:
                self._prepared.clear()
            self._prepared[types, read[0]] = prepared

    def _first(self, arrays: Sequence[Any], numbers: tuple[float, ...],
               names: Names) -> _Prepared | None:
        """Check and run each call; what later calls need, None if they cannot."""
        described = [_described(x, name)
                     for x, name in zip(arrays, names(), strict=True)]
        if len({(id(x.library), x.device) for x in described}) > 1:
            place_of(described, None, None, ("element",) * len(described), names())
        calls = self._calls(described, names)
        given = [tuple([numbers[x.position] if type(x) is NumberOf else x
                        for x in call.inputs]) for call in calls]
        for call, inputs in zip(calls, given, strict=True):
            check_call(call.spec, inputs, call.outs)
        made = [prepare_call(call.spec, inputs, call.outs)
                for call, inputs in zip(calls, given, strict=True)]
        for prepared, pointers, scalars in made:
            prepared.begin(pointers, scalars)
        if any(prepared.streams for prepared, _, _ in made):
            return None
        return _Prepared.of(described, calls, [prepared for prepared, _, _ in made])


@record(frozen=True)
class _Prepared:
    """Prepared calls, and what starts them.

    Attributes
    ----------
    sequence
        Starts all; None if the backend starts one by one.
    pairs
        Arrays that must not overlap, by their addresses among those of the whole.
    apart
        Addresses of arrays that did not, the last ones.
    """

    steps: tuple[_Step, ...]
    sequence: SequenceStart | None
    pairs: tuple[OverlapTest, ...]
    apart: list[tuple[int, ...] | None]

    @classmethod
    def of(cls, described: Sequence[Array], calls: Sequence[SpecCall],
           prepared: Sequence[PreparedCall]) -> _Prepared:
        """Find where in the arrays each call reads and writes."""
        steps, sequenced, pairs = [], [], []
        for call, made in zip(calls, prepared, strict=True):
            own = [*(x for x in call.inputs if type(x) is Array), *call.outs]
            places = tuple([_place(x, described) for x in own])
            step = _Step(made, places, tuple([x for x in call.inputs
                                              if type(x) is NumberOf]))
            steps.append(step)
            pairs += [_moved(test, places) for test in made.pairs]
            sequenced += made.sequenced(places, step.numbers, tuple(
                [_span(place, x) for place, x in zip(places, own, strict=True)]))
        place = prepared[0].place if prepared else None
        make = getattr(place and place.backend, "sequence", None)
        start = make(sequenced) if make and sequenced else None
        return cls(tuple(steps), start, tuple(pairs), [None])

    def start(self, pointers: tuple[int, ...], numbers: tuple[Any, ...]) -> bool:
        """Start all calls; False if arrays overlap, so that nothing is started."""
        if not self.steps:
            return True
        if pointers != self.apart[0]:
            for out, other, low, high, exact in self.pairs:
                distance = pointers[other] - pointers[out]
                if low < distance < high and not (exact and distance == 0):
                    return False
            self.apart[0] = pointers
        stream, traced = self.steps[0].call.stream(), LAUNCHES.get()
        if self.sequence is not None and self.sequence(pointers, numbers, stream):
            if traced is not None:
                traced += [one for step in self.steps for one in step.call.launches]
            return True
        for step in self.steps:
            step.call.launch(tuple([pointers[k] + more for k, more in step.places]),
                             tuple([numbers[n.position] for n in step.numbers]),
                             stream, traced)
        return True


def _described(x: Any, name: str) -> Array:
    """An array, of which its stream matters if its library has no current one.

    Our own arrays' library works on the default stream, 0.
    """
    found = describe(x, name)
    if found.stream is None or (type(x) is DeviceArray and found.stream):
        return found
    return replace(found, stream=None)


def _place(part: Array, arrays: Sequence[Array]) -> tuple[int, int]:
    """In which array a part of one begins, and how many bytes behind its address."""
    for k, whole in enumerate(arrays):  # one that is given twice has two places
        if part is whole:
            return k, 0
    span = byte_range(part)
    for k, whole in enumerate(arrays):
        around = byte_range(whole)
        if around.low <= span.low and span.high <= around.high:
            return k, part.pointer - whole.pointer
    raise AssertionError("a call on an array that is none of those given")


def _span(place: tuple[int, int], array: Array) -> tuple[int, int, int]:
    """The bytes of an array, counted from the address that it is found by."""
    which, more = place
    inside = byte_range(array)
    return which, more + inside.low - array.pointer, more + inside.high - array.pointer


def _moved(test: OverlapTest, places: Sequence[tuple[int, int]]) -> OverlapTest:
    """A test of addresses of a call as one of addresses of the whole."""
    out, other, low, high, exact = test
    (k, first), (j, second) = places[out], places[other]
    return k, j, low + first - second, high + first - second, exact
