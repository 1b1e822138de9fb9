"""Running a part of a function again: the same values, none of the effects."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from ..ir.nodes import (
    BUFFER_WRITES,
    EFFECTS,
    Block,
    Custom,
    Let,
    Statement,
    walk,
    with_regions,
)
from .adjoints import GIVEN

__all__ = ["LOST", "buffers", "quiet", "quiet_statements"]

#: A value that cannot be computed again: what an atomic operation found.
LOST = "lost"


def buffers(statements: tuple[Statement, ...]) -> set[str]:
    """The buffers that are made in `statements`, at any depth."""
    return {s.results[0] for s in walk(Block(statements, ()))
            if isinstance(s, Let) and s.op == "buffer"}


def quiet(block: Block, filled: Set[str] = frozenset()) -> Block:
    """`block` without effects, except on the buffers in `filled` and its own."""
    filled = filled | buffers(block.statements)
    return Block(quiet_statements(block.statements, filled), block.yields)


def quiet_statements(statements: tuple[Statement, ...],
                     filled: Set[str]) -> tuple[Statement, ...]:
    """`statements` without effects, except on the buffers in `filled`."""
    return tuple(q for s in statements for q in _quiet(s, filled))


def _quiet(s: Statement, filled: Set[str]) -> tuple[Statement, ...]:
    def inside(block: Block) -> Block:
        return Block(quiet_statements(block.statements, filled), block.yields)

    match s:
        case Let():
            return _quiet_let(s, filled)
        case Custom():
            body = quiet(s.function.body)
            return (replace(s, function=replace(s.function, body=body)),)
    return (with_regions(s, inside),)


def _quiet_let(s: Let, filled: Set[str]) -> tuple[Statement, ...]:
    if s.op in BUFFER_WRITES:
        return (s,) if s.args[0] in filled else ()
    if s.op == "recall" and s.attr == GIVEN:  # what it gives is on the tape now
        return (replace(s, args=s.args[:2]),)
    if s.op not in EFFECTS:
        return (s,)
    return (replace(s, op=LOST, args=()),) if s.results else ()
