"""``return f(…)`` inside of `f`, which starts its body again with other arguments."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ..expressions import as_type
from ..functions import Parameter
from ..scope import Scope
from ..tree import kind, walk
from ..values import Variable, converted, store

__all__ = ["calls_itself", "restart", "split"]


def _is_call(node: Any, name: str) -> bool:
    return kind(node) == "FuncCall" and getattr(node.name, "name", "") == name


def calls_itself(target: Any) -> bool:
    """True if a function calls one of its name."""
    return any(_is_call(n, target.decl.name) for n in walk(target.body))


def split(node: Any, name: str) -> Any:
    """``return c ? f(…) : b`` as ``if (c) return f(…); else return b``, or None."""
    from pycparser.c_ast import If, Return

    value = node.expr
    if kind(value) != "TernaryOp" or not any(
            _is_call(n, name) for side in (value.iftrue, value.iffalse)
            for n in walk(side)):
        return None
    then, orelse = (Return(side, node.coord) for side in (value.iftrue, value.iffalse))
    return If(value.cond, then, orelse, node.coord)


def restart(scope: Scope, node: Any, name: str, params: Sequence[Parameter],
            variables: Sequence[Variable]) -> list[ast.stmt] | None:
    """The statements of ``return f(…)`` in `f`: its parameters get new values."""
    if not _is_call(node.expr, name):
        return None
    if scope.before_continue:
        scope.refuse(node, f"{name}() calls itself inside a loop; write a loop around "
                           "its body instead")
    if any(p.raw for p in params) or any(v.kind != "value" for v in variables):
        scope.refuse(node, f"{name}() calls itself, and takes pointers; write a loop")
    args = list(node.expr.args.exprs) if node.expr.args is not None else []
    if len(args) != len(params):
        scope.refuse(node, f"{name}() takes {len(params)} arguments, got {len(args)}")
    values = [converted(as_type(scope, node, scope.value(a), p.dtype), p.dtype)
              for a, p in zip(args, params, strict=True)]
    targets: list[ast.expr] = [store(v.name) for v in variables]
    if len(values) == 1:
        return [ast.Assign(targets, values[0]), ast.Continue()]
    return [ast.Assign([ast.Tuple(targets, ast.Store())],
                       ast.Tuple(values, ast.Load())), ast.Continue()]
