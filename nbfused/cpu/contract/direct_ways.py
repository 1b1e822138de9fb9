"""The ways of making a narrow product: extents to read along, tile, units of work.

All of that follows from shapes, strides and the processor's vectors, so that the same
product is the same sum for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from operator import itemgetter

import numpy as np

from ...support.records import record
from ..runtime.schedule import runs_alone
from .direct_text import ROOM, InnerLoop
from .gemm import LIGHT, Factors
from .tile import has_masks, registers, tile_of

__all__ = ["Cut", "Way", "cut_of", "fastest", "is_better_apart", "is_narrow", "way_of",
           "weight_of"]

#: Rows or columns up to which a product is narrow, and products of a sum;
#: multiplications of a small one; results that are few beside sums that are long:
#: benchmarks/notes/cpu.md#narrow-products.
_NARROW, _SHORT, _SMALL, _RESULTS, _LONG = 64, 32, 1 << 19, 1 << 14, 1 << 12

#: Rows up to which sums of many columns are kept in the cache, and products at once;
#: not measured.
_STREAMED, _DEPTH = 3, 8

#: Tiles of a unit of rows, bytes of its columns (whole pages of the right factor's
#: rows; of streams as many as stay in the first-level cache), and columns of dots; of
#: these the streams' are measured: benchmarks/notes/cpu.md#narrow-products.
_TILES, _COLUMN_BYTES, _STREAM_BYTES, _DOTS = 8, 1 << 12, 1 << 14, 64

#: Bytes that stay in the second-level cache while tiles of other rows are multiplied,
#: and products at once where more are read; not measured.
_CACHED, _DEEP = 1 << 18, 1 << 11

#: Products of each sum at once for tiles of one vector, and of more: what they read of
#: the vectors' factor stays in the first-level cache; not measured.
_DEPTHS = 256, 64

#: Products of a sum in a chunk at least, of streams too, and units that need no chunks:
#: benchmarks/notes/cpu.md#narrow-products.
_CHUNKS, _UNITS = (1 << 9, 1 << 7), 16

#: Rows of each of many matrices from which, and numbers of the one that they are
#: multiplied by up to which, they are not packed:
#: benchmarks/notes/cpu.md#small-products.
_WIDE, _FEW = 8, 1 << 8

#: Rows, or columns, up to which a batch of products is made of dots; not measured.
_DOTTED = 4

#: Numbers read that take as long as an element of other kernels:
#: benchmarks/notes/cpu.md#narrow-products.
_READ = 8

#: Instructions that copy a vector of a square, or a number; the first is twice what it
#: takes, as others wait for the copy.  Those that add up the lanes of a sum, and of one
#: of pairs: the second is what it takes, others are counted in the text, not measured,
#: as what follows.
_TURNED, _MOVED, _ADDED = 16, 4, (6, 10)

#: Multiplications that a processor has under way, of numbers and of pairs.
_FLYING = 8, 12

#: Rows, and vectors or columns, of the tiles that are compiled.
_ROWS, _ACROSS = (1, 2, 3, 4, 5, 6, 8, 12), (1, 2, 3, 4, 5, 6, 8)


def is_narrow(dtype: np.dtype, m: int, n: int, k: int) -> bool:
    """Whether a product is for these kernels."""
    return dtype in (np.float32, np.float64) and (
        min(m, n) <= _NARROW or k <= _SHORT or m*n*k <= _SMALL
        or (m*n <= _RESULTS and k >= _LONG))


def is_better_apart(own: int, other: int, k: int) -> bool:
    """Whether many matrices times one are better multiplied one by one than packed.

    Parameters
    ----------
    own, other
        Rows of each of the many, if they are left factors, and columns of the one; else
        the other way round.
    """
    return own >= _WIDE or other*k <= _FEW


@record(frozen=True)
class Way:
    """The way in which the factors of a narrow product are read.

    Attributes
    ----------
    form
        Of an `InnerLoop`.
    swapped
        Whether the product's right factor is the kernel's left one.
    copied
        The kernel's factor that is copied first: 0, 1 or None.
    paired
        Whether pairs of bfloat16 are multiplied.
    """

    form: str
    swapped: bool
    copied: int | None = None
    paired: bool = False


def way_of(f: Factors, turned: bool, paired: bool = False) -> Way | None:
    """Choose how a narrow product is made; None of a batch that BLAS makes faster.

    Parameters are those of `fastest`.
    """
    found = fastest(f, turned, paired)
    return found and found[1]


def fastest(f: Factors, turned: bool, paired: bool) -> tuple[float, Way] | None:
    """The way of fewest instructions in which a narrow product is made, and how many.

    Of a batch of products only vectors are copied, and small right factors, each for
    its product: benchmarks/notes/cpu.md#small-products.

    Parameters
    ----------
    turned
        Whether the result lies in columns.
    paired
        Whether pairs can be multiplied, which a left factor has along the sums.

    Returns
    -------
    tuple of float and Way, or None
        None of a batch that BLAS makes faster.
    """
    lanes, extents = tile_of(f.dtype.itemsize).lanes, (f.m, f.n)
    near = f.a_down == 1 or f.m == 1, f.b_down == 1 or f.n == 1
    along = f.a_along == 1, f.b_along == 1

    def copies(which: int, kept: Sequence[bool], squared: Sequence[bool]) -> float:
        """Instructions to copy a factor, in squares where they can be read."""
        if kept[which]:
            return 0
        return -(-extents[which] // lanes)*-(-f.k // lanes)*lanes*_TURNED \
            if squared[which] else extents[which]*f.k*_MOVED

    def of_columns(which: int) -> tuple[float, Way]:
        rows, columns = extents[1 - which], extents[which]
        streamed = near[which] and rows <= _STREAMED and columns > max(_ACROSS)*lanes
        misfit = min(extents) > 1 and which == turned
        pairs, copied = paired and not streamed, None if near[which] else 1
        time = _best("columns", rows, columns, lanes, pairs)[0]*f.k + misfit*f.m*f.n \
            + copies(which, near, along)
        if pairs and not along[1 - which]:
            pairs, copied = copied is None, 0 if copied is None else copied
            time += copies(1 - which, along, near)
        return time / (1 + pairs), Way("streams" if streamed else "columns", which == 0,
                                       copied, pairs)

    def of_dots(which: int) -> tuple[float, Way]:
        multiplied = _best("dots", f.m, f.n, lanes, paired)[0]*f.k/lanes
        added = f.m*f.n*_ADDED[paired]
        return ((multiplied + copies(which, along, near)) / (1 + paired) + added,
                Way("dots", turned, None if along[which] else which ^ turned, paired))

    ways = [of_columns(0), of_columns(1), *(
        of_dots(which) for which in (0, 1) if along[1 - which])]
    if f.batch > 1:
        ways = [(time, way) for time, way in ways
                if (way.copied is None if paired else
                    _pays_in_batches(way, f, lanes, along[not way.swapped]))]
    return min(ways, key=itemgetter(0)) if ways else None


def _pays_in_batches(way: Way, f: Factors, lanes: int, squares: bool) -> bool:
    """Whether a batch of products is made in this way faster than by BLAS.

    `squares`: the kernel's right factor lies along the sums, so that it may be turned.
    """
    if way.form == "dots":
        copied = way.copied is not None and (f.m, f.n)[way.copied ^ way.swapped] > 1
        return not copied and min(f.m, f.n) <= _DOTTED
    right = f.m if way.swapped else f.n
    return way.copied is None or (squares and right % lanes == 0
                                  and right*_multiple(f.k, lanes) <= ROOM)


def weight_of(m: int, n: int, k: int) -> int:
    """Elements of other kernels that take as long as a product."""
    return m*n*k // LIGHT + (m + n)*k // _READ


@record(frozen=True)
class Cut:
    """An inner loop, and how a product is cut into units; see `product_text`.

    Attributes
    ----------
    high, wide
        Rows and columns of a unit.
    chunk, chunks
        Products of each sum in a unit, and how many units that makes.
    deep
        Products of each sum at once.
    """

    loop: InnerLoop
    high: int
    wide: int
    chunk: int
    chunks: int
    deep: int


def cut_of(dtype: np.dtype, way: Way, factors: tuple[np.dtype, np.dtype], m: int,
           n: int, k: int) -> Cut:
    """Cut a product of `m` rows and `n` columns, as its kernel sees them."""
    size, lanes, form = dtype.itemsize, tile_of(dtype.itemsize).lanes, way.form
    _, rows, across = _best(form, m, n, lanes, way.paired)
    tiles = -(-m // rows)
    high = rows*min(_TILES, tiles if m <= n else max(1, tiles // _UNITS))
    parts = _parts(_FLYING[way.paired] // (rows*across), k // (
        (lanes if form == "dots" else 1)*(1 + way.paired)))
    if form == "streams":
        rows = high = m
        parts, deep = min(_DEPTH, (registers() - 1) // (m + 1)), k
        wide = _multiple(min(n, _STREAM_BYTES // (m*size)), lanes)
    elif form == "dots":
        wide = across*max(1, _DOTS // across)
        deep = k if k*min(n, wide)*size <= _CACHED or m <= rows else _DEEP
    else:
        deep = _DEPTHS[across > 1]
        wide = _multiple(_COLUMN_BYTES // size, across*lanes)
    units = -(-m // high)*-(-n // wide)
    chunks = 1 if runs_alone(_UNITS, weight_of(m, n, k) // _UNITS) else max(
        1, min(k // _CHUNKS[form == "streams"], -(-_UNITS // units)))
    chunk = _multiple(-(-k // chunks), lanes)
    return Cut(InnerLoop(form, *factors, rows, across, parts, way.paired), high, wide,
               chunk, -(-k // chunk), deep)


def _parts(wanted: int, products: int) -> int:
    """In how many a sum is made: a power of two, and so few that each has some."""
    return 1 << wanted.bit_length() - 1 if 0 < 2*wanted <= products else 1


def _multiple(count: int, of: int) -> int:
    return -(-count // of)*of


@lru_cache(1024)
def _best(form: str, m: int, n: int, lanes: int, paired: bool = False,
          ) -> tuple[float, int, int]:
    """The time of a product of each sum, and the tile that takes least.

    That is as many instructions as it has multiplications, or loads if they are more,
    and one: rows, and vectors or columns.  With AVX-512 a multiplication repeats a
    number of the left factor itself; a vector of pairs is two loads and a shuffle, and
    those along the sums may come from the second-level cache.
    """
    dots, repeats = form == "dots", has_masks()

    def time(rows: int, across: int) -> tuple[float, int]:
        tiles = -(-m // rows)*-(-n // (across if dots else across*lanes))
        products = rows*across
        if paired:
            more = products + (rows + across)/2 if dots else max(
                products + across/2, rows + 2*across)
            return tiles*(more + 1), products
        loads = across + (rows / 2 if repeats and not dots else rows)
        return tiles*(max(products, loads) + 1), products

    def registers_of(rows: int, across: int) -> int:
        return rows*across + 1 + (min(rows, across) if dots else across)

    (least, _), (rows, across) = min((time(*tile), tile)
                                     for tile in product(_ROWS, _ACROSS)
                                     if registers_of(*tile) <= registers())
    return least, rows, across
