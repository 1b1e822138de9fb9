"""Contract in float32 on Hopper: which products it takes, and how they are cut up."""

from __future__ import annotations

from math import prod

from ..backend import Call, Signature
from . import wgmma
from .contract_mma_f32 import F32Text, shared_of
from .contract_mma_f32_tiles import Tiles
from .contract_mma_plan import ENGINES, Factor, Plan
from .contract_mma_results import vector_of
from .contract_mma_tf32_launch import Tf32Launcher
from .contract_text import ContractText
from .driver import Device, check, cu
from .launch import Program

__all__ = ["F32Launcher"]

#: Places along k of a slice, and slices in shared memory.
DEPTH, STAGES = 8, 4
#: Warps of a block that multiply, down and across, and blocks of a multiprocessor.
WARPS, BLOCKS = (4, 2), 1
#: Multiply-adds from which on it is worth it, and blocks that share a tile at most.
LEAST, SHARED = 1 << 29, 8


class F32Launcher(Tf32Launcher):
    """Products of float32, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands and functions.
    signature
        Dtypes and loops.
    """

    def __init__(self, text: ContractText, signature: Signature) -> None:
        super().__init__(text, signature)
        self._possible = (
            text.typed.precision is None and text.kept.name == "float32"
            and {o.dtype.name for o in text.factors} == {"float32"}
            and text.typed.prologues == (None, None)
            and signature.ranks[1:] == (1, 1, 1) and self._batch <= 3)

    def takes(self, call: Call, where: Device) -> bool:
        """Whether TMA can bring the factors, and there is much to do."""
        return (self._possible and where.arch[0] == 9 and prod(call.shape) >= LEAST
                and all(self._reachable(call, w) for w in (0, 1)))

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        plan = self._plan(call)
        a, b = (tuple(k for k in range(self._batch)
                      if call.strides[w][k] and call.shape[k] > 1) for w in (0, 1))
        tiles = Tiles(self._text, plan, (a, b))
        program = self._programs.get((plan, (a, b)))
        if program is None:
            program = self._programs[plan, (a, b)] = Program(
                F32Text(self._text, tiles).kernel())
        count, slices = self._tiles(call, plan), -(-call.shape[-1] // plan.depth)
        blocks = min(where.processors*plan.blocks, count*min(slices, SHARED))
        others = [o.at for o in (*self._text.extras, *self._text.outputs)]
        boxes = [self._box(call, tiles, w) for w in (0, 1)]

        def launch(partial: int, flags: int) -> None:
            values = (*boxes, *(call.pointers[at] for at in others), partial, flags,
                      *call.shape, *(s for at in others for s in call.strides[at]),
                      *call.scalars)
            program.launch(where, call.stream, blocks, values, shared_of(plan, tiles))

        if count % blocks == 0:  # none is shared
            return launch(0, 0)
        size = 4*blocks*prod(plan.extents)
        with where.current(), where.workspace(size + 4*blocks, call.stream) as base:
            flags = base + size
            check(cu().cuMemsetD32Async(flags, 0, blocks, call.stream))
            launch(base, flags)

    def _plan(self, call: Call) -> Plan:
        a, b = (Factor(self._along(call, w), 4) for w in (0, 1))
        return Plan(ENGINES["fma"], (2, 4), WARPS, DEPTH, STAGES, BLOCKS, (a, b),
                    vector_of(self._text, call))

    def _box(self, call: Call, tiles: Tiles, which: int) -> bytes:
        """The tensor map of a factor."""
        own, k = self._loops(which)
        batch, strides = tiles.batch[which], call.strides[which]
        loops = (*((k, own) if self._along(call, which) else (own, k)),
                 *reversed(batch))
        return wgmma._tensor_map(
            "float32", call.pointers[which], tuple(call.shape[x] for x in loops),
            tuple(4*strides[x] for x in loops[1:]),
            (*tiles.box(which), *(1,)*len(batch)), "NONE")
