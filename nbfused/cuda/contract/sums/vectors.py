"""Products of few rows, or of few columns, as reductions: a matrix times a vector.

Nothing is used often enough to be kept in shared memory, and the larger factor's bytes
are the time; `Reduce` has kernels that read it by whole lines, in chunks along k where
results are few.  The smaller factor stays in the caches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....backend import Call
from ....gpu.row_layout import sum_of
from ....scalar.ir.nodes import Block, Function, Let
from ....scalar.typing.types import Typed
from ....specs import TypedReduce
from ...runtime.driver import Device
from ..calls import is_plain
from ..text import ContractText
from .epilogue import SumsLauncher
from .row_blocks import ROWS, RowBlocks

__all__ = ["VectorLauncher"]

#: Rows or columns up to which the larger factor, read from the caches once for each, is
#: faster so than in a tile; and its bytes at most, where these do not follow one
#: another along k: 4×12526 by 12526×1669 took 1.3 times as long so,
#: benchmarks/notes/products.md#vectors.
FEW, LARGE = 4, 1 << 23
#: Its extent along k at least, where there are several; and where the others are so
#: many that tiles fill the device.
LONG, LONG_OF_MANY, MANY = 32, 1024, 3 << 11
#: Bytes of the larger factor from which several of its rows share what is read of the
#: other one, and its extent along k: benchmarks/notes/products.md#vectors.
WORTH, LONG_OF_BLOCKS = 1 << 23, 64


class VectorLauncher:
    """Products of floats without prologues, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands, loops and functions.
    """

    def __init__(self, text: ContractText) -> None:
        self._text = text
        #: Whether it takes any call.
        self.possible = is_plain(text) and set(text.typed.kinds) <= {
            "element", "scalar"}
        self._blocks: dict[tuple[int, int], RowBlocks] = {}
        self._sums = SumsLauncher(text, f"{text.name}_vectors", _products(text.kept))

    def takes(self, call: Call) -> bool:
        """Whether rows or columns are few, and sums long."""
        *batch, m, n, k = call.shape
        few = min(m, n)
        if not self.possible or not 0 < few <= FEW or 0 in batch:
            return False
        if few == 1:
            return k > 1
        if self._in_blocks(call):
            return True
        many = max(m, n)
        size = many*k*self._text.factors[0].dtype.itemsize
        return k >= (LONG_OF_MANY if many > MANY else LONG) and (
            self._along(call) or size <= LARGE)

    def _larger(self, call: Call) -> int:
        """The number of the larger factor."""
        return int(call.shape[-2] > call.shape[-3])

    def _along(self, call: Call) -> bool:
        """Whether the larger factor's neighbours along k are nearer than others."""
        which = self._larger(call)
        *_, m, n, k = call.strides[which]
        return abs(k) < abs(n if which else m)

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        if self._in_blocks(call):
            larger, loop = self._larger(call), len(call.shape) - 3 + self._larger(call)
            key = larger, min(call.shape[-3:-1])
            if key not in self._blocks:
                self._blocks[key] = RowBlocks(self._text, *key)
            whole = call.shape[loop] // ROWS*ROWS
            self._blocks[key](_some(call, loop, 0, whole, self._text), where)
            call = _some(call, loop, whole, call.shape[loop], self._text)
        if 0 not in call.shape:
            self._one_by_one(call, where)

    def _in_blocks(self, call: Call) -> bool:
        """Whether several rows of the larger factor share what is read of the other."""
        *_, m, n, k = call.shape
        few, many = sorted((m, n))
        return 1 < few <= FEW and many >= ROWS and k >= LONG_OF_BLOCKS and \
            self._along(call) and many*k*self._text.factors[0].dtype.itemsize >= WORTH

    def _one_by_one(self, call: Call, where: Device) -> None:
        factors = [(o.dtype, call.pointers[o.at], call.strides[o.at])
                   for o in self._text.factors]
        # Lanes of a group go along k, and groups side by side read the same; or lanes
        # go across: the larger factor's inner loop is the inner one.
        k = len(call.shape) - 1
        last = k - 1 if self._along(call) == (self._larger(call) == 0) else k - 2
        order = (*range(k - 2), 2*k - 3 - last, last)
        if self._sums.direct:
            self._sums(call, factors, call.shape[-1], order, 0)
            return
        with where.current(), where.workspace(self._sums.bytes(call),
                                              call.stream) as base:
            self._sums(call, factors, call.shape[-1], order, base)


def _some(call: Call, loop: int, first: int, end: int, text: ContractText) -> Call:
    """The part of a product from one step of a loop to before another."""
    shape = tuple([end - first if k == loop else n for k, n in enumerate(call.shape)])
    pointers = tuple([
        p + first*call.strides[o.at][loop]*o.dtype.itemsize
        for o, p in zip(text.operands, call.pointers, strict=True)])
    return replace(call, shape=shape, pointers=pointers)


def _products(kept: np.dtype) -> TypedReduce:
    """The sum of products, in the dtype that sums are kept in."""
    product = Typed(
        Function("product", ("a", "b"), Block((Let(("y",), "mul", ("a", "b")),),
                                              ("y",))),
        dict.fromkeys("aby", kept), (kept,))
    return replace(sum_of(kept), element=product, kinds=("element", "element"))
