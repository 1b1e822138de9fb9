"""The launch of one of a row's maps and reductions, with the loops of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....backend import Call, Launcher, Signature
from ....gpu.operands import Operand
from ....specs import TypedMap, TypedReduce
from ....support.loop_nests import Group, canonical, flatten, stride_code
from ....support.records import record
from ...map.launcher import MapLauncher
from ...reduce.launcher import ReduceLauncher
from ..text import RowText
from .steps import Step

__all__ = ["Launches", "Place"]


@record(frozen=True)
class Place:
    """An array's address, and its strides over the rows' loops and the columns'."""

    dtype: np.dtype
    address: int
    strides: tuple[int, ...]


class Launches:
    """Launches steps; their kernels are made when first needed.

    Parameters
    ----------
    text
        Of the row.
    """

    def __init__(self, text: RowText) -> None:
        self._text = text
        self._launchers: dict[tuple[Step, Signature], Launcher] = {}

    def arrays(self, call: Call) -> dict[str | int, Place]:
        """The call's own arrays: inputs by name, outputs by number."""
        named: dict[str | int, Operand] = dict(enumerate(self._text.outputs))
        named.update(self._text.inputs)
        return {n: Place(o.dtype, call.pointers[o.at], call.strides[o.at])
                for n, o in named.items()}

    def launch(self, step: Step, call: Call, arrays: Mapping[str | int, Place],
               numbers: Mapping[str, object], outside: int = 0) -> None:
        """Launch a step on the call's stream.

        `outside` loops over rows come before the one over columns.
        """
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


def _types(step: Step, operands: Sequence[Place]) -> tuple[np.dtype, ...]:
    """The dtype of each parameter that is an array or a number."""
    function = step.typed.function if isinstance(step.typed, TypedMap) \
        else step.typed.element
    arrays = iter(operands)
    return tuple(
        next(arrays).dtype if kind == "element" else function.dtypes[p]
        for p, kind in zip(function.function.params, step.typed.kinds, strict=True)
        if kind != "index")
