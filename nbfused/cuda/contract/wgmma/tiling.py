"""Contract on Hopper's tensor cores: what a kernel depends on besides its spec.

How the warp groups of a block share a tile, and where things lie in shared memory.
"""

from __future__ import annotations

from ....support.records import record
from .extras import box_bytes
from .results import SLAB

__all__ = ["DEPTH", "SHARED", "TILINGS", "TOGETHER", "Tiling", "WgmmaPlan"]

#: Places of a tile along k.
DEPTH = 64
#: Bytes of shared memory that a block may have, on every Hopper GPU.
SHARED = 232448
#: Bytes of it for barriers.
BARRIERS = 384
#: Tiles on their way at most.
STAGES = 16
#: Tiles side by side that begin at the same k where others begin elsewhere.
TOGETHER = 8


@record(frozen=True)
class Tiling:
    """A division of a tile among the warp groups of a block.

    Attributes
    ----------
    high
        Times 64 rows of one group.
    columns
        Of a tile.
    groups
        That multiply.
    turns
        Whether each has tiles of its own: one multiplies while the other stores.
        Otherwise they have the rows of one tile.
    paired
        Whether two blocks, a cluster, have tiles one below the other: each brings half
        of B for both.
    """

    high: int
    columns: int
    groups: int
    turns: bool = False
    paired: bool = False

    @property
    def cluster(self) -> int:
        """Blocks that run together."""
        return 2 if self.paired else 1

    @property
    def early(self) -> bool:
        """Whether a tile's place is found while the one before it is multiplied.

        Not where a block has one tile, as with small ones, nor by turns: who waits for
        its turn has time for it then.
        """
        return self.columns == 256

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return 64*self.high*(1 if self.turns else self.groups)

    @property
    def sums(self) -> int:
        """Sums that a thread keeps."""
        return self.high*self.columns//2

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 128*(1 + self.groups)

    @property
    def stage_bytes(self) -> int:
        """Bytes of a tile of A and one of B."""
        return (self.rows + self.columns)*DEPTH*2


#: Tilings that are compiled, of `isa.engines.WGMMA_SHAPES`; `plan` chooses.  Measured:
#: benchmarks/notes/products.md#tilings-and-their-model.
TILINGS = (Tiling(1, 256, 2), Tiling(2, 128, 2, True),
           Tiling(1, 128, 2), Tiling(1, 128, 1), Tiling(1, 64, 1),
           Tiling(1, 256, 2, paired=True))


@record(frozen=True)
class WgmmaPlan:
    """One kernel: all that its text depends on besides the spec.

    Attributes
    ----------
    tiling
        Of the result.
    along
        For A and B, whether k is the dimension with stride 1.
    batch
        For A, B, the outputs and each extra, the batch loops that they vary along.
    loads
        How each extra comes to the fragment: ``"box"`` (by TMA), ``"pair"`` (two
        neighbours at once), ``"row"`` (one element for all columns) or ``"each"``.
    stores
        How each output leaves: ``"tile"`` (by TMA), ``"lanes"`` (rows of a slab) or
        ``"each"``.
    slabs
        Of 2 KiB for each warp: the results on their way to memory.
    boxes
        Of 8 KiB: the extras by TMA for 64 rows and columns of the result.
    once
        Whether A and B are large, and read by one block only.
    apart
        Whether tiles begin at different k: else all would read the same of A at once.
    few
        Rows of A that are brought, if not all of a tile: it has no more.  What is
        multiplied in their place is not stored.
    """

    tiling: Tiling
    along: tuple[bool, bool]
    batch: tuple[tuple[int, ...], ...]
    loads: tuple[str, ...]
    stores: tuple[str, ...]
    slabs: int
    boxes: int = 0
    once: tuple[bool, bool] = (False, False)
    apart: bool = False
    few: int = 0

    @property
    def brought(self) -> int:
        """Rows of A in a stage."""
        return self.few or self.tiling.rows

    @property
    def stage_bytes(self) -> int:
        """Bytes of a tile of A, as far as it is brought, and one of B."""
        return (self.brought + self.tiling.columns)*DEPTH*2

    @property
    def stages(self) -> int:
        """Tiles of A and B that fit in shared memory, beside slabs and barriers."""
        room = SHARED - BARRIERS - self._slab_bytes - self._box_bytes
        return min(STAGES, room // self.stage_bytes)

    @property
    def _slab_bytes(self) -> int:
        return self.tiling.groups*4*self.slabs*SLAB

    @property
    def _box_bytes(self) -> int:
        return box_bytes(self.tiling.groups, self.boxes)

    @property
    def slabs_at(self) -> int:
        """Offset of the slabs, behind the tiles."""
        return self.stages*self.stage_bytes

    @property
    def boxes_at(self) -> int:
        """Offset of the extras by TMA, behind the slabs."""
        return self.slabs_at + self._slab_bytes

    @property
    def barriers_at(self) -> int:
        """Offset of the barriers: of the tiles, of turns, then of the extras."""
        return self.boxes_at + self._box_bytes

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return self.barriers_at + BARRIERS
