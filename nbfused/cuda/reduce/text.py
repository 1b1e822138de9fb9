"""Plans of Reduce's kernels, and what all of one Reduce share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from ...gpu.operands import Operand
from ...gpu.reduce_layout import ReduceLayout
from ...scalar.typing.promotion import compute_dtype
from ...support.records import record
from ..text.source import LONGEST, statements_of
from .parts import JoinedReduce

__all__ = ["BLOCK", "COLUMN_LANES", "Plan", "ReduceText", "counts", "power_below"]

BLOCK = 256
COLUMN_LANES = 32
#: Accesses that a lane starts before it uses the first, at most.
AHEAD = 8
#: Bytes that a lane has under way: with fewer the memory idles
#: (benchmarks/notes/memory.md#reductions).
IN_FLIGHT = 128
#: The same where elements are stored, too, and elements of a lane at most: of 16 bits
#: twice as many spill 12 bytes (benchmarks/notes/memory.md#sums-beside-elements).
STORING, STORED = 64, 16
#: Words that the elements of a lane's accesses take in a `JoinedReduce`, besides those
#: for loads: with more, a maximum with its sum spilled 156 bytes of 64 registers.
TOGETHER = 48


@record(frozen=True)
class Plan:
    """One kernel of a Reduce.

    Attributes
    ----------
    kind
        ``"rows"`` or ``"columns"``.
    codes
        Empty for the general kernel; else the stride codes of the inputs in the loop
        that is vectorised.
    threads
        Per block.
    lanes
        *rows*: threads per kept point, at most a warp's or all of a block's.
        *columns*: threads side by side, for neighbouring kept points.
    stage
        ``"whole"``, ``"partial"`` (chunks' states are stored), ``"finish"`` (they are
        merged) or ``"last"`` (both: the last of a kept point's blocks merges them).
    ahead
        Accesses of each input that a lane starts before it uses the first.
    once
        *rows*: whether these are all of a lane's, of which only the last may be outside
        of the row: it waits for memory once.
    ragged
        *rows*: whether they begin anywhere, and their ends are taken one by one.
    numbered
        Whether an element's index is found from its row, of which one may be several
        of the call's, and its kept point: see `folded`.
    near
        Whether places in several loops are found by short divisions: see `is_near`.
    hint
        See `hints`; not measured, so no part of the text that choices are kept under.
    """

    kind: str
    codes: tuple[str, ...]
    threads: int
    lanes: int = 1
    stage: str = "whole"
    ahead: int = 4
    once: bool = False
    ragged: bool = False
    numbered: bool = False
    near: bool = field(default=False, repr=False)
    hint: str = field(default="", repr=False)

    @property
    def in_chunks(self) -> bool:
        """Whether a block has a chunk of its points' elements, and stores states."""
        return self.stage in ("partial", "last")

    @property
    def depth(self) -> int:
        """*columns*: rows of threads below one another."""
        return self.threads // self.lanes


def counts(ahead: int) -> tuple[int, ...]:
    """Accesses at once: as many as possible, then fewer for what is left."""
    return tuple(dict.fromkeys((ahead, max(1, ahead // 4), 1)))


def power_below(most: int) -> int:
    """The greatest power of two that is not above `most`, or 1."""
    return 1 << max(0, most.bit_length() - 1)


class ReduceText(ReduceLayout):
    """Writes the kernels of one Reduce."""

    def plan_width(self, plan: Plan) -> int:
        """Neighbouring elements that a thread of `plan` takes."""
        return self.width(plan.codes) if plan.codes else 1

    @property
    def divided(self) -> list[int]:
        """The loops whose extents places are divided by: all but each kind's first."""
        loops = range(self.kept_loops + self.reduced_loops)
        return [k for k in loops if k not in (0, self.kept_loops)]

    def step(self, plan: Plan) -> int:
        """Reduced elements that a lane of *rows* takes in one iteration."""
        return plan.ahead*self.plan_width(plan)

    def ahead(self, codes: Sequence[str]) -> int:
        """Accesses at once, so that enough is under way and the text not too long."""
        width = self.width(codes) if codes else 1
        moved = sum(o.dtype.itemsize*(width if c == "1" else 1) for o, c in zip(
            self.inputs, codes or "s"*len(self.inputs), strict=True) if c != "0")
        length = statements_of(self.typed.element) + statements_of(self.typed.merge)
        flight = STORING if self.stored else IN_FLIGHT
        most = min(AHEAD, flight // max(moved, 1), LONGEST // (width*length))
        if self.stored:
            most = min(most, STORED // width)
        return power_below(most)

    def ahead_in_row(self, codes: Sequence[str]) -> int:
        """`ahead` for *rows*, where a lane has all elements of its accesses at once."""
        most = self.ahead(codes)
        if isinstance(self.typed, JoinedReduce):
            words = sum(-(-compute_dtype(o.dtype).itemsize // 4) for o, c in zip(
                self.inputs, codes or "s"*len(self.inputs), strict=True) if c != "0")
            words += sum(-(-d.itemsize // 4) for p in self.typed.parts if p.scaled
                         for d in self.typed.state[p.begin:p.end])
            width = self.width(codes) if codes else 1
            while most > 1 and most*width*words > TOGETHER:
                most //= 2
        return most

    @property
    def finish_ahead(self) -> int:
        """States that a lane loads before it merges the first."""
        most = min(AHEAD, LONGEST // statements_of(self.typed.merge))
        return power_below(most)

    def inputs_of(self, plan: Plan) -> list[Operand]:
        """The inputs that a kernel reads; their codes are of the loop across lanes."""
        if plan.stage == "finish":
            return []
        if plan.kind == "rows":
            return self.inputs
        codes = plan.codes or "s"*len(self.inputs)
        return [replace(o, code=c) for o, c in zip(self.inputs, codes, strict=True)]
