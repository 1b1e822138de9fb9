"""Operands of a Row's kernels, and the partial sums that its blocks leave."""

from __future__ import annotations

import numpy as np

from ..backend import Call, Signature
from ..scalar.ir.nodes import used_params
from ..scalar.typing.types import Typed
from ..specs import TypedReduce, TypedRow
from ..specs.reduce import sum_over
from .operands import are_aligned, operand_list, width_of

__all__ = ["RowLayout", "read_names", "sum_of"]

#: Partial sums of each output begin at multiples of this many bytes.
_ALIGN = 256


def sum_of(dtype: np.dtype) -> TypedReduce:
    """The plain sum of values of `dtype`."""
    return sum_over(None).typed((dtype,))


def read_names(typed: Typed) -> list[str]:
    """Names of the parameters that a function reads."""
    function = typed.function
    return [p for p, u in zip(function.params, used_params(function), strict=True) if u]


class RowLayout:
    """The operands of a Row.

    Parameters
    ----------
    name
        Of the row function.
    typed, signature
        What to compute, on which dtypes and loops.

    Attributes
    ----------
    loops
        Number of loops over rows.
    operands
        The arrays, in the order of their addresses.
    inputs, outputs
        Those that are read, by name, and those that are written.
    kinds
        Kind of each input, by name.
    scalars
        Names of the numbers.
    elements, written
        Inputs and outputs that have an element for each of a row.
    sums, columns
        Numbers of the outputs that are sums over rows; those with a sum for each
        column.
    accumulators
        Dtype of the partial sums, by the output's number.
    unit
        Operands whose neighbours along a row are neighbours in memory.
    could_vector, width
        Whether several neighbours in one access are possible, given alignment, and how
        many.
    """

    def __init__(self, name: str, typed: TypedRow, signature: Signature) -> None:
        self.name, self.typed, self.loops = name, typed, signature.ranks[0]
        named = list(zip(typed.inputs, typed.kinds, signature.inputs, strict=True))
        arrays = [(n, t) for n, k, t in named if k != "scalar"]
        self.operands = operand_list([*(t for _, t in arrays), *signature.outputs],
                                     signature.inner)
        self.inputs = {n: o for (n, _), o in zip(arrays, self.operands, strict=False)}
        self.outputs = self.operands[len(arrays):]
        self.kinds = {n: k for n, k, _ in named}
        self.scalars = [n for n, k, _ in named if k == "scalar"]
        self.elements = [o for n, o in self.inputs.items()
                         if self.kinds[n] == "element"]
        self.written = [o for o, t in zip(self.outputs, typed.outs, strict=True)
                        if t.kind == "element"]
        self.sums = [k for k, t in enumerate(typed.outs)
                     if t.kind in ("column", "scalar")]
        self.columns = [k for k in self.sums if typed.outs[k].kind == "column"]
        self.accumulators = {k: sum_of(typed.outs[k].accumulator).state[0]
                             for k in self.sums}
        along = [*(o for n, o in self.inputs.items() if self.kinds[n] != "row"),
                 *self.written]
        self.unit = [o for o in along if o.code == "1"]
        self.could_vector = bool(self.unit) and all(o.code in "10" for o in along) \
            and all(o.code == "1" for o in self.written)
        self.width = width_of(self.unit)

    def is_aligned(self, call: Call) -> bool:
        """Whether a call allows `width` neighbours in every access."""
        return (self.could_vector and call.shape[-1] % self.width == 0
                and are_aligned(call, self.unit, self.width, range(self.loops)))

    def partial_sums(self, columns: int, blocks: int) -> tuple[dict[int, int], int]:
        """The place of each sum's parts in a workspace, and the bytes of all."""
        starts, total = {}, 0
        for k, dtype in self.accumulators.items():
            starts[k] = total
            count = columns if k in self.columns else 1
            total += -(-blocks*count*dtype.itemsize // _ALIGN)*_ALIGN
        return starts, total
