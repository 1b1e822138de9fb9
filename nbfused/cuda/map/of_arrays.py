"""A Map of arrays that another launcher has: its kernels by their layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...backend import Call, Launcher, Signature
from ...scalar.typing.promotion import Type
from ...specs import TypedMap
from ...support.loop_nests import Group, canonical, flatten, stride_code
from .launcher import MapLauncher

__all__ = ["MapOfArrays", "Place"]

#: An array's dtype, address and strides.
Place = tuple[np.dtype, int, tuple[int, ...]]


class MapOfArrays:
    """Launches a Map; kernels are made when first needed.

    Parameters
    ----------
    name
        Of the function.
    typed
        What to compute.
    inputs
        Dtypes of arrays, and types of numbers.
    """

    def __init__(self, name: str, typed: TypedMap, inputs: Sequence[Type]) -> None:
        self._name, self._typed, self._inputs = name, typed, tuple(inputs)
        self._launchers: dict[Signature, Launcher] = {}

    def __call__(self, call: Call, shape: tuple[int, ...],
                 operands: Sequence[Place]) -> None:
        """Launch for arrays over the loops `shape`, with the stream of a call.

        Its numbers, if the Map has some, are the call's.
        """
        group, moved = canonical(Group(
            shape, tuple(s for _, _, s in operands), (1,)*len(operands)))
        nest = flatten([group], [moved])
        outputs = tuple(d for d, _, _ in operands[-len(self._typed.function.results):])
        signature = Signature(self._inputs, outputs, nest.ranks,
                              tuple(stride_code(s[-1]) for s in nest.strides))
        if signature not in self._launchers:
            self._launchers[signature] = MapLauncher(self._name, self._typed, signature)
        self._launchers[signature](replace(
            call, shape=nest.shape, strides=nest.strides, pointers=tuple(
                p + at*d.itemsize for (d, p, _), at in zip(
                    operands, nest.offsets, strict=True))))
