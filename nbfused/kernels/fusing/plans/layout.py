"""The place of each array of a plan: in an argument, in a result, or in the arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ....arrays import Array, byte_range, describe, dtype_of
from ....autograd import Variable
from ....backend import NumberOf, SequencedCall, SequencedExchange
from ....dispatch.calls import find_prepared, scalar_type
from ....dispatch.prepared_call import OverlapTest, PreparedCall, overlap_test
from ....scalar.typing.python_numbers import plain_number
from ....specs.fusion.graph import Launch, Value
from ....support.records import record
from ..program import Logged, Opaque, Program, data_of, tree_values
from .concatenations import Part
from .exchanges import FixedMemory, sequenced
from .plan import ALIGN, Place, Result, Step

__all__ = ["Layout", "NoPlanError"]

#: Bytes of an arena up to which no array takes another one's place in it: they stay in
#: the caches anyway.
ROOMY = 1 << 20


class NoPlanError(Exception):
    """Raised where a launch cannot be prepared."""


@record(frozen=True)
class _Memory:
    """The memory of a value: its place in a plan, and where it was in the log."""

    place: Place
    array: Array


class Layout:
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
                 fixed: FixedMemory, parts: Mapping[Value, Part]) -> None:
        self._parts = parts
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
        owners = set(map(self._whole, wanted))
        kernels = [one.launch for one in log if one.launch.spec.launches]
        self.results = list(dict.fromkeys(
            whole for launch in kernels for v in launch.outputs
            if (whole := self._whole(v)) in owners))
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
        self._last = {self._whole(v): k for k, launch in enumerate(kernels)
                      for v in (*launch.inputs, *(v for v in launch.outputs
                                                  if v in parts))
                      if isinstance(v, Value)}
        self._at = -1

    def _owner(self, value: Value) -> Value:
        """The value that was computed into the memory of `value`."""
        return self._base.get(value, value)

    def _whole(self, value: Value) -> Value:
        """The same, or the concatenation that it is a piece of."""
        own = self._owner(value)
        return self._parts[own].whole if own in self._parts else own

    def step(self, one: Logged) -> Step | None:
        """The prepared call of the next launch; None of a call between processes.

        Raises
        ------
        NoPlanError
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
            raise NoPlanError
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
            raise NoPlanError
        inside, whole = byte_range(array), byte_range(memory.array)
        if inside.low < inside.high and not (
                whole.low <= inside.low and inside.high <= whole.high):
            raise NoPlanError  # what should be a view was copied
        number, offset = memory.place
        return number, offset + array.pointer - memory.array.pointer

    def _output(self, k: int, one: Logged, call: PreparedCall) -> Place:
        """The place of an output: in an argument, in a result, or in the arena."""
        value = one.launch.outputs[k]
        array = describe(data_of(one.results[k]))
        if value in self._parts:
            return self._piece(value, array, call)
        if one.out is not None and one.out[k] is not None:
            own = next((v for v in self._stores
                        if self._given[v].pointer == array.pointer), None)
            if own is not None:
                self._memory[value] = self._memory[own]
                return self._memory[own].place
        if value in self._numbers:
            place = self._result(value, array, one.results[k], call, call.makers.get(k))
        elif value in self._buffers:
            place = self._buffers[value], 0
        else:
            place = self._arena, self._take(_bytes(call.outputs[k]))
        self._memory[value] = _Memory(place, array)
        return place

    def _result(self, value: Value, array: Array, native: Any, call: PreparedCall,
                make: Callable[[], Any] | None = None) -> Place:
        """The place of a result in memory of its own."""
        self.made.append(Result(value, make or call.place.library.maker(
            array.shape, array.dtype, array.device), isinstance(native, Variable)))
        return self._numbers[value], 0

    def _piece(self, value: Value, array: Array, call: PreparedCall) -> Place:
        """The place of a piece, in the concatenation."""
        part = self._parts[value]
        whole = describe(data_of(part.array))
        if part.whole not in self._memory:
            place = self._result(part.whole, whole, part.array, call) if \
                part.whole in self._numbers else (self._arena, self._take(
                    _bytes(whole)))
            self._memory[part.whole] = _Memory(place, whole)
        number, offset = self._memory[part.whole].place
        self._memory[value] = _Memory((number, offset + part.offset), array)
        return self._memory[value].place

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
        for value in {self._whole(v) for v in (*launch.inputs, *launch.outputs)
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
            needed.difference_update(view.outputs)  # as it was made last
            needed.update(x for x in view.inputs if isinstance(x, Value))
    return tuple(reversed(found))
