"""Maps with windows in the place of views of Maps, and of views that store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....scalar.ir.build import Builder
from ....scalar.ir.nodes import Function, literal
from ....scalar.ir.nodes import Value as Scalar
from ...base import Shape
from ...map import Map
from ...shapes import broadcast_shapes
from ...view import View
from ...vjp.functions import compose
from ...windows import Box, Place, Windows, whole
from ..algebra import dtype_of_value
from ..graph import Value
from .rearranged import Rearranged
from .rolls import COPY

__all__ = ["Pushed", "concatenated", "placed"]


class Pushed:
    """A Map of rearranged arrays in the place of a view of its result.

    A window that nothing is left of is the number 0, one that is everywhere an array.
    """

    def __init__(self, made: Rearranged, spec: Map, given: Sequence[Any], result: int,
                 extent: Shape) -> None:
        self.made, self.extent = made, extent
        self.function, self.result = spec.function, result
        self.kinds: list[str] = []
        self.inputs: list[Any] = []
        self.boxes: list[Box] = []
        self.places: list[Place] = []
        self.arguments: list[Scalar | Any] = []
        inputs, places = iter(given), spec.places
        for param, kind in zip(self.function.params, spec.kinds, strict=True):
            place = places.get(param)
            if place is not None:
                assert spec.windows is not None
                self._placed(kind, param, spec.windows.boxes[place.box], place,
                             None if kind == "inside" else next(inputs))
                continue
            x = next(inputs)
            array = isinstance(x, Value) and not x.by_value and kind == "element"
            self._add(kind, param, made.element(x) if array else x)

    def _add(self, kind: str, param: str, x: Any = None) -> None:
        self.kinds.append(kind)
        self.arguments.append(param)
        if kind != "inside":
            self.inputs.append(x)

    def _placed(self, kind: str, param: str, box: Box, place: Place, x: Any) -> None:
        found, origin = self.made.box(box), place.origin
        everywhere = found == whole(self.extent)
        if kind == "inside" and (found is None or everywhere):
            self.arguments.append(literal(everywhere))
        elif found is None:
            self.arguments.append(x)
        elif kind == "window":
            found, at, x = self.made.window(box, origin, x)
            if place.wraps:
                self._place(kind, param, found, at, x, True)
            elif everywhere:
                self._add("element", param, self.made.filled(found, at, x))
            else:
                self._place(kind, param, found, at, x)
        else:
            self._place(kind, param, found, (), None)

    def _place(self, kind: str, param: str, box: Box, origin: Shape, x: Any,
               wraps: bool = False) -> None:
        self.places.append(Place(len(self.boxes), origin, wraps))
        self.boxes.append(box)
        self._add(kind, param, x)

    def spec(self) -> Map:
        """The Map, with its choice of results and arguments."""
        function = self.function
        params = [a for a in self.arguments if isinstance(a, str)]

        def build(b: Builder) -> tuple[Scalar, ...]:
            args = [b.let("cast", literal(0), attr=dtype_of_value(a).name)
                    if isinstance(a, Value) else a for a in self.arguments]
            return (b.call(function, *args)[self.result],)

        made = compose(function.name, params, build)
        # What is no longer broadcast to by an input is the extent of the windows.
        windows = None
        if self.places or broadcast_shapes([
                x.shape for x, k in zip(self.inputs, (
                    k for k in self.kinds if k != "inside"), strict=True)
                if k == "element" and isinstance(x, Value)]) != self.extent:
            windows = Windows.of(self.places, self.boxes, self.extent)
        return Map(made, tuple(self.kinds), (), windows)


def placed(x: Value, starts: Shape, extent: Shape) -> tuple[Map, tuple[Value]]:
    """A Map that stores an array into a larger one of zeros, and what it reads."""
    box = tuple((start, start + n) for n, start in zip(x.shape, starts, strict=True))
    windows = Windows.of([Place(0, starts)], [box], extent)
    return Map(COPY, ("window",), (), windows), (_repeated(x),)


def concatenated(pieces: Sequence[Value], axis: int, extent: Shape,
                  ) -> tuple[Map, tuple[Value, ...]]:
    """A Map that chooses among pieces, and what it reads."""
    boxes: list[Box] = []
    places: list[Place] = []
    start = 0
    for k, x in enumerate(pieces):
        boxes.append(tuple((start, start + n) if a == axis else (0, n)
                           for a, n in enumerate(x.shape)))
        origin = tuple(lo for lo, _ in boxes[-1])
        places += [Place(k, origin)]*(2 if k < len(pieces) - 1 else 1)
        start += x.shape[axis]
    kinds = ("inside", "window")*(len(pieces) - 1) + ("window",)
    return Map(_chosen(len(pieces)), kinds, (), Windows.of(
        places, boxes, extent)), tuple(map(_repeated, pieces))


def _repeated(x: Value) -> Value:
    """The array that is repeated in another; a window repeats it itself."""
    while x.node is not None and isinstance(x.node.spec, View) and \
            x.node.spec.kind == "broadcast":
        (x,) = x.node.inputs
    return x


def _chosen(count: int) -> Function:
    """The function of ``inside, piece`` pairs and a last piece that chooses one."""
    params = [p for k in range(count - 1) for p in (f"inside{k}", f"piece{k}")]
    params.append(f"piece{count - 1}")

    def build(b: Builder) -> tuple[Scalar, ...]:
        found: Scalar = params[-1]
        for k in range(count - 2, -1, -1):
            found = b.select(f"inside{k}", f"piece{k}", found)
        return (found,)

    return compose("concatenate", params, build)
