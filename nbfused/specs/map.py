"""`Map`: a scalar function at every point of the broadcast shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..scalar.ir.nodes import Function
from ..scalar.typing.types import Typed, Weak, compute_dtype, promoted_dtype
from ..support.records import record
from .base import Hashed, Pullback, Shape
from .pointwise import pointwise
from .shapes import broadcast_shapes

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.typing.types import Type

__all__ = ["Map", "TypedMap"]

#: Kinds of parameters that are not inputs of the call.
IMPLICIT = ("index", "size", "scatter")


@record(frozen=True)
class Map(Hashed):
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
        with ``atomic_add`` or stores in; zero at first, unless the caller gave it).
        The last three are not inputs.
    scatter_shapes
        The shape of each scatter output, which come after the results.
    """

    function: Function
    kinds: tuple[str, ...]
    scatter_shapes: tuple[Shape, ...] = ()

    __hash__ = Hashed.__hash__

    @property
    def name(self) -> str:
        """The name for kernels and messages."""
        return self.function.name

    @property
    def kernel(self) -> Map:
        """The same function with neutral scatter shapes."""
        if not self.scatter_shapes:
            return self
        return Map(self.function, self.kinds,
                   tuple((0,) * len(s) for s in self.scatter_shapes))

    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The broadcast shape for each result, then the scatter outputs'."""
        full = self.extent(shapes)
        return (*(full for _ in self.function.results), *self.scatter_shapes)

    def extent(self, shapes: tuple[Shape, ...]) -> Shape:
        """The shape that the function runs over."""
        return broadcast_shapes([s for s, k in zip(shapes, self._inputs(), strict=True)
                                 if k == "element"])

    def _inputs(self) -> tuple[str, ...]:
        return tuple(k for k in self.kinds if k not in IMPLICIT)

    def _types(self, types: tuple[Type, ...],
               scatter: tuple[np.dtype, ...]) -> tuple[Type, ...]:
        given, added = iter(types), iter(scatter)
        return tuple(Weak("int") if k in ("index", "size")
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
        return TypedMap(self._typed(types, scatter), self.kinds)

    def vjp(self, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> Pullback:
        """A Map for inputs of the full shape, a Reduce for broadcast ones."""
        from .vjp.map import map_vjp

        return map_vjp(self, needs, shapes, present)


@record(frozen=True)
class TypedMap:
    """A Map with every value typed: what a backend prints."""

    function: Typed
    kinds: tuple[str, ...]
