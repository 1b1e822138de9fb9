"""Functions as values: lambdas, functions inside functions, those from outside."""

from __future__ import annotations

import ast
import inspect
from dataclasses import field
from typing import Any

from ...support.records import record
from ..source.definitions import parameters
from ..source.structure import Values
from .scope import ExpressionParser, Scope, StatementParser

__all__ = ["EXPRESSIONS", "STATEMENTS", "Closure", "Outside", "signature_of"]


@record(frozen=True, eq=False)
class Outside:
    """A function from outside the parsed one, passed on as a value."""

    target: Any


@record(eq=False)
class Closure:
    """A function defined inside the parsed one; `scope` has the names it sees."""

    name: str
    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    defaults: dict[str, Values] = field(default_factory=dict)
    running: bool = False


def signature_of(closure: Closure) -> inspect.Signature:
    """The signature of a closure."""
    a, kinds = closure.node.args, inspect.Parameter
    positional = len(a.posonlyargs) + len(a.args)
    made = []
    for k, name in enumerate(parameters(closure.node)):
        kind = kinds.POSITIONAL_ONLY if k < len(a.posonlyargs) else \
            kinds.POSITIONAL_OR_KEYWORD if k < positional else kinds.KEYWORD_ONLY
        made.append(kinds(name, kind, default=closure.defaults.get(name, kinds.empty)))
    return inspect.Signature(made)


def _parse_lambda(scope: Scope, node: ast.Lambda, stem: str) -> Values:
    return Closure("lambda", node, scope, _defaults(scope, node))


def _parse_def(scope: Scope, s: ast.FunctionDef) -> None:
    """Bind a function inside, unless the environment gives its name a meaning."""
    if s.name not in scope.skipped:
        scope.env[s.name] = Closure(s.name, s, scope, _defaults(scope, s))


def _defaults(scope: Scope, node: ast.FunctionDef | ast.Lambda) -> dict[str, Values]:
    """The defaults of a function inside, computed where it is defined."""
    a = node.args
    names = [p.arg for p in (*a.posonlyargs, *a.args)]
    pairs = [*zip(reversed(names), reversed(a.defaults), strict=False),
             *((p.arg, d) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)
               if d is not None)]
    return {name: scope.values(d) for name, d in pairs}


EXPRESSIONS: dict[type[ast.expr], ExpressionParser] = {ast.Lambda: _parse_lambda}
STATEMENTS: dict[type[ast.stmt], StatementParser] = {ast.FunctionDef: _parse_def}
