"""Contract at every dtype, shape and stride: the lowest rung of the ladder."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from ...backend import Call
from ...gpu.programs import Programs
from ..runtime.driver import Device
from ..runtime.launch import Program
from .general import LARGE, SMALL, UNIT, GeneralText, Tile
from .text import ContractText

__all__ = ["GeneralLauncher"]

#: Few outputs and few threads; few columns; few rows.
_SQUARE = Tile(32, 32, 32, 4, 4, 4)
_NARROW = tuple(Tile(m, n, k, 4, 4, 2) for m, n, k in (
    (256, 16, 16), (512, 8, 8), (1024, 4, 4), (16, 256, 16), (8, 512, 8), (4, 1024, 4)))
TILES = (_SQUARE, SMALL, LARGE, *_NARROW)
#: Cycles from a slice to the next one, of a multiply-add of 128 lanes, of a loaded
#: element and of a result beside it: estimates, benchmarks/notes/products.md#narrow.
_SLICE, _LOADED, _STORED = 800, 10, 20
#: Bytes of a sum from which only small tiles have room in shared memory.
_WIDE = 16


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
        shape, (_, m, n, k) = call.shape, self._text.first
        extents = (prod(shape[:m]), prod(shape[m:n]), prod(shape[n:k]), prod(shape[k:]))
        if 0 in extents[:3]:
            return
        tile = tile_for(extents, self._text.kept.itemsize, where.processors)
        values = self._text.arguments(call, self._text.operands)
        self._programs[tile].launch(where, call.stream, _blocks(extents, tile), values,
                                    tile.shared(self._text.kept.itemsize))


@lru_cache(maxsize=4096)
def tile_for(extents: tuple[int, int, int, int], item: int, processors: int) -> Tile:
    """The tile for a batch of so many products of so many rows, columns and along k.

    Large ones where they fill the device and the registers hold them.
    """
    if item >= _WIDE:
        return _SQUARE
    tiles = [t for t in TILES if item <= 4 or t.rows == UNIT]
    tile = min(tiles, key=lambda t: _cycles(extents, _shallow(t, extents), processors))
    return _shallow(tile, extents)


def _shallow(tile: Tile, extents: tuple[int, int, int, int]) -> Tile:
    """The tile with a slice no deeper than the product, and more blocks then."""
    if extents[3] > tile.k or tile.rows > UNIT:
        return tile
    return replace(tile, k=1 << max(1, (extents[3] - 1).bit_length()), whole=True,
                   blocks=4 if extents[3] <= 8 else 3)


def _blocks(extents: tuple[int, int, int, int], tile: Tile) -> int:
    batch, rows, columns, _ = extents
    return batch * -(-rows // tile.m) * -(-columns // tile.n)


def _cycles(extents: tuple[int, int, int, int], tile: Tile, processors: int) -> float:
    """Cycles of a product, roughly: multiply-adds, loads, results, and waiting."""
    k, points = extents[3], tile.m*tile.n
    work = k*(points + _LOADED*(tile.m + tile.n)) + _STORED*points
    turns = _blocks(extents, tile)/processors
    return max(1, turns)*work/128 + max(1, turns/4) * -(-k // tile.k)*_SLICE
