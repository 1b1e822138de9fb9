"""Calls of a kernel's vocabulary: positions, barriers, shared memory, atomics."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.nodes import Value, literal
from ..source.structure import Values
from .elements import checked_index
from .names import resolve, thread_position
from .scope import Scope
from .sequences import positional, static_integer, static_shape

__all__ = ["FORMS", "Form"]

#: ``form(scope, node, attr, stem)`` writes a call and gives its value.
Form = Callable[[Scope, ast.Call, str, str], Values]


def _axes(scope: Scope, node: ast.Call, one: Callable[[str], Value]) -> Values:
    (count,) = positional(scope, node, 1)
    axes = static_integer(scope, node, count, "the number of axes")
    if axes not in (1, 2, 3):
        raise scope.error(node, f"the number of axes must be 1, 2 or 3, got {axes}")
    found = tuple(one(axis) for axis in "xyz"[:axes])
    return found[0] if axes == 1 else found


def _grid(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    def one(axis: str) -> Value:
        first = scope.emitter.emit("mul", thread_position(scope, f"blockIdx.{axis}"),
                                   thread_position(scope, f"blockDim.{axis}"))
        thread = thread_position(scope, f"threadIdx.{axis}")
        return scope.emitter.emit("add", first, thread, stem=stem)

    return _axes(scope, node, one)


def _gridsize(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    return _axes(scope, node, lambda axis: scope.emitter.emit("mul", *(
        thread_position(scope, f"{name}.{axis}") for name in ("blockDim", "gridDim")),
        stem=stem))


def _barrier(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    positional(scope, node, 0, 1 if attr == "warp" else 0)
    scope.emitter.act("barrier", attr=attr)
    return ()


def _shared(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    given = {k.arg: k.value for k in node.keywords}
    given.update(zip(("shape", "dtype"), node.args, strict=False))
    if len(node.args) > 2 or given.keys() != {"shape", "dtype"}:
        raise scope.error(node, "shared.array() takes a shape and a dtype")
    shape = static_shape(scope, node, scope.values(given["shape"]))
    dtype = _dtype(scope, given["dtype"])
    name = scope.emitter.let("shared", *map(literal, shape), attr=dtype,
                             stem=stem if stem != "t" else "shared")
    scope.arrays[name] = len(shape)
    return name


def _dtype(scope: Scope, node: ast.expr) -> str:
    """The name of a dtype given by an object or a string."""
    target: Any = node.value if isinstance(node, ast.Constant) else resolve(scope, node)
    try:
        return np.dtype(target).name
    except TypeError:
        raise scope.error(node, f"{ast.unparse(node)} is no dtype; expected one of "
                                "NumPy's or its name, \"float32\"") from None


def _shuffle(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    mask, value, lane = positional(scope, node, 3)
    if mask not in (literal(0xffffffff), literal(-1)):
        raise scope.error(node, "shuffles are for the whole warp: the mask must be "
                                "0xffffffff")
    return scope.emitter.emit("shuffle", scope.number(node, value),
                              scope.number(node, lane), attr=attr, stem=stem)


def _atomic(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    array, index, *values = positional(scope, node, 4 if attr == "cas" else 3)
    if not scope.is_array(array):
        raise scope.error(node, f"{ast.unparse(node.func)}() takes an array, an index "
                                f"and a value; {ast.unparse(node.args[0])!r} is "
                                f"{scope.describe(array)}")
    where = checked_index(scope, node, array, index)
    numbers = (scope.number(node, v) for v in values)
    return scope.emitter.emit("atomic", array, *where, *numbers, attr=attr, stem=stem)


FORMS: dict[str, Form] = {
    "grid": _grid, "gridsize": _gridsize, "barrier": _barrier, "shared": _shared,
    "shuffle": _shuffle, "atomic": _atomic,
}
