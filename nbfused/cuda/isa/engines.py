"""Engines that multiply fragments, and the shapes of ``wgmma``'s products.

`fma` runs on the ordinary cores, the others on tensor cores by ``mma.sync`` or
``wgmma``.  Nothing here imports Numba: plans are made of these facts.
"""

from __future__ import annotations

from ...support.records import record

__all__ = ["ENGINES", "WGMMA_SHAPES", "WGMMA_SUMS", "Engine"]


@record(frozen=True)
class Engine:
    """Shapes and registers of a warp's product, in units of fragments.

    Attributes
    ----------
    name
        Of its intrinsics in `mma`.
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
        """Factors come by wgmma's descriptors: another kernel (`contract.tf32`)."""
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
        Engine("f64h", 8, 16, 8, 8, 4, 2, 4, (4, 4), "float64"),  # of sm_90 and later
        # wgmma, a factor in registers: A, or B, and then the sums are transposed.
        Engine("tf32a", 4, 16, 256, 8, 0, 0, 128, (0, 0)),
        Engine("tf32b", 4, 64, 16, 8, 0, 0, 32, (0, 0)))}

#: Products of 16-bit factors by ``wgmma``: times 64 rows of a warp group, and columns.
WGMMA_SHAPES = ((1, 256), (2, 128), (1, 128), (1, 64))
#: The sums that a thread keeps of each.
WGMMA_SUMS = tuple(dict.fromkeys(high*columns//2 for high, columns in WGMMA_SHAPES))
