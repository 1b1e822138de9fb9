"""Divisions of a point's index by a call-time number, done once for a stretch of a row.

A gather of rows divides each index twice, which takes thirty times as long as its load.
While a stretch of the inner loop stays within one multiple of the divisor, the quotient
is the same for all of it and the remainder counts up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...scalar.ir.nodes import Let, Statement
from ...scalar.typing.types import Typed
from ...support.records import record
from .elements import Computed, Slot
from .operands import INT64, Scalar

__all__ = ["Divided", "divide_once"]


@record(frozen=True)
class Divided:
    """A function whose divisions of the index are done before the loop.

    Attributes
    ----------
    typed
        The function of the quotients, and of the multiples that remainders begin at.
    table
        What the kernel computes for those further parameters.
    divisors
        Names of the numbers.
    """

    typed: Typed
    table: Mapping[str, Computed]
    divisors: tuple[str, ...]

    def lines(self) -> list[str]:
        """Lines that divide ``first + j0``; ``room`` is where ``j`` leaves a multiple.

        A divisor that is not positive leaves no room.
        """
        lines = ["room = j1"]
        for k, divisor in enumerate(self.divisors):
            lines += [f"quotient{k} = 0",
                      f"if {divisor} > 0:",
                      f"    quotient{k} = (first + j0) // {divisor}",
                      f"multiple{k} = quotient{k} * {divisor}",
                      f"room = min(room, multiple{k} + {divisor} - first)"]
        return lines


def divide_once(typed: Typed, table: Mapping[str, Slot]) -> Divided | None:
    """Take the divisions of the index out of a function; None if there are none."""
    divisors = list(dict.fromkeys(
        slot.name for s in typed.function.body.statements
        if (slot := _divisor(s, typed, table)) is not None))
    if not divisors:
        return None
    statements: list[Statement] = []
    names: dict[str, Computed] = {}
    for s in typed.function.body.statements:
        slot = _divisor(s, typed, table)
        if slot is None:
            statements.append(s)
            continue
        assert isinstance(s, Let)
        k = divisors.index(slot.name)
        if s.op == "floordiv":
            names[s.results[0]] = Computed(f"quotient{k}", INT64)
        else:
            start = f"{s.results[0]}_start"
            names[start] = Computed(f"multiple{k}", INT64)
            statements.append(replace(s, op="sub", args=(s.args[0], start)))
    function = typed.function
    body = replace(function.body, statements=tuple(statements))
    made = replace(function, params=(*function.params, *names), body=body)
    return Divided(replace(typed, function=made, dtypes={
        **typed.dtypes, **dict.fromkeys(names, INT64)}), names, tuple(divisors))


def _divisor(s: Statement, typed: Typed, table: Mapping[str, Slot]) -> Scalar | None:
    """The number by which a statement divides the index, if that is what it does."""
    if not isinstance(s, Let) or s.op not in ("floordiv", "mod"):
        return None
    index, slot = (table.get(a) if isinstance(a, str) else None for a in s.args)
    indexed = isinstance(index, Computed) and index.name == "index"
    whole = typed.dtypes[s.results[0]] == INT64
    return slot if indexed and whole and isinstance(slot, Scalar) \
        and slot.dtype == INT64 else None
