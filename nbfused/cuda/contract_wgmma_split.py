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

    def prepare(self) -> None:
        """Barriers, by one thread: all have given for a tile; all have taken it."""
        at = self.plan.meeting_at
        self.out(*(f"barrier_init(memory + {at + 8*k}, {_WARPS*self.split})"
                   for k in (0, 1)))

    def begin(self) -> None:
        """Tell that the block has begun; its slices."""
        self.out("cluster_arrive()", "rank = cluster_rank()",
                 f"tile = divide(tile, i64({self.split}))",
                 f"step = divide(step, i64({self.split}))",
                 f"share = divide(slices + {self.split - 1}, i64({self.split}))",
                 "slice_first = min(rank*share, slices)",
                 "slices = min(slice_first + share, slices)",
                 f"given = memory + {self.plan.meeting_at}", "taken = given + 8",
                 "met = i64(0)")

    def exchange(self) -> None:
        """The sums to the others, of warps that have rows; the total of the part."""
        out, at = self.out, self.plan.shares_at
        out("barrier_wait_all(taken, met ^ 1)",
            f"mine = memory + {at} + rank*{SHARE} + (thread & 127)*16")
        with out.block("if first < size_m:"):
            for part in range(self.split):
                out(f"give{self.plan.tiling.sums}_{part}(sums, mine, i64({part}))")
        self._tell("given")
        out("barrier_wait_all(given, met)",
            f"total = total{self.split}(memory + {at} + (thread & 127)*16)")
        self._tell("taken")
        out("met ^= 1")

    def _tell(self, barrier: str) -> None:
        """Each block of the cluster."""
        out = self.out
        out("cuda.syncwarp()")
        with out.block(f"if lane < {self.split}:"):
            out(f"barrier_tell({barrier}, lane)")

    def end(self) -> None:
        """Nobody leaves while others may still tell."""
        self.out("cluster_sync()")
