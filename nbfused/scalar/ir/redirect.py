"""Accesses of raw arrays that are made to other arrays, or to none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from .build import ZERO, inline
from .nodes import WRITES, Function, Let, Statement, names, rewrite

__all__ = ["NOWHERE", "redirect", "without_derivatives"]

#: In place of an array: there is none.
NOWHERE = ""


def redirect(function: Function, moved: Mapping[str, frozenset[str]],
             table: Mapping[str, str]) -> Function:
    """`function` with accesses of arrays made to others.

    Parameters
    ----------
    moved
        For an array, the operations on it that go elsewhere.
    table
        Where they go; with `NOWHERE` they read zeros and write nothing.
    """
    function = inline(function, lambda call: not names(call.args).intersection(moved))

    def change(s: Let) -> Iterable[Statement]:
        array = str(s.args[0]) if s.args else ""
        if s.op not in moved.get(array, ()):
            return (s,)
        if table[array]:
            return (replace(s, args=(table[array], *s.args[1:])),)
        return tuple(Let((r,), "id", (ZERO,), None, s.line) for r in s.results)

    return replace(function, body=rewrite(function.body, change))


def without_derivatives(function: Function, alone: Mapping[str, str]) -> Function:
    """`function` where arrays came without the derivatives that it uses.

    `alone` has a name for each of these: it reads as 0, and writes are dropped.
    """
    absent = alone.values()
    accesses = dict.fromkeys(absent, WRITES | {"load"})
    function = redirect(function, accesses, dict.fromkeys(absent, NOWHERE))
    extents = {d: frozenset({"extent"}) for d in absent}
    return redirect(function, extents, {d: a for a, d in alone.items()})
