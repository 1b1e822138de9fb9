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
#: faster so than in a tile; and its extent along k at least, where there are several.
#: Estimates: benchmarks/notes/products.md#vectors.
FEW, LONG = 4, 32


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
        return self.possible and 0 < few <= FEW and k >= (2 if few == 1 else LONG) \
            and 0 not in batch

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
        ends, groups, moved = len(call.shape) - 1, [], []
        for axes in (slice(0, ends), slice(ends, None)):
            group, offsets = canonical(Group(
                call.shape[axes], tuple(s[axes] for _, _, s in operands),
                (1, 1, *[int(axes.start == 0)]*len(outputs))))
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
