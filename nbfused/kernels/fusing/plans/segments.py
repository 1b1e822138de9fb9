"""Plans of programs that call functions in Python: a plan for what lies between calls.

Each segment is a plan of its own, so that on a GPU it is a graph of its own; what one
leaves for the next is an array of the caller's library, as is what is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....dispatch.callers import Headers
from ....specs.fusion.graph import Launch, Value
from ....support.records import record
from ..program import (
    Logged,
    Opaque,
    Program,
    check_apart,
    evaluate,
    map_tree,
    read_by,
    run_check,
    run_opaque,
    tree_values,
)
from .plan import Plan

__all__ = ["SegmentedPlan", "make_segments"]

#: ``read(arguments)``: the layout of arguments and the addresses of arrays, or None.
Read = Callable[[Sequence[Any]], tuple[Any, tuple[int, ...]] | None]


@record(frozen=True)
class Segment:
    """Launches between two calls: their program, and its plan for a layout."""

    program: Program
    layout: Any
    plan: Plan | None

    def run(self, env: dict[Value, Any], read: Read) -> None:
        """Compute what is needed later, by the plan if the arrays lie as they did."""
        arguments = [env[v] for v in self.program.arguments]
        made = None
        if self.plan is not None:
            found = read(arguments)
            if found is not None and found[0] == self.layout:
                made = self.plan.run(arguments, found[1])
        results = self.program.run(arguments, apart=True) if made is None else made[0]
        env.update(zip(self.program.outputs, results, strict=True))


class SegmentedPlan:
    """The segments and calls of a program, in their order."""

    def __init__(self, program: Program, parts: Sequence[Segment | Launch],
                 read: Read) -> None:
        self._program, self._parts, self._read = program, tuple(parts), read
        self._numbers = tuple(program.numbers)
        #: Addresses of arguments that did not share memory, the last ones.
        self._apart: tuple[int, ...] | None = None

    @property
    def headers(self) -> Headers | None:
        """The backend's reader of many arrays at once; None if it has none."""
        return next((part.plan.headers for part in self._parts
                     if isinstance(part, Segment) and part.plan is not None), None)

    @property
    def plans(self) -> list[Plan]:
        """The plans of its segments."""
        return [part.plan for part in self._parts
                if isinstance(part, Segment) and part.plan is not None]

    def run(self, arguments: Sequence[Any], pointers: tuple[int, ...]) -> tuple[Any]:
        """Run it: the result in a tuple.

        Raises
        ------
        TraceInvalid
            As `Program.run`; nothing has been stored then.
        """
        program = self._program
        env: dict[Value, Any] = dict(zip(program.arguments, arguments, strict=True))
        given = dict(env)
        env.update(program.constants)
        for number in self._numbers:
            env[number.value] = evaluate(number, env)
        waiting = [c for c in program.checks if not run_check(c, env)]
        if program.stores and pointers != self._apart:  # most calls are like the last
            check_apart(program.stores, given)
            self._apart = pointers
        for part in self._parts:
            if isinstance(part, Segment):
                part.run(env, self._read)
            else:
                env.update(zip(part.outputs, run_opaque(part, env), strict=True))
            if waiting:
                waiting = [c for c in waiting if not run_check(c, env)]
        return (map_tree(program.outputs,
                         lambda x: env[x] if isinstance(x, Value) else x),)


def make_segments(program: Program, arguments: Sequence[Any], log: Sequence[Logged],
                  make_plan: Callable[..., Plan | None],
                  read: Read) -> SegmentedPlan | None:
    """Make the plan of a program with calls that has just run; None if there is none.

    Parameters
    ----------
    arguments
        What it ran with.
    log
        What it ran, with the arrays.
    make_plan
        Makes the plan of a program.
    """
    known = {*program.arguments, *(n.value for n in program.numbers)}
    looked_at = {v for _, v in program.checks} - known
    if not (looked_at or any(
            isinstance(launch.spec, Opaque) for launch in program.launches)):
        return None
    env = {**program.constants, **dict(zip(program.arguments, arguments, strict=True))}
    for number in program.numbers:
        env[number.value] = evaluate(number, env)
    parts: list[Segment | Launch] = []
    groups = _groups(log, looked_at if program.stores else set())
    for k, group in enumerate(groups):
        if len(group) == 1 and isinstance(group[0].launch.spec, Opaque):
            parts.append(group[0].launch)
        else:
            later = {v for rest in groups[k + 1:] for one in rest
                     for v in read_by(one.launch)}
            parts.append(_segment(program, group, env, later, k == len(groups) - 1,
                                  make_plan, read))
        for one in group:
            env.update(zip(one.launch.outputs, one.results, strict=True))
    return SegmentedPlan(program, parts, read)


def _groups(log: Sequence[Logged], first: set[Value]) -> list[list[Logged]]:
    """Divide what was run at the calls; what was stored last is in a group.

    The values that are computed `first` are looked at before anything is stored.
    """
    groups: list[list[Logged]] = [[]]
    last = max((k for k, one in enumerate(log)
                if not first.isdisjoint(one.launch.outputs)), default=-1)
    for k, one in enumerate(log):
        if isinstance(one.launch.spec, Opaque):
            groups += [[one], []]
        else:
            groups[-1].append(one)
            if k == last:
                groups.append([])
    return [group for group in groups if group]


def _segment(program: Program, group: Sequence[Logged], env: dict[Value, Any],
             later: set[Value], last: bool, make_plan: Callable[..., Plan | None],
             read: Read) -> Segment:
    stores = dict(program.stores) if last else {}
    stores = {own: new for own, new in stores.items() if any(
        x is env[own] for one in group for x in one.out or ())}
    known = set(map(id, program.launches))
    kept = [one for one in group if id(one.launch) in known or not (
        one.out and any(one.out[0] is env[own] for own in stores))]  # which only store
    launches = [one.launch for one in kept]
    made = {v for launch in launches for v in launch.outputs}
    wanted = later | {*tree_values(program.outputs), *(v for _, v in program.checks),
                      *(v for k, v in program.stores.items() if k not in stores)}
    needed = dict.fromkeys(v for launch in launches for v in launch.inputs
                           if isinstance(v, Value) and v not in made)
    needed |= dict.fromkeys(v for pair in stores.items() for v in pair
                            if v not in made)
    direct = [None if one.out is None else tuple(
        [next((own for own in stores if x is env[own]), None) for x in one.out])
        for one in kept]
    own = Program(tuple(needed), {}, (), (), launches, stores,
                  tuple([v for launch in launches for v in launch.outputs
                         if v in wanted]),
                  direct, [()] * len(launches))
    given = [env[v] for v in needed]
    found = read(given)
    return Segment(own, found and found[0],
                   make_plan(own, given, group) if found else None)
