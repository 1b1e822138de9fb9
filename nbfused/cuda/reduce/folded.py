"""Narrow results of long columns: many rows of a few points read as one wide row.

Rows of seven numbers that follow one another are rows of 7*64 numbers, a 64th as many,
which *columns* reads by whole lines.  Their states, and those of the rows that are
left, are then merged as chunks of the seven points.
"""

from __future__ import annotations

from dataclasses import replace

from ...backend import Call
from ...gpu.reduce_layout import WIDE
from ...support.records import record
from .text import ReduceText

__all__ = ["Folded", "folded"]

#: Rows that are read as one: a power of two, so that such rows begin at whole accesses.
ROWS = 64
#: Bytes that the second cache sends where rows are read by neighbouring points' lanes,
#: each of which asks for sectors of so many bytes, from which three launches are worth
#: it: benchmarks/notes/memory.md#narrow-reductions.
LEAST, SECTOR = 100_000_000, 32


@record(frozen=True)
class Folded:
    """A call as two.

    Attributes
    ----------
    wide
        The call on wide rows.
    rest
        The call on the rows that are left, None if there are none.
    points
        Points that are kept.
    rows
        Rows in a wide one.
    before
        Rows before those that are left.
    """

    wide: Call
    rest: Call | None
    points: int
    rows: int
    before: int


def folded(text: ReduceText, call: Call) -> Folded | None:
    """The calls to make in place of one, None where it is better as it is."""
    if len(call.shape) != 2 or not 1 < call.shape[0] < WIDE:
        return None
    points, reduced = call.shape
    sent = sum(min(SECTOR, points*o.dtype.itemsize) for o in text.inputs)
    if points*reduced*sent < LEAST or reduced < ROWS:
        return None
    if "size" in text.typed.kinds or not text.inputs:
        return None
    strides = [call.strides[o.at] for o in text.inputs]
    if not all(own == (1, points) for own in strides):
        return None
    rows, left = divmod(reduced, ROWS)
    whole = {o.at for o in text.inputs}
    wide = replace(call, shape=(points*ROWS, rows), strides=tuple(
        (1, points*ROWS) if at in whole else s for at, s in enumerate(call.strides)))
    if not left:
        return Folded(wide, None, points, ROWS, reduced)
    moved = {o.at: rows*ROWS*points*o.dtype.itemsize for o in text.inputs}
    rest = replace(call, shape=(points, left), pointers=tuple(
        p + moved.get(at, 0) for at, p in enumerate(call.pointers)))
    return Folded(wide, rest, points, ROWS, rows*ROWS)
