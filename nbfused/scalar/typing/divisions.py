"""Divisions of a number that a kernel knows more of, taken out of a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...support.records import record
from ..ir.nodes import Let, Statement
from .types import Typed
from .values import INT64

__all__ = ["Divided", "divide_outside", "divides_whole"]

#: The name of the divisor of a statement that should go; None: it stays.
Divisor = Callable[[Statement], str | None]


@record(frozen=True)
class Divided:
    """A function without some divisions.

    Attributes
    ----------
    typed
        The function; its further parameters are those of the next two.
    quotients, multiples
        For each of these its divisor: the quotient itself, and the multiple of the
        divisor that a remainder begins at.
    divisors
        Names of the divisors, each once.
    """

    typed: Typed
    quotients: Mapping[str, str]
    multiples: Mapping[str, str]
    divisors: tuple[str, ...]


def divides_whole(s: Statement, typed: Typed) -> bool:
    """Whether a statement is a quotient or a remainder of 64-bit integers."""
    return isinstance(s, Let) and s.op in ("floordiv", "mod") and \
        typed.dtypes[s.results[0]] == INT64


def divide_outside(typed: Typed, divisor: Divisor) -> Divided | None:
    """Take divisions out of a function; None if there are none.

    A remainder becomes the difference from the multiple that it begins at.
    """
    statements: list[Statement] = []
    quotients: dict[str, str] = {}
    multiples: dict[str, str] = {}
    divisors: dict[str, None] = {}
    for s in typed.function.body.statements:
        by = divisor(s)
        if by is None:
            statements.append(s)
            continue
        assert isinstance(s, Let)
        divisors[by] = None
        if s.op == "floordiv":
            quotients[s.results[0]] = by
        else:
            start = f"{s.results[0]}_start"
            multiples[start] = by
            statements.append(replace(s, op="sub", args=(s.args[0], start)))
    if not divisors:
        return None
    names = (*quotients, *multiples)
    function = typed.function
    body = replace(function.body, statements=tuple(statements))
    made = replace(function, params=(*function.params, *names), body=body)
    return Divided(replace(typed, function=made, dtypes={
        **typed.dtypes, **dict.fromkeys(names, INT64)}), quotients, multiples,
        tuple(divisors))
