"""Contract on CUDA: a ladder of kernels, by compute capability and layout.

From the top, fed by TMA (sm_90a): tensor cores (`wgmma` for 16-bit floats,
`contract_mma_tf32` for float32 that may be rounded) and multiply-adds
(`contract_mma_f32`); fed by ``cp.async`` (sm_80): tensor cores or multiply-adds
(`contract_mma`); and tiles through registers
that are right at every dtype, shape and stride (`contract_text`).  Where only the
layout of a large factor stands in the way, or its prologue, it is packed first.  Sums
are kept in float32 for 16-bit floats and float32.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..backend import Call, Launcher, Signature
from ..specs import Contract, TypedContract
from .contract_mma_f32_launch import F32Launcher
from .contract_mma_launch import MmaLauncher
from .contract_mma_tf32_launch import Tf32Launcher
from .contract_pack import PackLauncher
from .contract_text import LARGE, SMALL, ContractText, Tile
from .driver import Device, device
from .launch import Program
from .wgmma import WgmmaLauncher

__all__ = ["ContractLauncher", "build_contract"]

Rung = Callable[[Call, Device], None]


class _Rungs:
    """The launchers for tensor cores, the fastest first.

    Parameters
    ----------
    text, signature
        Operands and functions, dtypes and loops.
    padded
        Whether the factors were packed.
    """

    def __init__(self, text: ContractText, signature: Signature, *,
                 padded: bool = False) -> None:
        self._wgmma = WgmmaLauncher(text, signature)
        self._others = Tf32Launcher(text, signature), F32Launcher(text, signature)
        self._mma = MmaLauncher(text, signature, padded=padded)

    def wgmma(self, call: Call, where: Device) -> Rung | None:
        """Hopper's, if one of them takes the call."""
        if where.arch[0] == 9 and self._wgmma.takes(call):
            return self._wgmma
        return next((r for r in self._others if r.takes(call, where)), None)

    def mma(self, call: Call, where: Device) -> Rung | None:
        """The one for sm_80 and later, if it takes the call."""
        return self._mma if self._mma.takes(call, where) else None


class ContractLauncher:
    """Chooses the kernel by the device, and by the call's layout and extents.

    Parameters
    ----------
    name
        Of the epilogue.
    typed, signature
        What to compute, on which dtypes and loops.
    """

    def __init__(self, name: str, typed: TypedContract, signature: Signature) -> None:
        self.text = ContractText(name, typed, signature)
        single = _one_loop_of_rows(signature)
        text = ContractText(name, typed, single)
        self._rungs = _Rungs(text, single)
        self._pack = PackLauncher(text, single)
        self._packed: dict[Signature, _Rungs] = {}
        self._programs: dict[Tile, Program] = {}
        self._ends = [sum(signature.ranks[:k + 1]) for k in range(4)]

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where = device(call.device)
        rung = self._rungs.wgmma(call, where)
        if rung is None and self._pack.worthwhile(call):
            multiply = self._after_packing(call, where)
            if multiply is not None:
                return self._pack(call, where, multiply)
        rung = rung or self._rungs.mma(call, where)
        return self._general(call, where) if rung is None else rung(call, where)

    def _after_packing(self, call: Call, where: Device) -> Rung | None:
        """What would take the packed call."""
        typed, signature = self._pack.product(call)
        rungs = self._packed.get(signature)
        if rungs is None:
            text = ContractText(self.text.name, typed, signature)
            rungs = self._packed[signature] = _Rungs(text, signature, padded=True)
        packed = self._pack.packed(call, 0)
        return rungs.wgmma(packed, where) or rungs.mma(packed, where)

    def _general(self, call: Call, where: Device) -> None:
        """Right at every dtype, shape and stride."""
        b, m, n, _ = self._ends
        batch, rows, columns = (prod(call.shape[:b]), prod(call.shape[b:m]),
                                prod(call.shape[m:n]))
        tile = self.tile(batch, rows, columns, where)
        blocks = batch * -(-rows // tile.m) * -(-columns // tile.n)
        if blocks == 0:
            return
        program = self._programs.get(tile)
        if program is None:
            program = self._programs[tile] = Program(self.text.kernel(tile))
        values = (*call.pointers, *call.shape,
                  *(s for strides in call.strides for s in strides), *call.scalars)
        program.launch(where, call.stream, blocks, values,
                       tile.shared(self.text.kept.itemsize))

    def tile(self, batch: int, rows: int, columns: int, where: Device) -> Tile:
        """Large tiles where they fill the device and the registers hold them."""
        blocks = batch * -(-rows // LARGE.m) * -(-columns // LARGE.n)
        if self.text.kept.itemsize > 4 or blocks < where.processors:
            return SMALL
        return LARGE


def _one_loop_of_rows(signature: Signature) -> Signature:
    """Further loops over rows as loops over a batch: in memory they are not one.

    The order of the loops stays the same.  B does not vary along them, which a batch
    allows.
    """
    batch, rows, *others = signature.ranks
    if rows < 2:
        return signature
    return signature._replace(ranks=(batch + rows - 1, 1, *others))


def build_contract(spec: Contract, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    return ContractLauncher(spec.name, spec.typed(signature.inputs, signature.outputs),
                            signature)
