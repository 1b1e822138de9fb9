"""Products of few rows, or of few columns, as reductions: a matrix times a vector.

Nothing is used often enough to be kept in shared memory, and the larger factor's bytes
are the time; `Reduce` has kernels that read it by whole lines, in chunks along k where
results are few.  The smaller factor stays in the caches.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from ...backend import Call, Launcher, Signature
from ...gpu.row_layout import sum_of
from ...scalar.ir.nodes import Block, Function, Let
from ...scalar.typing.promotion import compute_dtype
from ...scalar.typing.types import Typed
from ...specs import TypedReduce
from ...support.loop_nests import Group, canonical, dense_strides, flatten, stride_code
from ..reduce.launcher import ReduceLauncher
from ..runtime.driver import Device
from .epilogue import EpilogueLauncher
from .text import ContractText

__all__ = ["VectorLauncher"]

#: Rows or columns up to which the larger factor, read from the caches once for each, is
#: faster so than in a tile; its extent along k at least, where there are several; and
#: its bytes at most, where these do not follow one another: 4×12526 by 12526×1669 took
#: 1.3 times as long so, benchmarks/notes/products.md#vectors.
FEW, LONG, LARGE = 4, 32, 1 << 23


class VectorLauncher:
    """Products of floats without prologues, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands, loops and functions.
    """

    def __init__(self, text: ContractText) -> None:
        self._text, typed = text, text.typed
        #: Whether it takes any call.
        self.possible = (
            text.ranks[1:] == (1, 1, 1) and typed.prologues == (None, None)
            and typed.accumulator.kind == "f" and set(typed.kinds) <= {
                "element", "scalar"} and all(
                compute_dtype(o.dtype) == text.kept for o in text.factors))
        #: Nothing but sums goes into the results: the reduction writes them.
        self._direct = not typed.kinds
        self._epilogue = EpilogueLauncher(text)
        self._launchers: dict[Signature, Launcher] = {}

    def takes(self, call: Call) -> bool:
        """Whether rows or columns are few, and sums long."""
        *batch, m, n, k = call.shape
        few = min(m, n)
        if not self.possible or not 0 < few <= FEW or 0 in batch:
            return False
        if few == 1:
            return k > 1
        size = max(m, n)*k*self._text.factors[0].dtype.itemsize
        return k >= LONG and (self._along(call) or size <= LARGE)

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
        text, result = self._text, call.shape[:-1]
        if self._direct:
            outputs = [(o.dtype, call.pointers[o.at], call.strides[o.at])
                       for o in text.outputs]
            self._reduce(call, outputs)
            return
        size = prod(result)*text.kept.itemsize
        with where.current(), where.workspace(size, call.stream) as base:
            self._reduce(call, [(text.kept, base, (*dense_strides(result), 0))])
            self._epilogue(call, base)

    def _reduce(self, call: Call,
                outputs: list[tuple[np.dtype, int, tuple[int, ...]]]) -> None:
        """The sums to `outputs`: a dtype, an address and strides for each."""
        operands = [*((o.dtype, call.pointers[o.at], call.strides[o.at])
                      for o in self._text.factors), *outputs]
        k, groups, moved = len(call.shape) - 1, [], []
        # Lanes of a group go along k, and groups side by side read the same; or lanes
        # go across: the larger factor's inner loop is the inner one.
        last = k - 2 if self._along(call) != (self._larger(call) == 0) else k - 1
        kept = (*range(k - 2), 2*k - 3 - last, last)
        for axes, out in ((kept, 1), ((k,), 0)):
            group, offsets = canonical(Group(
                tuple(call.shape[x] for x in axes),
                tuple(tuple(s[x] for x in axes) for _, _, s in operands),
                (1, 1, *[out]*len(outputs)), True))
            groups.append(group)
            moved.append(offsets)
        nest = flatten(groups, moved)
        signature = Signature(
            tuple(o.dtype for o in self._text.factors), tuple(d for d, _, _ in outputs),
            nest.ranks, tuple(stride_code(s[-1]) for s in nest.strides))
        if signature not in self._launchers:
            self._launchers[signature] = ReduceLauncher(
                f"{self._text.name}_vectors", self._typed(), signature)
        self._launchers[signature](replace(
            call, shape=nest.shape, strides=nest.strides, scalars=(), pointers=tuple(
                p + at*d.itemsize for (d, p, _), at in zip(
                    operands, nest.offsets, strict=True))))

    def _typed(self) -> TypedReduce:
        """The sum of products, in the dtype that sums are kept in."""
        kept = self._text.kept
        product = Typed(
            Function("product", ("a", "b"), Block((Let(("y",), "mul", ("a", "b")),),
                                                  ("y",))),
            dict.fromkeys("aby", kept), (kept,))
        typed = replace(sum_of(kept), element=product, kinds=("element", "element"))
        return replace(typed, post=self._text.typed.epilogue) if self._direct else typed
