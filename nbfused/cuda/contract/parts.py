"""Long sums of few products: into how many parts k is cut.

A tile of the result has one block, or a few, so a result of few tiles would leave most
of the device idle however long its sums are.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from ...support.records import record

__all__ = ["RATES", "Parts", "parts_of"]

#: Sides of a tile, of the smallest one too, and tiles for each multiprocessor up to
#: which most of the device would idle; of more, `f32` shares each among 16 blocks.
TILE, SMALL, FEW = 128, 64, 1/8
#: Cycles of a tile from which two launches more are worth it, about 20 us; no record.
LONG = 40_000
#: Multiply-adds of a multiprocessor in a cycle, by engine.  `general`, which multiplies
#: what no copy past the registers brings, took 3 ms for (4, 23363) @ (23363, 65).
RATES = {"f16": 4096, "bf16": 4096, "tf32": 2048, "fma": 128, "f64": 64, "general": 16}
#: Parts for each multiprocessor; elements of each along k at least, and a number that
#: they are a multiple of, so that all parts begin at whole accesses.
EACH, LEAST, UNIT = 2, 256, 32
#: Parts at least: a few would not make up for the launches.
MANY = 4


@record(frozen=True)
class Parts:
    """`count` parts of `size` along k, and what is `left`."""

    count: int
    size: int
    left: int

    @property
    def slots(self) -> int:
        """Places for sums."""
        return self.count + (self.left > 0)


@lru_cache(maxsize=4096)
def parts_of(shape: tuple[int, ...], engine: str, processors: int) -> Parts | None:
    """The parts for loops over a batch, m, n and k; None: the product is not split.

    Parameters
    ----------
    shape
        Extents of the loops.
    engine
        The name of what multiplies, a key of `RATES`.
    processors
        Multiprocessors of the device.
    """
    *batch, m, n, k = shape
    tiles = prod(batch)*-(-m // TILE)*-(-n // TILE)
    rows, columns = (max(SMALL, min(extent, TILE)) for extent in (m, n))
    cycles = rows*columns*k // RATES[engine]
    if not 0 < tiles <= FEW*processors or cycles < LONG or k < MANY*LEAST:
        return None
    size = max(LEAST, -(-k*tiles // (EACH*processors)))
    size = -(-size // UNIT)*UNIT
    count = k // size
    return Parts(count, size, k - count*size) if count >= MANY else None
