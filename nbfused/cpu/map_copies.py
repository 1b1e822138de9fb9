"""Rows of a Map that are copies of rows of a table: moved as bytes.

What a gather does for an element, besides its load and its store, is the same for all
of a row.  As bytes a row has no end that is shorter than a vector, and 16-bit floats
are not converted: benchmarks/notes/cpu.md#gathers-of-rows.
"""

from __future__ import annotations

from dataclasses import replace

from ..scalar.ir.nodes import EFFECTS, Block, Let, read, walk
from ..scalar.typing.types import Typed
from .text.divisions import Divided
from .text.elements import Computed, Elements
from .text.operands import INT64, Operand

__all__ = ["copy_lines"]


def copy_lines(divided: Divided, elements: Elements, output: Operand, begin: str,
               end: str) -> list[str] | None:
    """Lines that copy the elements ``begin … end - 1`` of a row; None of other Maps.

    They lie within one multiple of each divisor, and rows of the table are contiguous.

    Parameters
    ----------
    elements
        What is bound to the parameters of the function without divisions.
    """
    load = _load_of(divided.typed)
    if load is None or output.code != "1":
        return None
    found = _row_of(divided.typed, elements, load)
    if found is None:
        return None
    function, start = found
    table = elements.table[str(load.args[0])]
    if not isinstance(table, Operand) or table.dtype != output.dtype:
        return None
    rows, size = [f"row{k}" for k in range(len(load.args) - 2)], output.dtype.itemsize
    place = " + ".join([*(f"{row}*{stride}" for row, stride in zip(
        rows, table.strides, strict=False)), f"first - {start} + {begin}"])
    return [*elements.evaluate(function, rows),
            f"copy_bytes(address({output.name}) + {size}*{begin}, "
            f"{table.name}_at + {size}*({place}), {size}*({end} - {begin}))"]


def _load_of(typed: Typed) -> Let | None:
    """The load whose result is that of the function, which does nothing else."""
    body = typed.function.body
    accesses = [s for s in walk(body) if isinstance(s, Let) and (
        s.op == "load" or s.op in EFFECTS)]
    last = body.statements[-1] if body.statements else None
    return last if isinstance(last, Let) and accesses == [last] and \
        body.yields == last.results and len(last.args) > 2 else None


def _row_of(typed: Typed, elements: Elements, load: Let) -> tuple[Typed, str] | None:
    """The function of a load's row, and the name of the index that it begins at.

    None if its elements do not follow one another, or not all of them are of one row.
    """
    function, column = typed.function, load.args[-1]
    before = function.body.statements[:-1]
    steps = [s for s in before if isinstance(s, Let) and s.results == (column,)]
    if len(steps) != 1 or steps[0].op != "sub":
        return None
    index, start = (elements.table.get(str(a)) for a in steps[0].args)
    if not _is_named(index, "index") or not _is_named(start, "multiple"):
        return None
    block = Block(tuple([s for s in before if s is not steps[0]]), load.args[1:-1])
    names = read(block)
    if column in names or any(p in names and _moves(elements, p)
                              for p in function.params) or any(
            typed.dtypes.get(str(a)) != INT64 for a in load.args[1:]):
        return None
    params = tuple([p for p in function.params if p in names])
    made = replace(function, params=params, body=block)
    assert isinstance(start, Computed)
    return replace(typed, function=made, results=(INT64,)*len(block.yields)), start.name


def _is_named(slot: object, name: str) -> bool:
    """Whether a slot is the index, or the multiple of a divisor."""
    return isinstance(slot, Computed) and slot.name.rstrip("0123456789") == name


def _moves(elements: Elements, parameter: str) -> bool:
    """Whether a parameter has another value for the next element of a row."""
    slot = elements.table[parameter]
    return _is_named(slot, "index") or (isinstance(slot, Operand) and slot.code != "0")
