"""Contract at every dtype, shape and stride: the lowest rung of the ladder."""

from __future__ import annotations

from math import prod

from ...backend import Call
from ...gpu.programs import Programs
from ..runtime.driver import Device
from ..runtime.launch import Program
from .general import LARGE, SMALL, GeneralText, Tile
from .text import ContractText

__all__ = ["GeneralLauncher"]


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
        batch, rows, columns = prod(shape[:m]), prod(shape[m:n]), prod(shape[n:k])
        tile = self._tile(batch, rows, columns, where)
        blocks = batch * -(-rows // tile.m) * -(-columns // tile.n)
        if blocks == 0:
            return
        values = self._text.arguments(call, self._text.operands)
        self._programs[tile].launch(where, call.stream, blocks, values,
                                    tile.shared(self._text.kept.itemsize))

    def _tile(self, batch: int, rows: int, columns: int, where: Device) -> Tile:
        """Large tiles where they fill the device and the registers hold them."""
        blocks = batch * -(-rows // LARGE.m) * -(-columns // LARGE.n)
        if self._text.kept.itemsize > 4 or blocks < where.processors:
            return SMALL
        return LARGE
