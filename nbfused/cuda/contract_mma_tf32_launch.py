"""Contract in TF32 on Hopper: which products it takes, and their tensor maps."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from math import prod

from ..backend import Call, Signature
from .contract_mma_plan import ENGINES, Factor, Plan
from .contract_mma_results import vector_of
from .contract_mma_tf32 import DEPTH, ROWS, Tf32Text, shared_of
from .contract_text import ContractText
from .driver import Device, check, cu
from .launch import Program

__all__ = ["Tf32Launcher"]

#: What TMA can count, per dimension and bytes between elements of one.
_EXTENT, _STRIDE = 1 << 31, 1 << 40
#: Loops of a batch that a tensor map has room for.
_BATCH = 3
_STAGES = 4

Key = tuple[Plan, tuple[tuple[int, ...], tuple[int, ...]]]


class Tf32Launcher:
    """Products of float32 that may be rounded, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands and functions.
    signature
        Dtypes and loops.
    """

    def __init__(self, text: ContractText, signature: Signature) -> None:
        self._text, self._batch = text, signature.ranks[0]
        self._programs: dict[Key, Program] = {}
        self._possible = (
            text.typed.precision == "tf32" and text.kept.name == "float32"
            and {o.dtype.name for o in text.factors} == {"float32"}
            and text.typed.prologues == (None, None)
            and signature.ranks[1:] == (1, 1, 1) and self._batch <= _BATCH)

    def takes(self, call: Call, where: Device) -> bool:
        """Whether TMA can bring the factors, one of them with k innermost."""
        return (self._possible and where.arch[0] == 9 and 0 not in call.shape
                and any(self._along(call, w) for w in (0, 1))
                and all(self._reachable(call, w) for w in (0, 1)))

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        plan = self._plan(call)
        a, b = (tuple(k for k in range(self._batch)
                      if call.strides[w][k] and call.shape[k] > 1) for w in (0, 1))
        program = self._programs.get((plan, (a, b)))
        if program is None:
            program = self._programs[plan, (a, b)] = Program(
                Tf32Text(self._text, plan, (a, b)).kernel())
        others = [o.at for o in (*self._text.extras, *self._text.outputs)]
        values = (self._map(call, 0, a, plan), self._map(call, 1, b, plan),
                  *(call.pointers[at] for at in others), *call.shape,
                  *(s for at in others for s in call.strides[at]), *call.scalars)
        program.launch(where, call.stream, self._tiles(call, plan), values,
                       shared_of(plan))

    def _tiles(self, call: Call, plan: Plan) -> int:
        m, n = call.shape[self._batch:self._batch + 2]
        rows, columns = plan.extents
        return prod(call.shape[:self._batch]) * -(-m // rows) * -(-n // columns)

    def _plan(self, call: Call) -> Plan:
        """The one of fewer tiles: which factor is read in shared memory."""
        a, b = (self._along(call, w) for w in (0, 1))
        factors, vector = (Factor(a, 4), Factor(b, 4)), vector_of(self._text, call)
        found = [Plan(ENGINES[name], units, warps, DEPTH, _STAGES, 1, factors, vector)
                 for name, units, warps, possible in (
                     ("tf32b", (4, 1), (1, 8), a), ("tf32a", (1, 1), (8, 1), b))
                 if possible]
        return min(found, key=lambda plan: self._tiles(call, plan))

    def _loops(self, which: int) -> tuple[int, int]:
        """The numbers of the loops over the factor's own dimension, and over k."""
        return self._batch + which, self._batch + 2

    def _along(self, call: Call, which: int) -> bool:
        return call.strides[which][self._batch + 2] == 1

    def _reachable(self, call: Call, which: int) -> bool:
        own, k = self._loops(which)
        inner, outer = (k, own) if self._along(call, which) else (own, k)
        strides = call.strides[which]
        steps = [strides[outer], *(s for s, n in zip(
            strides[:self._batch], call.shape, strict=False) if n > 1 and s)]
        return strides[inner] == 1 and call.pointers[which] % 16 == 0 and all(
            s > 0 and s % 4 == 0 and 4*s < _STRIDE for s in steps) and \
            max(call.shape) < _EXTENT

    def _map(self, call: Call, which: int, batch: tuple[int, ...],
             plan: Plan) -> bytes:
        own, k = self._loops(which)
        along, strides = plan.factors[which].along, call.strides[which]
        loops = (*((k, own) if along else (own, k)), *reversed(batch))
        whole = (which == 1) == (plan.engine.name == "tf32a")
        box = (DEPTH, ROWS[int(whole)] if along else DEPTH, *(1,)*len(batch))
        return tensor_map(call.pointers[which], tuple(call.shape[x] for x in loops),
                          tuple(4*strides[x] for x in loops[1:]), box)


@lru_cache(maxsize=1024)
def tensor_map(pointer: int, extents: tuple[int, ...], strides: tuple[int, ...],
               box: tuple[int, ...]) -> bytes:
    """What TMA needs to know of an array that it rounds to TF32 on the way.

    Nothing but these arguments, so it is kept.  Elements outside are zeros.  `strides`
    in bytes, from the second dimension on.
    """
    driver, rank = cu(), len(extents)
    found = check(driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, rank, pointer,
        [driver.cuuint64_t(n) for n in extents],
        [driver.cuuint64_t(s) for s in strides], [driver.cuuint32_t(n) for n in box],
        [driver.cuuint32_t(1)]*rank,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    return ctypes.string_at(int(found.getPtr()), 128)
