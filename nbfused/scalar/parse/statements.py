"""Statements of the scalar language besides loops, from a Python syntax tree."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial

from ..ir.nodes import Let, Literal
from ..source.structure import Values, Vector
from .branches import split
from .composite.places import NO_STORE, Place, assign, place
from .composite.vectors import combined
from .expressions import operate
from .jumps import RESULT
from .scope import Scope, StatementParser

__all__ = ["STATEMENTS"]


def _parse_assign(scope: Scope, s: ast.Assign) -> None:
    """Parse ``a = b = value``."""
    first = s.targets[0]
    stem = first.id if isinstance(first, ast.Name) else "t"
    values = scope.values(s.value, stem)
    if values == () and stem != RESULT:
        raise scope.error(s, "the call gives no result to assign")
    for target in s.targets:
        assign(scope, target, values)


def _parse_annotated(scope: Scope, s: ast.AnnAssign) -> None:
    """Parse ``a: type = value``; the annotation says nothing."""
    if s.value is not None:
        _parse_assign(scope, ast.copy_location(ast.Assign([s.target], s.value), s))


def _parse_augmented(scope: Scope, s: ast.AugAssign) -> None:
    """Parse ``a += value``; an index is computed once."""
    target = s.target
    if isinstance(target, (ast.Subscript, ast.Attribute)):
        element = place(scope, target)
        value = scope.values(s.value)
        old = element.load(value)
        if element.each is not None and not isinstance(old, Vector):
            element.each(lambda e: _augment(scope, s, e, value))
        else:
            _augment(scope, s, element, value)
        return
    if not isinstance(target, ast.Name):
        raise scope.error(s, NO_STORE)
    read = ast.copy_location(ast.Name(target.id, ast.Load()), target)
    old, value = scope.values(read), scope.values(s.value)
    assign(scope, target, _changed(scope, s, old, value, target.id))


def _augment(scope: Scope, s: ast.AugAssign, element: Place, value: Values) -> None:
    """Change one place."""
    element.store(_changed(scope, s, element.load(value), value, "t"))


def _changed(scope: Scope, s: ast.AugAssign, old: Values, value: Values,
             stem: str) -> Values:
    """Parse ``old op value``."""
    if isinstance(old, Vector) or isinstance(value, Vector):
        return combined(scope, s, old, value)
    return operate(scope, s, scope.number(s.target, old), scope.number(s.value, value),
                   stem)


def _parse_expression(scope: Scope, s: ast.Expr) -> None:
    """A call for its effects, or a docstring."""
    if isinstance(s.value, ast.Constant):  # a docstring
        return
    found = scope.values(s.value)
    last = scope.emitter.statements[-1:]
    if last and isinstance(last[0], Let) and last[0].op == "atomic" and \
            last[0].attr == "add" and last[0].results == (found,):
        # Nobody reads the old value, so that the addition has a derivative.
        scope.emitter.statements[-1] = replace(last[0], results=(), op="atomic_add",
                                               attr=None)


def _parse_pass(scope: Scope, s: ast.Pass) -> None:
    """Parse ``pass``."""


def _parse_if(scope: Scope, s: ast.If) -> None:
    """Parse ``if``: a branch, unless it is known which."""
    truth = scope.condition(s.test)
    if isinstance(truth, Literal):
        return scope.run(s.body if truth.value else s.orelse)
    return split(scope, s, truth, partial(scope.run, s.body),
                 partial(scope.run, s.orelse))


STATEMENTS: dict[type[ast.stmt], StatementParser] = {
    ast.Assign: _parse_assign, ast.AnnAssign: _parse_annotated,
    ast.AugAssign: _parse_augmented, ast.Expr: _parse_expression,
    ast.Pass: _parse_pass, ast.If: _parse_if,
}
