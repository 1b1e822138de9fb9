"""Composition of Maps with windows.

What reads an array through a window needs the array's own formula at other points: a
Map is written once for each *context*, a box of the points of the fused function and
where in it the Map's own first point lies.  Outside of its box what is written for a
context is any number, which nobody takes.  Along axes on which a context wraps, the
points of the Map follow one another without an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ....scalar.ir.build import Builder
from ....scalar.ir.clean import clean
from ....scalar.ir.nodes import Block, Function, Let, Literal, literal, walk
from ....scalar.ir.nodes import Value as Scalar
from ....scalar.typing.types import compute_dtype
from ...base import Shape
from ...map import Map
from ...shapes import broadcast_shapes
from ...vjp.functions import trim
from ...windows import (
    Box,
    Place,
    Windows,
    intersection,
    moved_box,
    nearest,
    whole,
    wrapped,
)
from ..algebra import constant, dtype_of_value
from ..graph import Launch, Node, Value

__all__ = ["Context", "Demand", "fuse_windows", "has_windows"]


class Context(NamedTuple):
    """A place at which a Map is evaluated, in coordinates of the fused function.

    Attributes
    ----------
    box
        The points that matter.
    origin
        The point that is the Map's own first one.
    shape
        Of the Maps that run over the same points; others are broadcast to them.
    wraps
        The axes along which the last of a Map's points is followed by its first.
    """

    box: Box
    origin: Shape
    shape: Shape
    wraps: tuple[int, ...] = ()

    def within(self, box: Box, place: Place, shape: Shape) -> Context | None:
        """The context of what is read through a window; None where there is nothing."""
        origin = tuple(a + b for a, b in zip(self.origin, place.origin, strict=True))
        found = self.box if place.wraps else self.inside(box)
        if found is None:
            return None
        around = tuple(range(len(box))) if place.wraps else self.wraps
        near = tuple(nearest(at, n) if axis in around else at
                     for axis, (at, n) in enumerate(zip(origin, shape, strict=True)))
        return Context(found, near, shape, tuple([
            axis for axis in around
            if found[axis][0] < near[axis] or found[axis][1] > shape[axis] + near[axis]
        ]))

    def inside(self, box: Box) -> Box | None:
        """The part of a Map's own box that is in this one."""
        moved = moved_box(box, self.origin)
        return intersection(self.box, tuple(
            self.box[axis] if axis in self.wraps else side
            for axis, side in enumerate(moved)))

    def takes(self, box: Box, place: Place) -> bool:
        """Whether a window is there all along the axes on which this one wraps."""
        return place.wraps or all(
            box[axis] == (0, self.shape[axis]) and not any(place.origin[axis:axis + 1])
            for axis in self.wraps)


class Read(NamedTuple):
    """One parameter of a Map, as a context finds it.

    Attributes
    ----------
    kind
        The parameter's.
    x
        The array or number; None for what is computed from the point.
    context
        Where `x` is evaluated; None where it is not read at all.
    """

    kind: str
    x: Any
    context: Context | None


def has_windows(nodes: Iterable[Node]) -> bool:
    """Whether any of these Maps has windows."""
    return any(isinstance(n.spec, Map) and n.spec.windows is not None for n in nodes)


def reads(node: Node, context: Context) -> Iterator[Read]:
    """List what a Map reads in a context, parameter by parameter."""
    given, spec = iter(node.inputs), node.spec
    places = spec.places
    for param, kind in zip(spec.function.params, spec.kinds, strict=True):
        if kind in ("index", "size"):
            yield Read(kind, None, context)
        elif kind == "inside":
            found = context.inside(spec.windows.boxes[places[param].box])
            yield Read(kind, None, None if found is None else Context(
                found, (), ()))
        else:
            x = next(given)
            number = not isinstance(x, Value) or x.by_value
            if kind != "window" or number:
                yield Read("scalar" if number else kind, x, context)
            else:
                place = places[param]
                box = spec.windows.boxes[place.box]
                yield Read(kind, x, context.within(
                    box, place, spec.windows.extent if place.wraps else _spread(
                        x.shape, box)))


def _spread(shape: Shape, box: Box) -> Shape:
    """The shape of an array that a window reads, or that it is broadcast to there."""
    lead = len(box) - len(shape)
    return tuple(hi - lo for lo, hi in box[:lead]) + tuple(
        hi - lo if n == 1 else n for n, (lo, hi) in zip(shape, box[lead:], strict=True))


class Demand:
    """The contexts that Maps are needed in, for values of one shape.

    Attributes
    ----------
    contexts
        For each Map.
    parameters
        The arrays that are read from outside, by context.
    weight
        Statements of all that is written.
    possible
        Whether nothing with windows is broadcast, and what wraps has the extents of
        all points.
    """

    def __init__(self, nodes: Sequence[Node], outputs: Iterable[Value],
                 extent: Shape) -> None:
        self.root = Context(whole(extent), (0,)*len(extent), extent)
        self.contexts: dict[Node, dict[Context, None]] = {n: {} for n in nodes}
        for v in outputs:
            assert v.node is not None
            self.contexts[v.node][self.root] = None
        self.parameters: set[tuple[Value, Context]] = set()
        self.weight, self.possible = 0, True
        for node in reversed(nodes):
            own = sum(1 for _ in walk(node.spec.function.body))
            self.weight += own*len(self.contexts[node])
            for context in self.contexts[node]:
                if self._has_place(node, context):
                    self._read(node, context)
                else:
                    self.possible = False

    def _has_place(self, node: Node, context: Context) -> bool:
        """Whether a Map's windows are windows in a context."""
        windows = node.spec.windows
        return windows is None or (
            node.outputs[0].shape == context.shape  # else its boxes are of other points
            and all(context.takes(windows.boxes[p.box], p) for p in windows.places))

    def _read(self, node: Node, context: Context) -> None:
        for kind, x, where in reads(node, context):
            if kind in ("scalar", "inside") or x is None or where is None:
                continue
            if x.node in self.contexts:
                self.contexts[x.node][where] = None
            else:
                self.parameters.add((x, where))
                self.possible &= not where.wraps or self._is_periodic(x.shape)

    def _is_periodic(self, shape: Shape) -> bool:
        """Whether an array has the extents of all points, or 1."""
        lead = len(self.root.shape) - len(shape)
        return lead >= 0 and all(n in (1, m) for n, m in zip(
            shape, self.root.shape[lead:], strict=True))


class _Writer(Builder):
    """Writes Maps, each in its contexts, into one scalar function."""

    def __init__(self, demand: Demand) -> None:
        super().__init__({"index", "size"})
        self.demand, self.root = demand, demand.root
        self.extent = tuple(hi for _, hi in self.root.box)
        self.parameters: dict[Any, tuple[str, str, Value | None]] = {}
        self.stored: dict[tuple[Value, Context], Scalar] = {}

    def parameter(self, key: Any, stem: str, kind: str, x: Value | None) -> str:
        """The parameter for what is read from outside."""
        if key not in self.parameters:
            name = key if kind in ("index", "size") else self.fresh(stem)
            self.parameters[key] = name, kind, x
        return self.parameters[key][0]

    def inside(self, box: Box | None, context: Context) -> Scalar:
        """Whether the point is in a box, where it is known to be in a context's."""
        if box is None or box == context.box:
            return literal(box is not None)
        return self.parameter(("inside", box), "inside", "inside", None)

    def read(self, one: Read, context: Context) -> Scalar:
        """The value of a parameter of a Map."""
        kind, x, where = one
        if kind in ("index", "size"):
            return self.parameter(kind, kind, kind, None)
        if kind == "inside":
            return self.inside(where and where.box, context)
        if kind == "scalar":
            return self.parameter((x, kind), x.name, kind, x) if isinstance(
                x, Value) else constant(self, x)
        if kind == "raw":
            return self.parameter((x, kind), x.name, kind, x)
        if where is None:
            return self.let("cast", literal(0), attr=dtype_of_value(x).name)
        if x.node not in self.demand.contexts:
            value: Scalar = self.outside(x, where)
            if not where.wraps:
                return value
        else:
            value = self.round(x, where)
        if kind == "element" or where.box == context.box:
            return value
        zero = self.let("cast", literal(0), attr=dtype_of_value(x).name)
        return self.select(self.inside(where.box, context), value, zero)

    def outside(self, x: Value, where: Context) -> str:
        """An array that is read from outside, as it is or through a window."""
        full = self.root.box[len(self.extent) - len(x.shape):]
        plain = where == self.root and all(
            n in (1, hi) for n, (_, hi) in zip(x.shape, full, strict=True))
        if plain:
            return self.parameter((x, None), x.name, "element", x)
        if not where.wraps:
            return self.parameter((x, where.box, where.origin, False), x.name, "window",
                                  x)
        lead = len(self.extent) - len(x.shape)
        box, origin = wrapped(tuple(
            at if axis >= lead and x.shape[axis - lead] != 1 else 0
            for axis, at in enumerate(where.origin)), self.extent)
        if not any(origin):
            return self.parameter((x, None), x.name, "element", x)
        return self.parameter((x, box, origin, True), x.name, "window", x)

    def round(self, x: Value, where: Context) -> Scalar:
        """The value rounded as an array of its dtype would have it."""
        found, wide = self.stored[x, where], compute_dtype(dtype_of_value(x))
        if wide != x.type:
            found = self.let("cast", found, attr=wide.name)
            found = self.let("cast", found, attr=dtype_of_value(x).name)
        return found

    def write(self, node: Node, context: Context) -> None:
        """A Map in a context."""
        args = [self.read(one, context) for one in reads(node, context)]
        for x, v in zip(node.outputs, self.call(node.spec.function, *args),
                        strict=True):
            self.stored[x, context] = self.let("cast", v, attr=dtype_of_value(x).name)

    def launch(self, name: str, outputs: Sequence[Value]) -> Launch:
        """The Map that was written, on the arrays that it reads after all."""
        results = tuple(self.stored[x, self.root] for x in outputs)
        body = Block(tuple(map(_decided, self.statements)), results)
        names = tuple([p for p, _, _ in self.parameters.values()])
        function, used = trim(clean(Function(name, names, body)))
        kept = [(key, kind, x) for (key, (_, kind, x)), u in zip(
            self.parameters.items(), used, strict=True) if u]
        kinds = tuple([kind for _, kind, _ in kept])
        inputs = tuple([x for _, _, x in kept if x is not None])
        boxes: list[Box] = []
        places: list[Place] = []
        for key, kind, _ in kept:
            if kind in ("inside", "window"):
                box, *place = key[1:]
                places.append(Place(len(boxes), *place))
                boxes.append(box)
        shapes = [x.shape for _, kind, x in kept if x is not None
                  and kind == "element"]
        windows = None if not places and broadcast_shapes(shapes) == self.extent else \
            Windows.of(places, boxes, self.extent)
        return Launch(Map(function, kinds, (), windows), inputs, tuple(outputs))


def _decided(s: Any) -> Any:
    """A choice by what is known as the one or the other."""
    if isinstance(s, Let) and s.op == "select" and isinstance(s.args[0], Literal):
        chosen = s.args[1] if s.args[0].value else s.args[2]
        return Let(s.results, "id", (chosen,), None, s.line)
    return s


def fuse_windows(nodes: Sequence[Node], outputs: Sequence[Value], extent: Shape,
                 name: str) -> Launch:
    """Maps as one, some of which read others through windows.

    Parameters
    ----------
    nodes
        Each after what it reads.
    outputs
        The values that are stored, of shape `extent`.
    extent
        What the function runs over.
    name
        Of the function.
    """
    demand = Demand(nodes, outputs, extent)
    writer = _Writer(demand)
    for node in nodes:
        for context in demand.contexts[node]:
            writer.write(node, context)
    return writer.launch(name, outputs)
