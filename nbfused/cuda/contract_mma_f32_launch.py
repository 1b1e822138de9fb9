"""Contract in float32 on Hopper: which products it takes, and how they are cut up."""

from __future__ import annotations

from math import prod

from ..backend import Call, Signature
from . import wgmma
from .contract_mma_f32 import F32Text, box_of, shared_of
from .contract_mma_plan import ENGINES, Factor, Plan
from .contract_mma_results import vector_of
from .contract_mma_tf32_launch import Tf32Launcher
from .contract_text import ContractText
from .driver import Device, check, cu
from .launch import Program
from .scratch import scratch_of

__all__ = ["F32Launcher"]

#: Places along k of a slice, and slices in shared memory.
DEPTH, STAGES = 8, 8
#: Multiply-adds from which on it is worth it, and blocks that share a tile at most.
LEAST, SHARED = 1 << 29, 8


class F32Launcher(Tf32Launcher):
    """Products of float32, one m, n and k loop each; columns of B side by side.

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
                and call.strides[1][self._batch + 1] == 1
                and all(self._reachable(call, w) for w in (0, 1)))

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        plan = self._plan(call)
        a, b = (tuple(k for k in range(self._batch)
                      if call.strides[w][k] and call.shape[k] > 1) for w in (0, 1))
        program = self._programs.get((plan, (a, b)))
        if program is None:
            program = self._programs[plan, (a, b)] = Program(
                F32Text(self._text, plan, (a, b)).kernel())
        tiles, slices = self._tiles(call, plan), -(-call.shape[-1] // DEPTH)
        blocks = min(where.processors, tiles*min(slices, SHARED))
        others = [o.at for o in (*self._text.extras, *self._text.outputs)]
        maps = self._map(call, 0, a, plan), self._map(call, 1, b, plan)

        def launch(partial: int, flags: int) -> None:
            values = (*maps, *(call.pointers[at] for at in others), partial, flags,
                      *call.shape, *(s for at in others for s in call.strides[at]),
                      *call.scalars)
            program.launch(where, call.stream, blocks, values, shared_of(plan))

        if tiles % blocks == 0:  # none is shared
            return launch(0, 0)
        size = 4*blocks*prod(plan.extents)
        with where.current(), where.workspace(size + 4*blocks, call.stream) as base:
            flags = base + size
            check(cu().cuMemsetD32Async(flags, 0, blocks, call.stream))
            launch(base, flags)

    def _plan(self, call: Call) -> Plan:
        along = self._along(call, 0)
        factors = Factor(along, 4 if along else 1), Factor(False, 4)
        return Plan(ENGINES["quads" if along else "fma"], (2, 4), (4, 2), DEPTH, STAGES,
                    1, factors, vector_of(self._text, call))

    def _map(self, call: Call, which: int, batch: tuple[int, ...],
             plan: Plan) -> bytes:
        own, k = self._loops(which)
        along, strides = plan.factors[which].along, call.strides[which]
        loops = (*((k, own) if along else (own, k)), *reversed(batch))
        return wgmma._tensor_map(
            "float32", call.pointers[which], tuple(call.shape[x] for x in loops),
            tuple(4*strides[x] for x in loops[1:]),
            (*box_of(plan, which), *(1,)*len(batch)),
            f"{4*plan.depth}B" if along else "NONE")
