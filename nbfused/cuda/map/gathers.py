"""Gathers of a Map: loads of raw arrays at indices that are computed from data."""

from __future__ import annotations

from ...scalar.ir.nodes import (
    For,
    Let,
    Statement,
    While,
    names,
    operands,
    regions,
    walk,
)
from ...specs import TypedMap

__all__ = ["gathers"]


def gathers(typed: TypedMap) -> int:
    """Count the loads of raw arrays at indices that are computed from data.

    Lanes that lie side by side read lines of their own there, and what two loads share
    of a line is in the first cache only as long as few others come between.
    """
    function = typed.function.function
    statements = [*walk(function.body)]
    told = {p for p, kind in zip(function.params, typed.kinds, strict=True)
            if kind in ("element", "window")}
    while True:
        more = {name for s in statements if _is_told(s, told) for name in _assigned(s)}
        if more <= told:
            break
        told |= more
    return sum(1 for s in statements if isinstance(s, Let) and s.op == "load"
               and told & names(s.args[1:]))


def _is_told(s: Statement, told: set[str]) -> bool:
    """Whether a result depends on an element's value."""
    given = names(operands(s)) | {n for r in regions(s) for n in names(r.yields)}
    return bool(told & given) or (isinstance(s, Let) and s.op == "load")


def _assigned(s: Statement) -> tuple[str, ...]:
    return (*s.results, *s.params) if isinstance(s, (For, While)) else s.results
