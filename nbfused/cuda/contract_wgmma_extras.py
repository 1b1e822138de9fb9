"""Contract on Hopper's tensor cores: extras that TMA brings, like the factors.

An extra that varies along both loops of the result is as large as the result.  A warp
of the loading group, one for each group that multiplies, brings its parts of 64 rows
and 64 columns to shared memory, some parts ahead: they come from memory while tiles are
multiplied.  ``ldmatrix`` reads them as the fragment has them, the mirror of how results
leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .source import Operand

if TYPE_CHECKING:
    from .contract_wgmma import WgmmaText

__all__ = ["BOX", "Boxes"]

#: Bytes of 64 rows of 128.
BOX = 8192


class Boxes:
    """Writes how the extras by TMA come and are read.

    Parameters
    ----------
    kernel
        That is written.
    """

    def __init__(self, kernel: WgmmaText) -> None:
        self.kernel, self.out, self.plan = kernel, kernel.out, kernel.plan
        #: Which extras, and the first box of each in a part.
        self.extras: dict[int, int] = {}
        taken = 0
        for k, (o, how) in enumerate(zip(kernel.text.extras, self.plan.loads,
                                         strict=True)):
            if how == "box":
                self.extras[k] = taken
                taken += o.dtype.itemsize//2

    @property
    def maps(self) -> list[str]:
        """The parameters that are tensor maps."""
        return [f"map{self.kernel.text.extras[k].at}" for k in self.extras]

    def prepare(self) -> None:
        """Barriers, by one thread: a part has come; its four warps have read it."""
        if not self.extras:
            return
        ahead, at = self.plan.ahead, self.plan.extras_at
        for g in range(self.plan.tiling.groups):
            for k in range(ahead):
                self.out(f"barrier_init(memory + {at + 16*g*ahead + 8*k}, 1)",
                         f"barrier_init(memory + {at + 16*g*ahead + 8*(ahead + k)}, 4)")
        self.out(*(f"prefetch_map({name})" for name in self.maps))

    def _start(self) -> None:
        """Where the parts and barriers of `group` are."""
        plan, ahead = self.plan, self.plan.ahead
        self.out(f"boxes = memory + {plan.boxes_at} + group*{ahead*plan.boxes*BOX}",
                 f"come = memory + {plan.extras_at} + group*{16*ahead}",
                 f"gone = come + {8*ahead}", "spot = i64(0)", "lap = i64(0)")

    def _next(self) -> None:
        self.out("spot += 1")
        with self.out.block(f"if spot == {self.plan.ahead}:"):
            self.out("spot = i64(0)", "lap ^= 1")

    # --- bringing parts

    def produce(self) -> None:
        """By one thread of a warp for each group."""
        if not self.extras:
            return
        out, tiling = self.out, self.plan.tiling
        with out.block(f"if 0 < warp <= {tiling.groups} and (thread & 31) == 0:"):
            out("group = warp - 1")
            self._start()
            if tiling.turns:
                out("tile += group*step")
            groups = tiling.groups if tiling.turns else 1
            with self.kernel.tiles_in_turn(f"{groups}*step"):
                for part in range(tiling.high*tiling.columns//64):
                    self._bring(part)

    def _bring(self, part: int) -> None:
        out = self.out
        row, column = self._corner(part, "")
        with out.block(f"if {column} < size_n:"):
            out("barrier_wait(gone + 8*spot, lap ^ 1)", "ready = come + 8*spot",
                f"barrier_expect(ready, {self.plan.boxes*BOX})",
                f"target = boxes + spot*{self.plan.boxes*BOX}")
            for which, at, places in self._boxes(row, column, ""):
                o = self.kernel.text.extras[which]
                copy = self.plan.copy(2 + which, len(places))
                out(f"{copy}(target + {at}, map{o.at}, ready, {', '.join(places)})")
            self._next()
        if self.plan.asks:
            row, column = self._corner(part, "_next")
            with out.block(f"if more and {column} < size_n:"):
                for which, _, places in self._boxes(row, column, "_next"):
                    o = self.kernel.text.extras[which]
                    out(f"tile_ask{len(places)}(map{o.at}, {', '.join(places)})")

    def _corner(self, part: int, tile: str) -> tuple[str, str]:
        """The first row and column of a part."""
        tiling, across = self.plan.tiling, self.plan.tiling.columns//64
        own = "0" if tiling.turns else f"group*{64*tiling.high}"
        return (f"m_first{tile} + {own} + {64*(part//across)}",
                f"n_first{tile} + {64*(part % across)}")

    def _boxes(self, row: str, column: str, tile: str,
               ) -> Iterator[tuple[int, int, list[str]]]:
        """Which extra, and where each box lies in the part and in the array."""
        for which, first in self.extras.items():
            batch = [f"batch{x}{tile}" for x in reversed(self.plan.batch[3 + which])]
            for k in range(self.kernel.text.extras[which].dtype.itemsize//2):
                yield which, (first + k)*BOX, [f"{column} + {32*k}", row, *batch]

    # --- reading them

    def begin(self) -> None:
        """Places of a warp that stay the same from tile to tile."""
        if not self.extras:
            return
        self._start()
        self.out("boxes += (warp & 3)*2048",
                 "box16 = boxes + (place16 - slabs)",
                 "box32 = boxes + (place32 - slabs)")

    def arrive(self) -> None:
        """Wait for a part."""
        if self.extras:
            self.out("barrier_wait(come + 8*spot, lap)",
                     f"behind = spot*{self.plan.boxes*BOX}")

    def read(self, unit: int) -> None:
        """16 columns of a part, as the fragment has them."""
        for which, first in self.extras.items():
            o = self.kernel.text.extras[which]
            if o.dtype.itemsize == 2:
                self.out(f"h{o.at} = held16_{unit}(box16 + behind + {first*BOX})")
            else:
                self.out(f"h{o.at} = held32_{unit % 2}"
                         f"(box32 + behind + {(first + unit//2)*BOX})")

    def element(self, o: Operand, e: int) -> str:
        """The text of an element of the unit that was read last."""
        if o.dtype.itemsize == 4:
            return f"h{o.at}[{e & 7}]"
        return f"{'high' if e & 1 else 'low'}_half(h{o.at}[{(e >> 1) & 3}])"

    def leave(self) -> None:
        """The part may be replaced."""
        if not self.extras:
            return
        self.out("cuda.syncwarp()")
        with self.out.block("if lane == 0:"):
            self.out("barrier_arrive(gone + 8*spot)")
        self._next()
