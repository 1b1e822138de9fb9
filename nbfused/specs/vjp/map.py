"""The derivative of a Map: another one, and sums for what was broadcast."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...scalar.autodiff.differentiate import vjp
from ...scalar.ir.nodes import Function, drop_params, used_params
from ..base import IMPLICIT, KEPT, Program, Pullback, Ref, Shape
from ..map import Map
from ..view import View, unbroadcast
from ..windows import Box
from .elements import Argument, Target, extent, pull
from .functions import adding, reading

__all__ = ["map_vjp"]


@lru_cache(maxsize=KEPT)
def map_vjp(spec: Map, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> Pullback:
    """The derivative of a Map: `Map.vjp`."""
    results = len(spec.function.results)
    slots = _slots(spec, needs, shapes, present[results:])
    wrt = tuple(need for need, _ in slots)
    raw = tuple(p for p, k in zip(spec.function.params, spec.kinds, strict=True)
                if k in ("raw", "scatter"))
    function, outs = _derivative(spec, wrt, present[:results], raw)
    full = spec.extent(shapes)
    arguments = _arguments(spec, function, slots, outs, present, full)
    flat, raws = (_targets(spec, arguments, slots, kinds, full)
                  for kinds in (("element", "window"), ("raw",)))
    program = Program()
    if raws:
        refs = _scatter(program, function, arguments, list(flat.values()),
                        list(raws.values()), full)
    else:
        refs = pull(program, function, arguments, list(flat.values()), full)
    found = dict(zip((*flat, *raws), refs, strict=True))
    for k in flat:
        g = found[k]
        if arguments[k].kind == "window" and g is not None:
            found[k] = _unwindowed(program, g, arguments[k])
    return Pullback(spec, tuple(program.steps), tuple(
        found.get(k) for k, kind in enumerate(spec.kinds) if kind not in IMPLICIT))


def _slots(spec: Map, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
           scattered: tuple[bool, ...]) -> list[tuple[bool, Shape]]:
    """Whether the derivative of each parameter matters, and its shape."""
    given = iter(zip(needs, shapes, strict=True))
    outputs = iter(zip(scattered, spec.scatter_shapes, strict=True))
    return [next(outputs) if k == "scatter" else (False, ()) if k in IMPLICIT
            else next(given) for k in spec.kinds]


def _derivative(spec: Map, wrt: tuple[bool, ...], present: tuple[bool, ...],
                raw: tuple[str, ...]) -> tuple[Function, bool]:
    """The derivative, read from the outputs where that saves reading inputs."""
    outs = not raw and _reads_outputs(spec, wrt)
    function = adding(spec.function) if raw else spec.function
    found = vjp(function, wrt, present, outs, raw)
    wanted = [k for k, w in zip(spec.kinds, wrt, strict=True) if w]
    bars = [k for k in wanted if k in ("raw", "scatter")]
    given = {p for p, k in zip(found.params[len(found.params) - len(bars):], bars,
                               strict=True) if k == "scatter"}
    return reading(found, frozenset(given)) if given else found, outs


@lru_cache(maxsize=KEPT)
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
    """The parameters of the derivative, in its own order."""
    found: list[Argument] = []
    inputs, places = 0, spec.places
    for param, kind, (_, shape) in zip(spec.function.params, spec.kinds, slots,
                                       strict=True):
        implicit, place = kind in IMPLICIT, places.get(param)
        found.append(Argument("", kind, None if implicit else Ref("input", inputs),
                              shape, None if place is None or spec.windows is None else
                              (spec.windows.boxes[place.box], place)))
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
    return [replace(a, name=p)
            for p, a in zip(function.params, found, strict=True)]


def _targets(spec: Map, arguments: list[Argument], slots: list[tuple[bool, Shape]],
             kinds: tuple[str, ...], full: Shape) -> dict[int, Target]:
    """The targets of cotangents among the parameters of these kinds, by position.

    A window's is computed at all points.
    """
    primal = enumerate(zip(spec.kinds, arguments, slots, strict=False))
    return {k: (a.ref, full if own == "window" else shape)
            for k, (own, a, (need, shape)) in primal
            if need and own in kinds and isinstance(a.ref, Ref)}


def _unwindowed(program: Program, g: Ref, argument: Argument) -> Ref:
    """The cotangent of a window's array from one for all points: that at its box."""
    assert argument.window is not None
    assert isinstance(argument.ref, Ref)
    box, place = argument.window
    shape, origin = argument.shape, place.origin
    if place.wraps:
        g, full = _unrolled(program, g, box, origin)
        return unbroadcast(program, g, full, shape, argument.ref)
    (g,) = program.run(View("slice", tuple((lo, hi, 1) for lo, hi in box)), g)
    full = tuple(hi - lo for lo, hi in box)
    lead = len(full) - len(shape)
    read = tuple(1 if n == 1 else m for n, m in zip(shape, full[lead:], strict=True))
    g = unbroadcast(program, g, full, read, argument.ref)
    if read != shape:  # it has elements that are not read
        places = zip(shape, box[lead:], origin[lead:], strict=True)
        inside = tuple((0, 1, 1) if n == 1 else (lo - at, hi - at, 1)
                       for n, (lo, hi), at in places)
        (g,) = program.run(View("unslice", (shape, inside)), g)
    return g


def _unrolled(program: Program, g: Ref, box: Box, origin: Shape) -> tuple[Ref, Shape]:
    """Move elements back to where a window that wraps reads them; their shape."""
    extent = tuple(hi - lo + abs(at) for (lo, hi), at in zip(box, origin, strict=True))
    for axis, (at, n) in enumerate(zip(origin, extent, strict=True)):
        if at % n:
            g = program.run(View("concatenate", (axis,)), *(program.run(View(
                "slice", tuple((*part, 1) if a == axis else (0, m, 1)
                               for a, m in enumerate(extent))), g)[0]
                for part in ((at % n, n), (0, at % n))))[0]
    return g, extent


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
    # Nothing is added to a buffer that no cotangent reaches.  Those that the function
    # itself adds to come first; of them only the cotangents are read.
    scatters = [u for a, u in zip(arguments, used, strict=True) if a.kind == "scatter"]
    reached = scatters[len(scatters) - len(buffers):]
    spec = Map(drop_params(function, used), tuple(a.kind for a in kept),
               tuple(s for (_, s), u in zip(buffers, reached, strict=True) if u))
    # Buffers keep their computing dtype: 16-bit floats would round at every addition.
    like = (*(ref for ref, _ in targets), *(None for _ in spec.scatter_shapes))
    outs = program.run(spec, *(a.ref for a in kept if a.ref is not None), like=like)
    flat = [unbroadcast(program, o, full, shape, ref)
            for o, (ref, shape) in zip(outs, targets, strict=False)]
    scattered = iter(outs[len(targets):])
    return [*flat, *(next(scattered) if u else None for u in reached)]
