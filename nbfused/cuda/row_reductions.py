"""What a lane does with the elements of a pass: one stage, or two that go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..scalar.ir import Let
from ..scalar.types import Typed
from ..specs import TypedStage
from ..specs.row_forms import Online
from .row_elements import Kept
from .source import Operand, decoded, evaluate
from .states import States

if TYPE_CHECKING:
    from .row_writer import RowWriter

__all__ = ["Pair", "Single", "reductions"]

#: Names in kernel text of the floats that are compared in pairs.
_KINDS = {"float16": "f16", "bfloat16": "bf16"}
#: The inputs' values at some columns.
Loads = Sequence[Mapping[str, str]]


class Single:
    """A stage.

    Attributes
    ----------
    states, state
        Of the lane, then of the row, and its names.
    """

    def __init__(self, writer: RowWriter, at: int) -> None:
        self.writer, self.at = writer, at
        self.states = _states(writer, at)
        self.state = self.states.start(writer.out)

    def add(self, columns: Sequence[str], loads: Loads) -> None:
        """Take the elements of some columns in."""
        self.states.tree(self.writer.out, self.state,
                         elements(self.writer, self.at, self.states, columns, loads))

    def close(self) -> None:
        """After the lane's elements."""

    def finish(self) -> dict[int, list[str]]:
        """After the whole row: the state of each stage."""
        return {self.at: self.state}


class Extreme(Single):
    """The largest or smallest of 16-bit floats, see `row_pairs`."""

    def __init__(self, writer: RowWriter, at: int, which: str, o: Operand) -> None:
        super().__init__(writer, at)
        self.which, self.operand, self.pair = which, o, f"z{at}_pair"
        empty = int(np.array(-np.inf if which == "max" else np.inf, o.dtype)
                    .view(np.uint16))
        writer.out(f"{self.pair} = u32({empty << 16 | empty})")

    def add(self, columns: Sequence[str], loads: Loads) -> None:
        """See `Single`."""
        kept = self.writer.elements
        assert isinstance(kept, Kept)
        parts = ", ".join(kept.parts(self.operand))
        function = f"{self.which}_pairs_{_KINDS[self.operand.dtype.name]}"
        self.writer.out(f"{self.pair} = {function}({self.pair}, ({parts},))")

    def close(self) -> None:
        """See `Single`."""
        halves = (f"u16({self.pair} & u32(65535))", f"u16({self.pair} >> u32(16))")
        names = [f"{self.pair}{k}" for k in range(len(halves))]
        self.writer.out(*(f"{n} = {decoded(self.operand.dtype, h)}"
                          for n, h in zip(names, halves, strict=True)))
        self.states.tree(self.writer.out, self.state, [[n] for n in names])


class Pair:
    """A maximum and a sum of powers relative to it.

    A lane's sum is relative to the largest element that the lane has seen; it is scaled
    anew once for the elements of an access, not for each.
    """

    def __init__(self, writer: RowWriter, pair: Online) -> None:
        self.writer, self.pair = writer, pair
        self.top, self.total = _states(writer, pair.top), _states(writer, pair.total)
        self.states = States(
            pair.merge, (*self.top.identity, *self.total.identity),
            (*self.top.dtypes, *self.total.dtypes), f"both{pair.top}_", writer.calls)
        self.state = self.states.start(writer.out)
        self.name = writer.typed.stages[pair.top].names[0]

    def add(self, columns: Sequence[str], loads: Loads) -> None:
        """See `Single`."""
        writer, out, (top, total) = self.writer, self.writer.out, self.state
        new = f"{top}_new"
        out(f"{new} = {top}")
        self.top.tree(out, [new],
                      elements(writer, self.pair.top, self.top, columns, loads))
        scale = self._value(self.pair.shift, top, new)
        out(f"{total} = {total}*{scale}", f"{top} = {new}")
        known = {self.name: self._value(self.pair.base, top)}
        self.total.tree(out, [total], elements(
            writer, self.pair.total, self.total, columns,
            [{**values, **known} for values in loads]))

    def close(self) -> None:
        """See `Single`."""

    def finish(self) -> dict[int, list[str]]:
        """See `Single`."""
        top, total = self.state
        self.writer.out(
            f"{total} = {self._value(self.pair.finish, top, total, 'columns')}")
        return {self.pair.top: [top], self.pair.total: [total]}

    def _value(self, typed: Typed, *arguments: str) -> str:
        """The name of a function's value."""
        params, prefix = typed.function.params, f"{typed.function.name}{self.pair.top}_"
        lines, (name,) = evaluate(typed, dict(zip(params, arguments, strict=True)),
                                  prefix, self.writer.calls)
        self.writer.out(*lines)
        return name


def reductions(writer: RowWriter, level: Sequence[int]) -> list[Single | Pair]:
    """What the stages of a pass are made of."""
    pairs = {k: o for k, o in writer.text.online.items()
             if k in level and o.total in level}
    led = {o.total for o in pairs.values()}
    return [Pair(writer, pairs[at]) if at in pairs else _single(writer, at)
            for at in level if at not in led]


def _single(writer: RowWriter, at: int) -> Single:
    found = _extreme(writer, writer.typed.stages[at]) if writer.plan.kept else None
    return Extreme(writer, at, *found) if found else Single(writer, at)


def _extreme(writer: RowWriter,
             stage: TypedStage) -> tuple[str, Operand] | None:
    """``max`` or ``min``, and of which operand, if a stage takes 16-bit elements."""
    element, merge = stage.element.function, stage.merge.function
    if element.body.statements or len(merge.body.statements) != 1:
        return None
    (combined,), (result,) = merge.body.statements, element.body.yields
    o = writer.text.inputs.get(str(result))
    if o not in writer.text.kept or o.dtype.name not in _KINDS or writer.text.width < 2:
        return None
    if not isinstance(combined, Let) or combined.op not in ("max", "min") or (
            set(combined.args) != set(merge.params)):
        return None
    empty = -np.inf if combined.op == "max" else np.inf
    return (combined.op, o) if stage.identity[0].value == empty else None


def elements(writer: RowWriter, at: int, states: States, columns: Sequence[str],
             loads: Loads) -> list[list[str]]:
    """Prints a stage's states of single elements; their names."""
    element, parts = writer.typed.stages[at].element, []
    for k, (column, values) in enumerate(zip(columns, loads, strict=True)):
        parts.append(states.names(f"_{k}"))
        states.assign(writer.out, parts[-1], element, writer.arguments(
            element, {**values, "index": column}))
    return parts


def _states(writer: RowWriter, at: int) -> States:
    s = writer.typed.stages[at]
    return States(s.merge, s.identity, s.state, f"z{at}_", writer.calls)
