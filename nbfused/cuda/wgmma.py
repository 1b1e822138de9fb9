"""Contract on Hopper's tensor cores: which products it takes, and their tensor maps."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from ..backend import Call, Signature
from .contract_text import ContractText
from .contract_wgmma import WgmmaText
from .driver import Device, check, cu
from .launch import Program
from .source import Operand
from .tune import Tuner, kernel_text, layout_of
from .wgmma_plan import LINE, MOST_OUTPUT, plans, tiles
from .wgmma_tiling import DEPTH, Hopper

__all__ = ["WgmmaLauncher"]

#: Bytes of which TMA wants addresses and strides to be multiples.
_ALIGN = 16
#: What TMA can count, per dimension and between elements of one.
_EXTENT, _STRIDE = 1 << 32, 1 << 40
#: Loops of a batch that a tensor map has room for.
_BATCH = 3


class WgmmaLauncher:
    """Products of float16 or bfloat16 without prologues, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands and functions.
    signature
        Dtypes and loops.
    """

    def __init__(self, text: ContractText, signature: Signature) -> None:
        self._text = text
        self._programs: dict[Hopper, Program] = {}
        self._tuner = Tuner(
            kernel_text("wgmma", text.name, signature),
            lambda call, where: plans(self._text, call, where.processors),
            lambda plan, where: self._program(plan).function(where),
            lambda plan, call, where: self.run(call, where, plan))
        batch, m, n, k = signature.ranks
        a, b = text.factors
        self._batch = batch
        self._possible = (
            a.dtype == b.dtype and a.dtype.name in ("float16", "bfloat16")
            and text.typed.prologues == (None, None) and text.kept.name == "float32"
            and (m, n, k) == (1, 1, 1) and batch <= _BATCH
            and sum(o.dtype.itemsize for o in text.outputs) <= MOST_OUTPUT)

    def takes(self, call: Call) -> bool:
        """Whether TMA can bring the factors of this call."""
        if not self._possible or 0 in call.shape or max(call.shape) >= _EXTENT//2:
            return False
        return all(self._reachable(call, which) for which in (0, 1))

    def _loops(self, which: int) -> tuple[int, int]:
        """The numbers of the loops over the operand's own dimension, and over k."""
        return self._batch + which, self._batch + 2

    def _reachable(self, call: Call, which: int) -> bool:
        own, k = self._loops(which)
        strides = call.strides[which]
        inner, outer = (k, own) if strides[k] == 1 else (own, k)
        if strides[inner] != 1 or call.pointers[which] % _ALIGN:
            return False
        steps = [strides[outer], *(s for s, n in zip(
            strides[:self._batch], call.shape, strict=False) if n > 1 and s)]
        return all(s > 0 and 2*s % _ALIGN == 0 and 2*s < _STRIDE for s in steps)

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        plan = self._tuner(layout_of(call), call, where, len(self._text.outputs))
        self.run(call, where, plan)

    def _program(self, plan: Hopper) -> Program:
        program = self._programs.get(plan)
        if program is None:
            program = self._programs[plan] = Program(
                WgmmaText(self._text, plan).kernel())
        return program

    def run(self, call: Call, where: Device, plan: Hopper) -> None:
        """Launch as `plan` says; it is one of `plans`."""
        others = [o.at for o in (*self._text.extras, *self._text.outputs)]
        values = (self._map(call, 0, plan), self._map(call, 1, plan),
                  *(self._target(call, o, plan) for o, how in zip(
                      self._text.outputs, plan.stores, strict=True) if how == "tile"),
                  *(self._box(call, k, plan) for k, how in enumerate(plan.loads)
                    if how == "box"),
                  *(call.pointers[at] for at in others), *call.shape,
                  *(s for at in others for s in call.strides[at]), *call.scalars)
        cluster = plan.tiling.cluster
        blocks = cluster*min(tiles(call, self._batch, plan.tiling),
                             where.processors//cluster)
        self._program(plan).launch(where, call.stream, blocks, values, plan.shared)

    def _map(self, call: Call, which: int, plan: Hopper) -> bytes:
        """Of a factor: boxes of 64 along its inner dimension."""
        own, k = self._loops(which)
        along, strides = plan.along[which], call.strides[which]
        inner, outer = (k, own) if along else (own, k)
        loops = (inner, outer, *reversed(plan.batch[which]))
        edge = (plan.brought, plan.tiling.columns//plan.tiling.cluster)[which]
        box = (DEPTH, edge) if along else (64, DEPTH)
        return _tensor_map(self._text.factors[which].dtype.name, call.pointers[which],
                           tuple(call.shape[x] for x in loops),
                           tuple(2*strides[x] for x in loops[1:]),
                           (*box, *(1,)*len(plan.batch[which])))

    def _target(self, call: Call, o: Operand, plan: Hopper) -> bytes:
        """Of an output: boxes as large as a slab."""
        return self._result_map(call, o, plan.batch[2], 16)

    def _box(self, call: Call, k: int, plan: Hopper) -> bytes:
        """Of extra `k`: boxes as high as a part."""
        return self._result_map(call, self._text.extras[k], plan.batch[3 + k], 64)

    def _result_map(self, call: Call, o: Operand, batch: tuple[int, ...],
                    rows: int) -> bytes:
        """Of what is laid out as the result: boxes of 128 bytes and so many rows."""
        m, n = self._batch, self._batch + 1
        item, strides = o.dtype.itemsize, call.strides[o.at]
        down = strides[m] if call.shape[m] > 1 else _ALIGN*call.shape[n]
        loops = tuple(reversed(batch))
        return _tensor_map(o.dtype.name, call.pointers[o.at],
                           tuple(call.shape[x] for x in (n, m, *loops)),
                           (item*down, *(item*strides[x] for x in loops)),
                           (128//item, rows, *(1,)*len(loops)))


@lru_cache(maxsize=1024)
def _tensor_map(dtype: str, pointer: int, extents: tuple[int, ...],
                strides: tuple[int, ...], box: tuple[int, ...],
                swizzle: str = "128B") -> bytes:
    """What TMA needs to know of an array: nothing but these arguments, so it is kept.

    Elements outside are zeros.  `strides` in bytes, from the second dimension on.
    """
    driver, rank = cu(), len(extents)
    kinds, promotions = driver.CUtensorMapDataType, driver.CUtensorMapL2promotion
    kind = getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{dtype.upper()}")
    # Boxes across lines of the L2 cache ask for less if they do not ask for pairs.
    whole = not any(x % LINE for x in (pointer, *strides))
    promotion = promotions.CU_TENSOR_MAP_L2_PROMOTION_L2_256B if whole else \
        promotions.CU_TENSOR_MAP_L2_PROMOTION_L2_128B
    found = check(driver.cuTensorMapEncodeTiled(
        kind, rank, pointer, [driver.cuuint64_t(n) for n in extents],
        [driver.cuuint64_t(s) for s in strides], [driver.cuuint32_t(n) for n in box],
        [driver.cuuint32_t(1)]*rank,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        promotion,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    return ctypes.string_at(int(found.getPtr()), 128)
