"""Plans of the products below `wgmma`, but the general one: an engine and extents."""

from __future__ import annotations

from dataclasses import replace

from ...support.records import record
from ..isa.engines import Engine

__all__ = ["Factor", "Plan"]


@record(frozen=True)
class Factor:
    """The way of tiles of A or B to shared memory.

    Attributes
    ----------
    along
        Whether neighbouring threads bring neighbours along k.
    width
        Elements that are brought at once, past the registers.
    """

    along: bool
    width: int


@record(frozen=True)
class Plan:
    """A kernel's extents.

    Attributes
    ----------
    engine
        What multiplies.
    units
        Of a warp, down and across.
    warps
        Of a block, down and across.
    depth
        Of a tile along k.
    stages
        Tiles in shared memory.
    blocks
        That the registers of a multiprocessor must hold.
    factors
        Of A and B.
    vector
        Whether neighbours of every extra and output are one aligned access, or one
        element for all.
    """

    engine: Engine
    units: tuple[int, int]
    warps: tuple[int, int]
    depth: int
    stages: int
    blocks: int
    factors: tuple[Factor, Factor]
    vector: bool

    @property
    def warp_extents(self) -> tuple[int, int]:
        """Rows and columns of a warp."""
        return (self.units[0]*self.engine.rows, self.units[1]*self.engine.columns)

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        m, n = self.warp_extents
        return m*self.warps[0], n*self.warps[1]

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.units[0]*self.units[1]*self.engine.sums

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32*self.warps[0]*self.warps[1]

    def fitted(self) -> Plan:
        """The plan with no more elements brought at once than each thread has."""
        a, b = (replace(f, width=min(f.width, extent*self.depth // self.threads))
                for f, extent in zip(self.factors, self.extents, strict=True))
        return replace(self, factors=(a, b))

    def inner(self, which: int) -> bool:
        """Whether k is the inner dimension of the tiles in shared memory."""
        return self.factors[which].along and not self.engine.transposes

    def pitch(self, which: int) -> int:
        """Bytes from row to row of a tile in shared memory."""
        inner = self.inner(which)
        extent = self.depth if inner else self.extents[which]
        return (extent + self.engine.pads[0 if inner else 1])*self.engine.item

    def tile_bytes(self, which: int) -> int:
        """Bytes of one tile in shared memory."""
        rows = self.extents[which] if self.inner(which) else self.depth
        return rows*self.pitch(which)

    @property
    def stage_bytes(self) -> int:
        """Bytes of a tile of A and one of B."""
        return self.tile_bytes(0) + self.tile_bytes(1)

    @property
    def row_bytes(self) -> int:
        """Bytes from row to row of sums that wait for the epilogue."""
        pad = 4 if self.engine.transposes else 8
        return (self.warp_extents[1] + pad)*self.engine.kept_item

    @property
    def strip_bytes(self) -> int:
        """Bytes of one warp's rows of sums that wait for the epilogue."""
        return self.engine.rows*self.row_bytes

    @property
    def shared(self) -> int:
        """Bytes of shared memory; sums take the place of tiles."""
        return max(self.stages*self.stage_bytes, self.threads//32*self.strip_bytes)

    @property
    def warp_place(self) -> tuple[str, str]:
        """The text of which of the block's rows and columns of warps a warp is in."""
        across = self.warps[1]
        return (f"warp_m = divide(warp, i64({across}))",
                f"warp_n = warp - warp_m*{across}")

    @property
    def geometry(self) -> str:
        """Text of the intrinsics' last arguments: units and tiles."""
        tiles = (f"{self.pitch(w)}, {int(self.inner(w))}" for w in (0, 1))
        return (f"{self.units[0]}, {self.units[1]}, {self.depth//self.engine.step}, "
                + ", ".join(tiles))
