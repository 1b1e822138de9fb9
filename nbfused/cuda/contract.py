"""Contract on CUDA: tiled products that are right at every shape and stride.

Sums are kept in float32 for 16-bit floats and float32.  On Hopper, products of 16-bit
floats whose operands TMA can bring run on tensor cores (`wgmma`).
"""

from __future__ import annotations

from math import prod

from ..backend import Call, Launcher, Signature
from ..specs import Contract, TypedContract
from .contract_mma_launch import MmaLauncher
from .contract_text import LARGE, SMALL, ContractText, Tile
from .driver import Device, device
from .launch import Program
from .wgmma import WgmmaLauncher

__all__ = ["ContractLauncher", "build_contract"]


class ContractLauncher:
    """Chooses the tile by the call's extents.

    Parameters
    ----------
    name
        Of the epilogue.
    typed, signature
        What to compute, on which dtypes and loops.
    """

    def __init__(self, name: str, typed: TypedContract, signature: Signature) -> None:
        self.text = ContractText(name, typed, signature)
        self._wgmma = WgmmaLauncher(self.text, signature)
        self._mma = MmaLauncher(self.text, signature)
        self._programs: dict[Tile, Program] = {}
        self._ends = [sum(signature.ranks[:k + 1]) for k in range(4)]

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where = device(call.device)
        if where.arch[0] == 9 and self._wgmma.takes(call):
            return self._wgmma(call, where)
        if self._mma.takes(call, where):
            return self._mma(call, where)
        b, m, n, _ = self._ends
        batch, rows, columns = (prod(call.shape[:b]), prod(call.shape[b:m]),
                                prod(call.shape[m:n]))
        tile = self.tile(batch, rows, columns, where)
        blocks = batch * -(-rows // tile.m) * -(-columns // tile.n)
        if blocks == 0:
            return None
        program = self._programs.get(tile)
        if program is None:
            program = self._programs[tile] = Program(self.text.kernel(tile))
        values = (*call.pointers, *call.shape,
                  *(s for strides in call.strides for s in strides), *call.scalars)
        program.launch(where, call.stream, blocks, values,
                       tile.shared(self.text.kept.itemsize))
        return None

    def tile(self, batch: int, rows: int, columns: int, where: Device) -> Tile:
        """Large tiles where they fill the device and the registers hold them."""
        blocks = batch * -(-rows // LARGE.m) * -(-columns // LARGE.n)
        if self.text.kept.itemsize > 4 or blocks < where.processors:
            return SMALL
        return LARGE


def build_contract(spec: Contract, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    return ContractLauncher(spec.name, spec.typed(signature.inputs, signature.outputs),
                            signature)
