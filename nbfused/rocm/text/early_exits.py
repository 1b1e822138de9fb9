"""Threads that return before a barrier which others of their block reach."""

from __future__ import annotations

from dataclasses import replace

from ...scalar.ir.nodes import Block, If, Let
from ...scalar.typing.types import Typed
from ...specs.raw import waits

__all__ = ["leaving"]


def leaving(typed: Typed) -> Typed:
    """The kernel `typed`, where threads that return early say so.

    A GPU's barriers know who has ended.  Emulation takes a thread that ends without
    having reached a barrier for a mistake, unless it said ``nbf::leave()``.
    """
    body = _marked(typed.function.body)
    return replace(typed, function=replace(typed.function, body=body))


def _marked(block: Block) -> Block:
    """A block after which nothing follows: its last branch may be a return."""
    *before, last = block.statements or (None,)
    if not isinstance(last, If):
        return block
    then, orelse = _marked(last.then), _marked(last.orelse)
    if any(map(waits, orelse.statements)) and not any(map(waits, then.statements)):
        then = replace(then, statements=(*then.statements, Let((), "barrier", (),
                                                               "leave")))
    last = replace(last, then=then, orelse=orelse)
    return replace(block, statements=(*before, last))
