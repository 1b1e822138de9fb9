"""Contract at every dtype, shape and stride: which tile, and its launch.

It is the lowest rung of the ladder, and the fastest of narrow products and few results.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import ceil, prod

from ....backend import Call
from ....gpu.programs import Programs
from ...runtime.driver import Device
from ...runtime.launch import Program
from ..text import ContractText
from .kernel import GeneralText
from .tile import LARGE, SMALL, UNIT, Tile

__all__ = ["GeneralLauncher", "cycles_of", "tile_for"]

#: Few outputs and few threads; few columns; few rows.
_SQUARE = Tile(32, 32, 32, 4, 4, 4)
_NARROW = tuple(Tile(m, n, k, 4, 4, 2) for m, n, k in (
    (256, 16, 16), (512, 8, 8), (1024, 4, 4), (16, 256, 16), (8, 512, 8), (4, 1024, 4)))
#: Few outputs and long sums: as many blocks as there are, each with its share of k.
_GROUPED = tuple(Tile(m, n, k, 4, 4, 1, groups=groups) for m, n, k, groups in (
    (8, 8, 256, 32), (8, 16, 128, 16), (16, 16, 64, 8), (16, 32, 64, 8)))
TILES = (_SQUARE, SMALL, LARGE, *_NARROW, *_GROUPED)
#: Cycles from a slice to the next one, of a multiply-add of 128 lanes, of a loaded
#: element and of a result beside it: estimates, benchmarks/notes/products.md#narrow.
_SLICE, _LOADED, _STORED = 800, 10, 20
#: What an element that groups load takes in place of these, of 4 bytes and of 8:
#: measured, benchmarks/notes/products.md#few-results.
_SHARED, _SHARED_LONG = 34, 70
#: Bytes of a sum from which only small tiles have room in shared memory.
_WIDE = 16

#: Products of a batch, and their rows, columns and points along k.
Extents = tuple[int, int, int, int]


class GeneralLauncher:
    """Any product.

    Parameters
    ----------
    text
        Operands, loops and functions.
    """

    def __init__(self, text: ContractText) -> None:
        self._text = text
        self._programs: Programs[Tile, Program] = Programs(
            Program, lambda tile: GeneralText(text, tile).kernel())

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        extents = self.extents(call)
        if 0 in extents[:3]:
            return
        tile = tile_for(extents, self._text.kept.itemsize, where.processors)
        values = self._text.arguments(call, self._text.operands)
        self._programs[tile].launch(where, call.stream, _blocks(extents, tile), values,
                                    tile.shared(self._text.kept.itemsize))

    def extents(self, call: Call) -> Extents:
        """The products of the batch, and their rows, columns and points along k."""
        shape, (_, m, n, k) = call.shape, self._text.first
        return prod(shape[:m]), prod(shape[m:n]), prod(shape[n:k]), prod(shape[k:])


@lru_cache(maxsize=4096)
def tile_for(extents: Extents, item: int, processors: int) -> Tile:
    """The tile for a batch of so many products of so many rows, columns and along k.

    Large ones where they fill the device and the registers hold them.
    """
    if item >= _WIDE:
        return _SQUARE
    tiles = [t for t in TILES if item <= 4 or t.rows == UNIT]
    return min((_shallow(t, extents) for t in tiles),
               key=lambda t: cycles_of(extents, item, processors, t))


def _shallow(tile: Tile, extents: Extents) -> Tile:
    """The tile with a slice no deeper than the product, and more blocks then."""
    if extents[3] > tile.k or tile.rows > UNIT or tile.groups > 1:
        return tile
    return replace(tile, k=1 << max(1, (extents[3] - 1).bit_length()), whole=True,
                   blocks=4 if extents[3] <= 8 else 3)


def _blocks(extents: Extents, tile: Tile) -> int:
    batch, rows, columns, _ = extents
    return batch * -(-rows // tile.m) * -(-columns // tile.n)


def cycles_of(extents: Extents, item: int, processors: int, tile: Tile) -> float:
    """Cycles of a product, roughly: multiply-adds, loads, results, and waiting."""
    k, points = extents[3], tile.m*tile.n
    turns, slices = _blocks(extents, tile)/processors, -(-k // tile.k)
    if tile.groups > 1:  # half a slice for the sums of the groups
        loaded = _SHARED if item <= 4 else _SHARED_LONG
        work = tile.k*(points + loaded*(tile.m + tile.n))
        return ceil(turns)*(slices + 0.5)*work/128
    waits = max(1, turns/4)*slices
    if tile.rows > UNIT:  # nothing else runs while a block begins and ends
        waits += 2*max(1, turns)
    work = k*(points + _LOADED*(tile.m + tile.n)) + _STORED*points
    return max(1, turns)*work/128 + waits*_SLICE
