"""The rules that choose the skeleton of a row, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ....backend import Call
from ....support.records import record
from ..plan import RowPlan
from ..text import RowText
from ..tiled import crowded, in_tiles
from .unrolled import could_unroll, takes_rows

__all__ = ["RULES", "Facts", "Rule", "facts_of", "skeleton_for"]

#: Rows for each multiprocessor below which most of them idle where a row has a block.
#: A block of 512 threads reads some 40 GB/s (softmax of one row of 16 M took a hundred
#: times as long as PyTorch's), so that one for each multiprocessor suffices.
FEW = 0.4
#: Accesses of a lane from which a row is worth several launches of about 3 us: it
#: takes 4 accesses at a time, which is about 1 us.
LONG = 64
#: Neighbouring rows from which threads side by side read whole lines.
ACROSS = 16
#: Elements from which rows across are worth several launches; no record.
LARGE = 1 << 20
#: Rows from which a thread each keeps the memory busy, and bytes of them that the
#: first cache holds for the next stage; no record.
MANY, SHORT = 1 << 17, 128
#: The same of rows so narrow that most lanes of a group would idle, wherever they lie:
#: benchmarks/notes/rows.md#rows-of-few-elements.
SEVERAL, NARROW = 1 << 14, 64
#: Columns up to which a thread for each row is faster than lanes, wherever it lies:
#: benchmarks/notes/rows.md#rows-of-few-elements.
SPARSE = 4
#: Columns up to which a thread has room for those of several rows.
FEW_COLUMNS = 8
#: Bytes of a row's inputs, and elements, up to which a block's rows pass through shared
#: memory, and elements up to which lanes that keep a row idle: estimates, as before.
TILED, LONGEST, IDLE = 520, 128, 8
#: Where lanes keep single elements: columns up to which they idle, those up to which a
#: thread by itself is faster, and rows from which shared memory is:
#: benchmarks/notes/rows.md#elements-one-by-one.
IDLE_APART, ALONE, TILES = 32, 6, 1 << 18


@record(frozen=True)
class Facts:
    """The facts that the rules ask for.

    Attributes
    ----------
    rows, columns
        Their numbers.
    accesses
        Of a lane, along a row.
    kept
        Whether the row's elements are read once, by whole accesses into registers.
    apart
        The same, one by one.
    neighbours
        Rows whose elements are neighbours in memory, where those of a row are not; 0
        where those of a row are nearer.
    width
        Bytes that a column of a row takes in all inputs.
    blocks
        That run with one row each, and multiprocessors of the device.
    processors
        Multiprocessors of the device.
    sums
        Whether there are sums over rows.
    dense
        Whether rows follow one another in memory, see `tiled.in_tiles`.
    padded
        Whether such rows lie further apart in shared memory, see `tiled.Tiled`.
    unrolled
        Whether a map can have the columns as operands.
    whole
        Whether a thread of it can take whole rows, one after the other in memory.
    """

    rows: int
    columns: int
    accesses: int
    kept: bool
    apart: bool
    neighbours: int
    width: int
    blocks: int
    processors: int
    sums: bool
    dense: bool = False
    padded: bool = False
    unrolled: bool = False
    whole: bool = False


@record(frozen=True)
class Rule:
    """A skeleton for rows of which a condition holds.

    `skeleton` is ``"group"`` (a group of lanes for each row), ``"thread"`` (a thread
    for each row), ``"tile"`` (the same, see `row.tiled`), ``"map"`` (see `unrolled`)
    or ``"split"`` (see `row.split`; a group if that is not possible).
    """

    skeleton: str
    reason: str
    holds: Callable[[Facts], bool]


#: The first that holds is taken.
RULES = (
    Rule("group", "nothing to share", lambda f: f.rows*f.columns == 0),
    Rule("map", "rows of one element: nothing is shared",
         lambda f: f.unrolled and f.columns == 1),
    Rule("map", "rows of few elements side by side: whole accesses bring several",
         lambda f: f.unrolled and f.neighbours >= ACROSS and f.columns <= FEW_COLUMNS),
    Rule("map", "many rows of few elements, one after the other: a thread takes whole "
         "ones by whole accesses",
         lambda f: f.whole and f.rows >= SEVERAL and f.columns <= FEW_COLUMNS),
    Rule("map", "many rows of few elements, some of which are broadcast or lie apart: "
         "of a group of lanes most would idle",
         lambda f: f.unrolled and not f.dense and f.rows >= SEVERAL
         and f.columns <= SPARSE),
    Rule("tile", "many rows of few elements, one after the other: through shared "
         "memory, threads load and store neighbours",
         lambda f: f.dense and f.rows >= (TILES if f.apart else SEVERAL)
         and 1 < f.columns <= LONGEST and f.columns*f.width <= TILED
         and (not f.kept or f.columns <= IDLE)
         and (not f.apart or (f.columns <= IDLE_APART and not f.padded))),
    Rule("thread", "many short rows side by side: threads read neighbours, and a row "
         "stays in the first cache from stage to stage",
         lambda f: f.neighbours >= ACROSS and f.rows >= MANY and not f.sums
         and f.columns*f.width <= SHORT),
    Rule("thread", "many rows of few elements: of a group of lanes most would idle",
         lambda f: not f.kept and f.rows >= SEVERAL and not f.sums
         and f.columns*f.width <= NARROW
         and (not f.apart or f.neighbours >= ACROSS or f.columns <= ALONE)),
    Rule("split", "rows side by side: lanes of a group would each read another line",
         lambda f: f.neighbours >= ACROSS and f.rows*f.columns >= LARGE),
    Rule("split", "few long rows: with a block each, most multiprocessors would idle",
         lambda f: not f.kept and f.accesses >= LONG
         and f.blocks < FEW*f.processors),
    Rule("group", "enough rows, or rows that are read once", lambda f: True),
)


def facts_of(text: RowText, call: Call, plan: RowPlan, processors: int) -> Facts:
    """The facts of a call that would otherwise run by `plan`."""
    rows, columns = prod(call.shape[:-1]), call.shape[-1]
    width = text.width if plan.vector else 1
    elements = [*text.elements, *text.written]
    aside, along = (sum(abs(call.strides[o.at][loop]) for o in elements)
                    for loop in (-2, -1))
    tiled = in_tiles(text, call)
    return Facts(
        rows, columns, columns // (width*plan.lanes*plan.cluster),
        plan.vector and plan.kept > 0, not plan.vector and plan.kept > 0,
        call.shape[-2] if aside < along else 0,
        sum(o.dtype.itemsize for o in text.elements),
        -(-rows // plan.groups)*plan.cluster, processors, bool(text.sums),
        bool(tiled), columns % crowded(text, tiled) == 0,
        could_unroll(text, columns), takes_rows(text, call))


def skeleton_for(facts: Facts) -> Rule:
    """The rule that applies."""
    return next(rule for rule in RULES if rule.holds(facts))
