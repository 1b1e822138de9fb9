"""Vectors in kernels: arithmetic, loads and stores."""

from __future__ import annotations

import ast
from typing import Any

from ...ir.nodes import Value, literal
from ...source.resolve import Operation, apply
from ...source.structure import Struct, Values, Vector
from ..scope import Scope
from .parts import Part, whole_index

__all__ = ["combined", "loaded", "negated", "stored", "vector_of"]

_OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}


def combined(scope: Scope, node: ast.BinOp | ast.AugAssign, left: Values,
             right: Values) -> Vector:
    """Parse ``left op right``, componentwise, where one of them is a vector."""
    op = _OPERATORS.get(type(node.op))
    if op is None:
        raise scope.error(node, "vectors are added, subtracted, multiplied and divided "
                                "by one another and by numbers; other operators take "
                                "their components, v.x")
    like: Any = left if isinstance(left, Vector) else right
    pairs = zip(_components(scope, node, left, len(like)),
                _components(scope, node, right, len(like)), strict=True)
    return Vector(like.names, [apply(scope.emitter, Operation(op), p) for p in pairs])


def _components(scope: Scope, node: ast.AST, value: Values,
                count: int) -> tuple[Value, ...]:
    """The components of a vector; a number as often as there are any."""
    if not isinstance(value, Vector):
        return (scope.number(node, value),) * count
    if len(value) != count:
        raise scope.error(node, f"vectors of {len(value)} and of {count} components do "
                                "not go together")
    return tuple(value)


def negated(scope: Scope, v: Vector) -> Vector:
    """Parse ``-v``."""
    return Vector(v.names, [scope.emitter.emit("neg", x) for x in v])


def loaded(scope: Scope, node: ast.AST, names: tuple[str, ...],
           whole: Values) -> Vector | None:
    """A vector of the first elements of an array of one axis; None of no such array."""
    rank = len(whole.spans) if isinstance(whole, Part) else \
        scope.arrays.get(whole) if scope.is_array(whole) else None
    if rank != 1:
        return None
    return Vector(names, [scope.emitter.load(*_element(scope, node, whole, k))
                          for k in range(len(names))])


def stored(scope: Scope, node: ast.AST, part: Part, value: Values) -> None:
    """Parse ``x[i] = v``: a vector into the elements of a part of one axis."""
    if not isinstance(value, Vector) or len(part.spans) != 1:
        raise scope.error(node, f"a part of {len(part.spans)} axes is assigned "
                                f"{scope.describe(value)}; one of one axis takes a "
                                "vector, vec2 to vec4, others an element at a time")
    for k, component in enumerate(value):
        array, *index = _element(scope, node, part, k)
        scope.emitter.store(array, *index, component)


def _element(scope: Scope, node: ast.AST, whole: Values, k: int) -> tuple[Any, ...]:
    array, index = whole_index(scope, node, whole, (literal(k),))
    return (array, *index)


def vector_of(scope: Scope, node: ast.Call, target: Any,
              args: tuple[Values, ...]) -> Struct | None:
    """Parse ``vec3(row)``; None where the components are given one by one."""
    if len(args) != 1:
        return None
    if isinstance(args[0], Vector) and len(args[0]) == len(target._fields):
        return args[0]
    return loaded(scope, node, target._fields, args[0])
