"""Contract on Hopper's tensor cores: extras that TMA brings, like the factors.

An extra that varies along both loops of the result is as large as the result.  A warp
of the loading group, one for each group that multiplies, brings its parts of 64 rows
and 64 columns to shared memory, some parts ahead: they come from memory while tiles are
multiplied.  ``ldmatrix`` reads them as the fragment has them, the mirror of how results
leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....gpu.operands import Operand
from ..tma import next_stage

if TYPE_CHECKING:
    from .kernel import WgmmaText

__all__ = ["Boxes", "box_bytes"]

#: Bytes of 64 rows of 128.
BOX = 8192
#: Parts of a group's extras that are there or on their way: more would take room from
#: tiles, which costs more time than it gains; one is too few.  Measured:
#: benchmarks/notes/products.md#extras-by-tma.
AHEAD = 2


def box_bytes(groups: int, boxes: int) -> int:
    """Bytes of shared memory, for `boxes` that belong to a part."""
    return groups*AHEAD*boxes*BOX


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

    @property
    def _barriers_at(self) -> int:
        return self.plan.barriers_at + 16*self.plan.stages + 16

    def prepare(self) -> None:
        """Barriers, by one thread: a part has come; its four warps have read it."""
        if not self.extras:
            return
        for g in range(self.plan.tiling.groups):
            at = self._barriers_at + 16*AHEAD*g
            for k in range(AHEAD):
                self.out(f"barrier_init(memory + {at + 8*k}, 1)",
                         f"barrier_init(memory + {at + 8*(AHEAD + k)}, 4)")
        self.out(*(f"prefetch_map({name})" for name in self.maps))

    def _start(self) -> None:
        """Name the places of the parts and barriers of `group`."""
        self.out(f"boxes = memory + {self.plan.boxes_at}"
                 f" + group*{box_bytes(1, self.plan.boxes)}",
                 f"come = memory + {self._barriers_at} + group*{16*AHEAD}",
                 f"gone = come + {8*AHEAD}", "spot = i64(0)", "lap = i64(0)")

    def _next(self) -> None:
        next_stage(self.out, AHEAD, "spot", "lap")

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
            with out.block("while tile < tiles:"):
                self.kernel.position()
                for part in range(tiling.high*tiling.columns//64):
                    self._bring(part)
                out(f"tile += {tiling.groups if tiling.turns else 1}*step")

    def _bring(self, part: int) -> None:
        out, tiling, across = self.out, self.plan.tiling, self.plan.tiling.columns//64
        own = "0" if tiling.turns else f"group*{64*tiling.high}"
        out(f"at_row = m_first + {own} + {64*(part//across)}",
            f"at_column = n_first + {64*(part % across)}")
        with out.block("if at_column < size_n:"):
            out("barrier_wait(gone + 8*spot, lap ^ 1)", "ready = come + 8*spot",
                f"barrier_expect(ready, {self.plan.boxes*BOX})",
                f"target = boxes + spot*{self.plan.boxes*BOX}")
            for which, first in self.extras.items():
                o, loops = self.kernel.text.extras[which], self.plan.batch[3 + which]
                batch = "".join(f", batch{x}" for x in reversed(loops))
                for k in range(o.dtype.itemsize//2):
                    out(f"tile_copy{2 + len(loops)}(target + {(first + k)*BOX},"
                        f" map{o.at}, ready, at_column + {32*k}, at_row{batch})")
            self._next()

    # --- reading them

    @property
    def state(self) -> tuple[str, ...]:
        """The names of what changes from part to part."""
        return ("spot", "lap") if self.extras else ()

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
