"""Plans: the launches of a program for arguments of one layout, prepared once.

A program decides for each launch anew; a plan has decided.  Every array of it lies in
an argument, in a result, or in the *arena*, one allocation in which arrays share memory
when they are not needed at the same time.  What is left for a call are addresses,
numbers and the launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...autograd import Variable, apply
from ...autograd.versions import note_write
from ...backend import NumberOf, SequenceStart
from ...dispatch.allocation import OUT_OF_MEMORY
from ...dispatch.launches import LAUNCHES
from ...dispatch.prepared_call import OverlapTest, PreparedCall
from ...specs.fusion.graph import Launch, Value
from ...support.records import record
from .program import HostCall, data_of, evaluate, map_tree

__all__ = ["ALIGN", "Place", "Plan", "Result", "Step"]

#: Bytes by which arrays in the arena are aligned: as GPU libraries' allocators do.
ALIGN = 256

#: Where an array begins: the number of an address of the call, and bytes from there.
Place = tuple[int, int]


@record(frozen=True)
class Step:
    """A prepared launch: where its arrays lie, and its numbers.

    Attributes
    ----------
    numbers
        Those of the launch; `NumberOf` in place of one of the plan's `passed`.
    """

    call: PreparedCall
    places: tuple[Place, ...]
    numbers: tuple[Any, ...]


@record(frozen=True)
class Result:
    """A result: its value, how it is allocated, whether it is a Variable."""

    value: Value
    make: Callable[[], Any]
    wrapped: bool


@record(frozen=True)
class Plan:
    """The prepared launches of a program, and what surrounds them.

    Attributes
    ----------
    arguments, numbers, checks, outputs
        As of the `Program`.
    stored
        The arguments that are changed.
    steps
        In order.  Their places count the addresses of the arguments that are arrays,
        then those of the results, then the arena's.
    passed
        The numbers that launches are given, and in which form.
    sequence
        Starts all steps at once; None if the backend cannot.
    new_arena
        Allocates the arena; None if there is none.
    overlaps
        Arguments that must not share memory.
    views
        The results that rearrange others.
    apart
        Addresses of arguments that did not share memory, the last ones.
    """

    arguments: tuple[Value, ...]
    numbers: tuple[HostCall, ...]
    checks: tuple[tuple[Callable[[Any], None], Value], ...]
    stored: tuple[Value, ...]
    outputs: Any
    steps: tuple[Step, ...]
    passed: tuple[tuple[Value, Callable[[Any], Any]], ...]
    sequence: SequenceStart | None
    results: tuple[Result, ...]
    new_arena: Callable[[], Any] | None
    overlaps: tuple[OverlapTest, ...]
    views: tuple[Launch, ...]
    apart: list[tuple[int, ...] | None]

    def run(self, arguments: Sequence[Any], pointers: tuple[int, ...],
            ) -> tuple[Any] | None:
        """Run the launches: what the program returns, in a tuple.

        None if the program itself has to run: arguments overlap, or memory is short.
        """
        if pointers != self.apart[0]:  # most calls are like the last one
            for out, other, low, high, _ in self.overlaps:
                if low < pointers[other] - pointers[out] < high:
                    return None
            self.apart[0] = pointers
        made = self._allocate()
        if made is None:
            return None
        addresses, natives, arena = made
        library = self.steps[0].call.place.library
        env: dict[Value, Any] = dict(zip(self.arguments, arguments, strict=True))
        for number in self.numbers:
            env[number.value] = evaluate(number, env)
        for check, value in self.checks:
            check(env[value])
        self._launch((*pointers, *addresses),
                     [form(env[value]) for value, form in self.passed])
        del arena
        if self.stored:
            note_write([data_of(env[own]) for own in self.stored])
        for result, native in zip(self.results, natives, strict=True):
            array = library.finish(native)
            env[result.value] = Variable.at(array, None) if result.wrapped else array
        for view in self.views:
            inputs = [env[x] for x in view.inputs]
            env.update(zip(view.outputs, apply(view.spec, inputs, dtypes=view.asked),
                           strict=True))
        return (map_tree(self.outputs,
                         lambda x: env[x] if isinstance(x, Value) else x),)

    def _allocate(self) -> tuple[list[int], list[Any], Any] | None:
        """Addresses of the results and the arena, the results, and the arena."""
        pointer = self.steps[0].call.place.library.pointer
        try:
            natives = [result.make() for result in self.results]
            arena = None if self.new_arena is None else self.new_arena()
        except OUT_OF_MEMORY:
            return None
        addresses = [pointer(native) for native in natives]
        if arena is not None:
            addresses.append(-(-pointer(arena) // ALIGN) * ALIGN)
        return None if any(a & 15 for a in addresses) else (addresses, natives, arena)

    def _launch(self, addresses: Sequence[int], numbers: Sequence[Any]) -> None:
        stream = self.steps[0].call.stream()
        traced = LAUNCHES.get()
        if self.sequence is not None and self.sequence(addresses, numbers, stream):
            if traced is not None:
                traced += [step.call.launched for step in self.steps
                           if step.call.launched]
            return
        for step in self.steps:
            own = step.numbers
            if numbers and own:
                own = tuple([numbers[n.position] if type(n) is NumberOf else n
                             for n in own])
            step.call.launch(tuple([addresses[k] + more for k, more in step.places]),
                             own, stream, traced)
