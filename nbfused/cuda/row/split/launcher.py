"""The launches of a split row, with the loops of a call."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from math import prod

import numpy as np

from ....backend import Call
from ....support.dtypes import storage
from ....support.loop_nests import dense_strides
from ...runtime.driver import Device
from ..text import RowText
from .launches import Launches, Place
from .steps import AFTER, PLACES, SIZE, Steps, split_steps

__all__ = ["SplitRow"]

#: Values of rows begin at multiples of so many bytes.
_ALIGN = 256


class SplitRow:
    """Runs a row as reductions and maps.

    Parameters
    ----------
    text
        Of the row.
    """

    def __init__(self, text: RowText) -> None:
        self._text = text
        self._steps: dict[tuple[str, ...], Steps | None] = {}
        self._launches = Launches(text)

    @property
    def possible(self) -> bool:
        """Whether the row can be split."""
        return self._found(()) is not None

    def _found(self, place: tuple[str, ...]) -> Steps | None:
        if place not in self._steps:
            self._steps[place] = split_steps(self._text.typed, place)
        return self._steps[place]

    def __call__(self, call: Call, where: Device) -> None:
        """Launch all steps on the call's stream."""
        outside = _outside(self._text, call)
        rows = call.shape[:-1]
        inside = prod(rows[outside:])
        found = self._found(PLACES[prod(rows[:outside]) > 1, inside > 1])
        assert found is not None
        numbers = dict(zip(self._text.scalars, call.scalars, strict=True))
        numbers |= {SIZE: call.shape[-1], AFTER: inside}
        values = {n: d for n, d in found.values.items() if n not in found.saved}
        starts, total = _places(values, prod(rows))
        memory = where.workspace(total, call.stream) if total else nullcontext(0)
        with where.current(), memory as base:
            arrays = self._launches.arrays(call)
            arrays |= {n: Place(d, base + starts[n], (*dense_strides(rows), 0))
                       for n, d in values.items()}
            arrays |= {n: arrays[k] for n, k in found.saved.items()}
            for step in found.steps:
                self._launches.launch(step, call, arrays, numbers, outside)


def _outside(text: RowText, call: Call) -> int:
    """Number of loops over rows that belong outside of the one over columns."""
    elements = [*text.elements, *text.written]
    steps = [sum(abs(call.strides[o.at][k]) for o in elements)
             for k in range(len(call.shape))]
    return sum(step > steps[-1] for step in steps[:-1])


def _places(values: Mapping[str, np.dtype], rows: int) -> tuple[dict[str, int], int]:
    """The beginning of each value's array in a workspace, and the bytes of all."""
    starts, total = {}, 0
    for name, dtype in values.items():
        starts[name] = total
        size = np.dtype(storage(dtype)).itemsize*rows
        total += -(-size // _ALIGN)*_ALIGN
    return starts, total
