"""The tile of a matrix product: sums that stay in registers.

Factors are packed into *panels*: for each ``k``, a tile's rows of the one or its
columns of the other, next to each other.
"""

from __future__ import annotations

import platform

from ..records import record
from . import objects

__all__ = ["VECTORS", "Tile", "tile_of"]

#: Vectors in a row of a tile.
VECTORS = 2


@record(frozen=True)
class Tile:
    """How many sums the registers hold: `rows` by `columns`, in vectors of `lanes`."""

    rows: int
    lanes: int

    @property
    def columns(self) -> int:
        """Numbers in a row."""
        return VECTORS * self.lanes


def tile_of(itemsize: int) -> Tile:
    """The tile that suits this processor."""
    features = objects.host()[1].split(",")
    width = 64 if "+avx512f" in features else 32 if "+avx" in features else 16
    many = width == 64 or platform.machine() in ("aarch64", "arm64")
    return Tile(12 if many else 6, width // itemsize)
