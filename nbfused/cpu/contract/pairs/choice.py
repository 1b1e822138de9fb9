"""Choice between packed and narrow products of pairs of bfloat16."""

from __future__ import annotations

from ..direct_ways import fastest
from ..gemm import Factors
from ..tile import VECTORS, Tile, tile_of

__all__ = ["is_better_packed"]

#: Terms of a sum up to which factors are packed; not measured.
_LONGEST = 1 << 15

#: Instructions to pack a number, one of which no neighbours are read, and to begin; how
#: much longer narrow products take than their instructions say:
#: benchmarks/notes/cpu.md#products-of-bfloat16.
_PACKED, _APART, _BEGUN, _NARROW = 0.28, 4, 2000, 1.3

#: Instructions to store a sum of a narrow product, and load it for the epilogue, which
#: blocks keep in the cache; not measured.
_STORED = 0.3


def is_better_packed(f: Factors, turned: bool) -> bool:
    """Whether a product of pairs is faster with packed factors than as they lie.

    Parameters
    ----------
    f
        The product, whose `dtype` is that of the sums.
    turned
        Whether the result lies in columns.
    """
    if f.k > _LONGEST:
        return False
    found = fastest(f, turned, True)
    if found is None:
        return True
    m, n = (f.n, f.m) if turned else (f.m, f.n)
    packing = sum(extent*f.k*(_PACKED if 1 in steps else _APART) for extent, steps in (
        (f.m, (f.a_down, f.a_along)), (f.n, (f.b_down, f.b_along))))
    return _NARROW*found[0] + _STORED*m*n > _BEGUN + packing + _multiplied(
        m, n, f.k, tile_of(f.dtype.itemsize))


def _multiplied(m: int, n: int, k: int, tile: Tile) -> float:
    """Instructions of a product whose factors are packed already."""
    rows, high = divmod(m, tile.rows)
    columns, wide = divmod(n, tile.columns)
    down = rows + (high > 0) - (0 < high <= tile.rows // 2)/2
    over = columns + (wide > 0) - (0 < wide <= tile.lanes)/2
    step = tile.rows*VECTORS + 1
    return down*over*step*k/2
