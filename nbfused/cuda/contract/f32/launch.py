"""Contract in float32 on Hopper's ordinary cores: which products it takes, and how."""

from __future__ import annotations

from collections.abc import Hashable
from math import prod

from ....backend import Call
from ....gpu.programs import Programs
from ....support.records import record
from ...isa.engines import ENGINES
from ...runtime.driver import Device, check, cu
from ...runtime.launch import Program
from ...runtime.scratch import TICKETS, scratch_of
from ...tuning.bounded_cache import BoundedCache
from ...tuning.tuner import layout_of
from ..calls import tiles_of
from ..plan import Factor, Plan
from ..results import vector_of
from ..text import ContractText
from ..tma import Batches, TmaFactors
from .kernel import F32Text, shared_of
from .tiles import Tiles

__all__ = ["F32Launcher"]

#: Places along k of a slice, and slices in shared memory.
DEPTH, STAGES = 8, 4
#: Warps that multiply, down and across; a factor with fewer rows is turned sooner.
WARPS = ((2, 4), (4, 2))
#: Rows or columns that fill half of a tile: smaller tiles, by ``cp.async``, multiply
#: less that is not there (benchmarks/notes/products.md#narrow).
NARROW = 64
#: Multiply-adds from which on it is worth it; slices that take as long as it takes to
#: pass sums from block to block, and blocks that share a tile at most.  Measured:
#: benchmarks/notes/products.md#split-k.
LEAST, PASSING, SHARED = 1 << 29, 7, 16


@record(frozen=True, eq=False)
class _Work:
    """A launch for calls of one shape and alignment.

    Attributes
    ----------
    tiles, program
        The kernel.
    blocks
        How many.
    shared
        Bytes of shared memory.
    sums
        Bytes of those that blocks leave to one another; 0: they share no tile.
    """

    tiles: Tiles
    program: Program
    blocks: int
    shared: int
    sums: int


class F32Launcher:
    """Products of float32, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands, loops and functions.
    """

    def __init__(self, text: ContractText) -> None:
        self._text, self._batch = text, text.ranks[0]
        self._factors = TmaFactors(text, "fma")
        #: Whether it takes any call.
        self.possible = self._factors.possible
        self._programs: Programs[tuple[Plan, Batches], Program] = Programs(
            Program, lambda how: F32Text(text, Tiles(text, *how)).kernel())
        self._works: BoundedCache[Hashable, _Work] = BoundedCache()

    def takes(self, call: Call, where: Device) -> bool:
        """Whether TMA can bring the factors, and tiles have much to do."""
        return (self.possible and where.arch[0] == 9 and prod(call.shape) >= LEAST
                and min(call.shape[-3:-1]) > NARROW and self._factors.reachable(call))

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        work = self._works.find((layout_of(call), where.ordinal),
                                lambda: self._work(call, where))
        self._run(work, call, where)

    def _work(self, call: Call, where: Device) -> _Work:
        """A launch for calls of one shape and alignment."""
        plan, batch = self._plan(call), self._factors.batches(call)
        tiles, blocks = Tiles(self._text, plan, batch), self._blocks(call, plan, where)
        alone = self._tiles(call, plan) % blocks == 0
        return _Work(tiles, self._programs[plan, batch], blocks, shared_of(tiles),
                     0 if alone else 4*blocks*prod(plan.extents))

    def _run(self, work: _Work, call: Call, where: Device) -> None:
        tiles, text = work.tiles, self._text
        maps = self._map(call, 0, tiles), self._map(call, 1, tiles)

        def launch(partial: int, flags: int) -> None:
            values = (*maps, *text.arguments(call, text.others, partial, flags))
            work.program.launch(where, call.stream, work.blocks, values, work.shared)

        if not work.sums:
            return launch(0, 0)
        flags = 4*work.blocks
        with where.current(), where.workspace(work.sums + flags, call.stream) as base:
            scratch = scratch_of(where)
            with scratch.lock:
                found = scratch.find(0, call.stream)
                if found is not None:  # its counters are 0 between launches
                    return launch(base, found[0])
            up = base + work.sums
            check(cu().cuMemsetD32Async(up, 0, work.blocks, call.stream))
            launch(base, up)

    def _tiles(self, call: Call, plan: Plan) -> int:
        return tiles_of(call, self._batch, plan.extents)

    def _blocks(self, call: Call, plan: Plan, where: Device) -> int:
        """The number of blocks: all slices shared equally, or no tile shared."""
        tiles, slices = self._tiles(call, plan), -(-call.shape[-1] // plan.depth)
        most = min(where.processors, tiles*min(slices, SHARED), TICKETS)
        alone = max(n for n in range(1, min(most, tiles) + 1) if tiles % n == 0)
        if tiles*slices/most + PASSING < tiles*slices/alone:
            return most
        return alone

    def _plan(self, call: Call) -> Plan:
        """The plan of fewer tiles; else with fewer rows of a factor that is turned."""
        a, b = (Factor(self._factors.along(call, w), 4) for w in (0, 1))
        vector = vector_of(self._text, call)
        plans = [Plan(ENGINES["fma"], (2, 4), warps, DEPTH, STAGES, 1, (a, b), vector)
                 for warps in WARPS]
        return min(plans, key=lambda plan: self._tiles(call, plan))

    def _map(self, call: Call, which: int, tiles: Tiles) -> bytes:
        """The tensor map of a factor: boxes as large as a tile."""
        return self._factors.map(call, which, tiles.batch[which], tiles.box(which),
                                 swizzle="NONE")
