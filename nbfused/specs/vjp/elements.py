"""Cotangents of elementwise functions: what Map, Reduce and Contract share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...scalar.ir.nodes import Function, drop_params, used_params
from ...support.records import record
from ..base import Operand, Program, Ref, Shape
from ..view import View, broadcast_axes, restore, unbroadcast
from ..windows import Box, Place, Windows
from .functions import identity, is_param, is_zero, pick

__all__ = ["Argument", "Target", "extent", "pull"]

#: What a cotangent is wanted for: an array, and its shape.
Target = tuple[Ref, Shape]


@record(frozen=True)
class Argument:
    """A parameter of a derivative: its kind, and the array or number behind it.

    Attributes
    ----------
    window
        The box and the place of a window, or of an ``"inside"``.
    """

    name: str
    kind: str
    ref: Operand | None = None
    shape: Shape = ()
    window: tuple[Box, Place] | None = None


def pull(program: Program, function: Function, arguments: Sequence[Argument],
         targets: Sequence[Target], full: Shape) -> list[Ref | None]:
    """Run the elementwise derivative `function`, one result for each target.

    Results whose target has the full shape come from one Map; the others, which
    belong to broadcast inputs, are reduced as they are computed, those of one shape
    in one launch.

    Returns
    -------
    list of Ref or None
        The cotangent of each target, None where it is identically zero.
    """
    results: list[Ref | None] = [None] * len(targets)
    groups: dict[Shape, list[int]] = {}
    for k, (_, shape) in enumerate(targets):
        if is_zero(function.results[k]):
            continue
        results[k] = _passed(program, function, k, arguments, targets[k], full)
        if results[k] is None:
            groups.setdefault(shape, []).append(k)
    for shape, which in groups.items():
        refs = _group(program, pick(function, which), arguments,
                      tuple(targets[k][0] for k in which), full, shape)
        for k, ref in zip(which, refs, strict=True):
            results[k] = ref
    return results


def _passed(program: Program, function: Function, k: int,
            arguments: Sequence[Argument], target: Target,
            full: Shape) -> Ref | None:
    """A result that is an array as it is, the cotangent of a sum say: no Map."""
    for a in arguments:
        whole = a.kind == "element" and is_param(function, k, a.name)
        if whole and isinstance(a.ref, Ref):
            ref = a.ref
            if a.shape != full:
                (ref,) = program.run(View("broadcast", full), ref)
            return unbroadcast(program, ref, full, target[1], target[0])
    return None


def _group(program: Program, function: Function, arguments: Sequence[Argument],
           like: tuple[Ref, ...], full: Shape, shape: Shape) -> Sequence[Ref]:
    function, kept = _kept(function, arguments, full)
    if shape == full:
        return _map(program, function, kept, like, full)
    if any(a.kind in ("index", "size", "window", "inside") for a in kept):
        wide = _map(program, function, kept, like, full)
        return [unbroadcast(program, w, full, shape, r)
                for w, r in zip(wide, like, strict=True)]
    return _reduce(program, function, kept, like, full, shape)


def _kept(function: Function, arguments: Sequence[Argument],
          full: Shape) -> tuple[Function, list[Argument]]:
    """The function without what it does not read, and the arguments that are left.

    Where it asks for its place, elements that nobody reads say where it runs.
    """
    used = used_params(function)
    kept = [a for a, u in zip(arguments, used, strict=True) if u]
    if any(a.kind in ("index", "size") for a in kept) and extent(kept) != full:
        used = tuple(u or a.kind == "element"
                     for a, u in zip(arguments, used, strict=True))
        kept = [a for a, u in zip(arguments, used, strict=True) if u]
    return drop_params(function, used), kept


def _inputs(kept: Sequence[Argument]) -> tuple[Operand, ...]:
    return tuple(a.ref for a in kept if a.ref is not None)


def extent(kept: Sequence[Argument]) -> Shape:
    """The shape that the arrays broadcast to."""
    from ..shapes import broadcast_shapes

    return broadcast_shapes([a.shape for a in kept if a.kind == "element"])


def _map(program: Program, function: Function, kept: Sequence[Argument],
         like: tuple[Ref, ...], full: Shape) -> list[Ref]:
    from ..map import Map

    windows = _windows(kept, full)
    spec = Map(function, tuple(a.kind for a in kept), (), windows)
    outs = program.run(spec, *_inputs(kept), like=like)
    if windows is not None or extent(kept) == full:
        return list(outs)
    return [program.run(View("broadcast", full), o)[0] for o in outs]


def _windows(kept: Sequence[Argument], full: Shape) -> Windows | None:
    """The windows of a derivative, which runs over the shape `full`."""
    found = [a.window for a in kept if a.window is not None]
    return Windows.of([replace(place, box=k) for k, (_, place) in enumerate(found)],
                      [box for box, _ in found], full) if found else None


def _reduce(program: Program, function: Function, kept: Sequence[Argument],
            like: tuple[Ref, ...], full: Shape, shape: Shape) -> list[Ref]:
    from ..combine import sum_combine
    from ..reduce import Reduce

    if extent(kept) != full:  # nothing varies along some reduced axis
        wide = _map(program, function, kept, like, full)
        return [unbroadcast(program, w, full, shape, r)
                for w, r in zip(wide, like, strict=True)]
    count = len(function.results)
    axes, keepdims = broadcast_axes(full, shape)
    spec = Reduce(function, tuple(a.kind for a in kept), sum_combine(count),
                  identity(count), axes, keepdims)
    outs = program.run(spec, *_inputs(kept), like=like)
    return [restore(program, o, full, shape) for o in outs]
