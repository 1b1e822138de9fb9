"""Products with k in `parts`, whose sums are added; then the epilogue.

The parts are a loop over a batch more of the same product; their sums are kept as they
are, and added in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from ....backend import Call, Launcher, Signature
from ....gpu.row_layout import sum_of
from ....scalar.ir.nodes import Block, Function
from ....scalar.typing.types import Typed
from ....specs import TypedContract
from ....support.loop_nests import dense_strides, stride_code
from ...runtime.driver import Device
from ..text import ContractText
from .epilogue import SumsLauncher
from .parts import Parts

__all__ = ["SplitLauncher"]


class SplitLauncher:
    """Products of few tiles with long sums of floats, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands, loops and functions.
    build
        Makes the launcher of a product: name, functions, signature.
    """

    def __init__(self, text: ContractText,
                 build: Callable[[str, TypedContract, Signature], Launcher]) -> None:
        self._text, self._build = text, build
        self._sums = SumsLauncher(text, f"{text.name}_parts", sum_of(text.kept))
        self._launchers: dict[Signature, Launcher] = {}

    def __call__(self, call: Call, where: Device, parts: Parts) -> None:
        """Launch the products, the sum and the epilogue on the call's stream."""
        result, item = call.shape[:-1], self._text.kept.itemsize
        size = -(-prod(result)*item // 256)*256
        with where.current(), where.workspace(
                size*parts.slots + self._sums.bytes(call), call.stream) as base:
            step = size//item
            self._multiply(call, parts, base, step)
            part = self._text.kept, base, (*dense_strides(result), step)
            self._sums(call, [part], parts.slots, range(len(result)),
                       base + size*parts.slots)

    def _multiply(self, call: Call, parts: Parts, base: int, step: int) -> None:
        """Each part's sums, to places of its own."""
        result = call.shape[:-1]
        dense = dense_strides(result)
        own = [s[:-1] for s in call.strides[:2]]
        along = [s[-1] for s in call.strides[:2]]
        pieces = [(0, parts.count, parts.size)]
        if parts.left:
            pieces.append((parts.count, 1, parts.left))
        for begin, count, size in pieces:
            pointers = [p + begin*parts.size*s*o.dtype.itemsize for p, s, o in zip(
                call.pointers, along, self._text.factors, strict=False)]
            strides = [(parts.size*s, *o, s) for s, o in zip(along, own, strict=True)]
            self._product(result)(replace(
                call, shape=(count, *result, size), scalars=(),
                pointers=(*pointers, base + begin*step*self._text.kept.itemsize),
                strides=(*strides, (step, *dense, 0))))

    def _product(self, result: tuple[int, ...]) -> Launcher:
        """The launcher of the parts' products, which have no epilogue."""
        text, kept = self._text, self._text.kept
        ends = "".join(map(stride_code, dense_strides(result)[-2:]))
        signature = Signature(
            tuple(o.dtype for o in text.factors), (kept,),
            (text.ranks[0] + 1, 1, 1, 1), (*text.signature.inner[:2], ends))
        if signature not in self._launchers:
            typed = replace(text.typed, epilogue=_identity(kept), kinds=())
            self._launchers[signature] = self._build(
                f"{text.name}_part", typed, signature)
        return self._launchers[signature]


def _identity(dtype: np.dtype) -> Typed:
    return Typed(Function("identity", ("total",), Block((), ("total",))),
                 {"total": dtype}, (dtype,))
