"""Contract in TF32 on Hopper's tensor cores: which products it takes, and how."""

from __future__ import annotations

from collections.abc import Hashable

from ...backend import Call
from ...gpu.programs import Programs
from ...support.records import record
from ..isa.engines import ENGINES
from ..runtime.driver import Device
from ..runtime.launch import Program
from ..tuning.bounded_cache import BoundedCache
from ..tuning.tuner import layout_of
from .calls import tiles_of
from .plan import Factor, Plan
from .results import vector_of
from .text import ContractText
from .tf32 import DEPTH, ROWS, Tf32Text, shared_of
from .tma import Batches, TmaFactors

__all__ = ["Tf32Launcher"]

_STAGES = 4


@record(frozen=True, eq=False)
class _Work:
    """A launch for calls of one shape and alignment."""

    plan: Plan
    batch: Batches
    program: Program
    blocks: int


class Tf32Launcher:
    """Products of float32 that may be rounded, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands, loops and functions.
    """

    def __init__(self, text: ContractText) -> None:
        self._text, self._batch = text, text.ranks[0]
        self._factors = TmaFactors(text, "tf32")
        #: Whether it takes any call.
        self.possible = self._factors.possible
        self._programs: Programs[tuple[Plan, Batches], Program] = Programs(
            Program, lambda how: Tf32Text(text, *how).kernel())
        self._works: BoundedCache[Hashable, _Work] = BoundedCache()

    def takes(self, call: Call, where: Device) -> bool:
        """Whether TMA can bring the factors, one of them with k innermost."""
        return (self.possible and where.arch[0] == 9
                and any(self._factors.along(call, w) for w in (0, 1))
                and self._factors.reachable(call))

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        work = self._works.find(layout_of(call), lambda: self._work(call))
        work.program.launch(
            where, call.stream, work.blocks,
            (self._map(call, 0, work), self._map(call, 1, work),
             *self._text.arguments(call, self._text.others)), shared_of(work.plan))

    def _work(self, call: Call) -> _Work:
        """A launch for calls of one shape and alignment."""
        plan, batch = self._plan(call), self._factors.batches(call)
        return _Work(plan, batch, self._programs[plan, batch],
                     tiles_of(call, self._batch, plan.extents))

    def _plan(self, call: Call) -> Plan:
        """The one of fewer tiles: which factor is read in shared memory."""
        a, b = (self._factors.along(call, w) for w in (0, 1))
        factors, vector = (Factor(a, 4), Factor(b, 4)), vector_of(self._text, call)
        found = [Plan(ENGINES[name], units, warps, DEPTH, _STAGES, 1, factors, vector)
                 for name, units, warps, possible in (
                     ("tf32b", (4, 1), (1, 8), a), ("tf32a", (1, 1), (8, 1), b))
                 if possible]
        return min(found, key=lambda plan: tiles_of(call, self._batch, plan.extents))

    def _map(self, call: Call, which: int, work: _Work) -> bytes:
        """The tensor map of a factor: boxes of 32 along its inner dimension."""
        whole = (which == 1) == (work.plan.engine.name == "tf32a")
        along = work.plan.factors[which].along
        box = (DEPTH, ROWS[int(whole)] if along else DEPTH)
        return self._factors.map(call, which, work.batch[which], box, "tfloat32")
