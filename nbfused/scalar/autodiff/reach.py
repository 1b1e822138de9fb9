"""Reach analysis: the paths through a function on which a cotangent arrives.

What the result does not use on the path that ran has no cotangent at all, and that must
not meet an infinite partial derivative: ``0 * inf`` is NaN.  A cotangent that is zero
by value is another matter, it has derivatives of its own.  So conditions are kept, not
values compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import combinations

from ...support.records import record
from ..ir.build import ZERO
from ..ir.nodes import Block, For, If, Let, Literal, Statement, Value, While, names
from .activity import linear, partials

__all__ = ["ALWAYS", "NEVER", "NOTHING", "Cotangent", "Path", "Reach", "either",
           "flagged", "mentioned", "reached", "surely_carried", "when"]

#: Names of bools, and what each of them is.
Path = frozenset[tuple[str, bool]]
#: Any of these paths.
Reach = frozenset[Path]

ALWAYS: Reach = frozenset({frozenset()})
NEVER: Reach = frozenset()


@record(frozen=True)
class Cotangent:
    """The cotangent of a value.

    Attributes
    ----------
    value
        The number, which means nothing off the paths in `reach`.
    reach
        Where the result depends on the value.
    exact
        Whether the number is zero off these paths; it may be NaN if not.
    """

    value: Value
    reach: Reach = ALWAYS
    exact: bool = True


#: Of what no result depends on.
NOTHING = Cotangent(ZERO, NEVER)


def flagged(name: str) -> Reach:
    """The condition that the bool `name` is true."""
    return frozenset({frozenset({(name, True)})})


def when(reach: Reach, condition: Value, truth: bool) -> Reach:
    """`reach`, where `condition` is also what `truth` says."""
    if isinstance(condition, Literal):
        return reach if bool(condition.value) is truth else NEVER
    return frozenset(path | {(condition, truth)} for path in reach
                     if (condition, not truth) not in path)


def either(a: Reach, b: Reach) -> Reach:
    """On the paths of both, as few as are easily found."""
    paths = a | b
    while True:
        merged = next(_merged(paths), None)
        if merged is None:
            return frozenset(p for p in paths if not any(q < p for q in paths))
        paths = merged


def _merged(paths: Reach) -> Iterator[Reach]:
    """Two paths that differ in one truth are a shorter one."""
    for p, q in combinations(paths, 2):
        if len(p) == len(q) and len(p - q) == 1 and len({n for n, _ in p ^ q}) == 1:
            yield (paths - {p, q}) | {p & q}


def mentioned(reach: Reach) -> set[str]:
    """The names of bools in `reach`."""
    return {name for path in reach for name, _ in path}


def reached(block: Block, start: Set[str]) -> set[str]:
    """The names with a cotangent on every path through `block`, from `start` on."""
    found = set(start)
    for s in reversed(block.statements):
        if found.intersection(s.results):
            found |= _passed(s, found)
    return found


def _passed(s: Statement, found: Set[str]) -> set[str]:
    match s:
        case Let():
            given = () if s.op == "select" else (a for a, _ in partials(s))
            return names((*linear(s), *given))
        case If():
            then, orelse = (reached(b, names(
                y for y, r in zip(b.yields, s.results, strict=True) if r in found))
                for b in (s.then, s.orelse))
            return then & orelse
        case For() | While():
            wanted = {k for k, r in enumerate(s.results) if r in found}
            return names(s.inits[k] for k in surely_carried(s, wanted))
    return set()


def surely_carried(s: For | While, wanted: set[int]) -> set[int]:
    """The carried values that have a cotangent in every iteration.

    `wanted` are those whose results have one.
    """
    while True:
        found = reached(s.body, names(s.body.yields[k] for k in wanted))
        fewer = {k for k in wanted if s.params[k] in found}
        if fewer == wanted:
            return wanted
        wanted = fewer
