"""Contract between wgmma and the general kernel: which products it takes, and how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ..backend import Call, Signature
from .contract_mma import MmaText
from .contract_mma_plan import ENGINES, Engine, Factor, Plan
from .contract_mma_results import width_of_results
from .contract_text import ContractText
from .driver import Device
from .launch import Program
from .source import Operand

__all__ = ["MmaLauncher"]

#: Bytes of the widest copy and of the narrowest.
_WIDE, _NARROW = 16, 4


@dataclass(frozen=True)
class Shape:
    """Extents that were found to go together, and how well: the share of the peak."""

    units: tuple[int, int]
    warps: tuple[int, int]
    depth: int
    stages: int
    blocks: int
    share: float


_TENSOR = (Shape((4, 4), (2, 4), 32, 4, 1, 1.0), Shape((4, 4), (2, 2), 32, 4, 2, 1.0),
           Shape((2, 2), (2, 2), 32, 4, 4, 0.6))
SHAPES = {
    "fma": (Shape((2, 4), (2, 4), 8, 4, 1, 1.0), Shape((2, 2), (2, 4), 8, 4, 2, 0.9),
            Shape((1, 2), (2, 2), 16, 4, 4, 0.7)),
    "f16": _TENSOR, "bf16": _TENSOR,
    "tf32": (Shape((4, 4), (2, 4), 16, 4, 1, 1.0),
             Shape((4, 4), (2, 2), 16, 4, 2, 1.0),
             Shape((2, 2), (2, 2), 16, 4, 4, 0.6)),
    "tf32a": (Shape((1, 1), (8, 1), 32, 4, 1, 2.0),),
    "tf32b": (Shape((4, 1), (1, 8), 32, 4, 1, 2.0),),
    "f64": (Shape((4, 4), (2, 4), 16, 4, 1, 1.0), Shape((4, 4), (2, 2), 16, 4, 2, 0.9)),
}


class MmaLauncher:
    """Products of two factors of one float dtype, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands and functions.
    signature
        Dtypes and loops.
    padded
        Whether rows of the factors end with zeros where they are no whole accesses.
    """

    def __init__(self, text: ContractText, signature: Signature, *,
                 padded: bool = False) -> None:
        self._text, self._padded = text, padded
        self._programs: dict[Plan, Program] = {}
        self._batch = signature.ranks[0]
        self._engine = _engine(text, signature)

    def takes(self, call: Call, where: Device) -> bool:
        """Whether copies past the registers can bring the operands of this call."""
        return (self._engine is not None and where.arch >= (8, 0)
                and 0 not in call.shape and all(
                    self._factor(call, o, self._engine) for o in self._text.factors)
                and next(self._plans(call, where), None) is not None)

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        plan = self._plan(call, where)
        program = self._programs.get(plan)
        if program is None:
            program = self._programs[plan] = Program(MmaText(self._text, plan).kernel())
        values = (*call.pointers, *call.shape,
                  *(s for strides in call.strides for s in strides), *call.scalars)
        program.launch(where, call.stream, self._tiles(call, plan), values, plan.shared)

    def _tiles(self, call: Call, plan: Plan) -> int:
        m, n = call.shape[self._batch:self._batch + 2]
        rows, columns = plan.extents
        return prod(call.shape[:self._batch]) * -(-m // rows) * -(-n // columns)

    def _plan(self, call: Call, where: Device) -> Plan:
        """The one that is done first: whole rounds of tiles, by what each takes."""
        found = list(self._plans(call, where))
        shares = dict(found)

        def time(plan: Plan) -> float:
            rounds = -(-self._tiles(call, plan) // (where.processors*plan.blocks))
            return rounds*plan.blocks*prod(plan.extents)/shares[plan]

        return min(shares, key=time)

    def _plans(self, call: Call, where: Device) -> Iterator[tuple[Plan, float]]:
        """Those that the device has the memory for, and their shares."""
        engine = self._engine
        assert engine is not None
        a, b = (self._factor(call, o, engine) for o in self._text.factors)
        assert a is not None
        assert b is not None
        engines = [engine]
        if engine.name == "tf32" and where.arch[0] == 9:
            # What wgmma has in shared memory must have k as its inner dimension.
            engines += [ENGINES[name] for name, factor in (("tf32a", b), ("tf32b", a))
                        if factor.along and factor.width > 1]
        for e in engines:
            for shape in SHAPES.get(e.name, ()):
                plan = Plan(e, shape.units, shape.warps, shape.depth, shape.stages,
                            shape.blocks, (a, b), self._vector(call))
                if plan.shared <= where.shared_limit:
                    yield plan, shape.share

    # --- accesses

    def _factor(self, call: Call, o: Operand, engine: Engine) -> Factor | None:
        """How a factor comes to shared memory; None if no copy can bring it."""
        strides, loops = call.strides[o.at], (self._batch + o.at, self._batch + 2)
        own, k = (strides[x] for x in loops)
        along = k == 1 or (own != 1 and abs(k) < abs(own))
        inner = loops[1] if along else loops[0]
        if strides[inner] == 1 and not (along and engine.transposes):
            for size in (_WIDE, _NARROW):
                width = size//engine.item
                if width > 1 and self._aligned(call, o, inner, width, self._padded):
                    return Factor(along, width)
        return Factor(along, 1) if engine.item >= _NARROW else None

    def _vector(self, call: Call) -> bool:
        """Whether the epilogue can move whole accesses."""
        n, width = self._batch + 1, width_of_results(self._text)
        return all(self._aligned(call, o, n, width) for o in self._text.outputs) and \
            all(o.code[1] == "0" or self._aligned(call, o, n, width)
                for o in self._text.extras)

    @staticmethod
    def _aligned(call: Call, o: Operand, inner: int, width: int,
                 padded: bool = False) -> bool:
        """Whether `width` neighbours along a loop are whole, aligned accesses."""
        strides, size = call.strides[o.at], min(width*o.dtype.itemsize, _WIDE)
        others = (*strides[:inner], *strides[inner + 1:])
        return strides[inner] == 1 and (
            padded or call.shape[inner] % width == 0) and call.pointers[
                o.at] % size == 0 and all(s*o.dtype.itemsize % size == 0 for s in others)


def _engine(text: ContractText, signature: Signature) -> Engine | None:
    """What multiplies; None for products of other kinds."""
    a, b = text.factors
    if (a.dtype != b.dtype or text.typed.prologues != (None, None)
            or signature.ranks[1:] != (1, 1, 1)):
        return None
    float32 = "tf32" if text.typed.precision == "tf32" else "fma"
    name = {"float16": "f16", "bfloat16": "bf16", "float32": float32,
            "float64": "f64"}.get(a.dtype.name)
    if name is None or text.kept.name != ENGINES[name].kept:
        return None
    return ENGINES[name]
