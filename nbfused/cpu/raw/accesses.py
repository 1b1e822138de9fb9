"""Accesses of a kernel's arrays, by the places of threads in the grid."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...scalar.ir.nodes import Let, Literal, Value, walk
from ...specs.raw import TypedRaw

__all__ = ["Access", "accesses_of", "places_of"]

#: The operands of an access that follow its index.
_VALUES = {"load": 0, "store": 1, "atomic": 1}

#: A word that says where a thread is, and a number that is added to it.  The words are
#: those of `Place`, ``start.x``, where the block begins, ``grid.x``, and "" for none.
_Where = tuple[str, int]

_PRODUCTS = {frozenset((f"blockIdx.{a}", f"blockDim.{a}")): f"start.{a}" for a in "xyz"}
_SUMS = {frozenset((f"start.{a}", f"threadIdx.{a}")): f"grid.{a}" for a in "xyz"}

#: An operation on an array, and the place of each of its indices that is known.
Access = tuple[Let, list[_Where | None]]


def accesses_of(typed: TypedRaw) -> dict[str, list[Access]]:
    """Accesses of each array, with the places of indices, None where unknown."""
    known = places_of(typed)
    found: dict[str, list[Access]] = {}
    for s in walk(typed.function.function.body):
        if isinstance(s, Let) and s.op in _VALUES:
            values = 2 if s.attr == "cas" else _VALUES[s.op]
            found.setdefault(str(s.args[0]), []).append(
                (s, [_where(v, known) for v in s.args[1:len(s.args) - values]]))
    return found


def places_of(typed: TypedRaw) -> dict[str, _Where]:
    """The integers of a kernel that say where a thread is, or a place beside it."""
    known: dict[str, _Where] = {p.name: (p.word, 0) for p in typed.places}
    for s in walk(typed.function.function.body):
        if isinstance(s, Let) and s.op not in _VALUES and len(s.results) == 1 and \
                typed.function.dtypes[s.results[0]] == np.int64:
            where = _computed(s.op, [_where(v, known) for v in s.args])
            if where is not None:
                known[s.results[0]] = where
    return known


def _where(v: Value, known: Mapping[str, _Where]) -> _Where | None:
    if not isinstance(v, Literal):
        return known.get(v)
    number = v.value.real
    return ("", int(number)) if number == number // 1 else None


def _computed(op: str, operands: list[_Where | None]) -> _Where | None:
    """The place that an operation gives."""
    match op, operands:
        case "cast" | "id" | "index", [where]:
            return where
        case "mul", [(a, 0), (b, 0)]:
            word = _PRODUCTS.get(frozenset((a, b)))
            return None if word is None else (word, 0)
        case "add", [(a, j), (b, k)]:
            word = a or b if "" in (a, b) else _SUMS.get(frozenset((a, b)))
            return None if word is None else (word, j + k)
        case "sub", [(a, j), ("", k)]:
            return a, j - k
    return None
