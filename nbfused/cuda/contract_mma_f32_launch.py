"""Contract in float32 on Hopper: which products it takes, and how they are cut up."""

from __future__ import annotations

from collections.abc import Hashable
from math import prod

from ..backend import Call, Signature
from ..records import record
from . import wgmma
from .contract_mma_f32 import F32Text, shared_of
from .contract_mma_f32_tiles import Tiles
from .contract_mma_plan import ENGINES, Factor, Plan
from .contract_mma_results import vector_of
from .contract_mma_tf32_launch import Tf32Launcher
from .contract_text import ContractText
from .driver import Device, check, cu
from .launch import Program
from .scratch import TICKETS, scratch_of

__all__ = ["F32Launcher"]

#: Places along k of a slice, and slices in shared memory.
DEPTH, STAGES = 8, 4
#: Warps that multiply, down and across; a factor with fewer rows is turned sooner.
WARPS = ((2, 4), (4, 2))
#: Multiply-adds from which on it is worth it; slices that take as long as it takes to
#: pass sums from block to block, and blocks that share a tile at most.
LEAST, PASSING, SHARED = 1 << 29, 7, 16
#: Shapes that a launcher remembers.
_KEPT = 1024


@record(frozen=True, eq=False)
class _Work:
    """How calls of one shape and alignment are done.

    Attributes
    ----------
    tiles, program
        The kernel.
    blocks
        How many.
    shared
        Whether some of them share a tile of the result.
    """

    tiles: Tiles
    program: Program
    blocks: int
    shared: bool


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
        self._works: dict[Hashable, _Work] = {}

    def takes(self, call: Call, where: Device) -> bool:
        """Whether TMA can bring the factors, and there is much to do."""
        return (self._possible and where.arch[0] == 9 and prod(call.shape) >= LEAST
                and all(self._reachable(call, w) for w in (0, 1)))

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        key = (call.shape, call.strides, tuple([p % 16 for p in call.pointers]),
               where.ordinal)
        work = self._works.get(key)
        if work is None:
            if len(self._works) >= _KEPT:
                self._works.clear()
            work = self._works[key] = self._work(call, where)
        self._run(work, call, where)

    def _work(self, call: Call, where: Device) -> _Work:
        """How calls of one shape and alignment are done."""
        plan = self._plan(call)
        a, b = (tuple(k for k in range(self._batch)
                      if call.strides[w][k] and call.shape[k] > 1) for w in (0, 1))
        tiles = Tiles(self._text, plan, (a, b))
        program = self._programs.get((plan, (a, b)))
        if program is None:
            program = self._programs[plan, (a, b)] = Program(
                F32Text(self._text, tiles).kernel())
        blocks = self._blocks(call, plan, where)
        return _Work(tiles, program, blocks, self._tiles(call, plan) % blocks > 0)

    def _run(self, work: _Work, call: Call, where: Device) -> None:
        tiles, blocks = work.tiles, work.blocks
        others = [o.at for o in (*self._text.extras, *self._text.outputs)]
        boxes = [self._box(call, tiles, w) for w in (0, 1)]

        def launch(partial: int, flags: int) -> None:
            values = (*boxes, *(call.pointers[at] for at in others), partial, flags,
                      *call.shape, *(s for at in others for s in call.strides[at]),
                      *call.scalars)
            work.program.launch(where, call.stream, blocks, values,
                                shared_of(tiles.plan, tiles))

        if not work.shared:
            return launch(0, 0)
        size = 4*blocks*prod(tiles.plan.extents)
        with where.current(), where.workspace(size + 4*blocks, call.stream) as base:
            scratch = scratch_of(where)
            with scratch.lock:
                found = scratch.find(0, call.stream)
                if found is not None:  # its counters are 0 between launches
                    return launch(base, found[0])
            check(cu().cuMemsetD32Async(base + size, 0, blocks, call.stream))
            launch(base, base + size)

    def _blocks(self, call: Call, plan: Plan, where: Device) -> int:
        """As many as share all slices equally, or as leave no tile to be shared."""
        tiles, slices = self._tiles(call, plan), -(-call.shape[-1] // plan.depth)
        most = min(where.processors, tiles*min(slices, SHARED), TICKETS)
        alone = max(n for n in range(1, min(most, tiles) + 1) if tiles % n == 0)
        if tiles*slices/most + PASSING < tiles*slices/alone:
            return most
        return alone

    def _plan(self, call: Call) -> Plan:
        """Of fewer tiles; else with fewer rows of a factor that is turned."""
        a, b = (Factor(self._along(call, w), 4) for w in (0, 1))
        vector = vector_of(self._text, call)
        plans = [Plan(ENGINES["fma"], (2, 4), warps, DEPTH, STAGES, 1, (a, b), vector)
                 for warps in WARPS]
        return min(plans, key=lambda plan: self._tiles(call, plan))

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
