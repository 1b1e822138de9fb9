"""Lambdas of C bodies: functions inside the function, which see its variables."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....support.records import record
from ..expressions import as_type
from ..scope import Scope
from ..spelling import AUTO, REFERENCE, Captures
from ..tree import kind, stores, walk
from ..types import type_text
from ..values import Typed, Variable, converted, store
from .arguments import Effects

__all__ = ["call_lambda", "declare_lambda", "lambda_effects", "lambda_of"]


@record
class Lambda:
    """A lambda that is a variable.

    Attributes
    ----------
    params
        The dtypes of its parameters.
    changed
        The variables around it that it changes: passed, and returned after the value.
    result
        The dtype of what it returns; None for nothing, or as long as that is unknown.
    """

    params: tuple[np.dtype, ...]
    changed: tuple[Variable, ...]
    result: np.dtype | None


def lambda_of(scope: Scope, node: Any) -> Lambda | None:
    """The lambda that a call is of; None if it is of none."""
    variable = scope.lookup(node.name.name) if kind(node.name) == "ID" else None
    found: Lambda | None = scope.unit.lambdas.get(variable.name) if variable else None
    return found


def declare_lambda(scope: Scope, node: Any, key: str) -> list[ast.stmt]:
    """Parse ``auto f = [&](T a) { … };``."""
    (tree,), captures = scope.unit.functions[key], scope.unit.spelling.captures[key]
    free = _free(scope, tree)
    copies = _copied(scope, node, free, captures)
    written = stores(tree.body, scope.unit.changes)
    changed = tuple(v for n, v in free.items() if n in written and n not in copies
                    and v.kind == "value")
    for n, v in free.items():
        if n in written and v.kind == "local":
            scope.refuse(node, f"the lambda {node.name!r} changes the array {n!r}, "
                               "which is not understood here; write it as a __device__ "
                               "function of the preamble")
    statements: list[ast.stmt] = [
        ast.Assign([store(v.name)], ast.Name(free[n].name, ast.Load()))
        for n, v in copies.items()]
    variable = scope.declare(node.name, np.dtype(np.bool_), "lambda", constant=True)
    made, body = _function(scope, tree, copies, changed, free)
    scope.unit.lambdas[variable.name] = made[0]
    arguments = ast.arguments([], [ast.arg(n) for n in made[1]], None, [], [], None, [])
    definition = ast.FunctionDef(variable.name, arguments, body or [ast.Pass()], [])
    return [*statements, definition]


def _free(scope: Scope, tree: Any) -> dict[str, Variable]:
    """The variables of the function around that a lambda names."""
    own = {n.name for n in walk(tree) if kind(n) == "Decl"}
    named = {n.name for n in walk(tree.body) if kind(n) == "ID"} - own
    found = {}
    for name in sorted(named):
        variable = next((b[name] for b in reversed(scope.blocks) if name in b), None)
        if variable is not None and variable.number is None and \
                variable.kind != "lambda":
            found[name] = variable
    return found


def _copied(scope: Scope, node: Any, free: Mapping[str, Variable],
            captures: Captures) -> dict[str, Variable]:
    """New variables for what is captured by value; arrays are as they are."""
    found = {}
    for name, variable in free.items():
        reference = captures.names.get(name, captures.default)
        if reference is None:
            scope.refuse(node, f"the lambda {node.name!r} does not capture {name!r}; "
                               f"write [&], or [&{name}]")
        if reference or variable.kind == "raw":
            continue
        if variable.kind != "value":
            scope.refuse(node, f"the lambda {node.name!r} copies {name!r}, which is "
                               f"no number; capture it by reference, as in [&{name}]")
        with scope.block():
            copy = scope.declare(f"__{name}_copy", variable.dtype)
        found[name] = replace(variable, name=copy.name, constant=True)
    return found


def _function(scope: Scope, tree: Any, copies: Mapping[str, Variable],
              changed: Sequence[Variable], free: Mapping[str, Variable]
              ) -> tuple[tuple[Lambda, list[str]], list[ast.stmt]]:
    """A lambda, the names of its parameters, and its statements."""
    declared = tree.decl.type.args.params if tree.decl.type.args else []
    declared = [d for d in declared if kind(d) != "Typename"]
    returned = getattr(tree.decl.type.type.type, "names", [""])[0]
    outer = scope.leave, scope.before_continue
    with scope.block():
        scope.blocks[-1].update(copies)
        params = [scope.declare(d.name, _parameter_dtype(scope, d)) for d in declared]
        inner = [scope.declare(next(n for n, v in free.items() if v == c), c.dtype)
                 for c in changed]
        found = Lambda(tuple(p.dtype for p in params), tuple(changed), None if returned
                       in (AUTO, "void") else scope.dtype(tree.decl.type.type))
        scope.leave = lambda node: _leave(scope, node, found, inner,
                                          returned == AUTO)
        scope.before_continue = []
        try:
            with scope.block():
                body = scope.body(tree.body.block_items or ())
            if found.result is None:
                body += scope.leave(None)
        finally:
            scope.leave, scope.before_continue = outer
    return (found, [v.name for v in (*params, *inner)]), body


def _parameter_dtype(scope: Scope, declared: Any) -> np.dtype:
    """The dtype of a parameter, which is passed by value."""
    if kind(declared.type) != "TypeDecl" or REFERENCE in declared.quals:
        scope.refuse(declared, f"the parameter {declared.name!r} of a lambda is no "
                               "value; write the lambda as a __device__ function of "
                               "the preamble")
    if declared.type.type.names == [AUTO]:
        scope.refuse(declared, f"the parameter {declared.name!r} of a lambda is auto; "
                               "write its type")
    return scope.dtype(declared)


def _leave(scope: Scope, node: Any, found: Lambda, inner: Sequence[Variable],
           deduced: bool) -> list[ast.stmt]:
    """``return`` of a lambda: its value, then the variables that it changes."""
    values: list[ast.expr] = []
    expression = getattr(node, "expr", None)
    if expression is not None:
        value = scope.value(expression)
        if found.result is None and deduced:
            found.result = value.dtype
        if found.result is None or (deduced and found.result != value.dtype):
            other = "nothing" if found.result is None else type_text(found.result)
            scope.refuse(node, f"the lambda returns {type_text(value.dtype)} here and "
                               f"{other} elsewhere; write its "
                               "type, as in [&](T a) -> T { … }")
        values = [converted(as_type(scope, node, value, found.result), found.result)]
    elif found.result is not None:
        scope.refuse(node, "the lambda returns a value elsewhere, and none here")
    values += [ast.Name(v.name, ast.Load()) for v in inner]
    if len(values) > 1:
        return [ast.Return(ast.Tuple(values, ast.Load()))]
    return [ast.Return(values[0] if values else None)]


def _call(scope: Scope, node: Any, found: Lambda, args: Sequence[Any]) -> ast.expr:
    """The call in the scalar language."""
    name = node.name.name
    if len(args) != len(found.params):
        scope.refuse(node, f"the lambda {name!r} takes {len(found.params)} arguments, "
                           f"got {len(args)}")
    values = [as_type(scope, node, scope.value(a), d)
              for a, d in zip(args, found.params, strict=True)]
    variable = scope.lookup(name)
    assert variable is not None
    return ast.Call(ast.Name(variable.name, ast.Load()), [
        *(converted(v, v.dtype) for v in values),
        *(ast.Name(v.name, ast.Load()) for v in found.changed)], [])


def call_lambda(scope: Scope, node: Any, found: Lambda, args: Sequence[Any]) -> Typed:
    """The value of a call of a lambda that is one."""
    name = node.name.name
    if found.changed:
        scope.refuse(node, f"the lambda {name!r} changes {found.changed[0].name!r}, "
                           "and stands in no expression; store its value first")
    if found.result is None:
        scope.refuse(node, f"the lambda {name!r} returns nothing; call it in a "
                           "statement of its own")
    return Typed(_call(scope, node, found, args), found.result)


def lambda_effects(scope: Scope, node: Any, found: Lambda, args: Sequence[Any],
                   wanted: bool) -> Effects | None:
    """A call of a lambda that changes variables, or gives nothing; None of another."""
    from pycparser.c_ast import ID

    if not found.changed and (found.result is not None or wanted):
        return None
    taken = _call(scope, node, found, args)
    names = [v.name for v in found.changed]
    result = f"__{node.name.name}_result"
    if found.result is not None:
        names.insert(0, scope.declare(result, found.result).name)
    if not names:
        return Effects([ast.Expr(taken)], None)
    targets: list[ast.expr] = [store(n) for n in names]
    target = ast.Tuple(targets, ast.Store()) if len(targets) > 1 else targets[0]
    return Effects([ast.Assign([target], taken)],
                   None if found.result is None else ID(result, node.coord))
