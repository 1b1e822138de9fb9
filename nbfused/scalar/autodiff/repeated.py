"""Running a part of a function again: the same values, none of the effects.

Values that reverse mode needs and cannot compute again are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from ..ir.build import inline
from ..ir.nodes import (
    BUFFER_WRITES,
    EFFECTS,
    Block,
    Custom,
    Function,
    Let,
    Statement,
    walk,
    with_regions,
)
from .activity import refuse
from .adjoints import GIVEN

__all__ = ["buffers", "check_arrays", "check_repeated", "quiet", "quiet_statements"]

#: A value that cannot be computed again: what an atomic operation found.
_LOST = "lost"
#: The way out besides a rule, for places that threads count.
_INSTEAD = ", or store places that threads count in one kernel, to read them in another"
_WRITES = frozenset({"store", "atomic_add", "atomic"})


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
    return (replace(s, op=_LOST, args=()),) if s.results else ()


def check_arrays(function: Function, active: set[str]) -> None:
    """An array with a derivative is either read or written, but for what is recorded.

    Raises
    ------
    NotDifferentiableError
        It is both.
    """
    lets = [s for s in walk(function.body) if isinstance(s, Let)]
    written = {str(s.args[0]) for s in lets if s.op in _WRITES and active.intersection(
        a for a in (s.args[0], s.args[-1]) if isinstance(a, str))}
    for s in lets:
        if s.op == "load" and s.args[0] in written and s.attr != "once":
            raise refuse(function, s.line, f"{s.args[0]!r} is both read and written, "
                         "which has no derivative; write to another array, or give the "
                         "function a rule")


def check_repeated(function: Function, derivative: Function,
                   own: Iterable[str]) -> None:
    """The derivative runs parts of `function` again; `own` are arrays that it adds.

    Raises
    ------
    NotDifferentiableError
        It would need a value that another thread gave, or that is overwritten.
    """
    changed = {str(s.args[0]) for s in walk(inline(function).body)
               if isinstance(s, Let) and s.op in _WRITES}
    lets = [s for s in walk(inline(derivative).body) if isinstance(s, Let)]
    changed |= {s.results[0] for s in lets if s.op == "shared"} - set(own)
    for s in lets:
        if s.op == _LOST:
            raise refuse(function, s.line, "the derivative depends on the old value of "
                         f"an atomic operation; give the function a rule{_INSTEAD}")
        if s.op == "load" and s.args[0] in changed:
            raise refuse(function, s.line, f"the derivative depends on an element of "
                         f"{s.args[0]!r}, which the function changes; give the "
                         "function a rule")
