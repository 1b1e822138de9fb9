"""Contract by ``cp.async`` and ``mma.sync`` or multiply-adds: which products, how."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import prod
from operator import itemgetter

from ...backend import Call
from ...gpu.operands import Operand
from ...gpu.programs import Programs
from ...support.records import record
from ..isa.engines import ENGINES, Engine
from ..runtime.driver import Device
from ..runtime.launch import Program
from ..tuning.bounded_cache import BoundedCache
from ..tuning.tuner import layout_of
from .calls import aligned, engine_of, tiles_of
from .mma import NARROWEST, MmaText
from .plan import Factor, Plan
from .results import vector_of
from .text import ContractText

__all__ = ["MmaLauncher"]

#: Bytes of copies, the widest first.
_SIZES = 16, 8, NARROWEST
_WIDE = _SIZES[0]
#: Tiles that keep a multiprocessor busy where elements come through registers.
PAIR = 2


@record(frozen=True)
class Shape:
    """Extents that were found to go together, and how well.

    Attributes
    ----------
    units, warps, depth, stages, blocks
        See `Plan`.
    share
        Of the peak, where a multiprocessor has `busy` tiles or more.
    narrow
        The same where a factor comes by narrow copies that might be whole; 0: no other.
    loose
        The same where elements come through registers, and `PAIR` tiles keep it busy;
        0: too many for them.
    busy
        Tiles that keep a multiprocessor's schedulers busy.
    """

    units: tuple[int, int]
    warps: tuple[int, int]
    depth: int
    stages: int
    blocks: int
    share: float
    narrow: float = 0
    loose: float = 0
    busy: int = 1

    def rate(self, brought: str, tiles: int) -> float:
        """The share of the peak with so many tiles of a multiprocessor.

        With factors that are `brought` ``"whole"``, ``"narrow"`` or ``"loose"``.
        """
        if brought == "loose":
            return self.loose*min(1, tiles/PAIR)
        share = self.narrow if self.narrow and brought == "narrow" else self.share
        return share*min(1, tiles/self.busy)


_TENSOR = (Shape((4, 4), (2, 4), 32, 4, 1, 1.0, 0.38),
           Shape((4, 4), (2, 2), 32, 4, 2, 0.9, 0.25),
           Shape((2, 2), (2, 2), 32, 4, 4, 0.6, 0.32, 0.21),
           Shape((1, 2), (1, 4), 32, 4, 4, 0.3, 0.13, 0.11),
           Shape((2, 1), (4, 1), 32, 4, 4, 0.3, 0.13, 0.11))
#: For each engine what a call may choose from: see
#: benchmarks/notes/products.md#the-kernel-by-cpasync.
SHAPES = {
    "fma": (Shape((2, 4), (2, 2), 8, 4, 2, 0.72, 0.5, busy=2),
            Shape((1, 2), (2, 2), 16, 4, 4, 0.63, 0.62),
            Shape((1, 2), (1, 4), 16, 4, 4, 0.65, 0.55),
            Shape((1, 2), (4, 1), 16, 4, 4, 0.54, 0.54),
            Shape((1, 1), (2, 2), 16, 4, 4, 0.53, 0.5),
            Shape((1, 1), (1, 2), 16, 4, 8, 0.55, 0.39, busy=2)),
    "f16": _TENSOR, "bf16": _TENSOR,
    "tf32": (Shape((4, 4), (2, 4), 32, 4, 1, 1.0), Shape((4, 4), (2, 4), 16, 4, 1, 0.9),
             Shape((2, 2), (2, 2), 16, 4, 4, 0.6)),
    "f64": (Shape((4, 4), (2, 4), 16, 4, 1, 1.0),
            Shape((4, 4), (2, 2), 16, 4, 2, 1.0)),
    "f64h": (Shape((2, 4), (2, 2), 16, 4, 2, 1.0),
             Shape((2, 4), (2, 4), 16, 4, 1, 0.92),
             Shape((2, 2), (2, 2), 16, 4, 3, 0.92)),
}
#: Multiply-adds of a multiprocessor in a cycle, of which the numbers above are shares,
#: and the steps along k that a tile's beginning and end take: see the same record.
PEAKS = {"fma": (128, 24), "f16": (1024, 100), "bf16": (1024, 100)}
#: Engines that take the place of others from sm_90 on:
#: benchmarks/notes/products.md#float64.
LATER = {"f64": ENGINES["f64h"]}


class MmaLauncher:
    """Products of two factors of one float dtype, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands, loops and functions.
    padded
        Whether rows of the factors end with zeros where they are no whole accesses.
    loose
        Whether elements that no copy brings may come through registers.
    """

    def __init__(self, text: ContractText, *, padded: bool = False,
                 loose: bool = False) -> None:
        self._text, self._batch = text, text.ranks[0]
        self._padded, self._loose = padded, loose
        self._engine = engine_of(text)
        self._programs: Programs[Plan, Program] = Programs(
            Program, lambda plan: MmaText(text, plan).kernel())
        self._plans: BoundedCache[Hashable, tuple[Plan, float] | None] = BoundedCache()

    def takes(self, call: Call, where: Device) -> bool:
        """Whether copies past the registers can bring the operands of this call."""
        return self._engine is not None and where.arch >= (8, 0) and \
            self._plan(call, where) is not None

    def wide(self, call: Call, where: Device) -> bool:
        """Whether a call that it takes is brought by whole accesses."""
        plan = self._plan(call, where)
        return plan is not None and all(
            f.width*plan.engine.item == _WIDE for f in plan.factors)

    def cycles(self, call: Call, where: Device) -> float:
        """Cycles of a call that it takes, roughly, by an engine of `PEAKS`."""
        found = self._found(call, where)
        assert found is not None
        plan, time = found
        peak, ends = PEAKS[plan.engine.name]
        return time*(call.shape[-1] + ends)/peak

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        plan = self._plan(call, where)
        assert plan is not None
        self._programs[plan].launch(
            where, call.stream, tiles_of(call, self._batch, plan.extents),
            self._text.arguments(call, self._text.operands), plan.shared)

    def _plan(self, call: Call, where: Device) -> Plan | None:
        """The one that is done first."""
        found = self._found(call, where)
        return None if found is None else found[0]

    def _found(self, call: Call, where: Device) -> tuple[Plan, float] | None:
        """`_choose`, which depends on no more than this, once."""
        return self._plans.find((layout_of(call), where.ordinal),
                                lambda: self._choose(call, where))

    def _choose(self, call: Call, where: Device) -> tuple[Plan, float] | None:
        """The plan done first, by the tiles of the busiest multiprocessor; its time."""
        return min(self._possible(call, where), key=itemgetter(1), default=None)

    def _possible(self, call: Call, where: Device) -> Iterator[tuple[Plan, float]]:
        """The plans that operands and device allow, and how long they take."""
        engine = self._engine
        assert engine is not None
        if where.arch >= (9, 0):
            engine = LATER.get(engine.name, engine)
        a, b = (self._factor(call, o, engine) for o in self._text.factors)
        if a is None or b is None or 0 in call.shape:
            return
        brought = _brought((a, b), engine)
        for shape in SHAPES.get(engine.name, ()):
            plan = Plan(engine, shape.units, shape.warps, shape.depth, shape.stages,
                        shape.blocks, (a, b), vector_of(self._text, call)).fitted()
            tiles = -(-tiles_of(call, self._batch, plan.extents) // where.processors)
            rate = shape.rate(brought, tiles)
            if rate and plan.shared <= where.shared_limit:
                yield plan, tiles*prod(plan.extents)/rate

    def _factor(self, call: Call, o: Operand, engine: Engine) -> Factor | None:
        """A factor's way to shared memory; None if there is none."""
        strides, loops = call.strides[o.at], (self._batch + o.at, self._batch + 2)
        own, k = (strides[x] for x in loops)
        along = k == 1 or (own != 1 and abs(k) < abs(own))
        inner = loops[1] if along else loops[0]
        if strides[inner] == 1 and not (along and engine.transposes):
            for size in _SIZES:
                width = size//engine.item
                if width > 1 and aligned(call, o, inner, width, padded=self._padded):
                    return Factor(along, width)
        taken = engine.item >= NARROWEST or self._loose
        return Factor(along, 1) if taken else None


def _brought(factors: tuple[Factor, Factor], engine: Engine) -> str:
    """Name the way of elements to shared memory, see `Shape.rate`."""
    sizes = [(f.width*engine.item, f) for f in factors]
    if any(size < NARROWEST for size, _ in sizes):
        return "loose"
    narrow = any(size < _WIDE and not (f.along and engine.transposes)
                 for size, f in sizes)
    return "narrow" if narrow else "whole"
