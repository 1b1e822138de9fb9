"""Guards that end a loop over threads: ``if i < n`` in each of them is a loop to n.

A launch has whole blocks, so nearly every kernel compares its place with an extent
first.  Where all that it does stands behind comparisons of its place along x with
integers that are the same for the whole row, the loop has only the threads inside and
none of them compares; with a mask for each vector the heat step of 2048² takes 1.5
times as long: benchmarks/notes/cpu.md#guards-of-threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ...scalar.ir.nodes import EFFECTS, Block, If, Let, Literal, Value, rewrite
from ...scalar.ir.uniform import OWN, uniform_names
from ...specs.raw import TypedRaw
from ...support.records import record
from .accesses import places_of

__all__ = ["Bound", "Guards", "find_guards"]

#: A comparison with its sides exchanged; and one that holds where it does not.
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq"}
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "ne": "eq"}
#: What is added to the number that a place is compared with: to get the first place,
#: and the end.
_FIRST, _END = {"gt": 1, "ge": 0, "eq": 0}, {"lt": 0, "le": 1, "eq": 1}
#: Places beside a thread's own up to which sums cannot overflow.
_NEAR = 1 << 31
_INT64 = np.dtype(np.int64)


@record(frozen=True)
class Bound:
    """`value`, the same for a row, `offset` places before a row's first one or end."""

    value: Value
    offset: int


@record(frozen=True)
class Guards:
    """A kernel without the comparisons that its loop has instead.

    Attributes
    ----------
    typed
        The kernel, for threads inside.
    firsts, ends
        Bounds of the places along x: none is before a first or not before an end.
    operations
        What the bounds' values are computed by.
    """

    typed: TypedRaw
    firsts: tuple[Bound, ...]
    ends: tuple[Bound, ...]
    operations: tuple[Let, ...]


#: A comparison that holds wherever a kernel does anything, or does not hold.
_Condition = tuple[Let, bool]


def find_guards(typed: TypedRaw, varying: frozenset[str]) -> Guards | None:
    """The guards along x, None if there are none.

    Parameters
    ----------
    typed
        A kernel whose threads do not wait for one another.
    varying
        The parameters that differ between threads of a row.
    """
    operations, conditions = _before_effects(typed.function.function.body)
    same = uniform_names(Block(operations, ()), set(
        typed.function.function.params) - varying)
    places = places_of(typed)
    firsts, ends = list[Bound](), list[Bound]()
    settled = dict[str, bool]()
    for s, holds in conditions:
        found = _compared(s, holds, typed, same, places)
        if found is not None:
            op, value, place = found
            firsts += [Bound(value, _FIRST[op] - place)] if op in _FIRST else []
            ends += [Bound(value, _END[op] - place)] if op in _END else []
            settled[s.results[0]] = holds
    return Guards(_settled(typed, settled), tuple(firsts), tuple(ends), _needed(
        operations, firsts + ends)) if settled else None


def _before_effects(block: Block) -> tuple[tuple[Let, ...], list[_Condition]]:
    """Operations without effects at a kernel's begin, and what guards the others."""
    operations, conditions = list[Let](), list[_Condition]()
    while block.statements:
        *before, last = block.statements
        if not (isinstance(last, If) and all(isinstance(
                s, Let) and s.op not in OWN | EFFECTS for s in before)):
            break
        inside = last.then if last.then.statements else last.orelse
        if last.then.statements and last.orelse.statements:
            break
        operations += [s for s in before if isinstance(s, Let)]
        made = {r: s for s in operations for r in s.results}
        conditions += _parts(last.condition, inside is last.then, made)
        block = inside
    return tuple(operations), conditions


def _parts(condition: Value, holds: bool, made: Mapping[str, Let],
           ) -> Iterator[_Condition]:
    """The comparisons that all hold, or all do not, where a condition does or not."""
    s = None if isinstance(condition, Literal) else made.get(condition)
    if s is None:
        return
    if s.op == "logical_not":
        yield from _parts(s.args[0], not holds, made)
    elif s.op == ("logical_and" if holds else "logical_or"):
        for value in s.args:
            yield from _parts(value, holds, made)
    else:
        yield s, holds


def _compared(s: Let, holds: bool, typed: TypedRaw, same: set[str],
              places: Mapping[str, tuple[str, int]]) -> tuple[str, Value, int] | None:
    """A comparison of a place along x: which one, with what, and the place's offset."""
    op = s.op if holds else _OPPOSITE.get(s.op, "")
    if op not in _TURNED or any(_dtype(v, typed) != _INT64 for v in s.args):
        return None
    a, b = s.args
    for which, own, other in ((op, a, b), (_TURNED[op], b, a)):
        where = places.get(own) if isinstance(own, str) else None
        if where is not None and where[0] == "grid.x" and abs(where[1]) < _NEAR and (
                isinstance(other, Literal) or other in same):
            return which, other, where[1]
    return None


def _dtype(v: Value, typed: TypedRaw) -> np.dtype:
    return np.dtype(v.kind) if isinstance(v, Literal) else typed.function.dtypes[v]


def _needed(operations: tuple[Let, ...], bounds: list[Bound]) -> tuple[Let, ...]:
    """The operations that the bounds' values depend on, in order."""
    names = {b.value for b in bounds if isinstance(b.value, str)}
    found = list[Let]()
    for s in reversed(operations):
        if names.intersection(s.results):
            names.update(v for v in s.args if isinstance(v, str))
            found.append(s)
    return tuple(reversed(found))


def _settled(typed: TypedRaw, known: Mapping[str, bool]) -> TypedRaw:
    """The kernel with the results of some comparisons known."""

    def change(s: Let) -> tuple[Let, ...]:
        if s.results and s.results[0] in known:
            value = Literal("bool", str(known[s.results[0]]))
            s = Let(s.results, "cast", (value,), "bool", s.line)
        return (s,)

    function = typed.function.function
    return replace(typed, function=replace(typed.function, function=replace(
        function, body=rewrite(function.body, change))))
