"""Spans: neighbours in memory, of kept and of reduced loops, as the lanes of a Reduce.

Where the loop along neighbours is short, neither it nor any other one fills vectors.
Then lanes are a *span*: that loop and those around it while they are contiguous, and of
a reduced one only some steps.  Each lane is reduced along the loops outside the span;
what belongs to one result is combined in the end: benchmarks/notes/cpu.md#spans.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..backend import Call
from ..support.records import record

__all__ = ["Span", "find_span"]

#: A reduced loop along neighbours that is at least so long needs no span; not measured.
_LONG = 64

#: Lanes at least, and enough of them; not measured.
_LEAST, _ENOUGH = 16, 256

#: Elements of each lane at least: states are so much fewer, and cost a division each.
_OUTER = 16

#: More lanes than any array has elements.
_UNLIMITED = 1 << 62


@record(frozen=True)
class Span:
    """A reduction in two steps.

    Attributes
    ----------
    first
        The call that leaves a state for each lane: kept loops, lanes, reduced loops.
    kept
        Its number of kept loops, lanes among them.
    last
        The call that combines states: kept loops, chunks, reduced lanes.
    steps
        How far apart the states are along each of its loops.
    limit
        Lanes of all steps along the last reduced loop: the last step may have fewer.
    """

    first: Call
    kept: int
    last: Call
    steps: tuple[int, ...]
    limit: int


def find_span(call: Call, kept: int, inputs: int, filled: int) -> Span | None:
    """Find lanes for a reduction with a short loop along neighbours, or None.

    Parameters
    ----------
    filled
        Results that fill vectors, if they are neighbours.
    """
    shape, strides = call.shape, call.strides[:inputs]
    near: dict[int, int] = {}  # loops of the span, with the distance of their lanes
    lanes = 1
    rest = prod(shape[kept:])
    while lanes < _ENOUGH:
        loop = next((d for d, n in enumerate(shape) if n > 1 and d not in near
                     and all(s[d] == lanes for s in strides)), None)
        if loop is None or (lanes == 1 and (shape[loop] >= _LONG or (
                loop == kept - 1 and shape[loop] >= filled))):
            break
        if loop >= kept:
            if rest // shape[loop] < _OUTER:
                part = min(-(-_ENOUGH // lanes), rest // _OUTER, shape[loop])
                return _span(call, kept, inputs, near, lanes, loop, part)
            rest //= shape[loop]
        near[loop] = lanes
        lanes *= shape[loop]
    return _span(call, kept, inputs, near, lanes, -1, 1)


def _span(call: Call, kept: int, inputs: int, near: dict[int, int], lanes: int,
          split: int, part: int) -> Span | None:
    """The two steps, with `part` steps of the loop `split` among the lanes."""
    shape = call.shape
    width = lanes * part
    outside = [d for d in range(len(shape)) if d not in near and d != split]
    outer = [d for d in outside if d < kept]
    far = [d for d in outside if d >= kept]
    steps_of = dict.fromkeys(far, 1)
    if split >= 0:
        far.append(split)
        steps_of[split] = max(part, 1)
    extents = tuple(-(-shape[d] // steps_of[d]) for d in far)
    if not near or width < _LEAST or prod(extents) < _OUTER:
        return None
    first = (*(shape[d] for d in outer), width, *extents)
    lane = [(shape[d], at) for d, at in near.items() if d >= kept]
    lane += [(part, lanes)] * (part > 1)
    places = dict(near)
    states = width
    for d in reversed(outer):
        places[d] = states
        states *= shape[d]
    last = (*shape[:kept], 1, *(n for n, _ in lane))
    return Span(
        replace(call, shape=first, strides=tuple(
            (*(s[d] for d in outer), 1, *(s[d] * steps_of[d] for d in far))
            if k < inputs else (0,) * len(first) for k, s in enumerate(call.strides))),
        len(outer) + 1,
        replace(call, shape=last, strides=tuple(
            (0,) * len(last) if k < inputs else
            (*s[:kept], *(0,) * (len(last) - kept))
            for k, s in enumerate(call.strides))),
        (*(places.get(d, 0) for d in range(kept)), states, *(at for _, at in lane)),
        lanes * shape[split] if split >= 0 else _UNLIMITED)
