"""Calls that the parser writes itself, because they need more than numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .ir import Literal, Value, literal
from .structure import Values

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["FORMS", "Form", "known_shape", "positional"]

#: ``form(body, node, attr, stem)`` writes a call and gives its value.
Form = Callable[["Calls", ast.Call, str, str], Values]


def positional(body: Calls, node: ast.Call, least: int, most: int | None = None,
               ) -> tuple[Values, ...]:
    """The arguments of a call that takes no keywords."""
    args, keywords = body.arguments(node)
    most = least if most is None else most
    name = ast.unparse(node.func)
    if keywords:
        raise body.error(node, f"{name}() takes no keywords in a scalar function")
    if not least <= len(args) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        raise body.error(node, f"{name}() takes {expected} argument(s), got "
                               f"{len(args)}")
    return args


def known_integer(body: Calls, node: ast.AST, value: Values, what: str) -> int:
    """An integer that is known when the function is parsed."""
    if isinstance(value, Literal) and value.kind == "int":
        return int(value.text)
    raise body.error(node, f"{what} must be an integer that is known when the function "
                           "is parsed: a number, a global, or an nf.literal parameter")


def known_shape(body: Calls, node: ast.AST, value: Values) -> tuple[int, ...]:
    """An extent or a tuple of extents, each of 1 or more."""
    extents = value if isinstance(value, tuple) else (value,)
    shape = tuple(known_integer(body, node, e, "an extent") for e in extents)
    if not shape or min(shape) < 1:
        raise body.error(node, f"extents must be 1 or more, got {shape}")
    return shape


def _axes(body: Calls, node: ast.Call, one: Callable[[str], Value]) -> Values:
    (count,) = positional(body, node, 1)
    axes = known_integer(body, node, count, "the number of axes")
    if axes not in (1, 2, 3):
        raise body.error(node, f"the number of axes must be 1, 2 or 3, got {axes}")
    found = tuple(one(axis) for axis in "xyz"[:axes])
    return found[0] if axes == 1 else found


def _grid(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    def one(axis: str) -> Value:
        block = body.emitter.emit("mul", body.thread(f"blockIdx.{axis}"),
                                  body.thread(f"blockDim.{axis}"))
        return body.emitter.emit("add", block, body.thread(f"threadIdx.{axis}"),
                                 stem=stem)

    return _axes(body, node, one)


def _gridsize(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    return _axes(body, node, lambda axis: body.emitter.emit(
        "mul", body.thread(f"blockDim.{axis}"), body.thread(f"gridDim.{axis}"),
        stem=stem))


def _barrier(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    positional(body, node, 0, 1 if attr == "warp" else 0)
    body.emitter.act("barrier", attr=attr)
    return ()


def _shared(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    given = {k.arg: k.value for k in node.keywords}
    given.update(zip(("shape", "dtype"), node.args, strict=False))
    if len(node.args) > 2 or given.keys() != {"shape", "dtype"}:
        raise body.error(node, "shared.array() takes a shape and a dtype")
    shape = known_shape(body, node, body.values(given["shape"]))
    dtype = _dtype(body, given["dtype"])
    name = body.emitter.let("shared", *map(literal, shape), attr=dtype,
                            stem=stem if stem != "t" else "shared")
    body.arrays[name] = len(shape)
    return name


def _dtype(body: Calls, node: ast.expr) -> str:
    """The name of a dtype given by an object or a string."""
    target: Any = node.value if isinstance(node, ast.Constant) else body.resolved(node)
    try:
        return np.dtype(target).name
    except TypeError:
        raise body.error(node, f"{ast.unparse(node)} is no dtype; expected one of "
                               "NumPy's or its name, \"float32\"") from None


def _shuffle(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    mask, value, lane = positional(body, node, 3)
    if mask not in (literal(0xffffffff), literal(-1)):
        raise body.error(node, "shuffles are for the whole warp: the mask must be "
                               "0xffffffff")
    return body.emitter.emit("shuffle", body.number(node, value),
                             body.number(node, lane), attr=attr, stem=stem)


def _atomic(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    array, index, *values = positional(body, node, 4 if attr == "cas" else 3)
    if not body.is_array(array):
        raise body.error(node, f"{ast.unparse(node.func)}() takes an array, an index "
                               f"and a value; {ast.unparse(node.args[0])!r} is "
                               f"{body.kind(array)}")
    where = body.checked_index(node, array, index)
    numbers = (body.number(node, v) for v in values)
    return body.emitter.emit("atomic", array, *where, *numbers, attr=attr, stem=stem)


FORMS: dict[str, Form] = {
    "grid": _grid, "gridsize": _gridsize, "barrier": _barrier, "shared": _shared,
    "shuffle": _shuffle, "atomic": _atomic,
}
