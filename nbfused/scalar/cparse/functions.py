"""C functions as scalar functions, and calls of those that the preamble defines."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...support.records import record
from ..ir.nodes import Function
from ..parse.functions import parse_tree
from ..source.definitions import Source
from .expressions import as_type
from .scope import Scope
from .tree import kind, walk
from .values import Typed, Variable, converted

__all__ = ["Parameter", "build_function", "call_device_function",
           "declare_parameter", "return_value"]


@record(frozen=True)
class Parameter:
    """A parameter of a C body.

    Attributes
    ----------
    dtype
        Of the value, or of the elements.
    raw
        Whether it is an array that the body indexes.
    written
        Whether the body may write to it: an output.
    """

    name: str
    dtype: np.dtype
    raw: bool = False
    written: bool = False


def declare_parameter(scope: Scope, p: Parameter) -> Variable:
    """Declare a parameter."""
    return scope.declare(p.name, p.dtype, "raw" if p.raw else "value",
                         constant=not p.written)


def build_function(scope: Scope, name: str, variables: Sequence[Variable], tree: Any,
                   last: list[ast.stmt], source: Source) -> Function:
    """The function of a body, by way of the scalar language; `last` ends it."""
    with scope.block():
        body = [*scope.statements(tree.body.block_items or ()), *last]
    return parse_tree(name, [v.name for v in variables], body, source,
                      scope.unit.outside)


def return_value(scope: Scope, node: Any, value: Typed,
                 dtype: np.dtype) -> list[ast.stmt]:
    """``return`` of a value, converted."""
    return [ast.Return(converted(as_type(scope, node, value, dtype), dtype))]


def call_device_function(scope: Scope, node: Any, name: str,
                         args: Sequence[Any]) -> Typed | None:
    """A call of a function of the preamble; None if there is none."""
    unit = scope.unit
    target = unit.functions.get(name)
    if target is None:
        return None
    declared = target.decl.type.args.params if target.decl.type.args else []
    declared = [d for d in declared if kind(d) != "Typename"]
    if len(declared) != len(args):
        scope.refuse(node, f"{name}() takes {len(declared)} arguments, got {len(args)}")
    if name in unit.open:
        scope.refuse(node, f"{name}() calls itself; use a loop")
    given = [_argument(scope, d, a) for d, a in zip(declared, args, strict=True)]
    callee = _Instance(scope, target, declared, [v.dtype for v in given])
    key = f"{name}<{', '.join(str(v.dtype) for v in given)}>"
    if f".{key}" not in unit.outside:
        unit.outside[f".{key}"] = callee.function(key)
    nodes = [v.node if p.raw else converted(v, p.dtype)
             for v, p in zip(given, callee.params, strict=True)]
    return Typed(ast.Call(ast.Name(f".{key}", ast.Load()), nodes, []), callee.result)


def _argument(scope: Scope, declared: Any, node: Any) -> Typed:
    """A value, or a raw array that a pointer takes."""
    if kind(declared.type) != "PtrDecl":
        return scope.typed(node)
    variable = scope.lookup(getattr(node, "name", "")) if kind(node) == "ID" else None
    if variable is None or variable.kind != "raw":
        scope.refuse(node, f"the pointer {declared.name!r} takes a raw array by its "
                           "name")
    return Typed(ast.Name(variable.name, ast.Load()), variable.dtype)


class _Instance:
    """A function of the preamble for arguments of some dtypes."""

    def __init__(self, caller: Scope, target: Any, declared: Sequence[Any],
                 dtypes: Sequence[np.dtype]) -> None:
        self.unit, self.target = caller.unit, target
        self.source = self.unit.sources["preamble"]
        self.scope = Scope(caller.grammar, self.unit, self.source)
        self.scope.types = {**self.unit.types, **self._deduced(declared, dtypes)}
        self.params = [Parameter(d.name, self.scope.dtype(d.type),
                                 kind(d.type) == "PtrDecl") for d in declared]
        returned = target.decl.type.type
        if getattr(returned.type, "names", None) == ["void"]:
            self._refuse()
        self.result = self.scope.dtype(returned)

    def _refuse(self) -> None:
        self.unit.refuse(self.target, "a function of the preamble returns a value")

    def _deduced(self, declared: Sequence[Any],
                 dtypes: Sequence[np.dtype]) -> dict[str, np.dtype]:
        """The dtypes of a template's parameters."""
        found: dict[str, np.dtype] = {}
        for d, dtype in zip(declared, dtypes, strict=True):
            inner = d.type
            while kind(inner) in ("PtrDecl", "TypeDecl"):
                inner = inner.type
            name = getattr(inner, "names", [""])[0]
            if name in self.unit.spelling.templates:
                found.setdefault(name, dtype)
        return found

    def function(self, name: str) -> Function:
        """The scalar function of the instance, copied in where it is called."""
        scope = self.scope
        # By value: a copy that the function may change.
        variables = [declare_parameter(scope, Parameter(p.name, p.dtype, p.raw,
                                                        not p.raw))
                     for p in self.params]
        returns = [n for n in walk(self.target.body) if kind(n) == "Return"]
        if not returns or any(n.expr is None for n in returns):
            self._refuse()
        scope.leave = lambda node: return_value(
            scope, node, scope.typed(node.expr), self.result)
        self.unit.open.append(self.target.decl.name)
        try:
            return build_function(scope, name, variables, self.target, [], self.source)
        finally:
            self.unit.open.pop()
