"""`Map`: a scalar function at every point of the broadcast shape."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ..records import record
from ..scalar.differentiate import vjp
from ..scalar.ir import Function, drop_params, used_params
from ..scalar.types import Typed, Weak, compute_dtype, promoted_dtype
from .base import Hashed, Program, Pullback, Ref, Shape
from .elements import Argument, Target, extent, pull
from .functions import adding
from .pointwise import pointwise
from .shapes import broadcast_shapes
from .view import unbroadcast

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.types import Type

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
        """For kernels and messages."""
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
        return _vjp(self, needs, shapes, present)


@lru_cache(maxsize=4096)
def _vjp(spec: Map, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
         present: tuple[bool, ...]) -> Pullback:
    results = len(spec.function.results)
    slots = _slots(spec, needs, shapes, present[results:])
    wrt = tuple(need for need, _ in slots)
    raw = tuple(p for p, k in zip(spec.function.params, spec.kinds, strict=True)
                if k in ("raw", "scatter"))
    function, outs = _derivative(spec, wrt, present[:results], raw)
    full = spec.extent(shapes)
    arguments = _arguments(spec, function, slots, outs, present, full)
    flat, raws = (_targets(spec, arguments, slots, k) for k in ("element", "raw"))
    program = Program()
    if raws:
        refs = _scatter(program, function, arguments, list(flat.values()),
                        list(raws.values()), full)
    else:
        refs = pull(program, function, arguments, list(flat.values()), full)
    found = dict(zip((*flat, *raws), refs, strict=True))
    return Pullback(spec, tuple(program.steps), tuple(
        found.get(k) for k, kind in enumerate(spec.kinds) if kind not in IMPLICIT))


def _slots(spec: Map, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
           scattered: tuple[bool, ...]) -> list[tuple[bool, Shape]]:
    """For each parameter, whether its derivative matters, and its shape."""
    given = iter(zip(needs, shapes, strict=True))
    outputs = iter(zip(scattered, spec.scatter_shapes, strict=True))
    return [next(outputs) if k == "scatter" else (False, ()) if k in IMPLICIT
            else next(given) for k in spec.kinds]


def _derivative(spec: Map, wrt: tuple[bool, ...], present: tuple[bool, ...],
                raw: tuple[str, ...]) -> tuple[Function, bool]:
    """The derivative, read from the outputs where that saves reading inputs."""
    outs = not raw and _reads_outputs(spec, wrt)
    function = adding(spec.function) if raw else spec.function
    return vjp(function, wrt, present, outs, raw), outs


@lru_cache(maxsize=4096)
def _reads_outputs(spec: Map, wrt: tuple[bool, ...]) -> bool:
    """Whether the derivative by all outputs reads fewer inputs if it has the outputs.

    What is saved is decided before it is known which outputs take a cotangent.
    """
    every = (True,) * len(spec.function.results)
    plain, smart = (used_params(vjp(spec.function, wrt, every, outs, ()))
                    for outs in (False, True))
    elements = [k for k, kind in enumerate(spec.kinds) if kind == "element"]
    return sum(smart[k] for k in elements) < sum(plain[k] for k in elements)


def _arguments(spec: Map, function: Function, slots: list[tuple[bool, Shape]],
               outs: bool, present: tuple[bool, ...], full: Shape) -> list[Argument]:
    """What the derivative's parameters are, in its own order."""
    found: list[Argument] = []
    inputs = 0
    for kind, (_, shape) in zip(spec.kinds, slots, strict=True):
        implicit = kind in IMPLICIT
        found.append(Argument("", kind, None if implicit else Ref("input", inputs),
                              shape))
        inputs += not implicit
    results = len(spec.function.results)
    if outs:
        found += [Argument("", "element", Ref("output", k), full)
                  for k in range(results)]
    found += [Argument("", "element", Ref("cotangent", k), full)
              for k in range(results) if present[k]]
    outputs = iter(range(results, results + len(spec.scatter_shapes)))
    for kind, (need, shape) in zip(spec.kinds, slots, strict=True):
        if kind == "raw" and need:
            found.append(Argument("", "scatter"))
        if kind == "scatter":
            ref = Ref("cotangent", next(outputs))
            found += [Argument("", "raw", ref, shape)] if need else []
    return [Argument(p, a.kind, a.ref, a.shape)
            for p, a in zip(function.params, found, strict=True)]


def _targets(spec: Map, arguments: list[Argument], slots: list[tuple[bool, Shape]],
             kind: str) -> dict[int, Target]:
    """What has a cotangent among the parameters of a kind, by position."""
    primal = enumerate(zip(spec.kinds, arguments, slots, strict=False))
    return {k: (a.ref, shape) for k, (own, a, (need, shape)) in primal
            if need and own == kind and isinstance(a.ref, Ref)}


def _scatter(program: Program, function: Function, arguments: list[Argument],
             targets: list[Target], buffers: list[Target],
             full: Shape) -> list[Ref | None]:
    """One Map that stores the elementwise cotangents and adds the scattered ones."""
    used = used_params(function)
    if extent([a for a, u in zip(arguments, used, strict=True) if u]) != full:
        # What nobody reads says where the function runs.
        used = tuple(u or a.kind == "element"
                     for a, u in zip(arguments, used, strict=True))
    kept = [a for a, u in zip(arguments, used, strict=True) if u]
    spec = Map(drop_params(function, used), tuple(a.kind for a in kept),
               tuple(s for _, s in buffers))
    # Buffers keep their computing dtype: 16-bit floats would round at every addition.
    like = (*(ref for ref, _ in targets), *(None for _ in buffers))
    outs = program.run(spec, *(a.ref for a in kept if a.ref is not None), like=like)
    flat = [unbroadcast(program, o, full, shape, ref)
            for o, (ref, shape) in zip(outs, targets, strict=False)]
    return [*flat, *outs[len(targets):]]


@record(frozen=True)
class TypedMap:
    """A Map with every value typed: what a backend prints."""

    function: Typed
    kinds: tuple[str, ...]
