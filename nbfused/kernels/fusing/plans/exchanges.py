"""Calls between processes inside of a plan, on memory that is the same in each run.

A GPU's graph can hold them then, so that one launch is a whole step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from ....arrays import describe, dtype_of
from ....autograd.graph import COPY
from ....backend import SequencedExchange
from ....dispatch import execute
from ....specs import View
from ....specs.fusion.graph import Launch, Value
from ....support.loop_nests import is_dense
from ....support.records import record
from ..calling.exchange import Exchange
from ..program import Logged, Opaque, Program, data_of, tree_values

__all__ = ["FixedMemory", "can_be_captured", "fix_memory", "sequenced"]


@record(frozen=True)
class FixedMemory:
    """The launches of a program with the arrays that its exchanges carry.

    Attributes
    ----------
    log
        With copies of what is not made in that memory, or is returned.
    buffers
        The array of each value that lies there.
    """

    log: Sequence[Logged]
    buffers: dict[Value, Any]


def can_be_captured(spec: Any) -> bool:
    """True if a call in Python can be part of a GPU's graph."""
    return isinstance(spec, Opaque) and (spec.awaits or (
        spec.exchange is not None and spec.exchange.on_stream is not None))


def fix_memory(program: Program, log: Sequence[Logged]) -> FixedMemory:
    """Give the exchanges of a program that has just run memory that does not move."""
    base: dict[Value, Value] = {}
    for one in log:
        if not one.launch.spec.launches:
            (x, *_), (view,) = one.launch.inputs, one.launch.outputs
            base[view] = base.get(x, x)
    returned = {base.get(v, v) for v in tree_values(program.outputs)}
    readers: dict[Value, int] = {}
    for one in log:
        for x in one.launch.inputs if one.launch.spec.launches else ():
            if isinstance(x, Value):
                readers[base.get(x, x)] = readers.get(base.get(x, x), 0) + 1
    made, found = set[Value](), list[Logged]()
    buffers: dict[Value, Any] = {}
    for one in log:
        spec = one.launch.spec
        if not isinstance(spec, Opaque) or spec.exchange is None:
            found.append(_as_view(one) if isinstance(spec, Opaque) else one)
            made.update(one.launch.outputs if spec.launches else ())
            continue
        (x, *_), (result,) = spec.args, one.launch.outputs
        given, got = data_of(one.inputs[0]), data_of(one.results[0])
        alone = x in made and readers[x] == 1
        array = describe(given)
        dense = is_dense(array.shape, array.strides)
        if x not in made or x in returned or not dense:
            x, alone = Value(x.shape, x.type), True
            found.append(_copy(one.launch.inputs[0], given, x, _memory(given)))
        if x not in buffers:
            buffers[x] = _memory(given)
        carried = Value(result.shape, result.type) if result in returned else result
        buffers[carried] = buffers[x] if spec.exchange.in_place and alone else _memory(
            got)
        held = _memory(got) if carried is not result else got
        found.append(Logged(Launch(spec, (x,), (carried,)), (given,), None, (held,)))
        if carried is not result:
            found.append(_copy(carried, held, result, got))
    return FixedMemory(found, buffers)


def _as_view(one: Logged) -> Logged:
    """The wait for an exchange: all of what it has begun."""
    view = View("reshape", one.launch.outputs[0].shape)
    return replace(one, launch=replace(one.launch, spec=view))


def _memory(like: Any) -> Any:
    """A new array of the same shape, dtype and library."""
    array = describe(like)
    library = array.library
    return library.finish(library.empty(array.shape, array.dtype, array.device))


def _copy(x: Any, given: Any, made: Value, into: Any) -> Logged:
    execute(COPY, (given,), out=(_memory(into),))  # so that the call is prepared
    return Logged(Launch(COPY, (x,), (made,)), (given,), (into,), (into,))


def sequenced(exchange: Exchange, source: tuple[int, Any],
              target: tuple[int, Any]) -> SequencedExchange:
    """The exchange of two arrays, each with the number of its address in a run."""
    spans = tuple([(number, 0, prod(x.shape)*dtype_of(x).itemsize)
                   for number, x in (source, target)])
    return SequencedExchange(partial(_carry, exchange, source[1], target[1]), spans,
                             exchange.captures)


def _carry(exchange: Exchange, source: Any, target: Any, stream: int) -> None:
    assert exchange.on_stream is not None
    with exchange.on_stream(stream):
        exchange.carry(source, target)
