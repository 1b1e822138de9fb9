"""Loads of a row of a raw array, taken out of the function of its elements."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from ...support.records import record
from ..ir.clean import live
from ..ir.nodes import Block, Let, Literal, Value, read
from ..ir.uniform import uniform_names
from .types import Typed
from .values import INT64

__all__ = ["RowLoad", "RowLoads", "row_loads"]


@record(frozen=True)
class RowLoad:
    """A load of neighbours by the neighbouring elements of a row.

    Attributes
    ----------
    name
        The result, a parameter of what is left of the function.
    raw, start
        The array; the index of the element that reads the first one of a row of it.
    rank
        How many indices say which row.
    """

    name: str
    raw: str
    start: str
    rank: int


@record(frozen=True)
class RowLoads:
    """A function without its loads of rows.

    Attributes
    ----------
    places
        The function of the rows, which is the same for all elements: for each load its
        indices but the last.
    loads
        What each of them reads.
    rest
        What is left; its further parameters are the loads' results.
    """

    places: Typed
    loads: tuple[RowLoad, ...]
    rest: Typed

    @property
    def copied(self) -> str | None:
        """The raw array whose elements are the function's one result as they are."""
        body = self.rest.function.body
        if len(self.loads) == 1 and not body.statements and body.yields == (
                self.loads[0].name,):
            return self.loads[0].raw
        return None


def row_loads(typed: Typed, index: Container[str], starts: Container[str],
              moving: Container[str]) -> RowLoads | None:
    """Take loads of rows out of a function; None if there are none.

    Parameters
    ----------
    typed
        The function.
    index, starts
        Parameters that are an element's index, and that are the same for a row, which
        begins at most so far from them.
    moving
        Parameters that have other values for other elements of a row.
    """
    function = typed.function
    statements = function.body.statements
    same = uniform_names(function.body, [p for p in function.params if p not in moving])
    columns = {s.results[0]: str(s.args[1]) for s in statements
               if isinstance(s, Let) and s.op == "sub" and s.args[0] in index
               and s.args[1] in starts}
    found = [s for s in statements if isinstance(s, Let) and s.op == "load"
             and s.args[-1] in columns and all(
                 _is_same(v, same, typed) for v in s.args[1:-1])]
    if not found:
        return None
    before = tuple([s for s in statements if s.results and same.issuperset(s.results)])
    places = live(Block(before, tuple([v for s in found for v in s.args[1:-1]])))
    read_there = read(places)
    loads = tuple([RowLoad(s.results[0], str(s.args[0]), columns[str(s.args[-1])],
                           len(s.args) - 2) for s in found])
    rest = live(replace(function.body, statements=tuple([
        s for s in statements if not any(s is load for load in found)])))
    return RowLoads(
        replace(typed, results=(INT64,)*len(places.yields), function=replace(
            function, body=places,
            params=tuple([p for p in function.params if p in read_there]))),
        loads, replace(typed, function=replace(
            function, body=rest, params=(*function.params, *(x.name for x in loads)))))


def _is_same(v: Value, same: Container[str], typed: Typed) -> bool:
    """Whether a value is a whole number that is the same for all of a row."""
    return isinstance(v, Literal) or (v in same and typed.dtypes[v] == INT64)
