"""Contract on Hopper's tensor cores: tiles that the blocks of a cluster share.

A product with few tiles leaves multiprocessors idle.  There each block of a cluster
multiplies a part of k; then it gives its sums to the others, for each part of 64
columns to the block that has it.  That one adds them up, always in the same order, and
runs the epilogue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .contract_wgmma import WgmmaText

__all__ = ["SHARE", "Shares"]

#: Bytes of a group's sums of 64 rows and 64 columns.
SHARE = 64*64*4
#: Warps that multiply.
_WARPS = 4


class Shares:
    """Writes how the blocks of a cluster meet.

    Parameters
    ----------
    kernel
        That is written; its tiling is split.
    """

    def __init__(self, kernel: WgmmaText) -> None:
        self.out, self.plan = kernel.out, kernel.plan
        self.split = kernel.tiling.split
        self.parts = kernel.tiling.columns//64

    def prepare(self) -> None:
        """Barriers, by one thread: all have given for a tile; all have taken it."""
        at = self.plan.meeting_at
        self.out(*(f"barrier_init(memory + {at + 8*k}, {_WARPS*self.split})"
                   for k in (0, 1)))

    def begin(self) -> None:
        """All blocks have begun; the slices of this one."""
        self.out("cluster_sync()", "rank = cluster_rank()",
                 f"tile = divide(tile, i64({self.split}))",
                 f"step = divide(step, i64({self.split}))",
                 f"share = divide(slices + {self.split - 1}, i64({self.split}))",
                 "slice_first = min(rank*share, slices)",
                 "slices = min(slice_first + share, slices)",
                 f"given = memory + {self.plan.meeting_at}", "taken = given + 8",
                 "met = i64(0)")

    def give(self) -> None:
        """The sums to the others; warps without rows have none."""
        out = self.out
        out("barrier_wait_all(taken, met ^ 1)",
            f"mine = memory + {self.plan.shares_at} + rank*{SHARE} + (thread & 127)*16")
        with out.block("if first < size_m:"):
            for part in range(self.parts):
                turn, owner = divmod(part, self.split)
                out(f"give{self.plan.tiling.sums}_{part}(sums, "
                    f"mine + {turn*self.split*SHARE}, i64({owner}))")
        self._tell("given")
        out("barrier_wait_all(given, met)")

    def take(self, turn: int) -> None:
        """The total of a part."""
        out = self.out
        out(f"total = total{self.split}(memory + "
            f"{self.plan.shares_at + turn*self.split*SHARE} + (thread & 127)*16)")
        if turn == self.parts//self.split - 1:
            self._tell("taken")
            out("met ^= 1")

    def _tell(self, barrier: str) -> None:
        """Each block of the cluster."""
        out = self.out
        out("cuda.syncwarp()")
        with out.block(f"if lane < {self.split}:"):
            out(f"barrier_arrive_at({barrier}, lane)")

    def end(self) -> None:
        """Nobody leaves while others may still tell."""
        self.out("cluster_sync()")
