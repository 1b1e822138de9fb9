"""Elements of arrays in C bodies: indexing, addresses, extents."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from .scope import ExpressionParser, Scope
from .tree import kind
from .values import Typed, Variable, constant, converted, subscript

__all__ = ["EXPRESSIONS", "address", "place"]

_INT64 = np.dtype(np.int64)


def _parse_element(scope: Scope, node: Any) -> Typed:
    """Parse ``x[i]``, or ``x.shape()[k]``."""
    base, indices = _unnested(node)
    if kind(base) == "FuncCall":
        return _extent(scope, node, base, indices)
    variable, index = place(scope, node)
    return Typed(subscript(variable.name, index, ast.Load()), variable.dtype)


def place(scope: Scope, node: Any) -> tuple[Variable, ast.expr]:
    """The array and the flat index of an element."""
    base, indices = _unnested(node)
    variable = scope.lookup(getattr(base, "name", None) or "")
    if variable is None:
        scope.refuse(node, f"{getattr(base, 'name', 'this')!r} is not declared")
    if variable.kind == "value":
        scope.refuse(node, f"{base.name!r} is a number, it cannot be indexed; "
                           f"declare it as 'raw' to index it by hand")
    if variable.kind == "raw":
        return variable, _raw_index(scope, node, base.name, indices)
    if len(indices) != len(variable.shape):
        scope.refuse(node, f"{base.name!r} has {len(variable.shape)} dimensions, "
                           f"got {len(indices)} indices")
    return variable, _flat([scope.typed(k) for k in indices],
                           [constant(n) for n in variable.shape])


def address(scope: Scope, node: Any) -> tuple[Variable, ast.expr]:
    """The array and the index of ``&x[i]``, or of ``x + i``."""
    if kind(node) == "BinaryOp" and node.op == "+" and kind(node.left) == "ID":
        variable = scope.lookup(node.left.name)
        if variable is not None and variable.kind == "raw":
            return variable, _flat([scope.typed(node.right)], [constant(1)])
    if kind(node) != "UnaryOp" or node.op != "&" or kind(node.expr) != "ArrayRef":
        scope.refuse(node, "the address of an element of a raw array is expected "
                           "here, as in atomicAdd(&y[i], x)")
    variable, index = place(scope, node.expr)
    if variable.kind != "raw":
        scope.refuse(node, f"{variable.name!r} must be a raw array")
    return variable, index


def _raw_index(scope: Scope, node: Any, name: str, indices: Sequence[Any]) -> ast.expr:
    """The flat index in C order into a raw array, also from an array of indices."""
    if len(indices) > 1:
        scope.refuse(node, f"{name!r} is indexed by one flat index in C order, or "
                           "by an array of indices")
    several = scope.lookup(getattr(indices[0], "name", None) or "")
    if several is None or several.kind != "local":
        return _flat([scope.typed(indices[0])], [constant(1)])
    parts = [Typed(subscript(several.name, constant(k), ast.Load()), several.dtype)
             for k in range(several.shape[0])]
    shape = [scope.lookup(f"_{name}_shape{k}") for k in range(len(parts))]
    if None in shape or scope.lookup(f"_{name}_shape{len(parts)}") is not None:
        scope.refuse(node, f"{name!r} does not have {len(parts)} dimensions")
    return _flat(parts, [ast.Name(s.name, ast.Load()) for s in shape if s])


def _flat(indices: Sequence[Typed], shape: Sequence[ast.expr]) -> ast.expr:
    """The index in C order."""
    if all(k.number is not None for k in indices) and all(
            isinstance(n, ast.Constant) for n in shape):
        total = 0
        for k, n in zip(indices, shape, strict=True):
            total = total * n.value + int(k.number.real)  # type: ignore[attr-defined, union-attr]
        return constant(total)
    found: ast.expr | None = None
    for k, n in zip(indices, shape, strict=True):
        index = converted(k, _INT64)
        found = index if found is None else ast.BinOp(
            ast.BinOp(found, ast.Mult(), n), ast.Add(), index)
    assert found is not None
    return found


def _extent(scope: Scope, node: Any, base: Any, indices: Sequence[Any]) -> Typed:
    """Parse ``x.shape()[k]``."""
    target = base.name
    owner = getattr(getattr(target, "name", None), "name", "")
    field = getattr(getattr(target, "field", None), "name", "")
    axis = scope.typed(indices[0]).number
    variable = scope.lookup(f"_{owner}_{field}{axis}")
    if variable is None or len(indices) > 1:
        scope.refuse(node, "only x.shape()[k] of a raw x with a known k is "
                           "understood here")
    return Typed(ast.Name(variable.name, ast.Load()), variable.dtype)


def _unnested(node: Any) -> tuple[Any, list[Any]]:
    """The array and the indices of ``x[i][j]``."""
    indices: list[Any] = []
    while kind(node) == "ArrayRef":
        indices.insert(0, node.subscript)
        node = node.name
    return node, indices


EXPRESSIONS: dict[str, ExpressionParser] = {"ArrayRef": _parse_element}
