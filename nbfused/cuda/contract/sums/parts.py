"""Long sums of few products: into how many parts k is cut.

A tile of the result has one block, or a few, so a result of few tiles would leave most
of the device idle however long its sums are.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from ....support.records import record

__all__ = ["ENGINES", "LONG", "Engine", "Parts", "parts_of", "unsplit_cycles"]

#: Rows or columns of a result whose tiles are fed more slowly than they multiply.
NARROW = 64
#: Cycles of a tile from which two launches more are worth it, about 7 us.
LONG = 12_000


@record(frozen=True)
class Engine:
    """Rate of multiplying tiles, measured: benchmarks/notes/products.md#parts-of-k.

    Attributes
    ----------
    rate
        Multiply-adds of a multiprocessor in a cycle.
    small
        Rows and columns of a tile at least: smaller ones take as long.
    few
        Tiles for each multiprocessor up to which most of the device would idle.
    narrow
        The same of results with `NARROW` rows or columns, whose tiles wait for memory.
    least
        Elements of a part along k at least.
    large
        Rows and columns of a tile at most.
    busy
        Tiles that keep a multiprocessor busy.
    """

    rate: int
    small: tuple[int, int]
    few: float
    narrow: float
    least: int = 256
    large: tuple[int, int] = (128, 128)
    busy: int = 1


_TENSOR = Engine(4096, (128, 128), 1/16, 1/8)
#: Blocks of `f32`, fed by TMA, share tiles by themselves.  `general` multiplies what no
#: copy past the registers brings.  In `copied` and, of sixteen rows, `thin` tensor
#: cores wait for narrow copies: benchmarks/notes/products.md#rows-that-begin-anywhere.
ENGINES = {"f16": _TENSOR, "bf16": _TENSOR,
           "tf32": Engine(2048, (128, 128), 1/16, 1/8),
           "f32": Engine(128, (64, 64), 1/8, 1/8),
           "fma": Engine(128, (64, 64), 1, 1),
           "f64": Engine(64, (64, 32), 1, 1, 128, large=(64, 32), busy=2),
           "general": Engine(64, (64, 64), 1/2, 1/2),
           "copied": Engine(315, (64, 64), 1, 1, large=(64, 64)),
           "thin": Engine(136, (16, 128), 1, 1, large=(16, 128))}
#: Parts for each multiprocessor, and a number of which their elements along k are a
#: multiple: all begin at whole accesses.
EACH, UNIT = 2, 32
#: Parts at least: a few would not make up for the launches; and fewer than so many
#: where tiles nearly fill the device, of whose parts the last round has more:
#: benchmarks/notes/products.md#parts-of-k.
MANY, MOST = 4, 16
#: Elements of parts that are added in a cycle of the device, in float64; an estimate.
SUMS = 150
#: Cycles of a launch for what is left, an estimate, and times that a tile takes which a
#: multiprocessor has alone, fitted to benchmarks/notes/products.md#parts-of-k.
LAUNCH, ALONE = 4000, 1.35


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
        The name of what multiplies, a key of `ENGINES`.
    processors
        Multiprocessors of the device.
    """
    *batch, m, n, k = shape
    how = ENGINES[engine]
    tiles = prod(batch)*-(-m // how.large[0])*-(-n // how.large[1])
    rows, columns = (max(least, min(extent, most)) for extent, least, most in zip(
        (m, n), how.small, how.large, strict=True))
    cycles = rows*columns*k // how.rate
    few = how.narrow if min(m, n) <= NARROW else how.few
    places = how.busy*processors
    if not 0 < tiles <= few*places or k < MANY*how.least:
        return None
    if cycles*(places - tiles) < LONG*places:  # what idles is less
        return None
    size = max(how.least, -(-k*tiles // (EACH*processors)))
    sizes = [s for s in range(size // UNIT*UNIT, min(size*9//4, k//MANY) + 1, UNIT)
             if s >= how.least and tiles*(k//s) <= EACH*processors]
    step, results = rows*columns/how.rate, prod(shape[:-1])
    alone = max(how.busy, ALONE)

    def time(size: int) -> float:
        rounds = -(-tiles*(k//size) // processors)
        return _time(k, size, rounds if rounds > 1 else alone, step, results)

    size = min(sizes, default=-(-size // UNIT)*UNIT, key=time)
    count = k // size
    if count < MANY:
        count = min(range(MANY, MOST), key=lambda c: -(-tiles*c // places)/c)
        rounds = -(-tiles // places) - -(-tiles*count // places)/count
        if cycles*rounds < LONG + count*prod(shape[:-1])/SUMS:
            return None
        size = k // (count*UNIT)*UNIT
    return Parts(count, size, k - count*size)


def _time(k: int, size: int, rounds: float, step: float, results: int) -> float:
    """Cycles of parts of a size: rounds of tiles, of which each k takes a step."""
    count, left = divmod(k, size)
    after = LAUNCH + left*step if left else 0
    return rounds*size*step + after + (count + (left > 0))*results/SUMS


def unsplit_cycles(shape: tuple[int, ...], engine: str, processors: int) -> float:
    """Cycles of a product that is not split, roughly; parameters as of `parts_of`."""
    *batch, m, n, k = shape
    how = ENGINES[engine]
    rows, columns = how.small
    tiles = prod(batch)*-(-m // rows)*-(-n // columns)
    return rows*columns*k/how.rate*max(1, tiles/processors)
