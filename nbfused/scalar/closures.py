"""Functions as values: lambdas, functions inside functions, those from outside."""

from __future__ import annotations

import ast
import inspect
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..records import record
from .source import parameters
from .structure import Values

if TYPE_CHECKING:
    from .statements import Statements

__all__ = ["Closure", "Outside", "signature_of"]


@record(frozen=True, eq=False)
class Outside:
    """A function from outside the parsed one, passed on as a value."""

    target: Any


@record(eq=False)
class Closure:
    """A function defined inside the parsed one; `owner` has the names it sees."""

    name: str
    node: ast.FunctionDef | ast.Lambda
    owner: Statements
    defaults: dict[str, Values] = field(default_factory=dict)
    running: bool = False


def signature_of(closure: Closure) -> inspect.Signature:
    """How a closure is called."""
    a, kinds = closure.node.args, inspect.Parameter
    positional = len(a.posonlyargs) + len(a.args)
    made = []
    for k, name in enumerate(parameters(closure.node)):
        kind = kinds.POSITIONAL_ONLY if k < len(a.posonlyargs) else \
            kinds.POSITIONAL_OR_KEYWORD if k < positional else kinds.KEYWORD_ONLY
        made.append(kinds(name, kind, default=closure.defaults.get(name, kinds.empty)))
    return inspect.Signature(made)
