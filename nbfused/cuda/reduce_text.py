"""The text of the kernels of Reduce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ..backend import Signature
from ..records import record
from ..specs import TypedReduce
from .source import (
    LONGEST,
    Operand,
    operand_list,
    statements_of,
    width_of,
)

__all__ = ["BLOCK", "COLUMN_LANES", "Plan", "ReduceText"]

BLOCK = 256
COLUMN_LANES = 32
#: Accesses that a lane starts before it uses the first, at most.
AHEAD = 8
#: Bytes that a lane has under way: with fewer the memory idles.
IN_FLIGHT = 128


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
    stage
        ``"whole"``, ``"partial"`` (chunks' states are stored), ``"finish"`` (they are
        merged) or ``"last"`` (both: the last of a kept point's blocks merges them).
    ahead
        Accesses of each input that a lane starts before it uses the first.
    hint
        See `hints`; not measured, so no part of the text that choices are kept under.
    """

    kind: str
    codes: tuple[str, ...]
    threads: int
    lanes: int = 1
    stage: str = "whole"
    ahead: int = 4
    hint: str = field(default="", repr=False)

    @property
    def depth(self) -> int:
        """*columns*: rows of threads below one another."""
        return self.threads // COLUMN_LANES


class ReduceText:
    """Writes the kernels of one Reduce.

    Parameters
    ----------
    name
        Of the function.
    typed, signature
        What to compute, on which dtypes and loops.
    """

    def __init__(self, name: str, typed: TypedReduce, signature: Signature) -> None:
        self.name, self.typed = name, typed
        self.kept_loops, self.reduced_loops = signature.ranks
        arrays = [t for t, k in zip(
            signature.inputs, [k for k in typed.kinds if k in ("element", "scalar")],
            strict=True) if k == "element"]
        operands = operand_list([*arrays, *signature.outputs], signature.inner)
        self.inputs, self.outputs = operands[:len(arrays)], operands[len(arrays):]
        codes = {o.code for o in self.inputs}
        self.rows_vector = self.reduced_loops == 1 and codes <= {"1", "0"} \
            and "1" in codes

    def width(self, codes: Sequence[str]) -> int:
        """Elements per access."""
        return width_of(o for o, c in zip(self.inputs, codes, strict=True) if c == "1")

    def plan_width(self, plan: Plan) -> int:
        """Neighbouring elements that a thread of `plan` takes."""
        return self.width(plan.codes) if plan.codes else 1

    def step(self, plan: Plan) -> int:
        """Reduced elements that a lane of *rows* takes in one iteration."""
        return plan.ahead*self.plan_width(plan)

    def ahead(self, codes: Sequence[str]) -> int:
        """Accesses at once, so that enough is under way and the text not too long."""
        width = self.width(codes) if codes else 1
        moved = sum(o.dtype.itemsize*(width if c == "1" else 1) for o, c in zip(
            self.inputs, codes or "s"*len(self.inputs), strict=True) if c != "0")
        length = statements_of(self.typed.element) + statements_of(self.typed.merge)
        most = min(AHEAD, IN_FLIGHT // max(moved, 1), LONGEST // (width*length))
        return 1 << max(0, most.bit_length() - 1)

    @property
    def finish_ahead(self) -> int:
        """States that a lane loads before it merges the first."""
        most = min(AHEAD, LONGEST // statements_of(self.typed.merge))
        return 1 << max(0, most.bit_length() - 1)

    @staticmethod
    def counts(ahead: int) -> tuple[int, ...]:
        """Accesses at once: as many as possible, then fewer for what is left."""
        return tuple(dict.fromkeys((ahead, max(1, ahead // 4), 1)))

    def arrays(self, plan: Plan) -> list[Operand]:
        """The operands that a kernel takes."""
        return [*(self.inputs if plan.stage != "finish" else []),
                *(self.outputs if plan.stage != "partial" else [])]
