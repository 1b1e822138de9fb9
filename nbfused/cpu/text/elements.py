"""Scalar functions in kernel text: lines that load parameters and compute results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from ...backend import Signature
from ...scalar.printing.numba import Raw, cast, statements
from ...scalar.typing.types import Typed
from ...specs import TypedRow
from ...support.records import record
from .function_names import CALLS
from .idioms import recognise_idioms
from .operands import INT64, Inside, Operand, Scalar, Window, sides, stretch

__all__ = ["Computed", "Elements", "Slot", "bind_operands", "elementwise"]


@record(frozen=True)
class Computed:
    """A value that the kernel has already computed.

    Attributes
    ----------
    name, dtype
        Its text, and what it is.
    given
        Whether every function of an element has it, without being told.
    """

    name: str
    dtype: np.dtype
    given: bool = False

    def value(self, dtype: np.dtype) -> str:
        """The value, cast to the computing dtype `dtype`."""
        return cast(self.dtype, dtype, self.name)


Slot = Operand | Scalar | Computed | Inside | Window


@record
class Elements:
    """The operands bound to the parameters of a kernel's functions.

    Attributes
    ----------
    table
        For each name of a parameter.
    index, given
        The text of the element's index, which is ``j`` in the inner loop, and the
        names that occur in it.
    """

    table: dict[str, Slot] = field(default_factory=dict)
    index: str = "first + j"
    given: tuple[str, ...] = ("first",)

    def names(self, *functions: Typed, known: Mapping[str, object] = {},
              ) -> list[str]:
        """Names that the lines of `evaluate` read."""
        found: dict[str, None] = {}
        for parameter in self._parameters(functions):
            if parameter in known:
                continue
            names = _names(self.table[parameter])
            if names == ("index",):
                names = self.given
            found.update(dict.fromkeys(names))
        return list(found)

    def _parameters(self, functions: Iterable[Typed]) -> Iterator[str]:
        for typed in functions:
            yield from typed.function.params

    def evaluate(self, typed: Typed, results: Sequence[str], prefix: str = "v_",
                 known: Mapping[str, Computed] = {}) -> list[str]:
        """Lines that load the parameters at element ``j`` and compute the results.

        `known` goes before the table.
        """
        lines: list[str] = []
        arguments: dict[str, str | Raw] = {}
        for parameter in typed.function.params:
            slot = known.get(parameter) or self.table[parameter]
            if not isinstance(slot, Operand):
                if _names(slot) == ("index",):
                    lines.append(f"index = {self.index}")
                arguments[parameter] = slot.value(typed.dtypes[parameter])
            elif slot.code == "r":
                arguments[parameter] = Raw(slot.name, slot.strides, slot.dtype)
            else:
                lines.append(f"{slot.name}_e = {slot.load('j')}")
                arguments[parameter] = f"{slot.name}_e"
        return lines + statements(recognise_idioms(typed), arguments, results,
                                  prefix=prefix, calls=CALLS)


def _names(slot: Slot) -> tuple[str, ...]:
    """Names that the text of a parameter has in it."""
    match slot:
        case Operand():
            return slot.names
        case Inside():
            return stretch(slot.box)
        case Window() | Computed(given=True):
            return ()
    return (slot.name,)


def elementwise(typed: Typed, kinds: Sequence[str], signature: Signature,
                codes: Sequence[str], rank: int, scatter: Sequence[Operand] = (),
                inner: int = -1, boxes: Mapping[str, int] = {},
                wraps: Sequence[bool] = (),
                ) -> tuple[Elements, list[Operand], list[Scalar]]:
    """Bind the parameters of a Map, or of a reduction's map, by `kinds`.

    Parameters
    ----------
    typed, kinds
        The function.
    signature, codes
        The inputs' types, and the array inputs' codes.
    rank, inner
        Number of loops, and which one is the inner one.
    scatter
        Outputs that the function adds to.
    boxes, wraps
        The number of the box of each parameter that has one, and for each box whether
        windows wrap there.

    Returns
    -------
    tuple
        The parameters; the array inputs; the call-time numbers.
    """
    given, array_codes, added = iter(signature.inputs), iter(codes), iter(scatter)
    operands: list[Operand] = []
    scalars: list[Scalar] = []
    elements = Elements()
    for parameter, kind in zip(typed.function.params, kinds, strict=True):
        slot: Slot
        match kind:
            case "inside":
                slot = Inside(boxes[parameter])
            case "element" | "raw" | "window":
                dtype, code = next(given), next(array_codes)
                assert isinstance(dtype, np.dtype)
                ndim = int(code[1:] or rank)
                box = boxes.get(parameter)
                around = None if box is None or not wraps[box] else (
                    *sides(box, rank - 1), f"n{rank - 1}")
                slot = Operand(f"x{len(operands)}", dtype, code[0], ndim, inner=inner,
                               box=box, around=around)
                operands.append(slot)
            case "scalar":
                next(given)
                slot = Scalar(f"c{len(scalars)}", typed.dtypes[parameter])
                scalars.append(slot)
            case "scatter":
                slot = next(added)
            case _:
                slot = Computed(kind, INT64)
        elements.table[parameter] = slot
    return elements, operands, scalars


def bind_operands(typed: TypedRow, signature: Signature,
                  operand: Callable[[str, np.dtype, bool], Operand],
                  ) -> tuple[list[Operand], list[Operand], list[Scalar],
                             dict[str, Slot]]:
    """Bind the inputs of a Row: arrays, outputs, numbers, and what each input is.

    Parameters
    ----------
    operand
        Makes an array's from its name, its dtype, and whether it is an output.
    """
    arrays: list[Operand] = []
    scalars: list[Scalar] = []
    table: dict[str, Slot] = {}
    for name, kind, dtype in zip(typed.inputs, typed.kinds, signature.inputs,
                                 strict=True):
        if kind == "scalar":
            have = typed.dtypes.get(name, INT64)  # INT64: nothing reads it
            scalars.append(Scalar(f"c{len(scalars)}", have))
            table[name] = scalars[-1]
        else:
            assert isinstance(dtype, np.dtype)
            arrays.append(operand(f"x{len(arrays)}", dtype, False))
            table[name] = arrays[-1]
    outputs = [operand(f"y{k}", dtype, True)
               for k, dtype in enumerate(signature.outputs)]
    return arrays, outputs, scalars, table
