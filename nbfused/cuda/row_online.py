"""A maximum and a sum of powers relative to it, in one pass over the elements.

A lane's sum is relative to the largest element that the lane has seen; it is scaled
anew once for every few elements, not for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..scalar.types import Typed
from ..specs.row_forms import Online
from .source import evaluate
from .states import States

if TYPE_CHECKING:
    from .row_writer import RowWriter

__all__ = ["OnlineStates"]


class OnlineStates:
    """Writes what is done with the two states.

    Parameters
    ----------
    writer
        Of the kernel.
    pair
        The two stages.
    """

    def __init__(self, writer: RowWriter, pair: Online) -> None:
        self.out, self.calls, self.pair = writer.out, writer.calls, pair
        self.top, self.total = (
            States(s.merge, s.identity, s.state, f"z{k}_", writer.calls)
            for k, s in ((k, writer.typed.stages[k]) for k in (pair.top, pair.total)))
        self.both = States(
            pair.merge, (*self.top.identity, *self.total.identity),
            (*self.top.dtypes, *self.total.dtypes), f"w{pair.top}_", writer.calls)

    def add(self, state: Sequence[str], elements: Sequence[list[str]],
            powers: Callable[[str], list[list[str]]]) -> None:
        """Take a few elements in.

        Parameters
        ----------
        state
            The names of the maximum and of the sum.
        elements
            States of the maximum, one for each element.
        powers
            Prints states of the sum, whose elements are relative to what it is given.
        """
        out, (top, total) = self.out, state
        new = f"{top}_new"
        out(f"{new} = {top}")
        self.top.tree(out, [new], elements)
        scale = self._value(self.pair.shift, top, new)
        out(f"{total} = {total}*{scale}", f"{top} = {new}")
        base = self._value(self.pair.base, top)
        self.total.tree(out, [total], powers(base))

    def finish(self, state: Sequence[str]) -> None:
        """After all elements of the row."""
        top, total = state
        self.out(f"{total} = {self._value(self.pair.finish, top, total, 'columns')}")

    def _value(self, typed: Typed, *arguments: str) -> str:
        """The name of a function's value."""
        params = typed.function.params
        lines, (name,) = evaluate(typed, dict(zip(params, arguments, strict=True)),
                                  f"{typed.function.name}{self.pair.top}_", self.calls)
        self.out(*lines)
        return name
