"""Calls whose inputs repeat along a loop: done once, and the results copied along it.

So are rows of an array that was expanded, and what a sum's cotangent is multiplied by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Protocol

import numpy as np

from ...backend import Call, Signature, Start
from ...scalar.typing.types import specialize
from ...specs import TypedMap
from ...specs.vjp.functions import identity
from .of_arrays import MapOfArrays

__all__ = ["Repeats"]

#: Bytes of an element up to which it is copied as an integer.
_INTEGERS = 8


class Binding(Protocol):
    """A launcher that can be asked once for all calls of a layout."""

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""

    def bind(self, call: Call) -> Start | None:
        """Decide now for all calls like `call`."""


class Repeats:
    """A launcher for calls with inputs that repeat.

    Parameters
    ----------
    launcher
        What does other calls, and one of those that repeat.
    signature
        Of both.
    loops
        Along how many loops, the first ones, results may vary.
    least
        Points of a call from which less work is worth a launch more.
    times
        How often inputs repeat at least.
    """

    def __init__(self, launcher: Binding, signature: Signature, loops: int,
                 least: int, times: int) -> None:
        self._launcher, self._loops = launcher, loops
        self._least, self._times = least, times
        self._outputs = [np.dtype(d) for d in signature.outputs]
        self._copies: dict[np.dtype, MapOfArrays] = {}

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        repeated = self.repeated(call)
        if not repeated:
            self._launcher(call)
            return
        self._launcher(replace(call, shape=tuple(
            1 if k in repeated else n for k, n in enumerate(call.shape))))
        first = len(call.pointers) - len(self._outputs)
        for at, dtype in enumerate(self._outputs, first):
            self._copy(call, call.pointers[at], call.strides[at], dtype, repeated)

    def bind(self, call: Call) -> Start | None:
        """Decide now for all calls like `call`: see `backend.Launcher`."""
        return None if self.repeated(call) else self._launcher.bind(call)

    def repeated(self, call: Call) -> Sequence[int]:
        """The loops along which all inputs repeat, and all outputs have a place."""
        if prod(call.shape) < self._least:
            return ()
        inputs = len(call.pointers) - len(self._outputs)
        found = [k for k, n in enumerate(call.shape[:self._loops]) if n > 1
                 and not any(s[k] for s in call.strides[:inputs])
                 and all(s[k] for s in call.strides[inputs:])]
        return found if prod([call.shape[k] for k in found]) >= self._times else ()

    def _copy(self, call: Call, address: int, strides: tuple[int, ...],
              dtype: np.dtype, repeated: Sequence[int]) -> None:
        """Copy an output to all its places; the one that it comes from stays."""
        if dtype.itemsize <= _INTEGERS:
            dtype = np.dtype(f"u{dtype.itemsize}")
        if dtype not in self._copies:
            typed = TypedMap(specialize(identity(), (dtype,)), ("element",))
            self._copies[dtype] = MapOfArrays("repeat", typed, (dtype,))
        own = [k for k, stride in enumerate(strides) if stride]
        self._copies[dtype](
            replace(call, scalars=()), tuple([call.shape[k] for k in own]),
            ((dtype, address, tuple([0 if k in repeated else strides[k] for k in own])),
             (dtype, address, tuple([strides[k] for k in own]))))
