"""Sums and epilogues of products as launches of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ....backend import Call
from ....specs import TypedMap, TypedReduce
from ....support.loop_nests import dense_strides
from ...map.of_arrays import MapOfArrays, Place
from ...reduce.of_arrays import ReduceOfArrays
from ..text import ContractText

__all__ = ["EpilogueLauncher", "SumsLauncher"]


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
        self._text = text
        self.direct = not text.typed.kinds
        self._reduce = ReduceOfArrays(name, replace(
            typed, post=text.typed.epilogue) if self.direct else typed)
        self._epilogue = EpilogueLauncher(text)

    def bytes(self, call: Call) -> int:
        """Bytes of a workspace for sums that wait for the epilogue."""
        size = 0 if self.direct else prod(call.shape[:-1])*self._text.kept.itemsize
        return -(-size // 256)*256

    def __call__(self, call: Call, arrays: Sequence[Place], count: int,
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
        self._reduce(call, (*result, count), order, arrays, outputs)
        if not self.direct:
            self._epilogue(call, sums)


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
