"""Sums and epilogues of products as launches of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ....backend import Call, Launcher, Signature
from ....specs import TypedMap, TypedReduce
from ....support.loop_nests import Group, canonical, dense_strides, flatten, stride_code
from ...map.of_arrays import MapOfArrays
from ...reduce.launcher import ReduceLauncher
from ..text import ContractText

__all__ = ["EpilogueLauncher", "SumsLauncher"]

#: An array's dtype, its address, and its strides over all loops.
Array = tuple[np.dtype, int, tuple[int, ...]]


class SumsLauncher:
    """A reduction to a product's sums, and its epilogue.

    An epilogue without extras and numbers is part of the reduction.

    Parameters
    ----------
    text
        Operands, loops and functions: one m, n and k loop each.
    name
        Of the reduction.
    typed
        The reduction, to the dtype that sums are kept in.
    """

    def __init__(self, text: ContractText, name: str, typed: TypedReduce) -> None:
        self._text, self._name = text, name
        self.direct = not text.typed.kinds
        self._typed = replace(typed, post=text.typed.epilogue) if self.direct else typed
        self._epilogue = EpilogueLauncher(text)
        self._launchers: dict[Signature, Launcher] = {}

    def bytes(self, call: Call) -> int:
        """Bytes of a workspace for sums that wait for the epilogue."""
        size = 0 if self.direct else prod(call.shape[:-1])*self._text.kept.itemsize
        return -(-size // 256)*256

    def __call__(self, call: Call, arrays: Sequence[Array], count: int,
                 order: Sequence[int], sums: int) -> None:
        """Launch on the stream of the product's call.

        Parameters
        ----------
        call
            The product.
        arrays
            Inputs of the reduction, over the product's loops but k, then `count`.
        order
            Of the loops but the last, outermost first.
        sums
            Address of `bytes`.
        """
        result, text = call.shape[:-1], self._text
        outputs = [(o.dtype, call.pointers[o.at], call.strides[o.at])
                   for o in text.outputs] if self.direct else [
            (text.kept, sums, (*dense_strides(result), 0))]
        self._reduce(replace(call, shape=(*result, count), scalars=()), arrays,
                     outputs, order)
        if not self.direct:
            self._epilogue(call, sums)

    def _reduce(self, call: Call, arrays: Sequence[Array], outputs: Sequence[Array],
                order: Sequence[int]) -> None:
        operands, groups, moved = [*arrays, *outputs], [], []
        for axes, of_results in ((order, 1), ((len(order),), 0)):
            group, offsets = canonical(Group(
                tuple(call.shape[x] for x in axes),
                tuple(tuple(s[x] for x in axes) for _, _, s in operands),
                (*[1]*len(arrays), *[of_results]*len(outputs)), True))
            groups.append(group)
            moved.append(offsets)
        nest = flatten(groups, moved)
        signature = Signature(
            tuple(d for d, _, _ in arrays), tuple(d for d, _, _ in outputs),
            nest.ranks, tuple(stride_code(s[-1]) for s in nest.strides))
        if signature not in self._launchers:
            self._launchers[signature] = ReduceLauncher(self._name, self._typed,
                                                        signature)
        self._launchers[signature](replace(
            call, shape=nest.shape, strides=nest.strides, pointers=tuple(
                p + at*d.itemsize for (d, p, _), at in zip(
                    operands, nest.offsets, strict=True))))


class EpilogueLauncher:
    """A map of the sums of a product, which are dense, and of the epilogue's extras.

    Parameters
    ----------
    text
        Operands, loops and functions: one m, n and k loop each.
    """

    def __init__(self, text: ContractText) -> None:
        self._text = text
        function, kinds = text.typed.epilogue, ("element", *text.typed.kinds)
        extras = iter(text.extras)
        types = [next(extras).dtype if k == "element" else function.dtypes[p]
                 for p, k in zip(function.function.params[1:], kinds[1:], strict=True)]
        self._map = MapOfArrays(f"{text.name}_epilogue", TypedMap(function, kinds),
                                (text.kept, *types))

    def __call__(self, call: Call, sums: int) -> None:
        """Launch on the stream of the product's call; `sums` is their address."""
        self._map(call, call.shape[:-1], (
            (self._text.kept, sums, dense_strides(call.shape[:-1])),
            *((o.dtype, call.pointers[o.at], call.strides[o.at][:-1])
              for o in self._text.others)))
