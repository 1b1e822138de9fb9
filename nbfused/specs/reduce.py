"""`Reduce`: map, combine along axes, post-process."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from ..errors import NotDifferentiableError
from ..records import record
from ..scalar.build import Builder
from ..scalar.differentiate import vjp
from ..scalar.ir import Function, Literal, Value, used_params
from ..scalar.types import Typed, Weak
from .base import Hashed, Program, Pullback, Ref, Shape
from .combine import COMBINES, Combine
from .elements import Argument, Target, pull
from .fold import fold_pullback
from .functions import compose, identity
from .pointwise import pointwise
from .shapes import broadcast_shapes, normalize_axes, reduce_shape
from .state import State, state_of
from .view import View

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.types import Type

__all__ = ["Reduce", "TypedReduce", "sum_over"]

IMPLICIT = ("index", "size")


@record(frozen=True)
class Reduce(Hashed):
    """``outputs = post(combine over axes of lift(map(inputs)))``.

    Attributes
    ----------
    map
        Parameters as in `Map` (`kinds`: element, scalar, index, size); its results
        are the combine's operands.  ``index`` counts within the reduced elements.
    post
        First parameters: the state; then any *scalar* inputs of `map` by name, and
        ``size``, the number of elements reduced.  One result for each output.
    axes
        Non-negative; None means all.
    saves
        How many of the last outputs are the state itself, for the derivative.
    """

    map: Function
    kinds: tuple[str, ...]
    combine: Combine
    post: Function
    axes: tuple[int, ...] | None = None
    keepdims: bool = False
    saves: int = 0

    __hash__ = Hashed.__hash__

    @property
    def name(self) -> str:
        """For kernels and messages."""
        return f"{self.combine.name}_{self.map.name}"

    @property
    def kernel(self) -> Reduce:
        """The same without axes: they are in the strides."""
        if self.axes is None and not self.keepdims and not self.saves:
            return self
        return _kernel(self)

    def _inputs(self) -> tuple[str, ...]:
        return tuple(k for k in self.kinds if k not in IMPLICIT)

    def extent(self, shapes: tuple[Shape, ...]) -> Shape:
        """The shape before reduction."""
        return broadcast_shapes([s for s, k in zip(shapes, self._inputs(), strict=True)
                                 if k == "element"])

    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The shape without `axes`, for each output."""
        kept = reduce_shape(self.extent(shapes), self.axes, self.keepdims)
        return (kept,) * len(self.post.results)

    def _types(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        given = iter(types)
        return tuple(Weak("int") if k in IMPLICIT else next(given) for k in self.kinds)

    def _scalars(self, types: tuple[Type, ...]) -> dict[str, Type]:
        return {p: t for p, k, t in zip(self.map.params, self.kinds,
                                        self._types(types), strict=True)
                if k == "scalar"}

    def result_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        """By NumPy's rules, `numpy.sum`'s accumulators for sums and products."""
        return self._post(types, self._state(types)).results

    def _state(self, types: tuple[Type, ...]) -> State:
        return state_of(self.map, self._types(types), self.combine)

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
        return _vjp(self, needs, shapes, present)


@lru_cache(maxsize=1024)
def _kernel(spec: Reduce) -> Reduce:
    return replace(spec, axes=None, keepdims=False, saves=0)


@lru_cache(maxsize=256)
def sum_over(axes: tuple[int, ...] | None, keepdims: bool = False) -> Reduce:
    """The plain sum."""
    return Reduce(identity(), ("element",), COMBINES["sum"], identity(), axes, keepdims)


@lru_cache(maxsize=1024)
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


@lru_cache(maxsize=4096)
def _vjp(spec: Reduce, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
         present: tuple[bool, ...]) -> Pullback:
    if (spec.combine.saving or spec.combine).cotangent is None:
        return fold_pullback(spec, needs, shapes, present)
    forward = saving(spec)
    outputs = len(forward.post.results)
    present = present + (False,) * (outputs - len(present))
    function, roles = _element_derivative(forward, needs, present)
    full = spec.extent(shapes)
    program = Program()
    arguments, targets = _arguments(program, forward, function, roles, needs, shapes,
                                    full)
    refs = iter(pull(program, function, arguments, targets, full))
    return Pullback(_lean(spec, forward, program), tuple(program.steps),
                    tuple(next(refs) if need else None for need in needs))


def _lean(spec: Reduce, forward: Reduce, program: Program) -> Reduce:
    """The spec itself where no step reads the saved state."""
    first = len(spec.post.results)
    reads = any(isinstance(r, Ref) and r.source == "output" and r.index >= first
                for s in program.steps for r in s.inputs)
    return forward if reads else spec


def _element_derivative(
        spec: Reduce, needs: tuple[bool, ...],
        present: tuple[bool, ...]) -> tuple[Function, list[tuple[str, int]]]:
    """Per element: (map's parameters, state, cotangents) to the inputs' cotangents."""
    combine = spec.combine
    used = set(spec.map.params)
    size = [] if "size" in used else [p for p in spec.post.params if p == "size"]
    names = Builder({*used, *size})  # the map may be a derivative, with such names
    state = [names.fresh(f"state{k}") for k in range(len(combine.identity))]
    gs = [names.fresh(f"g{k}") for k, p in enumerate(present) if p]
    given = iter(needs)
    wrt = tuple(k not in IMPLICIT and next(given) for k in spec.kinds)
    post = vjp(spec.post, tuple(k < len(state) for k in range(len(spec.post.params))),
               present)
    pull_map = vjp(spec.map, wrt, (True,) * len(spec.map.results))

    def build(b: Builder) -> tuple[Value, ...]:
        extra = spec.post.params[len(state):]
        gstate = b.call(post, *state, *extra, *gs)
        mapped = b.call(spec.map, *spec.map.params)
        assert combine.cotangent is not None
        gm = b.call(combine.cotangent, *mapped, *state, *gstate)
        return b.call(pull_map, *spec.map.params, *gm)

    params = (*spec.map.params, *size, *state, *gs)
    roles = [("map", k) for k in range(len(spec.map.params))]
    roles += [("size", 0)] * len(size)
    first = len(present) - len(state)
    roles += [("output", first + k) for k in range(len(state))]
    roles += [("cotangent", k) for k, p in enumerate(present) if p]
    return compose(f"{spec.map.name}_vjp", params, build), roles


def _arguments(program: Program, spec: Reduce, function: Function,
               roles: list[tuple[str, int]], needs: tuple[bool, ...],
               shapes: tuple[Shape, ...], full: Shape,
               ) -> tuple[list[Argument], list[Target]]:
    kept = reduce_shape(full, spec.axes, True)
    count = prod(full) // max(prod(kept), 1)
    axes = tuple(sorted(normalize_axes(spec.axes, len(full))))
    leading = not spec.keepdims and axes == tuple(range(len(axes)))
    expand = None if spec.keepdims or leading else View("expand", axes)
    if leading:  # axes in front are there for broadcasting as it is
        kept = kept[len(axes):]
    used = used_params(function)
    given = iter(range(len(shapes)))
    arguments: list[Argument] = []
    for p, u, (role, k) in zip(function.params, used, roles, strict=True):
        if role == "size" or (role == "map" and spec.kinds[k] == "size"):
            arguments.append(Argument(p, "scalar", count))
        elif role == "map" and spec.kinds[k] == "index":
            arguments.append(_index(spec, p, u))
        elif role == "map":
            i = next(given)
            arguments.append(Argument(p, spec.kinds[k], Ref("input", i), shapes[i]))
        else:
            ref = Ref("output" if role == "output" else "cotangent", k)
            if u and expand is not None:
                (ref,) = program.run(expand, ref)
            arguments.append(Argument(p, "element", ref, kept))
    targets = [(Ref("input", i), shapes[i]) for i, need in enumerate(needs) if need]
    return arguments, targets


def _index(spec: Reduce, name: str, used: bool) -> Argument:
    if used:
        raise NotDifferentiableError(
            f"the derivative of the reduction '{spec.name}' depends on the index of "
            "the element; pass the positions as an array input instead")
    return Argument(name, "index")


@record(frozen=True)
class TypedReduce:
    """A Reduce with every value typed.

    Attributes
    ----------
    element
        ``lift(map(...))`` as one function: inputs (`kinds`) to the state.  A
        parameter of kind ``"index"`` is the flat C-order index *within the reduced
        elements*.
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
