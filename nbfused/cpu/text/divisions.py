"""Divisions of a point's index by a call-time number, done once for a stretch of a row.

A gather of rows divides each index twice, which takes thirty times as long as its load.
While a stretch of the inner loop stays within one multiple of the divisor, the quotient
is the same for all of it and the remainder counts up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...scalar.ir.nodes import Let, Literal, Statement
from ...scalar.typing.divisions import divide_outside, divides_whole
from ...scalar.typing.types import Typed
from ...support.records import record
from .elements import Computed, Slot
from .lines import indented
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

    def begin(self) -> list[str]:
        """Lines before all stretches."""
        return [f"quotient{k} = multiple{k} = 0" for k in range(len(self.divisors))]

    def stretches(self, inside: Sequence[str], across: Sequence[str]) -> list[str]:
        """Lines that run ``j0 … j1 - 1`` by stretches that lie within one multiple.

        Parameters
        ----------
        inside, across
            Lines that run a stretch, and one that has no room.
        """
        return ["stop = j1", "while j0 < stop:", *indented([
            "j1 = stop", *self._lines(), "if room > j0:", "    j1 = room",
            *indented(inside), "else:", *indented(across), "j0 = j1"])]

    def _lines(self) -> list[str]:
        """Lines that divide ``first + j0``; ``room`` is where ``j`` leaves a multiple.

        Most stretches begin in the multiple of the one before, or at the next one, and
        need no division.  A divisor that is not positive leaves no room.
        """
        lines = ["room = j1", "index0 = first + j0"]
        for k, d in enumerate(self.divisors):
            quotient, multiple = f"quotient{k}", f"multiple{k}"
            lines += [f"if index0 == {multiple} + {d}:", f"    {quotient} += 1",
                      f"    {multiple} += {d}",
                      f"elif {d} > 0 and (index0 < {multiple} or "
                      f"index0 > {multiple} + {d}):",
                      f"    {quotient} = index0 // {d}",
                      f"    {multiple} = {quotient} * {d}",
                      f"room = min(room, {multiple} + {d} - first)"]
        return lines

    def whole(self, row: str) -> str:
        """The condition that every row of `row` points lies within one multiple."""
        return " and ".join(f"{d} > 0 and {d} % {row} == 0" for d in self.divisors)

    def begin_rows(self) -> list[str]:
        """Lines before such rows, the first of which begins at ``first``."""
        return [line for k, d in enumerate(self.divisors) for line in (
            f"quotient{k} = first // {d}", f"multiple{k} = quotient{k} * {d}")]

    def next_row(self) -> list[str]:
        """Lines after ``first`` has moved on to the next row."""
        return [line for k, d in enumerate(self.divisors) for line in (
            f"if first == multiple{k} + {d}:", f"    quotient{k} += 1",
            f"    multiple{k} += {d}")]


def divide_once(typed: Typed, table: Mapping[str, Slot]) -> Divided | None:
    """Take the divisions of the index out of a function; None if there are none."""
    found = divide_outside(typed, lambda s: _divisor(s, typed, table))
    if found is None:
        return None
    at = {name: k for k, name in enumerate(found.divisors)}
    names = {p: Computed(f"quotient{at[d]}", INT64) for p, d in found.quotients.items()}
    names |= {p: Computed(f"multiple{at[d]}", INT64)
              for p, d in found.multiples.items()}
    return Divided(found.typed, names, found.divisors)


def _divisor(s: Statement, typed: Typed, table: Mapping[str, Slot]) -> str | None:
    """The number by which a statement divides the index, if that is what it does."""
    if not divides_whole(s, typed):
        return None
    assert isinstance(s, Let)
    index, by = s.args
    slot = table.get(index) if isinstance(index, str) else None
    if not isinstance(slot, Computed) or slot.name != "index":
        return None
    if isinstance(by, Literal):
        return by.text if by.kind == "int64" else None
    divisor = table.get(by)
    return divisor.name if isinstance(divisor, Scalar) \
        and divisor.dtype == INT64 else None
