"""`nf.max_iters` around what a loop goes over, or around its condition."""

from __future__ import annotations

import ast
from copy import copy
from typing import TYPE_CHECKING

from .forms import known_integer
from .jumps import Loop

if TYPE_CHECKING:
    from .loops import Loops

__all__ = ["hinted"]


def hinted(body: Loops, s: Loop) -> Loop:
    """The loop without the call, and with what it says.

    Raises
    ------
    ScalarSyntaxError
        The call is not around ``range(...)``, or its number is not known or negative.
    """
    name = "iter" if isinstance(s.node, ast.For) else "test"
    call = getattr(s.node, name)
    if not _is_hint(body, call):
        return s
    if len(call.args) != 2 or call.keywords:
        raise body.error(call, f"{ast.unparse(call.func)}() takes two arguments: "
                               "range(...), or a condition, and a number of iterations")
    inside, most = call.args
    if isinstance(s.node, ast.For) and not body.is_range(inside):
        raise body.error(call, f"{ast.unparse(call.func)}() takes range(...) here, got "
                               f"{ast.unparse(inside)!r}; other loops are written out "
                               "and need no hint")
    count = known_integer(body, call, body.values(most), "the number of iterations")
    if count < 0:
        raise body.error(call, "the number of iterations must be 0 or more, got "
                               f"{count}")
    node = copy(s.node)
    setattr(node, name, inside)
    return Loop(node, s.body, s.flags, count)


def _is_hint(body: Loops, node: ast.expr) -> bool:
    """Whether `node` calls `nf.max_iters`; nothing is written to find that out."""
    if not isinstance(node, ast.Call):
        return False
    root = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id in {*body.env, *body.assigned}:
        return False
    found = body.resolved(node.func)
    return getattr(found, "__nbfused_form__", None) == "max_iters"
