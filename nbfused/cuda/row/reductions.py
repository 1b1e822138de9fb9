"""Reductions of a lane's elements: one stage, or two that go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...gpu.operands import Operand
from ...scalar.ir.nodes import Let
from ...scalar.printing.numba_operations import Calls
from ...scalar.typing.types import Typed
from ...specs import TypedStage
from ...specs.fusion.row_forms import Online
from ...support.dtypes import HALVES
from ..text.source import ROUGH, decoded, evaluate
from ..text.states import States
from .elements import Elements, Kept
from .scope import RowScope

__all__ = ["Pair", "Single", "reductions"]

_EXP = "exp", "float32"
#: Names in kernel text of the floats that are compared in pairs.
_KINDS = {t.dtype.name: t.short for t in HALVES}
#: The inputs' values at some columns.
Loads = Sequence[Mapping[str, str]]


class Single:
    """A stage.

    Attributes
    ----------
    states, state
        Of the lane, then of the row, and its names.
    """

    def __init__(self, scope: RowScope, at: int) -> None:
        self.scope, self.at = scope, at
        self.states = _states(scope, at)
        self.state = self.states.start(scope.out)

    def add(self, columns: Sequence[str], loads: Loads) -> None:
        """Take the elements of some columns in."""
        with self.scope.out.repeated(self.state):
            self.states.tree(self.scope.out, self.state, element_states(
                self.scope, self.at, self.states, columns, loads))

    def close(self) -> None:
        """Write what follows the lane's elements."""

    def finish(self) -> dict[int, list[str]]:
        """The state of each stage, when the whole row has been merged."""
        return {self.at: self.state}


class Extreme(Single):
    """The largest or smallest of 16-bit floats, see `row_pairs`."""

    def __init__(self, scope: RowScope, elements: Kept, at: int, which: str,
                 o: Operand) -> None:
        super().__init__(scope, at)
        self.elements = elements
        self.which, self.operand, self.pair = which, o, f"z{at}_pair"
        empty = int(np.array(-np.inf if which == "max" else np.inf, o.dtype)
                    .view(np.uint16))
        scope.out(f"{self.pair} = u32({empty << 16 | empty})")

    def add(self, columns: Sequence[str], loads: Loads) -> None:
        """Take the elements of some columns in."""
        parts = ", ".join(self.elements.parts(self.operand))
        function = f"{self.which}_pairs_{_KINDS[self.operand.dtype.name]}"
        self.scope.out(f"{self.pair} = {function}({self.pair}, ({parts},))")

    def close(self) -> None:
        """Write what follows the lane's elements."""
        halves = (f"u16({self.pair} & u32(65535))", f"u16({self.pair} >> u32(16))")
        names = [f"{self.pair}{k}" for k in range(len(halves))]
        self.scope.out(*(f"{n} = {decoded(self.operand.dtype, h)}"
                          for n, h in zip(names, halves, strict=True)))
        self.states.tree(self.scope.out, self.state, [[n] for n in names])


class Pair:
    """A maximum and a sum of powers relative to it.

    A lane's sum is relative to the largest element that the lane has seen; it is scaled
    anew once for the elements of an access, not for each.

    Notes
    -----
    Of 16-bit elements the powers are `exp_rough`'s also where results have more digits:
    its error grows with the distance to the largest element, and what is far from it
    counts little.  The sum stays within a few units in the last place of float32;
    measured: benchmarks/notes/distributed.md.
    """

    def __init__(self, scope: RowScope, pair: Online) -> None:
        self.scope, self.pair = scope, pair
        elements = scope.text.elements
        short = elements and all(o.dtype.name in _KINDS for o in elements)
        powers = {**scope.calls, _EXP: ROUGH[_EXP]} if short else scope.calls
        self.top = _states(scope, pair.top)
        self.total = _states(scope, pair.total, powers)
        self.states = States(
            pair.merge, (*self.top.identity, *self.total.identity),
            (*self.top.dtypes, *self.total.dtypes), f"both{pair.top}_", scope.calls)
        self.state = self.states.start(scope.out)
        self.name = scope.typed.stages[pair.top].names[0]

    def add(self, columns: Sequence[str], loads: Loads) -> None:
        """Take the elements of some columns in."""
        with self.scope.out.repeated(self.state):
            self._add(columns, loads)

    def _add(self, columns: Sequence[str], loads: Loads) -> None:
        scope, out, (top, total) = self.scope, self.scope.out, self.state
        new = f"{top}_new"
        out(f"{new} = {top}")
        self.top.tree(out, [new],
                      element_states(scope, self.pair.top, self.top, columns, loads))
        scale = self._value(self.pair.shift, top, new)
        out(f"{total} = {total}*{scale}", f"{top} = {new}")
        known = {self.name: self._value(self.pair.base, top)}
        self.total.tree(out, [total], element_states(
            scope, self.pair.total, self.total, columns,
            [{**values, **known} for values in loads]))

    def close(self) -> None:
        """Write what follows the lane's elements."""

    def finish(self) -> dict[int, list[str]]:
        """The state of each stage, when the whole row has been merged."""
        top, total = self.state
        self.scope.out(
            f"{total} = {self._value(self.pair.finish, top, total, 'columns')}")
        return {self.pair.top: [top], self.pair.total: [total]}

    def _value(self, typed: Typed, *arguments: str) -> str:
        """The name of a function's value."""
        params, prefix = typed.function.params, f"{typed.function.name}{self.pair.top}_"
        lines, (name,) = evaluate(typed, dict(zip(params, arguments, strict=True)),
                                  prefix, self.scope.calls)
        self.scope.out(*lines)
        return name


def reductions(scope: RowScope, elements: Elements,
               level: Sequence[int]) -> list[Single | Pair]:
    """The reductions that the stages of a pass are made of."""
    pairs = {k: o for k, o in scope.text.online.items()
             if k in level and o.total in level}
    led = {o.total for o in pairs.values()}
    return [Pair(scope, pairs[at]) if at in pairs else _single(scope, elements, at)
            for at in level if at not in led]


def _single(scope: RowScope, elements: Elements, at: int) -> Single:
    if isinstance(elements, Kept) and elements.width > 1:
        found = _extreme(scope, scope.typed.stages[at])
        if found:
            return Extreme(scope, elements, at, *found)
    return Single(scope, at)


def _extreme(scope: RowScope,
             stage: TypedStage) -> tuple[str, Operand] | None:
    """``max`` or ``min``, and of which operand, if a stage takes 16-bit elements."""
    element, merge = stage.element.function, stage.merge.function
    if element.body.statements or len(merge.body.statements) != 1:
        return None
    (combined,), (result,) = merge.body.statements, element.body.yields
    o = scope.text.inputs.get(str(result))
    if o not in scope.text.kept or o.dtype.name not in _KINDS:
        return None
    if not isinstance(combined, Let) or combined.op not in ("max", "min") or (
            set(combined.args) != set(merge.params)):
        return None
    empty = -np.inf if combined.op == "max" else np.inf
    return (combined.op, o) if stage.identity[0].value == empty else None


def element_states(scope: RowScope, at: int, states: States, columns: Sequence[str],
             loads: Loads) -> list[list[str]]:
    """Prints a stage's states of single elements; their names."""
    element, parts = scope.typed.stages[at].element, []
    for k, (column, values) in enumerate(zip(columns, loads, strict=True)):
        parts.append(states.names(f"_{k}"))
        states.assign(scope.out, parts[-1], element, scope.arguments(
            element, {**values, "index": column}))
    return parts


def _states(scope: RowScope, at: int, calls: Calls | None = None) -> States:
    s = scope.typed.stages[at]
    return States(s.merge, s.identity, s.state, f"z{at}_", calls or scope.calls)
