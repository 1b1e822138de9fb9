"""Tiles of float32 factors in shared memory, for warps that only multiply.

TMA brings a tile as it lies in memory, on one thread's word.  The warps that multiply
want k as its outer dimension: then two sums of a row need two registers of B, side by
side, but only one of A.  A tile that came with k as its inner dimension is turned by
the group of warps that also sends for tiles.
"""

from __future__ import annotations

from ....gpu.operands import Operand
from ...text.source import Source
from ..plan import Plan
from ..text import ContractText
from ..tma import Batches, box_places

__all__ = ["APART", "TURNING", "Tiles"]

#: Threads that turn tiles.
TURNING = 96
#: Rows or columns of a warp between those that are neighbours in a turned tile.
APART = 16
_AXES = ("m", "n")
#: Elements that a lane turns at once, down and across.
_FOUR = 4


class Tiles:
    """Places of tiles of A and B in a stage, and their way there.

    Parameters
    ----------
    text
        Operands.
    plan
        How.  A factor that lies along k is turned.
    batch
        For A and B, the batch loops that they vary along.
    """

    def __init__(self, text: ContractText, plan: Plan, batch: Batches) -> None:
        self.plan, self.batch = plan, batch
        self.turned = [o for o in text.factors if plan.factors[o.at].along]
        self.direct = [o for o in text.factors if not plan.factors[o.at].along]

    # --- where they lie

    def box(self, which: int) -> tuple[int, int]:
        """The extents of a tile in memory, the inner dimension first."""
        extent, depth = self.plan.extents[which], self.plan.depth
        return (depth, extent) if self.plan.factors[which].along else (extent, depth)

    def pitch(self, which: int) -> int:
        """Bytes from row to row of a tile; rows of turned ones meet in no bank."""
        pad = _FOUR if self.plan.factors[which].along else 0
        return 4*(self.plan.extents[which] + pad)

    def _raw(self, which: int) -> int:
        """Bytes of a tile in memory."""
        return 4*self.plan.extents[which]*self.plan.depth

    def first(self, which: int) -> int:
        """Bytes from a stage's begin to a tile."""
        return sum(self.plan.depth*self.pitch(w) for w in range(which))

    def _first_raw(self, which: int) -> int:
        """Bytes from a stage's begin to where TMA brings a tile."""
        if not self.plan.factors[which].along:
            return self.first(which)
        before = sum(self._raw(o.at) for o in self.turned if o.at < which)
        return self.first(2) + before

    @property
    def stage_bytes(self) -> int:
        """Bytes of a tile of A and one of B, before and after they are turned."""
        return self.first(2) + sum(self._raw(o.at) for o in self.turned)

    @property
    def arrivals(self) -> int:
        """At the barrier of a full stage, beside bytes: of TMA, of warps that turn."""
        return bool(self.direct) + bool(self.turned)*TURNING//32

    # --- how they come there

    def send(self, out: Source) -> None:
        """Lines of one thread for `slice`, whose stage begins at `target`."""
        out(f"k = slice*{self.plan.depth}")
        for barrier, operands in (("ready", self.direct), ("came", self.turned)):
            if operands:
                size = sum(self._raw(o.at) for o in operands)
                out(f"barrier_expect({barrier}, {size})")
            for o in operands:
                self._box(out, o, barrier)

    def _box(self, out: Source, o: Operand, barrier: str) -> None:
        places = box_places(self.plan.factors[o.at].along, f"{_AXES[o.at]}_first",
                            self.batch[o.at])
        out(f"tile_copy{len(places)}(target + {self._first_raw(o.at)}, map{o.at}, "
            f"{barrier}, {', '.join(places)})")

    def turn(self, out: Source) -> None:
        """Lines that turn what came to `target`.

        Four neighbours of a turned row come from places `APART` from one another, so
        that lanes side by side read neighbouring rows, and write side by side.
        """
        first = 0
        for o in self.turned:
            end = first + self._pieces(o.at)
            for turn in range(first//TURNING, -(-end // TURNING)):
                out(f"piece = mover + {turn*TURNING - first}")
                with out.block(f"if 0 <= piece < {end - first}:"):
                    self._piece(out, o.at)
            first = end

    def _pieces(self, which: int) -> int:
        return self.plan.extents[which]*self.plan.depth//_FOUR**2

    def _piece(self, out: Source, which: int) -> None:
        row, across = 4*self.plan.depth, self.plan.depth//_FOUR
        pitch = self.pitch(which)
        out(f"down = divide(piece, i64({across}))", f"right = piece - down*{across}",
            f"place = divide(down, i64({APART}))*{3*APART} + down",
            f"turn_4x4(target + {self.first(which)} + right*{_FOUR*pitch}"
            f" + down*{4*_FOUR}, target + {self._first_raw(which)}"
            f" + place*{row} + right*{4*_FOUR}, {pitch}, {APART*row})")
