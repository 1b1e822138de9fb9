"""Replays: the computations of a mapped function, without calling it.

While a function runs on the placeholders of `vmap`, a `Recorder` notes the direct calls
by which it computes.  A `Replay` repeats them on other arrays of the same shapes,
strides and dtypes: the same kernels in the same order, less those that no result
depends on.  `transforms.repeated_calls` decides whether the function would do so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from ...dispatch import direct_call
from ...specs import Spec
from ...support.trees import Structure, flatten
from ..nodes import zeros
from .sample_plans import DirectCall, SamplePlan, is_plain_number, sample_key

__all__ = ["Recorder", "Replay"]

#: Most bytes of an array that is kept as a constant of a replay.
_BYTES = 1 << 17


class _Step(NamedTuple):
    """A call, the places of its inputs and of its results.

    Attributes
    ----------
    fresh
        Whether its results are in memory of their own.
    checks
        Whether it is there for an error that it may raise.
    """

    call: DirectCall
    inputs: list[int]
    start: int
    outputs: int
    fresh: bool
    checks: bool = False


class Recorder:
    """Recorder of what a mapped function computes, while all can be repeated.

    Parameters
    ----------
    arguments
        The arrays that its placeholders hold.
    outside
        Arrays that it may read from globals and closures.

    Notes
    -----
    An array that the function reads or makes outside of the placeholders follows from
    what is compared before a replay.  It is copied when a kernel reads it, as the
    function may write to it before and after.

    Attributes
    ----------
    failed
        Whether something cannot be repeated.
    """

    def __init__(self, arguments: Sequence[Any], outside: Sequence[Any]) -> None:
        self._values: list[Any] = []
        #: By the identity of an array: itself, as long as it lives, and its place.
        self._places: dict[int, tuple[Any, int]] = {}
        self._steps: list[_Step] = []
        self._count = len(arguments)
        self.failed: bool = not all(type(x) is np.ndarray for x in arguments) or \
            len({*map(id, arguments), *map(id, outside)}) < \
            len(arguments) + len(outside)  # which of two it reads is not known
        #: Arrays that are no placeholders', by their identity.
        self._plain: dict[int, Any] = {}
        for x in arguments:
            self._add(x)

    def note(self, spec: Spec, held: Sequence[Any], has: tuple[bool, ...],
             dtypes: Any, made: Sequence[Any]) -> None:
        """Note that a spec was run; `has` marks inputs with an axis of samples."""
        if self.failed:
            return
        places = [self._input(x) for x in held]
        if None in places or not all(type(x) is np.ndarray for x in made):
            self.failed = True
            return
        if any(has):
            key = sample_key(held, has, dtypes)
            plan = spec.__dict__.get("_sample_plans", {}).get(key)
        else:
            plan = SamplePlan.single(
                spec, direct_call(spec, held, None, dtypes=dtypes),
                len(held), len(made))
        if plan is None:
            self.failed = True
            return
        self._take_over(plan, places, made)

    def zeros(self, x: Any, shape: tuple[int, ...], dtype: Any) -> None:
        """Note that zeros were made."""
        make = partial(zeros, shape, dtype, np.zeros(()))
        self._steps.append(_Step(lambda: (make(),), [], len(self._values), 1, True))
        self._add(x)

    def plain(self, x: Any) -> None:
        """Note an array that no placeholder held until now."""
        if type(x) is np.ndarray and x.nbytes <= _BYTES:
            self._plain[id(x)] = ref(x)

    def check(self, check: Callable[[Any], Any], x: Any) -> None:
        """Note that values were checked."""
        place = self._input(x)
        if place is None:
            self.failed = True
            return

        def checked(x: Any) -> tuple[()]:
            check(x)
            return ()

        self._steps.append(_Step(checked, [place], len(self._values), 0, False, True))

    def replay(self, result: Sequence[tuple[Any, bool]],
               structure: Structure) -> Replay | None:
        """The replay; None where something cannot be repeated.

        Parameters
        ----------
        result
            The arrays that the results hold, and whether they have an axis of samples.
        structure
            The tree of the results.
        """
        places = [self._place(x) for x, _ in result]
        if self.failed or any(k is None or self._values[k] is not None for k in places):
            return None
        return Replay(self._count, self._values, self._steps, [
            (k or 0, has) for k, (_, has) in zip(places, result, strict=True)],
            flatten(structure.build([0] * structure.count))[1])

    def _take_over(self, plan: SamplePlan, places: Sequence[Any],
                   made: Sequence[Any]) -> None:
        """Add the steps of a plan, and find its results by identity afterwards."""
        own = [*places]
        for direct, inputs, count, fresh in plan.steps:
            given = [self._constant(fixed) if k is None else own[k]
                     for k, fixed in inputs]
            start = len(self._values)
            self._steps.append(_Step(direct, given, start, count, fresh))
            self._values += [None] * count
            own += range(start, start + count)
        for x, k in zip(made, plan.results, strict=True):
            self._places[id(x)] = ref(x), own[k]

    def _add(self, x: Any) -> int:
        """A new place for an array."""
        self._places[id(x)] = ref(x), len(self._values)
        self._values.append(None)
        return len(self._values) - 1

    def _constant(self, x: Any) -> int:
        self._values.append(x)
        return len(self._values) - 1

    def _input(self, x: Any) -> int | None:
        """The place of an input; None for an array of unknown origin."""
        if is_plain_number(x):
            return self._constant(x)
        place = self._place(x)
        plain = self._plain.get(id(x))
        if place is not None or plain is None or plain() is not x:
            return place
        copied = x.copy(order="K")  # as it is now
        return self._constant(copied) if copied.strides == x.strides else None

    def _place(self, x: Any) -> int | None:
        """The place of what was computed, or of an argument."""
        known = self._places.get(id(x))
        return known[1] if known is not None and known[0]() is x else None


class Replay:
    """The computations of a mapped function, as direct calls.

    Attributes
    ----------
    batched
        For each result, whether it has an axis of samples.
    fresh
        Whether no two results share memory with one another, or with arguments.
    structure
        The tree of the results.
    """

    def __init__(self, arguments: int, values: Sequence[Any], steps: Sequence[_Step],
                 results: Sequence[tuple[int, bool]], structure: Structure) -> None:
        self._results = [k for k, _ in results]
        self.batched: list[bool] = [has for _, has in results]
        self.structure: Structure = structure
        kept = [*_needed(steps, self._results)]
        new = {s.start + k for s in kept if s.fresh for k in range(s.outputs)}
        self.fresh: bool = new.issuperset(self._results) and len(
            {*self._results}) == len(results)
        self._values = list(values)[arguments:]
        self._steps = [(s.call, s.inputs, s.start, s.start + s.outputs, ended)
                       for s, ended in zip(kept, _last_uses(
                           kept, {*self._results}, self._values, arguments),
                           strict=True)]

    def run(self, arguments: Sequence[Any]) -> list[Any] | None:
        """The arrays of the results; None where a call needs a closer look."""
        values = [*arguments, *self._values]
        for call, inputs, start, end, ended in self._steps:
            made = call(*[values[k] for k in inputs])
            if made is None:
                return None
            values[start:end] = made
            for k in ended:
                values[k] = None
        return [values[k] for k in self._results]


def _needed(steps: Sequence[_Step], results: Sequence[int]) -> Iterator[_Step]:
    """Select the steps that results depend on, and the checks, in their order."""
    wanted, kept = {*results}, []
    for s in reversed(steps):
        if s.checks or not wanted.isdisjoint(range(s.start, s.start + s.outputs)):
            wanted |= {*s.inputs}
            kept.append(s)
    return reversed(kept)


def _last_uses(steps: Sequence[_Step], results: set[int], constants: Sequence[Any],
               arguments: int) -> list[list[int]]:
    """Places that nothing reads after each step, whose memory is free then."""
    seen = {*results, *range(arguments), *(
        arguments + k for k, x in enumerate(constants) if x is not None)}
    found = []
    for s in reversed(steps):
        ended = {*s.inputs, *range(s.start, s.start + s.outputs)} - seen
        seen |= ended
        found.append(sorted(ended))
    return found[::-1]
