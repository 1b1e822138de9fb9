"""`Reduce`: map, combine along axes, post-process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import Function, Literal, Value
from ..scalar.typing.types import Typed, Weak, compute_dtype
from ..support.loop_nests import Frame, Layout, broadcast_strides
from ..support.records import record
from .base import (
    IMPLICIT,
    KEPT,
    Batching,
    Hashed,
    Parameters,
    Pullback,
    Shape,
    Spec,
    parameters,
    with_scalars,
)
from .combine import COMBINES, Combine
from .map import Map
from .pointwise import pointwise
from .shapes import broadcast_shapes, check_count, normalize_axes, reduce_shape
from .state import State, implicit_of_one, state_of, state_of_one
from .vjp.functions import compose, identity, pick

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.typing.types import Type

__all__ = ["Reduce", "TypedReduce", "sum_over"]


@record(frozen=True)
class Reduce(Spec):
    """``outputs = post(combine over axes of lift(map(inputs)))``.

    Attributes
    ----------
    map
        Parameters as in `Map` (`kinds`: element, scalar, index, size); its results
        are the combine's operands, then what is `stored`.  ``index`` counts within the
        reduced elements.
    post
        First parameters: the state; then any *scalar* inputs of `map` by name, and
        ``size``, the number of elements reduced.  One result for each output.
    axes
        Non-negative; None means all.
    saves
        How many of the last outputs are the state itself, for the derivative.
    stored
        How many of the last results of `map` are the first outputs, each element of
        them; all axes are reduced then.  Fusion makes them of a Map of the same inputs.
    """

    map: Function
    kinds: tuple[str, ...]
    combine: Combine
    post: Function
    axes: tuple[int, ...] | None = None
    keepdims: bool = False
    saves: int = 0
    stored: int = 0

    __hash__: ClassVar[Any] = Hashed.__hash__

    @property
    def name(self) -> str:
        """The name for kernels and messages."""
        return f"{self.combine.name}_{self.map.name}"

    @property
    def kernel(self) -> Reduce:
        """The same without axes: they are in the strides."""
        if self.axes is None and not self.keepdims and not self.saves:
            return self
        return _kernel(self)

    def kernel_for(self, frame: Frame, types: tuple[Type, ...]) -> Spec:
        """A Map where each result is of one element: `frame` has no reduced loops."""
        if len(frame.groups) > 1:
            return self.kernel
        return _of_one(self.kernel, self._state(types))

    @property
    def parameters(self) -> Parameters:
        """The parameters of the map that are inputs."""
        return parameters(self.kinds, self.map.params)

    @property
    def index(self) -> str:
        """The parameter of `map` that is the index; a name for one if it has none."""
        for p, kind in zip(self.map.params, self.kinds, strict=True):
            if kind == "index":
                return p
        taken = self.map.params  # an input may have this name
        return Builder(taken).fresh("index") if "index" in taken else "index"

    @property
    def functions(self) -> tuple[Function, ...]:
        """The map and the post-processing."""
        return self.map, self.post

    def extent(self, shapes: tuple[Shape, ...]) -> Shape:
        """The shape before reduction."""
        return broadcast_shapes([
            s for s, (k, _) in zip(shapes, self.parameters, strict=True)
            if k == "element"])

    def frame(self, operands: Sequence[Layout], names: Sequence[str] = (),
              target: Shape | None = None) -> Frame:
        """Kept axes, then reduced ones in C order, unless each result is of one."""
        extent = broadcast_shapes([shape for shape, _ in operands], names)
        check_count(extent, self.name)
        reduced = tuple(sorted(normalize_axes(self.axes, len(extent))))
        kept = tuple(axis for axis in range(len(extent)) if axis not in reduced)
        placement = kept
        if self.keepdims:
            placement = tuple(-1 if axis in reduced else axis
                              for axis in range(len(extent)))
        outputs = len(self.post.results)
        if not self.stored and all(extent[axis] == 1 for axis in reduced):
            return Frame(
                extent, (kept,),
                tuple(broadcast_strides(shape, own, extent) for shape, own in operands),
                (placement,) * outputs, ((0,),) * (len(operands) + outputs))
        whole = tuple(range(len(extent)))
        return Frame(
            extent, (kept, reduced),
            tuple(broadcast_strides(shape, own, extent) for shape, own in operands),
            (whole,) * self.stored + (placement,) * outputs,
            ((0, 1),) * (len(operands) + self.stored) + ((0,),) * outputs,
            (1,) if "index" in self.kinds or self.combine.indexed else ())

    def reads_in_place(self, position: int) -> bool:
        """Element inputs, if elements are stored: each is read by who stores it."""
        return self.stored > 0 and self.parameters[position][0] == "element"

    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """All elements for what is stored; the shape without `axes` for the others."""
        extent = self.extent(shapes)
        kept = reduce_shape(extent, self.axes, self.keepdims)
        return (extent,) * self.stored + (kept,) * len(self.post.results)

    def _types(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        given = iter(types)
        return tuple(Weak("int") if k in IMPLICIT else next(given) for k in self.kinds)

    def _scalars(self, types: tuple[Type, ...]) -> dict[str, Type]:
        return {p: t for p, k, t in zip(self.map.params, self.kinds,
                                        self._types(types), strict=True)
                if k == "scalar"}

    def result_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        """By NumPy's rules, `numpy.sum`'s accumulators for sums and products.

        State that is saved is not rounded to 16 bits: the sum of squares of a norm of
        300 is more than float16's largest number.
        """
        state = self._state(types)
        results = self._post(types, state).results
        first = len(results) - self.saves
        return (*state.element.results[len(state.dtypes):], *results[:first],
                *map(compute_dtype, results[first:]))

    def _state(self, types: tuple[Type, ...]) -> State:
        return state_of(self.map, self._types(types), self.combine, self.index)

    def _post(self, types: tuple[Type, ...], state: State) -> Typed:
        rest = {"size": Weak("int"), **self._scalars(types)}
        extra = self.post.params[len(state.logical):]
        return pointwise(self.post, (*state.logical, *(rest[p] for p in extra)))

    def typed(self, types: tuple[Type, ...],
              outputs: tuple[np.dtype, ...] = ()) -> TypedReduce:
        """Every function typed, unused parts of the state dropped."""
        state = self._state(types)
        post = self._post(types, state)
        extra = self.post.params[len(state.logical):]
        kinds = ("state",) * len(state.logical) + tuple(
            "size" if p == "size" else "scalar" for p in extra)
        return TypedReduce(state.element, state.kinds(self.kinds), state.merge, post,
                           kinds, state.identity, state.dtypes)

    def vjp(self, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> Pullback:
        """An elementwise derivative of (inputs, saved state, cotangent)."""
        from .vjp.reduce import reduce_vjp

        return reduce_vjp(self, needs, shapes, present)

    def batched(self, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
                size: int) -> Batching | None:
        """A Reduce with one kept axis more."""
        from .batching.reduce import reduce_batched

        return reduce_batched(self, batched, shapes, size)

    @property
    def apart(self) -> tuple[Map, Reduce]:
        """A Map that gives what is stored, and the Reduce without it."""
        return _apart(self)

    def with_numbers(self, numbers: Sequence[bool]) -> Reduce:
        """The same map, called with numbers in place of the inputs marked."""
        kinds = with_scalars(self.kinds, numbers)
        return self if kinds == self.kinds else replace(self, kinds=kinds)


@lru_cache(maxsize=KEPT)
def _kernel(spec: Reduce) -> Reduce:
    return replace(spec, axes=None, keepdims=False, saves=0)


@lru_cache(maxsize=KEPT)
def _of_one(spec: Reduce, state: State) -> Map:
    """The results of single elements: `state` is the typed one."""
    kinds = dict(zip(spec.map.params, spec.kinds, strict=True))
    params = [p for p, kind in kinds.items() if kind not in IMPLICIT]

    def build(b: Builder) -> tuple[Value, ...]:
        implicit = implicit_of_one(b)
        scope = {p: implicit.get(kind, p) for p, kind in kinds.items()}
        scope.setdefault(spec.index, implicit["index"])
        values = state_of_one(b, spec.map, spec.combine, state, scope, spec.index)
        rest = spec.post.params[len(values):]
        return b.call(spec.post, *values, *(
            implicit["size"] if p == "size" else p for p in rest))

    return Map(compose(spec.name, params, build), tuple([kinds[p] for p in params]))


@lru_cache(maxsize=KEPT)
def _apart(spec: Reduce) -> tuple[Map, Reduce]:
    arity = spec.combine.arity
    stored = range(arity, arity + spec.stored)
    return (Map(pick(spec.map, stored), spec.kinds),
            replace(spec, map=pick(spec.map, range(arity)), stored=0))


@lru_cache(maxsize=256)
def sum_over(axes: tuple[int, ...] | None, keepdims: bool = False) -> Reduce:
    """The plain sum."""
    return Reduce(identity(), ("element",), COMBINES["sum"], identity(), axes, keepdims)


@lru_cache(maxsize=KEPT)
def saving(spec: Reduce) -> Reduce:
    """The same results, then the state that the derivative needs."""
    if spec.saves:
        return spec
    combine = spec.combine.saving or spec.combine
    state = [f"s{k}" for k in range(len(combine.identity))]
    plain = len(spec.combine.identity)
    extra = spec.post.params[plain:]

    def build(b: Builder) -> tuple[Value, ...]:
        return (*b.call(spec.post, *state[:plain], *extra), *state)

    post = compose(spec.post.name, (*state, *extra), build)
    return replace(spec, combine=combine, post=post, saves=len(state))


@record(frozen=True)
class TypedReduce:
    """A Reduce with every value typed.

    Attributes
    ----------
    element
        ``lift(map(...))`` as one function: inputs (`kinds`) to the state, then to the
        elements of the first outputs.  A parameter of kind ``"index"`` is the flat
        C-order index *within the reduced elements*.
    merge
        Parameters: the state twice (``a``'s, then ``b``'s), in `state` dtypes.
    post
        `post_kinds` for each parameter: ``"state"``, ``"scalar"`` or ``"size"``; a
        scalar has the name that it has in `element`.
    identity
        One typed literal for each part of the state.
    state
        Dtypes in which the state is kept (never a 16-bit float).
    """

    element: Typed
    kinds: tuple[str, ...]
    merge: Typed
    post: Typed
    post_kinds: tuple[str, ...]
    identity: tuple[Literal, ...]
    state: tuple[np.dtype, ...]

    @property
    def stored(self) -> tuple[np.dtype, ...]:
        """Dtypes of the results of `element` that are outputs as they are."""
        return self.element.results[len(self.state):]
