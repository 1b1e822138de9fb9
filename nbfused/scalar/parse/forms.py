"""Calls of a kernel's vocabulary: positions, barriers, shared memory, atomics."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.emit import Emitter
from ..ir.nodes import Block, Literal, Value, While, literal
from ..source.structure import Values
from .composite.parts import Element, Part, element_of
from .composite.vectors import components, values_for
from .elements import checked_index
from .names import resolve, thread_position
from .scope import Scope
from .sequences import parse_arguments, positional, static_integer, static_shape

__all__ = ["FORMS", "Form"]

#: ``form(scope, node, attr, stem)`` writes a call and gives its value.
Form = Callable[[Scope, ast.Call, str, str], Values]

#: The lanes of a warp, and the segments that shuffles may divide it into.
_WARP = 32
_WIDTHS = (1, 2, 4, 8, 16, 32)


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
    given = _named(scope, node, ("mask",) if attr == "warp" else ())
    if "mask" in given:
        _check_mask(scope, node, given["mask"])
    scope.emitter.act("barrier", attr=attr)
    return ()


def _named(scope: Scope, node: ast.Call, names: tuple[str, ...],
           least: int = 0) -> dict[str, Values]:
    """The arguments of a call by the names of its parameters."""
    args, keywords = parse_arguments(scope, node)
    found = dict(zip(names, args, strict=False))
    known = keywords.keys() <= set(names) and not keywords.keys() & found.keys()
    found.update(keywords)
    if len(args) > len(names) or not known or not found.keys() >= set(names[:least]):
        takes = f"{', '.join(names[:least])}{''.join(f', {n}=' for n in names[least:])}"
        got = [ast.unparse(a) for a in (*node.args, *(k.value for k in node.keywords))]
        raise scope.error(node, f"{ast.unparse(node.func)}() takes "
                                f"{takes.removeprefix(', ') or 'nothing'}; got "
                                f"{len(got)} arguments ({', '.join(got)})")
    return found


def _check_mask(scope: Scope, node: ast.Call, mask: Values) -> None:
    """Refuse the mask of a part of a warp: the other lanes would wait, or not."""
    if mask not in (literal(0xffffffff), literal(-1)):
        got = mask.text if isinstance(mask, Literal) else scope.describe(mask)
        raise scope.error(node, f"{ast.unparse(node.func)}() is for the whole warp: "
                                f"the mask must be 0xffffffff, got {got}; let all "
                                "lanes reach it, and choose among values")


def _shared(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    given = {k.arg: k.value for k in node.keywords}
    given.update(zip(("shape", "dtype"), node.args, strict=False))
    if len(node.args) > 2 or given.keys() != {"shape", "dtype"}:
        raise scope.error(node, "shared.array() takes a shape and a dtype")
    values = scope.values(given["shape"])
    shape = (0,) if values == literal(0) else static_shape(scope, node, values)
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
    given = _named(scope, node, ("mask", "value", "lane", "width"), 3)
    _check_mask(scope, node, given["mask"])
    value, lane = (scope.number(node, given[n]) for n in ("value", "lane"))
    width = scope.number(node, given.get("width", literal(_WARP)))
    if isinstance(width, Literal) and static_integer(
            scope, node, width, "the width") not in _WIDTHS:
        raise scope.error(node, f"the width of a shuffle is 1, 2, 4, 8, 16 or 32, got "
                                f"{width.text}")
    if width != literal(_WARP):
        attr, lane = "idx", _lane_within(scope, attr, lane, width)
    return scope.emitter.emit("shuffle", value, lane, attr=attr, stem=stem)


def _lane_within(scope: Scope, mode: str, lane: Value, width: Value) -> Value:
    """The lane that a shuffle among `width` lanes reads, by CUDA's rules.

    Beyond the segment it is the lane itself; an exclusive or may reach segments before.
    """
    e, own = scope.emitter, thread_position(scope, "laneid")
    first = e.emit("and", own, e.emit("sub", literal(_WARP), width))
    if mode == "idx":
        last = e.emit("sub", width, literal(1))
        return e.emit("add", first, e.emit("and", lane, last))
    step = e.emit("and", lane, literal(_WARP - 1))
    source = e.emit({"up": "sub", "down": "add", "xor": "xor"}[mode], own, step)
    inside = e.emit("ge", source, first) if mode == "up" else \
        e.emit("lt", source, e.emit("add", first, width))
    return e.emit("select", inside, source, own)


def _atomic(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    """An atomic operation: one of the backends', or a loop of ``cas``."""
    array, index, *values = positional(scope, node, 4 if attr == "cas" else 3)
    if not scope.is_array(array) and not isinstance(array, Part):
        raise scope.error(node, f"{ast.unparse(node.func)}() takes an array, an index "
                                f"and a value; {ast.unparse(node.args[0])!r} is "
                                f"{scope.describe(array)}")
    element = element_of(scope, node, array, checked_index(scope, node, array, index))
    if element.kind:
        return _atomic_each(scope, node, attr, element, values)
    return _atomic_number(scope, attr, element, [scope.number(node, v) for v in values],
                          stem)


def _atomic_each(scope: Scope, node: ast.Call, attr: str, element: Element,
                 values: Sequence[Values]) -> Values:
    """Add to each component of an element; nothing comes back."""
    if attr not in ("add", "sub"):
        raise scope.error(node, f"{ast.unparse(node.func)}() takes numbers; add and "
                                f"sub take an element that is a {element.kind}, others "
                                "one component, in an array of numbers")
    (value,) = values
    for e, v in zip(components(element), values_for(scope, node, element, value),
                    strict=True):
        more = _negative(scope.emitter, v) if attr == "sub" else v
        scope.emitter.act("atomic_add", e.array, *e.index, more)
    return ()


def _atomic_number(scope: Scope, attr: str, element: Element, numbers: list[Value],
                   stem: str) -> Value:
    """An operation on one number, with its old value."""
    array, where = element.array, element.index
    if attr == "sub":
        attr, numbers = "add", [_negative(scope.emitter, *numbers)]
    if attr in _COUNTING:
        return _exchanged(scope, _COUNTING[attr], array, where, numbers[0], stem)
    return scope.emitter.emit("atomic", array, *where, *numbers, attr=attr, stem=stem)


def _negative(e: Emitter, value: Value) -> Value:
    """The negative of a number, which wraps around in an unsigned array."""
    if isinstance(value, Literal) and value.kind in ("bool", "int"):
        value = e.let("cast", value, attr="int64")
    return e.emit("neg", value)


def _incremented(e: Emitter, old: Value, limit: Value) -> Value:
    """One more, and 0 after `limit`."""
    more = e.emit("add", old, literal(1))
    return e.emit("select", e.emit("ge", old, limit), literal(0), more)


def _decremented(e: Emitter, old: Value, limit: Value) -> Value:
    """One less, and `limit` after 0 or from above it."""
    less = e.emit("sub", old, literal(1))
    wraps = e.emit("logical_or", e.emit("eq", old, literal(0)),
                   e.emit("gt", old, limit))
    return e.emit("select", wraps, limit, less)


_COUNTING: dict[str, Callable[[Emitter, Value, Value], Value]] = {
    "inc": _incremented, "dec": _decremented}


def _exchanged(scope: Scope, change: Callable[[Emitter, Value, Value], Value],
               array: str, where: tuple[Value, ...], limit: Value, stem: str) -> Value:
    """Exchange an element, until nobody came between reading and writing it."""
    e = scope.emitter
    names = [e.fresh(n) for n in ("seen", "again", stem, "again")]
    with e.region() as body:
        seen = e.emit("id", names[0])
        found = e.emit("atomic", array, *where, seen, change(e, seen, limit),
                       attr="cas")
        again = e.emit("ne", found, seen)
    e.statements.append(While(
        tuple(names[2:]), tuple(names[:2]), (e.load(array, *where), literal(True)),
        Block((), (names[1],)), Block(tuple(body), (found, again))))
    return names[2]


FORMS: dict[str, Form] = {
    "grid": _grid, "gridsize": _gridsize, "barrier": _barrier, "shared": _shared,
    "shuffle": _shuffle, "atomic": _atomic,
}
