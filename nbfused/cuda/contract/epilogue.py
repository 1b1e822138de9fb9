"""The epilogue as a launch of its own, on sums that lie in a workspace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...backend import Call, Launcher, Signature
from ...specs import TypedMap
from ...support.loop_nests import Group, canonical, dense_strides, flatten, stride_code
from ..map.launcher import MapLauncher
from .text import ContractText

__all__ = ["EpilogueLauncher"]


class EpilogueLauncher:
    """A map of the sums of a product, which are dense, and of the epilogue's extras.

    Parameters
    ----------
    text
        Operands, loops and functions: one m, n and k loop each.
    """

    def __init__(self, text: ContractText) -> None:
        self._text = text
        self._launchers: dict[Signature, Launcher] = {}

    def __call__(self, call: Call, sums: int) -> None:
        """Launch on the stream of the product's call; `sums` is their address."""
        text = self._text
        operands = [(text.kept, sums, dense_strides(call.shape[:-1])), *(
            (o.dtype, call.pointers[o.at], call.strides[o.at][:-1])
            for o in text.others)]
        group, moved = canonical(Group(
            call.shape[:-1], tuple(s for _, _, s in operands), (1,)*len(operands)))
        nest = flatten([group], [moved])
        function, kinds = text.typed.epilogue, ("element", *text.typed.kinds)
        extras = iter(text.extras)
        types = tuple(next(extras).dtype if k == "element" else function.dtypes[p]
                      for p, k in zip(function.function.params[1:], kinds[1:],
                                      strict=True))
        signature = Signature((text.kept, *types),
                              tuple(np.dtype(o.dtype) for o in text.outputs),
                              nest.ranks, tuple(stride_code(s[-1])
                                                for s in nest.strides))
        if signature not in self._launchers:
            self._launchers[signature] = MapLauncher(
                f"{text.name}_epilogue", TypedMap(function, kinds), signature)
        self._launchers[signature](replace(
            call, shape=nest.shape, strides=nest.strides, pointers=tuple(
                p + at*d.itemsize for (d, p, _), at in zip(
                    operands, nest.offsets, strict=True))))
