"""How a product is cut up: the rungs below `contract_wgmma`, but the general one.

An engine multiplies fragments: `fma` on the ordinary cores, the others on tensor cores
by ``mma.sync`` or ``wgmma``.  A plan is an engine and the extents that go with it.
"""

from __future__ import annotations

from ..records import record

__all__ = ["ENGINES", "Engine", "Factor", "Plan"]


@record(frozen=True)
class Engine:
    """What one warp multiplies, in units that fragments are made of.

    Attributes
    ----------
    name
        Of its intrinsics in `nbfused.cuda.mma`.
    item
        Bytes of an element of A and B.
    rows, columns, step
        Of a unit of A, of one of B, of both along k.
    left, right, sums
        Registers of a thread for a unit of A, one of B, and a pair of them.
    pads
        Elements between rows of a tile in shared memory, beside its extent, where k is
        the inner dimension and where it is the outer one: they keep the rows that a
        warp reads at the same time in different banks.
    kept
        What sums are kept in.
    """

    name: str
    item: int
    rows: int
    columns: int
    step: int
    left: int
    right: int
    sums: int
    pads: tuple[int, int]
    kept: str = "float32"

    @property
    def kept_item(self) -> int:
        """Bytes of a sum."""
        return 8 if self.kept == "float64" else 4

    @property
    def by_descriptor(self) -> bool:
        """Whether it is wgmma, whose kernel is another (`contract_tf32`)."""
        return self.left == 0

    @property
    def transposes(self) -> bool:
        """Whether tiles in shared memory always have k as their outer dimension."""
        return self.name == "fma"


ENGINES = {
    e.name: e for e in (
        Engine("fma", 4, 32, 16, 1, 4, 4, 16, (0, 4)),
        Engine("f16", 2, 16, 16, 16, 4, 4, 8, (8, 8)),
        Engine("bf16", 2, 16, 16, 16, 4, 4, 8, (8, 8)),
        Engine("tf32", 4, 16, 16, 8, 4, 4, 8, (4, 8)),
        Engine("f64", 8, 8, 8, 4, 1, 1, 2, (4, 4), "float64"),
        # wgmma, a factor in registers: A, or B, and then the sums are transposed.
        Engine("tf32a", 4, 16, 256, 8, 0, 0, 128, (0, 0)),
        Engine("tf32b", 4, 64, 16, 8, 0, 0, 32, (0, 0)))}


@record(frozen=True)
class Factor:
    """How tiles of A or B come to shared memory.

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
        """Of a thread."""
        return self.units[0]*self.units[1]*self.engine.sums

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32*self.warps[0]*self.warps[1]

    def inner(self, which: int) -> bool:
        """Whether k is the inner dimension of the tiles in shared memory."""
        return self.factors[which].along and not self.engine.transposes

    def pitch(self, which: int) -> int:
        """Bytes from row to row of a tile in shared memory."""
        inner = self.inner(which)
        extent = self.depth if inner else self.extents[which]
        return (extent + self.engine.pads[0 if inner else 1])*self.engine.item

    def tile_bytes(self, which: int) -> int:
        """Of one tile in shared memory."""
        rows = self.extents[which] if self.inner(which) else self.depth
        return rows*self.pitch(which)

    @property
    def stage_bytes(self) -> int:
        """Of a tile of A and one of B."""
        return self.tile_bytes(0) + self.tile_bytes(1)

    @property
    def row_bytes(self) -> int:
        """From row to row of sums that wait for the epilogue."""
        pad = 4 if self.engine.transposes else 8
        return (self.warp_extents[1] + pad)*self.engine.kept_item

    @property
    def strip_bytes(self) -> int:
        """Of the rows of sums of one warp that wait for the epilogue."""
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
        """What the intrinsics must know, as the text of their last arguments."""
        tiles = (f"{self.pitch(w)}, {int(self.inner(w))}" for w in (0, 1))
        return (f"{self.units[0]}, {self.units[1]}, {self.depth//self.engine.step}, "
                + ", ".join(tiles))
