"""``switch`` of C bodies, as branches; one that ends early stands in a loop of its own.

What falls through is written again for each label that it is reached from.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..expressions import as_type
from ..scope import Scope, StatementParser
from ..tree import kind, walk
from ..types import promote
from ..values import call, constant, converted, store

__all__ = ["STATEMENTS"]

_BOOL = np.dtype(np.bool_)
_LOOPS = ("For", "While", "DoWhile", "Switch")


def _parse_switch(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``switch (k) { case 0: … }``."""
    value = scope.typed(node.cond)
    if value.dtype.kind not in "biu":
        scope.refuse(node, f"switch takes an integer, got {value.dtype}")
    with scope.block():
        dtype = promote(value.dtype)
        chosen = scope.declare("chosen", dtype)
        first = ast.Assign([store(chosen.name)], converted(
            as_type(scope, node, value, dtype), dtype))
        return [first, *_entered(scope, node, chosen.name, dtype)]


def _entered(scope: Scope, node: Any, name: str, dtype: np.dtype) -> list[ast.stmt]:
    """The branches, in a loop that runs once if one of them breaks inside."""
    groups = _groups(scope, node)
    entries = [_until_break([s for g in groups[k:] for s in g.stmts or ()])
               for k in range(len(groups))]
    tests = _tests(scope, groups, dtype)
    if not any(_breaks(s) for entry in entries for s in entry):
        return _branches(scope, name, tests, entries)
    return _once(scope, node, lambda: _branches(scope, name, tests, entries))


def _groups(scope: Scope, node: Any) -> list[Any]:
    """The labels of a switch, each with its statements."""
    body = node.stmt.block_items or [] if kind(node.stmt) == "Compound" else [node.stmt]
    for item in body:
        if kind(item) not in ("Case", "Default"):
            scope.refuse(item, "a statement of a switch stands before its first case, "
                               "where nothing reaches it; move it before the switch")
    return list(body)


def _tests(scope: Scope, groups: Sequence[Any],
           dtype: np.dtype) -> list[int | None]:
    """The number of each label, None for ``default``."""
    found: list[int | None] = []
    for g in groups:
        label = None if kind(g) == "Default" else scope.typed(g.expr)
        if label is not None and (label.number is None
                                  or label.dtype.kind not in "biu"):
            scope.refuse(g, "the label of a case must be an integer that is known")
        number = None if label is None else as_type(scope, g, label, dtype).number
        if number in found:
            scope.refuse(g, "default stands twice" if number is None else
                         f"the case {number} stands twice")
        found.append(number)  # type: ignore[arg-type]
    return found


def _branches(scope: Scope, name: str, tests: Sequence[int | None],
              entries: Sequence[Sequence[Any]]) -> list[ast.stmt]:
    """``if``, ``elif`` and ``else`` of the labels; default is last."""
    found: list[ast.stmt] = []
    order = sorted(range(len(tests)), key=lambda k: tests[k] is not None)
    for k in order:
        with scope.block():
            body = scope.statements(entries[k])
        if tests[k] is None:
            found = body
            continue
        same = ast.Compare(ast.Name(name, ast.Load()), [ast.Eq()],
                           [constant(tests[k] or 0)])
        found = [ast.If(same, body or [ast.Pass()], found)]
    return found


def _once(scope: Scope, node: Any, branches: Any) -> list[ast.stmt]:
    """A loop that runs once: ``break`` leaves it; ``continue`` is of the next."""
    again = scope.declare("again", _BOOL)
    around = scope.before_continue[-1] if scope.before_continue else None

    def leave() -> list[ast.stmt]:
        return [ast.Assign([store(again.name)], constant(True))]

    scope.before_continue.append(leave)
    try:
        body = branches()
    finally:
        scope.before_continue.pop()
    scope.unit.outside[".range"] = range
    after = [*around(), ast.Continue()] if around else scope.leave(
        None) if _continues(node.stmt) else []
    return [ast.Assign([store(again.name)], constant(False)),
            ast.For(store("_once"), call("range", constant(1)), body, []),
            *([ast.If(ast.Name(again.name, ast.Load()), after, [])] if after else [])]


def _until_break(statements: Sequence[Any]) -> list[Any]:
    """The statements that run before a ``break`` that is reached for certain."""
    found: list[Any] = []
    for s in statements:
        if kind(s) == "Break":
            break
        if kind(s) == "Compound" and s.block_items:
            inner = _until_break(s.block_items)
            if len(inner) < len(s.block_items) or inner[-1] is not s.block_items[-1]:
                s = copy.copy(s)
                s.block_items = inner
                found.append(s)
                break
        found.append(s)
        if kind(s) in ("Return", "Continue", "Goto"):
            break
    return found


def _breaks(node: Any) -> bool:
    """True if a statement breaks out of the switch around it."""
    return kind(node) == "Break" or (kind(node) not in _LOOPS and any(
        _breaks(child) for _, child in node.children()))


def _continues(node: Any) -> bool:
    return any(kind(n) == "Continue" for n in walk(node))


STATEMENTS: dict[str, StatementParser] = {"Switch": _parse_switch}
