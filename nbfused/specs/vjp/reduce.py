"""The derivative of a Reduce: a Map of its inputs, its state and the cotangents."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from ...errors import NotDifferentiableError
from ...scalar.autodiff.differentiate import vjp
from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import Function, Value, used_params
from ..base import IMPLICIT, KEPT, Program, Pullback, Ref, Shape
from ..map import Map
from ..reduce import Reduce, saving
from ..shapes import normalize_axes, reduce_shape
from ..view import View
from .elements import Argument, Target, pull
from .fold import fold_pullback
from .functions import compose

__all__ = ["reduce_vjp"]

_ADD = Map(compose("add", ("a", "b"), lambda w: (w.let("add", "a", "b"),)),
           ("element", "element"))


@lru_cache(maxsize=KEPT)
def reduce_vjp(spec: Reduce, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
               present: tuple[bool, ...]) -> Pullback:
    """The derivative of a Reduce: `Reduce.vjp`."""
    if spec.stored:
        return _apart(spec, needs, shapes, present)
    if (spec.combine.saving or spec.combine).cotangent is None:
        return fold_pullback(spec, needs, shapes, present)
    forward = saving(spec)
    outputs = len(forward.post.results)
    present = present + (False,) * (outputs - len(present))
    full = spec.extent(shapes)
    alone = all(full[axis] == 1 for axis in normalize_axes(spec.axes, len(full)))
    function, roles = _element_derivative(forward, needs, present, alone)
    program = Program()
    arguments, targets = _arguments(program, forward, function, roles, needs, shapes,
                                    full)
    refs = iter(pull(program, function, arguments, targets, full))
    return Pullback(_lean(spec, forward, program), tuple(program.steps),
                    tuple(next(refs) if need else None for need in needs))


def _apart(spec: Reduce, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
           present: tuple[bool, ...]) -> Pullback:
    """Add up cotangents from the elements that are stored, and from the reduction."""
    program, count = Program(), spec.stored
    mapped, reduced = spec.apart
    parts = [(mapped, present[:count], 0), (reduced, present[count:], count)]
    forward, found = spec, []
    for part, own, first in parts:
        if not any(own):
            continue
        pullback = part.vjp(needs, shapes, own)
        if isinstance(pullback.forward, Reduce):
            forward = replace(spec, combine=pullback.forward.combine,
                              post=pullback.forward.post, saves=pullback.forward.saves)
        outputs = len(pullback.forward.out_shapes(shapes))
        table = program.extend(pullback.steps, {
            Ref(source, k): Ref(source, first + k)
            for source in ("output", "cotangent") for k in range(outputs)})
        found.append([None if r is None else table.get(r, r) for r in pullback.results])
    results = [_total(program, k, [r for r in refs if r is not None])
               for k, refs in enumerate(zip(*found, strict=True))]
    return Pullback(forward, tuple(program.steps),
                    tuple(results) or (None,)*len(needs))


def _total(program: Program, position: int, refs: list[Ref]) -> Ref | None:
    """The sum of the cotangents of an input."""
    if len(refs) < 2:
        return refs[0] if refs else None
    (made,) = program.run(_ADD, *refs, like=(Ref("input", position),))
    return made


def _lean(spec: Reduce, forward: Reduce, program: Program) -> Reduce:
    """The spec itself where no step reads the saved state."""
    first = len(spec.post.results)
    reads = any(isinstance(r, Ref) and r.source == "output" and r.index >= first
                for s in program.steps for r in s.inputs)
    return forward if reads else spec


def _element_derivative(
        spec: Reduce, needs: tuple[bool, ...], present: tuple[bool, ...],
        alone: bool) -> tuple[Function, list[tuple[str, int]]]:
    """Per element: (map's parameters, state, cotangents) to the inputs' cotangents.

    The state of a single element, `alone`, is made again: it is as large as the input.
    """
    combine = spec.combine
    used = set(spec.map.params)
    size = [] if "size" in used else [p for p in spec.post.params if p == "size"]
    names = Builder({*used, *size})  # the map may be a derivative, with such names
    parts = len(combine.identity)
    state = [] if alone else [names.fresh(f"state{k}") for k in range(parts)]
    gs = [names.fresh(f"g{k}") for k, p in enumerate(present) if p]
    given = iter(needs)
    wrt = tuple(k not in IMPLICIT and next(given) for k in spec.kinds)
    post = vjp(spec.post, tuple(k < parts for k in range(len(spec.post.params))),
               present)
    pull_map = vjp(spec.map, wrt, (True,) * len(spec.map.results))

    def build(b: Builder) -> tuple[Value, ...]:
        mapped = b.call(spec.map, *spec.map.params)
        values = b.call(combine.lift, *mapped) if alone else state
        gstate = b.call(post, *values, *spec.post.params[parts:], *gs)
        assert combine.cotangent is not None
        gm = b.call(combine.cotangent, *mapped, *values, *gstate)
        return b.call(pull_map, *spec.map.params, *gm)

    params = (*spec.map.params, *size, *state, *gs)
    roles = [("map", k) for k in range(len(spec.map.params))]
    roles += [("size", 0)] * len(size)
    first = len(present) - parts
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
            arguments.append(_index(spec, p, u and len(axes) < len(full)))
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


def _index(spec: Reduce, name: str, partial: bool) -> Argument:
    """The place of an element: that of the Map where all axes are reduced."""
    if partial:
        raise NotDifferentiableError(
            f"the derivative of the reduction '{spec.name}' depends on the index of "
            "the element; pass the positions as an array input instead")
    return Argument(name, "index")
