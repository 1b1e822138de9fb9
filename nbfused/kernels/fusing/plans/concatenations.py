"""Concatenations in a plan: pieces are computed where the whole array has them.

A piece that a launch of the program computes has no memory of its own; any other one is
copied to its place.  What is launched is launched again, into memory that is given up,
so that there are prepared calls for these places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ....arrays import byte_range, describe
from ....autograd.graph import COPY
from ....dispatch import execute
from ....specs import View
from ....specs.fusion.graph import Launch, Value
from ....support.loop_nests import is_dense
from ....support.records import record
from ..program import Logged, Program, data_of, tree_values

__all__ = ["Part", "in_place"]


@record(frozen=True)
class Part:
    """The place of a piece: the concatenation, as it was run, and bytes from there."""

    whole: Value
    array: Any
    offset: int


def in_place(program: Program, log: Sequence[Logged],
             ) -> tuple[Sequence[Logged], dict[Value, Part]] | None:
    """Change what was launched so that nothing is left of concatenations but copies.

    Returns
    -------
    tuple or None
        What is launched, and the place of each piece; None if the library of the
        arrays has no views that are stored into.
    """
    if not any(_is_concatenation(one) for one in log):
        return log, {}
    base: dict[Value, Value] = {}
    made: dict[Value, int] = {}
    for k, one in enumerate(log):
        spec = one.launch.spec
        if spec.launches:
            made.update(dict.fromkeys(one.launch.outputs, k) if one.out is None else {})
        elif spec.rearranges:
            (view,), x = one.launch.outputs, one.launch.inputs[0]
            base[view] = base.get(x, x)
    alone = {base.get(v, v) for v in tree_values(program.outputs)}
    found: list[Logged] = list(log)
    parts: dict[Value, Part] = {}
    copies: dict[int, list[Logged]] = {}
    for k, one in enumerate(log):
        if not _is_concatenation(one):
            continue
        copies[k] = []
        (axis,), (whole,), start = one.launch.spec.params, one.launch.outputs, 0
        memory = _memory_like(data_of(one.results[0]))
        for x, native in zip(one.launch.inputs, one.inputs, strict=True):
            room = _room(memory, axis, start, x.shape[axis])
            start += x.shape[axis]
            if room is None:
                return None
            own = base.get(x, x)
            part = Part(whole, one.results[0],
                        describe(room).pointer - describe(memory).pointer)
            if own in made and own not in parts and own not in alone and \
                    _is_all(own, found[made[own]], native):
                parts[own] = part
                found[made[own]] = _stored(found[made[own]], own, room)
            elif prod(x.shape) or not prod(whole.shape):
                target = Value(x.shape, x.type)
                parts[target] = part
                copies[k].append(Logged(Launch(COPY, (x,), (target,)), (
                    data_of(native),), (room,), (room,)))
    launched = [new for k, one in enumerate(found) for new in copies.get(k, (one,))]
    for one in launched:
        if not parts.keys().isdisjoint(one.launch.outputs):
            execute(one.launch.spec, [data_of(x) for x in one.inputs], out=one.out,
                    dtypes=one.launch.asked, like=data_of(one.like))
    return launched, parts


def _is_concatenation(one: Logged) -> bool:
    spec = one.launch.spec
    return isinstance(spec, View) and spec.kind == "concatenate"


def _room(whole: Any, axis: int, start: int, count: int) -> Any:
    """The part of an array that a piece has; None if it were another array."""
    array = describe(whole)
    (room,) = execute(View("slice", tuple(
        (start, start + count, 1) if a == axis else (0, n, 1)
        for a, n in enumerate(array.shape))), (whole,))
    outer, inner = byte_range(array), byte_range(describe(room))
    return room if outer.low <= inner.low and inner.high <= outer.high else None


def _memory_like(native: Any) -> Any:
    """New memory for an array."""
    array = describe(native)
    return array.library.maker(array.shape, array.dtype, array.device)()


def _is_all(own: Value, one: Logged, native: Any) -> bool:
    """Whether a piece is all of what a launch computed, in its order."""
    computed = describe(data_of(one.results[one.launch.outputs.index(own)]))
    piece = describe(data_of(native))
    return prod(piece.shape) == prod(computed.shape) > 0 and all(
        is_dense(x.shape, x.strides) for x in (piece, computed))


def _stored(one: Logged, own: Value, room: Any) -> Logged:
    """The same launch, with one of its results stored in the room of a piece."""
    k = one.launch.outputs.index(own)
    shape = describe(data_of(one.results[k])).shape
    (target,) = execute(View("reshape", shape), (room,))
    outs = list(one.out or (None,)*len(one.results))
    outs[k] = target
    return replace(one, out=tuple(outs))
