"""Contract on ROCm: tiled products that are right at every shape and stride.

Sums are kept in float32 for 16-bit floats and float32.  Matrix instructions are used
where ``NBFUSED_ROCM_MATRIX=1`` asks for them: see ``hip/matrix.hip``.
"""

from __future__ import annotations

from math import prod

from ..backend import Call, Launcher, Signature
from ..config import config
from ..gpu.operands import all_arguments
from ..gpu.programs import Programs
from ..specs import Contract, TypedContract
from .runtime.device import Device, device
from .runtime.launch import Program
from .text.contract import LARGE, SMALL, ContractText, Tile

__all__ = ["ContractLauncher", "build_contract"]

#: Blocks along x; tiles beyond lie along y.
MOST_ACROSS = 1 << 20


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
        self._programs: Programs[tuple[Tile, bool], Program] = Programs(
            Program, lambda how: self.text.kernel(how[0], matrix=how[1]))
        self._ends = [sum(signature.ranks[:k + 1]) for k in range(4)]

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where = device(call.device)
        b, m, n, _ = self._ends
        batch, rows, columns = (prod(call.shape[:b]), prod(call.shape[b:m]),
                                prod(call.shape[m:n]))
        tile = self.tile(batch, rows, columns, where)
        blocks = tile.count(batch, rows, columns)
        if blocks == 0:
            return
        matrix = config.rocm_matrix and self.text.halves
        across = min(blocks, MOST_ACROSS)
        self._programs[tile, matrix].launch(
            where, call.stream, (across, -(-blocks // across), 1),
            all_arguments(call),
            tile.shared(self.text.kept.itemsize, matrix=matrix))

    def tile(self, batch: int, rows: int, columns: int, where: Device) -> Tile:
        """Large tiles where they fill the device and the registers hold them."""
        if (self.text.kept.itemsize > 4
                or LARGE.count(batch, rows, columns) < where.processors):
            return SMALL
        return LARGE


def build_contract(spec: Contract, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    return ContractLauncher(spec.name, spec.typed(signature.inputs, signature.outputs),
                            signature)
