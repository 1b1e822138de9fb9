"""Contract on Hopper's tensor cores: which products it takes, and their tensor maps."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from math import prod

from ..backend import Call, Signature
from .contract_text import ContractText
from .contract_wgmma import DEPTH, ROWS, WIDTH, Hopper, WgmmaText
from .driver import Device, check, cu
from .launch import Program
from .source import Operand

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
        batch, m, n, k = signature.ranks
        a, b = text.factors
        self._batch = batch
        self._possible = (
            a.dtype == b.dtype and a.dtype.name in ("float16", "bfloat16")
            and text.typed.prologues == (None, None) and text.kept.name == "float32"
            and (m, n, k) == (1, 1, 1) and batch <= _BATCH
            and "1" in a.code and "1" in b.code)

    def takes(self, call: Call) -> bool:
        """Whether TMA can bring the operands of this call."""
        return self._possible and 0 not in call.shape and all(
            self._reachable(call, o.at, along) for o, along in zip(
                self._text.factors, self._along(call), strict=True))

    def _loops(self, which: int) -> tuple[int, int]:
        """The numbers of the loops over the operand's own dimension, and over k."""
        return self._batch + which, self._batch + 2

    def _along(self, call: Call) -> tuple[bool, bool]:
        """Whether k is the dimension with stride 1, for A and B."""
        a, b = (call.strides[w][self._loops(w)[1]] == 1 for w in (0, 1))
        return a, b

    def _reachable(self, call: Call, which: int, along: bool) -> bool:
        own, k = self._loops(which)
        inner, outer = (k, own) if along else (own, k)
        strides = call.strides[which]
        if strides[inner] != 1 or call.pointers[which] % _ALIGN:
            return False
        steps = [strides[outer], *(s for s, n in zip(
            strides[:self._batch], call.shape, strict=False) if n > 1 and s)]
        return all(s > 0 and 2*s % _ALIGN == 0 and 2*s < _STRIDE for s in steps) and \
            max(call.shape) < _EXTENT//2

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        plan = self._plan(call, where)
        program = self._programs.get(plan)
        if program is None:
            program = self._programs[plan] = Program(
                WgmmaText(self._text, plan).kernel())
        others = [o.at for o in (*self._text.extras, *self._text.outputs)]
        values = (self._map(call, 0, plan), self._map(call, 1, plan),
                  *(call.pointers[at] for at in others), *call.shape,
                  *(s for at in others for s in call.strides[at]), *call.scalars)
        blocks = min(self._tiles(call, plan.columns), where.processors)
        program.launch(where, call.stream, blocks, values, plan.shared)

    def _tiles(self, call: Call, columns: int) -> int:
        m, n = call.shape[self._batch:self._batch + 2]
        return prod(call.shape[:self._batch]) * -(-m // ROWS) * -(-n // columns)

    def _plan(self, call: Call, where: Device) -> Hopper:
        columns = 256 if self._tiles(call, 256) >= where.processors else 128
        varying = [tuple(k for k in range(self._batch)
                         if call.strides[w][k] and call.shape[k] > 1) for w in (0, 1)]
        return Hopper(columns, self._along(call), (varying[0], varying[1]),
                      self._vector(call))

    def _vector(self, call: Call) -> bool:
        """Whether the epilogue can move eight neighbours at once."""
        n = self._batch + 1
        return call.shape[n] % WIDTH == 0 and all(
            self._aligned(call, o, n) for o in self._text.outputs) and all(
            o.code[1] == "0" or self._aligned(call, o, n) for o in self._text.extras)

    @staticmethod
    def _aligned(call: Call, o: Operand, n: int) -> bool:
        strides = call.strides[o.at]
        others = (*strides[:n], *strides[n + 1:])
        return strides[n] == 1 and call.pointers[o.at] % _ALIGN == 0 and all(
            s*o.dtype.itemsize % _ALIGN == 0 for s in others)

    def _map(self, call: Call, which: int, plan: Hopper) -> bytes:
        own, k = self._loops(which)
        along, strides = plan.along[which], call.strides[which]
        inner, outer = (k, own) if along else (own, k)
        loops = (inner, outer, *reversed(plan.batch[which]))
        edge = (ROWS, plan.columns)[which]
        box = (DEPTH, edge) if along else (64, DEPTH)
        return _tensor_map(self._text.factors[which].dtype.name, call.pointers[which],
                           tuple(call.shape[x] for x in loops),
                           tuple(2*strides[x] for x in loops[1:]),
                           (*box, *(1,)*len(plan.batch[which])))


@lru_cache(maxsize=1024)
def _tensor_map(dtype: str, pointer: int, extents: tuple[int, ...],
                strides: tuple[int, ...], box: tuple[int, ...]) -> bytes:
    """What TMA needs to know of an array: nothing but these arguments, so it is kept.

    Elements outside are zeros.  `strides` in bytes, from the second dimension on.
    """
    driver, rank = cu(), len(extents)
    kinds = driver.CUtensorMapDataType
    kind = kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT16 if dtype == "float16" \
        else kinds.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    found = check(driver.cuTensorMapEncodeTiled(
        kind, rank, pointer, [driver.cuuint64_t(n) for n in extents],
        [driver.cuuint64_t(s) for s in strides], [driver.cuuint32_t(n) for n in box],
        [driver.cuuint32_t(1)]*rank,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    return ctypes.string_at(int(found.getPtr()), 128)
