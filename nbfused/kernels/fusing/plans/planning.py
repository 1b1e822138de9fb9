"""Programs run by their plans: when one is made, and where in it each array lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ....arrays import Array, byte_range, describe, dtype_of
from ....autograd import Variable
from ....autograd.recording import recording
from ....backend import NumberOf, SequencedCall, SequencedExchange, SequenceStart
from ....dispatch.callers import read_layouts
from ....dispatch.calls import find_prepared, scalar_type
from ....dispatch.prepared_call import OverlapTest, PreparedCall, overlap_test
from ....dispatch.prepared_call import Place as CallPlace
from ....errors import KernelTypeError
from ....scalar.typing.python_numbers import plain_number
from ....specs.fusion.graph import Launch, Value
from ....support.records import record
from ..arguments import is_number
from ..program import Logged, Opaque, Program, data_of, tree_values
from .exchanges import FixedMemory, can_be_captured, fix_memory, sequenced
from .plan import ALIGN, Place, Plan, Result, Step
from .segments import SegmentedPlan, make_segments

__all__ = ["Plans", "read"]

_LIMIT = 256  # plans of one function
#: Bytes of an arena up to which no array takes another one's place in it: they stay in
#: the caches anyway.
ROOMY = 1 << 20


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
            s.launches or s.rearranges for s in specs):
        return None
    exchanges = any(isinstance(s, Opaque) for s in specs)
    fixed = fix_memory(program, log) if exchanges else FixedMemory(log, {})
    log = fixed.log
    try:
        layout = _Layout(program, arguments, fixed)
        steps = tuple([step for one in log if one.launch.spec.launches
                       if (step := layout.step(one))])
    except (_NoPlanError, KernelTypeError):  # an argument that no kernel reads
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


class _NoPlanError(Exception):
    """Raised where a launch cannot be prepared."""


@record(frozen=True)
class _Memory:
    """The memory of a value: its place in a plan, and where it was in the log."""

    place: Place
    array: Array


class _Layout:
    """The places of a program's arrays, worked out launch by launch.

    Attributes
    ----------
    results
        The values that lie in memory of their own, which is returned.
    made
        How these are allocated, in their order.
    views
        The launches that rearrange what is returned.
    constants
        What lies in the same memory in each call.
    passed
        The numbers of the call that launches are given and in which form, and the
        position of each.
    calls
        All launches, what clears outputs among them.
    size
        Bytes of the arena.
    """

    def __init__(self, program: Program, arguments: Sequence[Any],
                 fixed: FixedMemory) -> None:
        self._stores, log, self._fixed = program.stores, fixed.log, fixed.buffers
        self._given = {v: describe(data_of(x)) for v, x in zip(
            program.arguments, arguments, strict=True) if not v.by_value}
        held = {id(x): x for x in fixed.buffers.values()}
        self.constants = [*program.constants.items(),
                          *((Value((), dtype_of(x)), x) for x in held.values())]
        wanted = [v for v in tree_values(program.outputs) if v not in self._given]
        #: What each value that rearranges another one is a view of.
        self._base: dict[Value, Value] = {}
        for one in log:
            if not one.launch.spec.launches:
                self._base[one.launch.outputs[0]] = self._owner(one.launch.inputs[0])
        owners = set(map(self._owner, wanted))
        kernels = [one.launch for one in log if one.launch.spec.launches]
        self.results = [v for launch in kernels for v in launch.outputs if v in owners]
        self.views = _leading_to(wanted, [one.launch for one in log
                                          if not one.launch.spec.launches])
        count = len(self._given) + len(self.constants)
        self._memory = {v: _Memory((k, 0), array) for k, (v, array) in enumerate(
            [*self._given.items(),
             *((v, describe(data_of(x))) for v, x in self.constants)])}
        at = {which: count - len(held) + k for k, which in enumerate(held)}
        self._buffers = {v: at[id(x)] for v, x in fixed.buffers.items()}
        self._numbers = {v: count + k for k, v in enumerate(self.results)}
        self._arena = count + len(self.results)
        self.made: list[Result] = []
        self.passed: dict[tuple[Value, Callable[[Any], Any]], int] = {}
        self.calls: list[SequencedCall | SequencedExchange] = []
        self.size = 0
        #: Launches that share no memory may run side by side.
        self._roomy = sum(_bytes(describe(data_of(r))) for one in log if one.out is None
                          and one.launch.spec.launches for r in one.results) <= ROOMY
        self._used: dict[int, int] = {}
        self._last = {self._owner(v): k for k, launch in enumerate(kernels)
                      for v in launch.inputs if isinstance(v, Value)}
        self._at = -1

    def _owner(self, value: Value) -> Value:
        """The value that was computed into the memory of `value`."""
        return self._base.get(value, value)

    def step(self, one: Logged) -> Step | None:
        """The prepared call of the next launch; None of a call between processes.

        Raises
        ------
        _NoPlanError
            There is none, or an array lies elsewhere than in what is known.
        """
        self._at += 1
        spec, launch = one.launch.spec, one.launch
        if isinstance(spec, Opaque):
            self._exchange(one)
            return None
        data = [data_of(x) for x in one.inputs]
        out = None if one.out is None else [data_of(x) for x in one.out]
        call = find_prepared(spec, data, out, launch.asked, data_of(one.like))
        if call is None or call.streams:
            raise _NoPlanError
        read: list[Place] = []
        numbers: list[Any] = []
        for x, native, (kind, _) in zip(launch.inputs, data, spec.parameters,
                                        strict=True):
            if kind != "scalar":
                read.append(self._place(x, describe(native)))
                continue
            form = _passed(native)
            if isinstance(x, Value):
                at = self.passed.setdefault((x, form), len(self.passed))
                numbers.append(NumberOf(at))
            else:
                numbers.append(form(native))
        written = [self._output(k, one, call) for k in range(len(launch.outputs))]
        self._release(launch)
        places = (*read, *written)
        self._sequenced(call, places, tuple(numbers), (
            *(describe(x) for x, (kind, _) in zip(data, spec.parameters, strict=True)
              if kind != "scalar"), *call.outputs))
        return Step(call, places, tuple(numbers))

    def _exchange(self, one: Logged) -> None:
        """Note a call between processes for the sequence."""
        (x,), (result,) = one.launch.inputs, one.launch.outputs
        self._memory[result] = _Memory((self._buffers[result], 0),
                                       describe(data_of(one.results[0])))
        places = [(self._buffers[v], self._fixed[v]) for v in (x, result)]
        self.calls.append(sequenced(one.launch.spec.exchange, *places))

    def _sequenced(self, call: PreparedCall, places: tuple[Place, ...],
                   numbers: tuple[Any, ...], arrays: Sequence[Array]) -> None:
        """Note the launch for the sequence, with the memory behind its addresses."""
        inside = [byte_range(array) for array in arrays]
        self.calls += call.sequenced(places, numbers, tuple(
            [(k, more + part.low - array.pointer, more + part.high - array.pointer)
             for (k, more), part, array in zip(places, inside, arrays, strict=True)]))

    def _place(self, x: Any, array: Array) -> Place:
        """The place of an array that is read; it may be a view of another."""
        memory = self._memory.get(self._owner(x)) if isinstance(x, Value) else None
        if memory is None:
            raise _NoPlanError
        inside, whole = byte_range(array), byte_range(memory.array)
        if inside.low < inside.high and not (
                whole.low <= inside.low and inside.high <= whole.high):
            raise _NoPlanError  # what should be a view was copied
        number, offset = memory.place
        return number, offset + array.pointer - memory.array.pointer

    def _output(self, k: int, one: Logged, call: PreparedCall) -> Place:
        """The place of an output: in an argument, in a result, or in the arena."""
        value = one.launch.outputs[k]
        array = describe(data_of(one.results[k]))
        if one.out is not None and one.out[k] is not None:
            own = next((v for v in self._stores
                        if self._given[v].pointer == array.pointer), None)
            if own is not None:
                self._memory[value] = self._memory[own]
                return self._memory[own].place
        if value in self._numbers:
            place = self._numbers[value], 0
            make = call.makers.get(k) or call.place.library.maker(
                array.shape, array.dtype, array.device)
            self.made.append(Result(value, make,
                                    isinstance(one.results[k], Variable)))
        elif value in self._buffers:
            place = self._buffers[value], 0
        else:
            place = self._arena, self._take(_bytes(call.outputs[k]))
        self._memory[value] = _Memory(place, array)
        return place

    def _take(self, size: int) -> int:
        """The first bytes of the arena that nobody uses."""
        offset = 0
        for start, end in sorted(self._used.items()):
            if start - offset >= size:
                break
            offset = max(offset, end)
        self._used[offset] = offset + size
        self.size = max(self.size, offset + size)
        return offset

    def _release(self, launch: Launch) -> None:
        """Let later arrays use the memory that nobody reads any more."""
        if self._roomy:
            return
        for value in {self._owner(v) for v in (*launch.inputs, *launch.outputs)
                      if isinstance(v, Value)}:
            memory = self._memory.get(value)
            if memory and memory.place[0] == self._arena and \
                    self._last.get(value, -1) <= self._at:
                del self._used[memory.place[1]]

    def overlaps(self) -> list[OverlapTest]:
        """Tests that no argument which is changed shares memory with another."""
        numbered = list(enumerate(self._given.items()))
        found = [overlap_test(k, array, j, other, False)
                 for k, (v, array) in numbered if v in self._stores
                 for j, (w, other) in numbered if w is not v]
        return [test for test in found if test is not None]


def _applies(check: Callable[[Any], None], x: Any) -> bool:
    """Whether a check looks at arrays like `x`, with the settings of now."""
    own: Callable[[Any], bool] | None = getattr(check, "applies", None)
    return own is None or own(x)


def _passed(number: Any) -> Callable[[Any], Any]:
    """Find the form in which numbers of this type are handed to a launch."""
    if isinstance(number, np.bool_):
        return bool  # packing asks for an integer
    return _word if type(number) is int else plain_number


def _word(number: int) -> int:
    """Check that an integer fits 64 bits, as each call does."""
    scalar_type("a number of nf.fuse", number)
    return number


def _bytes(array: Array) -> int:
    """Bytes of an array in the arena, which begins where the next one may."""
    return max(1, -(-prod(array.shape) * array.dtype.itemsize // ALIGN)) * ALIGN


def _leading_to(wanted: Sequence[Value], views: Sequence[Launch]) -> tuple[Launch, ...]:
    """The views that these values are made by, in their order."""
    needed, found = set(wanted), []
    for view in reversed(views):
        if needed.intersection(view.outputs):
            found.append(view)
            needed.update(x for x in view.inputs if isinstance(x, Value))
    return tuple(reversed(found))
