"""Contract at every dtype, shape and stride: the tile of a block, and its threads."""

from __future__ import annotations

from ....support.records import record

__all__ = ["LARGE", "PAD", "SMALL", "UNIT", "Tile"]

#: Elements between the rows of a tile beside its extent: fewer bank conflicts.
PAD = 4
#: Rows and columns of a thread that lie side by side.
UNIT = 4


@record(frozen=True)
class Tile:
    """Extents of a block's tile, of a slice along k, and of a thread's part.

    The registers of a multiprocessor must hold `blocks` blocks.  `whole`: a slice has
    all of k, so that nothing need be remembered from slice to slice.  Each of `groups`
    of threads sums its share of a slice.
    """

    m: int
    n: int
    k: int
    rows: int
    columns: int
    blocks: int
    whole: bool = False
    groups: int = 1

    @property
    def across(self) -> int:
        """Threads along n."""
        return self.n // self.columns

    @property
    def members(self) -> int:
        """Threads of a group."""
        return self.m // self.rows*self.across

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.members*self.groups

    @property
    def part(self) -> tuple[int, int]:
        """Rows and columns of which each thread of a group has `UNIT` times `UNIT`."""
        return self.m // self.rows*UNIT, self.across*UNIT

    @property
    def sums(self) -> int:
        """Elements of shared memory for a group's sums of a part."""
        down, across = self.part
        return down*(across + PAD)

    def shared(self, item: int) -> int:
        """Bytes of shared memory: of slices, then of a part of the results."""
        return max(self.k*(self.m + self.n + 2*PAD), self.groups*self.sums)*item


LARGE = Tile(128, 128, 8, 8, 8, 1)
SMALL = Tile(64, 64, 16, 4, 4, 2)
