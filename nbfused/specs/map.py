"""`Map`: a scalar function at every point of the broadcast shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import ShapeError
from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import Function, Value, literal
from ..scalar.typing.types import Typed, Weak, compute_dtype, promoted_dtype
from ..support.loop_nests import Frame, Layout, broadcast_strides
from ..support.records import record
from .base import (
    IMPLICIT,
    Batching,
    Hashed,
    Parameters,
    Pullback,
    Shape,
    Spec,
    parameters,
    with_scalars,
)
from .pointwise import pointwise
from .shapes import broadcast_shapes, broadcasts_to, check_count
from .vjp.functions import compose
from .windows import Place, Windows

if TYPE_CHECKING:
    from ..scalar.typing.types import Type

__all__ = ["Map", "TypedMap"]

_BOOL = np.dtype(np.bool_)


@record(frozen=True)
class Map(Spec):
    """``outputs[i] = function(inputs[i], ...)``.

    Attributes
    ----------
    function
        One result for each output.
    kinds
        For each parameter of `function`: ``"element"`` (an array, broadcast),
        ``"scalar"`` (a number given at call time), ``"raw"`` (an array that the
        function indexes itself, ``load(raw, i, j, …)`` with as many integers as it has
        dimensions), ``"index"`` (the flat C-order index of the point), ``"size"`` (the
        number of points) or ``"scatter"`` (a further output that the function adds to
        with ``atomic_add`` or stores in; zero at first, unless the caller gave it),
        ``"window"`` (an array at the points of a box, 0 elsewhere unless it wraps) or
        ``"inside"`` (whether the point is in a box).
        All but the first three and ``"window"`` are no inputs.
    scatter_shapes
        The shape of each scatter output, which come after the results.
    windows
        Where the windows lie; None if there are none.
    """

    function: Function
    kinds: tuple[str, ...]
    scatter_shapes: tuple[Shape, ...] = ()
    windows: Windows | None = None

    __hash__: ClassVar[Any] = Hashed.__hash__
    pointwise: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name for kernels and messages."""
        return self.function.name

    @property
    def kernel(self) -> Map:
        """The same function with neutral scatter shapes and boxes."""
        if self.windows is not None:
            return replace(self, windows=self.windows.kernel)
        if not self.scatter_shapes:
            return self
        return Map(self.function, self.kinds,
                   tuple((0,) * len(s) for s in self.scatter_shapes))

    @property
    def fixes_extents(self) -> bool:
        """If it has windows, or scatters."""
        return self.windows is not None or bool(self.scatter_shapes)

    @property
    def places(self) -> dict[str, Place]:
        """Places of windows, by the parameter."""
        if self.windows is None:
            return {}
        named = [p for p, k in zip(self.function.params, self.kinds, strict=True)
                 if k in ("window", "inside")]
        return dict(zip(named, self.windows.places, strict=True))

    @property
    def parameters(self) -> Parameters:
        """The parameters of the function that are inputs."""
        return parameters(self.kinds, self.function.params)

    @property
    def functions(self) -> tuple[Function, ...]:
        """The function."""
        return (self.function,)

    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The broadcast shape for each result, then the scatter outputs'."""
        full = self.extent(shapes)
        return (*(full for _ in self.function.results), *self.scatter_shapes)

    def extent(self, shapes: tuple[Shape, ...]) -> Shape:
        """The shape that the function runs over."""
        elements = [s for s, (k, _) in zip(shapes, self.parameters, strict=True)
                    if k == "element"]
        if self.windows is None or self.windows.extent is None:
            return broadcast_shapes(elements)
        places = self.places
        for shape, (kind, name) in zip(shapes, self.parameters, strict=True):
            if kind == "window":
                self.windows.check(shape, places[name], f"'{name}'")
        return broadcast_shapes([self.windows.extent, *elements])

    def frame(self, operands: Sequence[Layout], names: Sequence[str] = (),
              target: Shape | None = None) -> Frame:
        """One group of all axes, repeated to `target` where they broadcast to it."""
        if self.windows is not None:
            return self._windowed(operands, names)
        extent = broadcast_shapes([shape for shape, _ in operands], names)
        if target is not None and broadcasts_to(extent, target):
            extent = target
        check_count(extent, self.name)
        axes = tuple(range(len(extent)))
        outputs = len(self.function.results)
        return Frame(
            extent, (axes,),
            tuple(broadcast_strides(shape, own, extent) for shape, own in operands),
            (axes,) * outputs, ((0,),) * (len(operands) + outputs),
            (0,) if "index" in self.kinds else ())

    def _windowed(self, operands: Sequence[Layout], names: Sequence[str]) -> Frame:
        """The loops where inputs are windows: of this extent, whatever the target."""
        windows, places = self.windows, self.places
        assert windows is not None
        assert windows.extent is not None
        kinds = [(k, n) for k, n in self.parameters if k in ("element", "window")]
        for (shape, _), (kind, name) in zip(operands, kinds, strict=True):
            if kind == "window":
                windows.check(shape, places[name], f"'{name}'")
        extent = broadcast_shapes(
            [windows.extent, *(shape for (shape, _), (k, _) in zip(
                operands, kinds, strict=True) if k == "element")],
            ["the windows", *names] if names else ())
        if extent != windows.extent:
            raise ShapeError(f"{self.name}: inputs of shape {extent} do not broadcast "
                             f"to the extent of the windows, {windows.extent}; "
                             "expected extents that are equal, or 1")
        check_count(extent, self.name)
        laid = [windows.layout(operand, places[n]) if k == "window" else
                (broadcast_strides(*operand, extent), 0)
                for operand, (k, n) in zip(operands, kinds, strict=True)]
        axes = tuple(range(len(extent)))
        outputs = len(self.function.results)
        return Frame(
            extent, (axes,), tuple(strides for strides, _ in laid), (axes,) * outputs,
            ((0,),) * (len(operands) + outputs), moves=tuple(move for _, move in laid),
            boxes=windows.boxes)

    def _types(self, types: tuple[Type, ...],
               scatter: tuple[np.dtype, ...]) -> tuple[Type, ...]:
        given, added = iter(types), iter(scatter)
        return tuple(_BOOL if k == "inside" else Weak("int") if k in ("index", "size")
                     else next(added) if k == "scatter" else next(given)
                     for k in self.kinds)

    def result_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        """By NumPy's rules; a scatter output accumulates in a computing dtype."""
        scatter = self._scatter_types(types)
        return (*self._typed(types, scatter).results,
                *scatter)

    def _typed(self, types: tuple[Type, ...],
               scatter: tuple[np.dtype, ...]) -> Typed:
        arrays = frozenset(p for p, k in zip(self.function.params, self.kinds,
                                             strict=True) if k in ("raw", "scatter"))
        return pointwise(self.function, self._types(types, scatter), arrays)

    def _scatter_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        if not self.scatter_shapes:
            return ()
        strong = [t for t in types if not isinstance(t, Weak) and t.kind in "fcV"]
        common = compute_dtype(promoted_dtype(*(strong or types)))
        return (common,) * len(self.scatter_shapes)

    def typed(self, types: tuple[Type, ...],
              outputs: tuple[np.dtype, ...] = ()) -> TypedMap:
        """The function with every value typed."""
        count = len(self.scatter_shapes)
        scatter = outputs[len(outputs) - count:] if count and outputs \
            else self._scatter_types(types)
        if self.windows is None:
            return TypedMap(self._typed(types, scatter), self.kinds)
        places = self.windows.places
        around = {p.box for p in places if p.wraps}
        return TypedMap(self._typed(types, scatter), self.kinds, tuple([
            p.box for p in places]), self.windows.inner, tuple([
                k in around for k in range(len(self.windows.inner))]))

    def vjp(self, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> Pullback:
        """A Map for inputs of the full shape, a Reduce for broadcast ones."""
        from .vjp.map import map_vjp

        return map_vjp(self, needs, shapes, present)

    def batched(self, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
                size: int) -> Batching | None:
        """A Map with one axis more; an index finds its sample first."""
        from .batching.map import map_batched

        return map_batched(self, batched, shapes, size)

    def with_numbers(self, numbers: Sequence[bool]) -> Map:
        """The same function, called with numbers in place of the inputs marked."""
        kinds = with_scalars(self.kinds, numbers)
        assert self.windows is None or kinds.count("window") == self.kinds.count(
            "window"), "a window is an array"
        return self if kinds == self.kinds else replace(self, kinds=kinds)

    def with_ones(self, ones: tuple[np.dtype | None, ...]) -> Map | None:
        """The function with 1 in place of elements; the others set the extent."""
        inexact = any(k != "element" for (k, _), dtype
                      in zip(self.parameters, ones, strict=True) if dtype is not None)
        return None if inexact else _with_ones(self, ones)


@lru_cache(maxsize=1024)
def _with_ones(spec: Map, ones: tuple[np.dtype | None, ...]) -> Map:
    function, given = spec.function, iter(ones)
    places = [None if kind in IMPLICIT else next(given) for kind in spec.kinds]
    kept = [k for k, dtype in enumerate(places) if dtype is None]

    def build(b: Builder) -> tuple[Value, ...]:
        return b.call(function, *(
            p if dtype is None else b.let("cast", literal(1.0), attr=dtype.name)
            for p, dtype in zip(function.params, places, strict=True)))

    made = compose(function.name, [function.params[k] for k in kept], build)
    return replace(spec, function=made, kinds=tuple([spec.kinds[k] for k in kept]))


@record(frozen=True)
class TypedMap:
    """A Map with every value typed: what a backend prints.

    Attributes
    ----------
    boxes
        The number of the box of each parameter of kind ``"window"`` or ``"inside"``.
    inner
        For each box, whether most points are in it.
    wraps
        For each box, whether windows read from the other end outside of it.
    """

    function: Typed
    kinds: tuple[str, ...]
    boxes: tuple[int, ...] = ()
    inner: tuple[bool, ...] = ()
    wraps: tuple[bool, ...] = ()

    @property
    def box_of(self) -> dict[str, int]:
        """The number of the box, by the parameter."""
        named = [p for p, k in zip(self.function.function.params, self.kinds,
                                   strict=True) if k in ("window", "inside")]
        return dict(zip(named, self.boxes, strict=True))
