"""The inner loop of a Map with windows: where windows are there or not, and the rest.

Inside a row each box is a stretch ``low…high``.  Where all boxes that hold most points
are there and all others are not, the *interior*, nothing has to be asked and the loop
is that of any Map; before and after it each element is looked at.
benchmarks/notes/cpu.md#windows-on-the-cpu.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...backend import Call
from ...specs import TypedMap
from ...support.loop_nests import stride_code
from .elements import Elements
from .operands import Operand, Window, sides

__all__ = ["bounds", "bounds_of", "interior", "row_lines", "split_lines", "turned"]

#: Elements of rows that are turned at most, and how many rows at least: an estimate
#: between rows of two, three and eight (benchmarks/notes/cpu.md#windows-on-the-cpu).
_SHORT, _ROWS = 8, 64


def bounds(boxes: int, rank: int) -> list[str]:
    """Names of the integers that a kernel takes for its boxes."""
    return [name for k in range(boxes) for d in range(rank) for name in sides(k, d)]


def bounds_of(call: Call) -> tuple[int, ...]:
    """The values of `bounds` in a call."""
    return tuple([n for box in call.boxes for sides in box for n in sides])


def turned(call: Call, codes: Sequence[str]) -> tuple[Call, tuple[str, ...]]:
    """A call with its last loop outermost, and its stride codes, where rows are short.

    Of two arrays joined along a new last axis each row has an element in each box: its
    stretches cost more than they hold.  Raw inputs keep the strides of their axes.
    """
    row, rows = call.shape[-1], prod(call.shape[:-1])
    last = range(len(call.shape) - 1)
    if row > _SHORT or rows < _ROWS or call.shape[-2] < row or not any(
            box[-1] != (0, row) for box in call.boxes):
        return call, tuple(codes)
    order = [len(last), *last]
    strides = tuple([own if code[0] == "r" else tuple([own[d] for d in order])
                     for own, code in zip(call.strides, codes, strict=True)])
    made = replace(call, shape=tuple([call.shape[d] for d in order]), strides=strides,
                   boxes=tuple([tuple([box[d] for d in order]) for box in call.boxes]))
    return made, tuple([code if code[0] == "r" else stride_code(own[-1])
                        for own, code in zip(strides, codes, strict=True)])


def row_lines(wraps: Sequence[bool], outer: Sequence[str]) -> list[str]:
    """Lines that find the stretch of each box in the row at the indices `outer`.

    Of windows that wrap, each row has one.
    """
    lines, last = [], len(outer)
    for k, around in enumerate(wraps):
        low, high = sides(k, last)
        lines += [f"low{k} = {low}", f"high{k} = {high}"]
        if outer and not around:
            there = " and ".join(f"box{k}_low{d} <= {i} < box{k}_high{d}"
                                 for d, i in enumerate(outer))
            lines += [f"if not ({there}):", f"    high{k} = low{k}"]
    return lines


def split_lines(inner: Sequence[bool]) -> list[str]:
    """Lines that find the interior ``cut0…cut1`` of the stretch ``j0…j1``.

    Not ``c0``: numbers of the call have such names.
    """
    lines = ["cut0 = j0", "cut1 = j1"]
    for k, usual in enumerate(inner):
        if usual:
            lines += [f"cut0 = max(cut0, low{k})", f"cut1 = min(cut1, high{k})"]
    for k, usual in enumerate(inner):
        if not usual:
            lines += [f"if low{k} < high{k} and low{k} <= cut0:",
                      f"    cut0 = max(cut0, high{k})",
                      f"elif low{k} < high{k}:", f"    cut1 = min(cut1, low{k})"]
    return [*lines, "cut0 = min(cut0, j1)", "cut1 = max(cut0, cut1)"]


def interior(elements: Elements, typed: TypedMap) -> Elements:
    """The same parameters where each box is there or not as it usually is."""
    table = dict(elements.table)
    for parameter, box in typed.box_of.items():
        slot, there = table[parameter], typed.inner[box]
        if isinstance(slot, Operand):
            table[parameter] = replace(slot, box=None) if there else Window(
                slot.zero, slot.dtype)
        else:
            table[parameter] = Window(str(there), slot.dtype)
    return replace(elements, table=table)
