"""Whether loops record much for reverse mode, or little and compute more again.

Each loop carries its preference, so that it goes with the function into whatever that
becomes part of, and into every key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ...errors import DefinitionError
from ...support.records import record
from ..ir.nodes import Block, Custom, For, Function, Statement, While, with_regions

__all__ = ["PREFERENCES", "Sizes", "check_preference", "preferring", "sizes", "stamped"]


@record(frozen=True)
class Sizes:
    """Limits of what loops record for reverse mode.

    Attributes
    ----------
    exact
        Loops of at most so many iterations record each of them.
    slots
        Entries of a level of checkpoints.
    hinted
        The most entries that a loop's `max_iters` may ask for.
    """

    exact: int = 64
    slots: int = 32
    hinted: int = 1024


#: By name; the first one is what loops do of which nothing was said.
PREFERENCES = {"checkpoint": Sizes(), "recompute": Sizes(exact=8, slots=8, hinted=8)}


def sizes(prefer: str) -> Sizes:
    """The limits of what a loop records."""
    return PREFERENCES[prefer or "checkpoint"]


def check_preference(name: str, prefer: Any) -> str:
    """The mark of loops for a preference, "" for None.

    Raises
    ------
    DefinitionError
        It is no preference.
    """
    if prefer is None:
        return ""
    if not isinstance(prefer, str) or prefer not in PREFERENCES:
        raise DefinitionError(f"{name}: 'prefer' must be 'checkpoint' or 'recompute', "
                              f"got {prefer!r}")
    return prefer


def preferring(function: Function, prefer: str, every: bool = False) -> Function:
    """`function` with its loops marked that have no mark yet, or every one."""
    if not prefer:
        return function
    origin = function.origin and replace(
        function.origin, primal=preferring(function.origin.primal, prefer, every))
    return replace(function, body=_block(function.body, prefer, every), origin=origin)


def stamped(statements: Iterable[Statement], prefer: str) -> tuple[Statement, ...]:
    """`statements`, of which loops without a mark get one."""
    if not prefer:
        return tuple(statements)
    return _block(Block(tuple(statements), ()), prefer, False).statements


def _block(block: Block, prefer: str, every: bool) -> Block:
    def inside(b: Block) -> Block:
        return _block(b, prefer, every)

    def rule(f: Function | None) -> Function | None:
        return f and preferring(f, prefer, every)

    found: list[Statement] = []
    for s in block.statements:
        s = with_regions(s, inside)
        match s:
            case For() | While():
                s = replace(s, prefer=_mark(s, prefer, every))
            case Custom():
                s = replace(s, function=preferring(s.function, prefer, every),
                            vjp=rule(s.vjp), jvp=rule(s.jvp))
        found.append(s)
    return Block(tuple(found), block.yields)


def _mark(s: For | While, prefer: str, every: bool) -> str:
    return prefer if every else s.prefer or prefer
