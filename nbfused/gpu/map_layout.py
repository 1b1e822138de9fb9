"""Argument layout of a Map's kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backend import Call, Signature
from ..specs import TypedMap
from .operands import Operand, are_aligned, operand_list

__all__ = ["MapLayout"]


class MapLayout:
    """The operands of a Map and the strides that its kernels take.

    Parameters
    ----------
    typed, signature
        What to compute, on which dtypes and loops.

    Attributes
    ----------
    rank
        Number of loops.
    operands, inputs, outputs
        The arrays, in the order of their addresses.
    results
        The outputs that the function returns; the others are scattered to.
    loaded
        The inputs of which the function takes an element, by its parameter.
    raws
        Those that it indexes itself, by their parameters.
    looped
        The operands that have a place in the loops.
    unit
        Those of them whose neighbours along the last loop are neighbours in memory.
    could_vector
        Whether several neighbours in one access are possible, given alignment.
    picks
        The strides that a kernel takes: (operand, loop).
    """

    def __init__(self, typed: TypedMap, signature: Signature) -> None:
        self.typed = typed
        self.rank, = signature.ranks
        kinds = [k for k in typed.kinds if k in ("element", "scalar", "raw", "window")]
        arrays = [t for t, k in zip(signature.inputs, kinds, strict=True)
                  if k != "scalar"]
        self.operands = operand_list([*arrays, *signature.outputs], signature.inner)
        self.inputs = self.operands[:len(arrays)]
        self.outputs = self.operands[len(arrays):]
        params = zip(typed.function.function.params, typed.kinds, strict=True)
        given = [pair for pair in params if pair[1] in ("element", "raw", "window")]
        self.loaded = [(p, o) for (p, kind), o in zip(given, self.inputs, strict=True)
                       if kind != "raw"]
        self.raws = {p: o for (p, kind), o in zip(given, self.inputs, strict=True)
                     if kind == "raw"}
        self.results = self.outputs[:len(typed.function.results)]
        self.looped = [o for o in self.operands if not o.code.startswith("r")]
        self.unit = [o for o in self.looped if o.code == "1"]
        self.could_vector = bool(self.unit) and not typed.inner and all(
            o.code in "10" for o in self.looped)
        self.picks = [(o.at, k) for o in self.operands for k in range(self.strides(o))]

    def strides(self, operand: Operand) -> int:
        """Number of strides that a kernel needs of an operand."""
        if operand.code.startswith("r"):
            return int(operand.code[1:])
        return self.rank if operand.code == "s" else self.rank - 1

    def is_aligned(self, call: Call, width: int) -> bool:
        """Whether a call allows `width` neighbours in every access.

        A row of a call with several is whole accesses; one row may have a rest.
        """
        return (self.could_vector
                and (self.rank == 1 or call.shape[-1] % width == 0)
                and are_aligned(call, self.unit, width, range(self.rank - 1)))

    def values(self, call: Call, more: Iterable[int] = ()) -> tuple[Any, ...]:
        """Addresses, extents, strides, `more` integers, sides of boxes, numbers."""
        strides = call.strides
        return (*call.pointers, *call.shape, *[strides[o][k] for o, k in self.picks],
                *more, *[n for box in call.boxes for sides in box for n in sides],
                *call.scalars)
