"""Programs run by their plans, and when one is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....arrays import describe
from ....autograd import Variable
from ....autograd.recording import recording
from ....backend import SequencedCall, SequencedExchange, SequenceStart
from ....dispatch.callers import read_layouts
from ....dispatch.prepared_call import Place as CallPlace
from ....errors import KernelTypeError
from ..arguments import is_number
from ..program import Logged, Opaque, Program, data_of
from .concatenations import in_place
from .exchanges import FixedMemory, can_be_captured, fix_memory
from .layout import Layout, NoPlanError
from .plan import ALIGN, Plan
from .segments import SegmentedPlan, make_segments

__all__ = ["Plans", "read"]

_LIMIT = 256  # plans of one function


class Plans:
    """The plans of a fused function, by the layout of its arguments.

    One is made in the second call of a layout: where each call has another, none pays.
    """

    def __init__(self) -> None:
        #: True after the first call, False where there is no plan.
        self._states: dict[Any, Plan | SegmentedPlan | bool] = {}

    def find(self, key: Any) -> Plan | SegmentedPlan | None:
        """The plan for a layout, or None."""
        found = self._states.get(key)
        return None if isinstance(found, bool) else found

    def run(self, program: Program, arguments: Sequence[Any], key: Any) -> Any:
        """Run a program, and make its plan if this is the second call of the layout.

        Raises
        ------
        TraceInvalid
            As `Program.run`.
        """
        state = self._states.get(key)
        if state is not None and state is not True:
            return program.run(arguments)
        if state is None:
            if len(self._states) >= _LIMIT:
                self._states.clear()
            made = program.run(arguments)
            self._states[key] = True
            return made
        log: list[Logged] = []
        made = program.run(arguments, log)
        self._states[key] = make_plan(program, arguments, log) or make_segments(
            program, arguments, log, make_plan, read) or False
        return made

    def clear(self) -> None:
        """Forget all plans."""
        self._states.clear()


def read(arguments: Sequence[Any]) -> tuple[Any, tuple[int, ...]] | None:
    """The layout of the arguments, and the addresses of the arrays.

    None where a tape records, or only `describe` can tell.
    """
    arrays: list[Any] = []
    for x in arguments:
        if isinstance(x, Variable):
            if x._edge is not None and recording():
                return None
            arrays.append(x._value)
        elif not is_number(x):
            arrays.append(x)
    types = tuple(map(type, arrays))
    layouts = read_layouts(types)
    found = layouts and layouts(arrays)
    if not found:
        return None
    return (tuple(map(type, arguments)), types, found[0]), found[1]


def make_plan(program: Program, arguments: Sequence[Any],
              log: Sequence[Logged]) -> Plan | None:
    """Make the plan of a program that has just run; None if there is none.

    There is none where something else than a kernel runs, a kernel is not prepared, or
    an array is looked at on the host that is no argument.

    Parameters
    ----------
    arguments
        What it ran with.
    log
        What it launched, with the arrays, all of which are still there.
    """
    given = {*program.arguments, *program.constants}
    specs = [one.launch.spec for one in log]
    looked_at = {v for _, v in program.checks if not v.by_value}
    if not looked_at <= given or not all(
            can_be_captured(s) if isinstance(s, Opaque) else
            s.launches or s.rearranges or s.kind == "concatenate" for s in specs):
        return None
    exchanges = any(isinstance(s, Opaque) for s in specs)
    joined = (log, {}) if exchanges else in_place(program, log)
    if joined is None:
        return None
    fixed = fix_memory(program, log) if exchanges else FixedMemory(joined[0], {})
    log = fixed.log
    try:
        layout = Layout(program, arguments, fixed, joined[1])
        steps = tuple([step for one in log if one.launch.spec.launches
                       if (step := layout.step(one))])
    except (NoPlanError, KernelTypeError):  # an argument that no kernel reads
        return None
    places = {(id(s.call.place.library), s.call.place.device) for s in steps}
    if len(places) != 1 or len(layout.made) != len(layout.results):
        return None
    place, size = steps[0].call.place, layout.size
    sequence = _sequence(place, layout.calls)
    if exchanges and sequence is None:
        return None
    keep_arena = getattr(sequence, "keep_arena", None)
    passed = dict(zip(program.arguments, arguments, strict=True))
    return Plan(
        tuple(program.arguments), tuple(program.numbers),
        tuple([(check, v) for check, v in program.checks  # constants have passed them
               if v.by_value or (v in passed and _applies(check, passed[v]))]),
        frozenset(v for v, x in passed.items() if isinstance(x, Variable)),
        tuple(program.stores),
        frozenset(type(data_of(passed[v])) for v in program.stores),
        program.outputs, tuple([(v, x, describe(data_of(x)).pointer)
                                for v, x in layout.constants]),
        steps, tuple(layout.passed), sequence, exchanges,
        bool(size and keep_arena and keep_arena(size)), tuple(layout.made),
        place.library.maker((size + ALIGN,), np.dtype(np.uint8), place.device)
        if size else None,
        size, tuple(layout.overlaps()), layout.views, [None])


def _sequence(place: CallPlace,
              calls: Sequence[SequencedCall | SequencedExchange],
              ) -> SequenceStart | None:
    """Make the start of all calls at once; None if the backend has none."""
    make = getattr(place.backend, "sequence", None)
    return make(calls) if make and calls else None


def _applies(check: Callable[[Any], None], x: Any) -> bool:
    """Whether a check looks at arrays like `x`, with the settings of now."""
    own: Callable[[Any], bool] | None = getattr(check, "applies", None)
    return own is None or own(x)
