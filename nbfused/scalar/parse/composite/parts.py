"""Parts of arrays: ``row = x[i]`` and ``x[i, 2:]``, names for places and no copies."""

from __future__ import annotations

import ast
from typing import Any, ClassVar

from ....support.records import record
from ...ir.nodes import Literal, Value, literal
from ...language.composite import COMPOSITES
from ...source.structure import Parameters, Records, Struct, Values
from ..scope import Scope

__all__ = ["Element", "Part", "Span", "cut", "element_of", "element_parts", "is_cut",
           "part_property", "rank_of", "shape_of", "whole_arrays"]


@record(frozen=True)
class Span:
    """The elements ``start:stop:step`` of an axis; `stop` is None at its end."""

    start: Value
    stop: Value | None
    step: int


@record(frozen=True)
class Element:
    """An element of `array`: a number, or one of several components along last axes."""

    array: str
    index: tuple[Value, ...]
    kind: str = ""
    #: What messages call it.
    phrase: ClassVar[str] = "an element of an array"


@record(frozen=True)
class Part:
    """A part of `array`: for each axis of that an integer, or the span that is left.

    The last axes of an array whose elements are of some `kind` are not among them.
    """

    array: str
    axes: tuple[Value | Span, ...]
    kind: str = ""
    #: What messages call it.
    phrase: ClassVar[str] = "a part of an array"

    @property
    def way_out(self) -> str:
        """Ends messages about a part where a number is expected."""
        return f"; the array has {len(self.axes)} axes: write an integer for each, " \
            "a[i, j]"

    @property
    def element(self) -> Element:
        """The element that a part without spans is."""
        return Element(self.array, self.axes, self.kind)  # type: ignore[arg-type]

    @property
    def spans(self) -> list[int]:
        """The axes of the array that are axes of the part."""
        return [k for k, axis in enumerate(self.axes) if isinstance(axis, Span)]


def rank_of(scope: Scope, whole: Values) -> int | None:
    """The axes of an array or a part; None of what is neither, or is not known."""
    if isinstance(whole, Part):
        return len(whole.spans)
    return scope.arrays.get(whole) if scope.is_array(whole) else None


def whole_arrays(flat: Parameters, values: Values, inside: bool = False) -> Values:
    """Parameters, with parts for arrays whose elements are no single numbers."""
    if isinstance(values, tuple):
        inside = inside or isinstance(values, Records)
        parts = [whole_arrays(flat, v, inside) for v in values]
        return values.with_parts(parts) if isinstance(values, Struct) else \
            type(values)(parts)
    kind = flat.kinds.get(values, "") if isinstance(values, str) else ""
    if not kind and not (inside and values in flat.arrays):
        return values
    axes = (flat.arrays[values] or 0) - (len(COMPOSITES[kind].shape) if kind else 0)
    return Part(values, (Span(literal(0), None, 1),) * axes, kind)


def is_cut(scope: Scope, node: ast.Subscript, whole: Values) -> bool:
    """True if a subscript of an array leaves some of its axes."""
    rank = rank_of(scope, whole)
    parts = _parts(node)
    return rank is not None and not any(isinstance(p, ast.Starred) for p in parts) and (
        any(isinstance(p, ast.Slice) for p in parts) or len(parts) < rank)


def cut(scope: Scope, node: ast.Subscript, whole: Values) -> Part:
    """A part of an array, or of a part of one; without spans it is an element."""
    start = whole if isinstance(whole, Part) else Part(
        whole, (Span(literal(0), None, 1),) * (scope.arrays[whole] or 0))
    given = [_axis(scope, node, p) for p in _parts(node)]
    if any(isinstance(g, tuple) for g in given):
        (index,) = given if len(given) == 1 else ((),)
        given = list(index) if isinstance(index, tuple) else []
    if not 0 < len(given) <= len(start.spans):
        raise scope.error(node, f"the array has {len(start.spans)} axes here and is "
                                f"indexed by {len(given)} integers and slices")
    axes = list(start.axes)
    for k, g in zip(start.spans, given, strict=False):
        span = axes[k]
        assert isinstance(span, Span)
        axes[k] = _narrowed(scope, node, start.array, k, span, g) \
            if isinstance(g, Span) else _at(scope, span, g)
    return Part(start.array, tuple(axes), start.kind)


def _parts(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _axis(scope: Scope, node: ast.Subscript, part: ast.expr) -> Any:
    """An integer, a span, or a tuple of integers."""
    if not isinstance(part, ast.Slice):
        found = scope.values(part)
        for value in found if isinstance(found, tuple) else (found,):
            _check_integer(scope, part, value)
        return found
    start, stop = (None if b is None else scope.value(b)
                   for b in (part.lower, part.upper))
    step = literal(1) if part.step is None else scope.value(part.step)
    if not isinstance(step, Literal) or step.kind != "int" or int(step.text) < 1:
        raise scope.error(node, "the step of a slice is an integer of 1 or more that "
                                "is known when the function is parsed")
    for bound in (start, stop):
        if bound is not None:
            _check_integer(scope, part, bound)
    return Span(literal(0) if start is None else start, stop, int(step.text))


def _check_integer(scope: Scope, node: ast.AST, value: Values) -> None:
    scope.number(node, value)
    if isinstance(value, Literal) and value.kind not in ("int", "bool"):
        raise scope.error(node, "an index must be an integer; use int()")
    if isinstance(value, Literal) and value.value.real < 0:
        raise scope.error(node, "an index of an array must be 0 or more; count from "
                                "the end with a.shape[k] - 1")


def _at(scope: Scope, span: Span, index: Value) -> Value:
    """The place on its axis of an element of a span."""
    e = scope.emitter
    far = index if span.step == 1 else e.emit("mul", index, literal(span.step))
    return far if span.start == literal(0) else e.emit("add", span.start, far)


def _narrowed(scope: Scope, node: ast.AST, array: str, axis: int, span: Span,
              inner: Span) -> Span:
    """A span of a span."""
    whole = span.start == literal(0) and span.stop is None
    stop = inner.stop if whole and span.step == 1 else span.stop
    if inner.stop is not None and not (whole and span.step == 1):
        end = _at(scope, span, inner.stop)
        bound = _end(scope, array, axis, span)
        stop = scope.emitter.emit("min", end, bound)
    return Span(_at(scope, span, inner.start), stop, span.step * inner.step)


def _end(scope: Scope, array: str, axis: int, span: Span) -> Value:
    """The end of a span: its bound, or that of the axis."""
    extent = scope.emitter.emit("extent", array, attr=str(axis), stem="extent")
    return extent if span.stop is None else scope.emitter.emit("min", span.stop, extent)


def shape_of(scope: Scope, part: Part) -> tuple[Value, ...]:
    """The extents of a part; none is negative."""
    return tuple(_length(scope, part.array, k, axis)
                 for k, axis in enumerate(part.axes) if isinstance(axis, Span))


def _length(scope: Scope, array: str, axis: int, span: Span) -> Value:
    e, end = scope.emitter, _end(scope, array, axis, span)
    if span.start == literal(0) and span.step == 1:
        return e.emit("max", end, literal(0)) if span.stop is not None else end
    far = e.emit("sub", end, span.start)
    if span.step > 1:
        far = e.emit("floordiv", e.emit("add", far, literal(span.step - 1)),
                     literal(span.step))
    return e.emit("max", far, literal(0))


def part_property(scope: Scope, node: ast.Attribute, part: Part) -> Values:
    """Parse ``row.shape``, ``row.size``, ``row.ndim``."""
    if node.attr == "ndim":
        return literal(len(part.spans))
    if node.attr not in ("shape", "size"):
        raise scope.error(node, f"a part of an array has no attribute {node.attr!r} "
                                "here; it has shape, size and ndim")
    shape = shape_of(scope, part)
    if node.attr == "shape":
        return shape
    size = shape[0]
    for extent in shape[1:]:
        size = scope.emitter.emit("mul", size, extent)
    return size


def element_of(scope: Scope, node: ast.AST, whole: Values,
               index: tuple[Value, ...]) -> Element:
    """The element of an array, or of a part, at as many integers as it has axes."""
    if not isinstance(whole, Part):
        return Element(whole, index)
    if len(index) != len(whole.spans):
        raise scope.error(node, f"the part has {len(whole.spans)} axes and is indexed "
                                f"by {len(index)} integers; write one for each")
    rest = iter(index)
    return Element(whole.array, tuple(
        _at(scope, axis, next(rest)) if isinstance(axis, Span) else axis
        for axis in whole.axes), whole.kind)


def element_parts(scope: Scope, node: ast.Subscript, records: Records) -> Values:
    """Parse ``p[i]`` of an array of structs: a struct of places, nothing is read."""
    found = [element_parts(scope, node, part) if isinstance(part, Records) else
             cut(scope, node, part) for part in records]
    single = any(isinstance(f, Part) and not f.spans for f in found) or not any(
        isinstance(f, Part) for f in found)
    return Struct(records.names, found) if single else records.with_parts(found)
