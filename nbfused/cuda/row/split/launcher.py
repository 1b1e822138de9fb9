"""The launches of a split row, with the loops of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from ....backend import Call, Launcher, Signature
from ....gpu.operands import Operand
from ....specs import TypedMap, TypedReduce
from ....support.dtypes import storage
from ....support.loop_nests import (
    Group,
    canonical,
    dense_strides,
    flatten,
    stride_code,
)
from ....support.records import record
from ...map.launcher import MapLauncher
from ...reduce.launcher import ReduceLauncher
from ...runtime.driver import Device
from ..text import RowText
from .steps import AFTER, PLACES, SIZE, Step, Steps, split_steps

__all__ = ["SplitRow"]

#: Values of rows begin at multiples of so many bytes.
_ALIGN = 256


@record(frozen=True)
class _Array:
    """An array's address, and its strides over the rows' loops and the columns'."""

    dtype: np.dtype
    address: int
    strides: tuple[int, ...]


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
        self._launchers: dict[tuple[Step, Signature], Launcher] = {}

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
        steps, values = found
        numbers = dict(zip(self._text.scalars, call.scalars, strict=True))
        numbers |= {SIZE: call.shape[-1], AFTER: inside}
        starts, total = _places(values, prod(rows))
        with where.current(), where.workspace(total, call.stream) as base:
            arrays = self._arrays(call)
            arrays |= {n: _Array(d, base + starts[n], (*dense_strides(rows), 0))
                       for n, d in values.items()}
            for step in steps:
                self._launch(step, call, arrays, numbers, outside)

    def _arrays(self, call: Call) -> dict[str | int, _Array]:
        """The call's own arrays: inputs by name, outputs by number."""
        named: dict[str | int, Operand] = dict(enumerate(self._text.outputs))
        named.update(self._text.inputs)
        return {n: _Array(o.dtype, call.pointers[o.at], call.strides[o.at])
                for n, o in named.items()}

    def _launch(self, step: Step, call: Call, arrays: Mapping[str | int, _Array],
                numbers: Mapping[str, object], outside: int) -> None:
        operands = [arrays[n] for n in (*step.arrays, *step.outputs)]
        loops = len(call.shape)
        rows = tuple(range(loops - 1))
        orders = {("rows",): rows, ("columns",): (loops - 1,), (): (),
                  ("rows", "columns"): (*rows[:outside], loops - 1, *rows[outside:])}
        groups, moved = [], []
        for loops_of in (step.kept, *((step.reduced,) if step.reduced else ())):
            axes = orders[loops_of]
            group, offsets = canonical(Group(
                tuple(call.shape[a] for a in axes),
                tuple(tuple(x.strides[a] for a in axes) for x in operands),
                (1,)*len(operands), "index" in step.typed.kinds))
            groups.append(group)
            moved.append(offsets)
        nest = flatten(groups, moved)
        outputs = tuple(np.dtype(x.dtype) for x in operands[len(step.arrays):])
        signature = Signature(
            _types(step, operands), outputs, nest.ranks,
            tuple(stride_code(own[-1]) for own in nest.strides))
        self._launcher(step, signature)(Call(
            nest.shape,
            tuple(x.address + offset*x.dtype.itemsize
                  for x, offset in zip(operands, nest.offsets, strict=True)),
            nest.strides, tuple(numbers[n] for n in step.numbers), call.device,
            call.stream))

    def _launcher(self, step: Step, signature: Signature) -> Launcher:
        key = step, signature
        found = self._launchers.get(key)
        if found is None:
            name = f"{self._text.name}_{step.name}"
            typed = step.typed
            found = self._launchers[key] = ReduceLauncher(name, typed, signature) \
                if isinstance(typed, TypedReduce) else MapLauncher(
                    name, typed, signature)
        return found


def _types(step: Step, operands: Sequence[_Array]) -> tuple[np.dtype, ...]:
    """The dtype of each parameter that is an array or a number."""
    function = step.typed.function if isinstance(step.typed, TypedMap) \
        else step.typed.element
    arrays = iter(operands)
    return tuple(
        next(arrays).dtype if kind == "element" else function.dtypes[p]
        for p, kind in zip(function.function.params, step.typed.kinds, strict=True)
        if kind != "index")


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
