"""The register tile of a matrix product: its shape for this processor.

Factors are packed into *panels*: for each ``k``, a tile's rows of the one or its
columns of the other, next to each other.  With AVX-512 the tile is 12 × 32 sums in 24
registers, at 115.8 of some 117 GFLOP/s: benchmarks/notes/cpu.md#products-on-the-cpu.
"""

from __future__ import annotations

import platform

from ...support.records import record
from ..runtime import objects

__all__ = ["SQUARED", "VECTORS", "Tile", "has_masks", "registers", "square_lanes",
           "tile_of"]

#: Vectors in a row of a tile.
VECTORS = 2

#: Dtypes of which squares are transposed in registers.
SQUARED = frozenset(("float32", "float64", "int32", "int64", "float16", "bfloat16"))


@record(frozen=True)
class Tile:
    """The shape of a tile of sums in registers: `rows` rows of vectors of `lanes`."""

    rows: int
    lanes: int

    @property
    def columns(self) -> int:
        """Numbers in a row of the tile."""
        return VECTORS * self.lanes


def tile_of(itemsize: int) -> Tile:
    """The tile for this processor and elements of this size."""
    return Tile(12 if registers() == 32 else 6, _width() // itemsize)


def registers() -> int:
    """Vectors that this processor's registers hold."""
    return 32 if _width() == 64 or platform.machine() in ("aarch64", "arm64") else 16


def has_masks() -> bool:
    """Whether the lanes that a load reads are masked by registers for that.

    Elsewhere masks fill vectors' registers, and 16-bit lanes are read one by one.
    """
    return _width() == 64


def _width() -> int:
    """Bytes of a vector."""
    features = objects.host()[1].split(",")
    return 64 if "+avx512f" in features else 32 if "+avx" in features else 16


def square_lanes(itemsize: int) -> int:
    """Rows and columns of a square: as many 16-bit numbers as those of 32."""
    return tile_of(max(itemsize, 4)).lanes
