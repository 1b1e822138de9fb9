"""Plans: the launches of a program for arguments of one layout, prepared once.

A program decides for each launch anew; a plan has decided.  Every array of it lies in
an argument, in a result, or in the *arena*, one allocation in which arrays share memory
when they are not needed at the same time.  What is left for a call are addresses,
numbers and the launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....arrays import Library
from ....backend import NumberOf, SequenceStart
from ....dispatch.allocation import OUT_OF_MEMORY
from ....dispatch.callers import Headers
from ....dispatch.launches import LAUNCHES
from ....dispatch.prepared_call import OverlapTest, PreparedCall
from ....specs.fusion.graph import Launch, Value
from ....support.forks import cached_property
from ....support.records import record
from ..program import HostCall
from .plan_text import ALIGN, Run, aligned, compile_run

__all__ = ["ALIGN", "Place", "Plan", "Result", "Step"]

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
    variables
        The arguments that are Variables.
    stored, stored_types
        The arguments that are changed, and the types of their arrays.
    constants
        Arrays that are the same in each call, and their addresses.
    steps
        In order.  Their places count the addresses of the arguments that are arrays,
        then those of the constants, then those of the results, then the arena's.
    passed
        The numbers that launches are given, and in which form.
    sequence
        Starts all steps at once; None if the backend cannot.
    exchanges
        Whether it has calls between processes, which only the sequence makes.
    keeps_arena
        Whether the sequence has the arena.
    new_arena
        Allocates the arena; None if there is none.
    arena
        Bytes of the arena, from where it is aligned.
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
    variables: frozenset[Value]
    stored: tuple[Value, ...]
    stored_types: frozenset[type]
    outputs: Any
    constants: tuple[tuple[Value, Any, int], ...]
    steps: tuple[Step, ...]
    passed: tuple[tuple[Value, Callable[[Any], Any]], ...]
    sequence: SequenceStart | None
    exchanges: bool
    keeps_arena: bool
    results: tuple[Result, ...]
    new_arena: Callable[[], Any] | None
    arena: int
    overlaps: tuple[OverlapTest, ...]
    views: tuple[Launch, ...]
    apart: list[tuple[int, ...] | None]

    @cached_property
    def run(self) -> Run:
        """The function that runs the plan."""
        return compile_run(self)

    @property
    def library(self) -> Library:
        """The library of the arrays."""
        return self.steps[0].call.place.library

    @property
    def headers(self) -> Headers | None:
        """The backend's reader of many arrays at once; None if it has none."""
        return getattr(self.steps[0].call.place.backend, "headers", None)

    def launch(self, addresses: Sequence[int], numbers: Sequence[Any]) -> bool:
        """Start all launches; False if it has started nothing.

        Parameters
        ----------
        addresses
            All but the arena's, where the sequence has that.
        """
        stream = self.steps[0].call.stream()
        traced = LAUNCHES.get()
        if self.sequence is not None and self.sequence(addresses, numbers, stream):
            if traced is not None:
                traced += [one for step in self.steps for one in step.call.launches]
            return True
        if self.exchanges:
            return False
        if self.keeps_arena:
            try:
                arena = self.new_arena()  # type: ignore[misc]
            except OUT_OF_MEMORY:
                return False
            addresses = (*addresses, aligned(self.library.pointer(arena)))
        for step in self.steps:
            own = step.numbers
            if numbers and own:
                own = tuple([numbers[n.position] if type(n) is NumberOf else n
                             for n in own])
            step.call.launch(tuple([addresses[k] + more for k, more in step.places]),
                             own, stream, traced)
        return True
