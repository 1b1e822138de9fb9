"""A Map over samples: its loops have one axis more, its indices know the sample."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from math import prod

from ...scalar.ir.build import Builder, inline
from ...scalar.ir.nodes import (
    ACCESSES,
    Block,
    Custom,
    Function,
    Let,
    Statement,
    Value,
    defined,
    names,
    rename,
    rewrite,
    walk,
)
from ..base import KEPT, Batching, Program, Shape
from ..map import Map
from .layout import elements, like_outputs, repeated

__all__ = ["map_batched"]


@lru_cache(maxsize=KEPT)
def map_batched(spec: Map, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
                size: int) -> Batching | None:
    """The rule of a Map: `Map.batched`."""
    kinds = [kind for kind, _ in spec.parameters]
    if any(has and kind == "scalar" for has, kind in zip(batched, kinds, strict=True)):
        return None
    extent = spec.extent(shapes)
    own = [k for k, kind in enumerate(kinds) if kind == "element"]
    program = Program()
    inputs = elements(program, kinds, batched, shapes, len(extent))
    if spec.windows is None and not any(batched[k] for k in own):
        whole = next((k for k in own if shapes[k] == extent), None)
        if whole is None:
            return None  # nothing says how often the function runs
        inputs[whole] = repeated(program, whole, extent, len(extent), size)
    made: Map | None = spec
    numbers: tuple[int, ...] = ()
    raw = tuple(name for (kind, name), has in zip(spec.parameters, batched, strict=True)
                if kind == "raw" and has)
    if raw or {"index", "size", "scatter"} & set(spec.kinds):
        made = None if spec.windows is not None else _by_sample(spec, raw)
        numbers = (prod(extent),)
    if made is None:
        return None
    shapes_added = tuple((size, *shape) for shape in spec.scatter_shapes)
    windows = None if made.windows is None else made.windows.batched(size)
    outs = program.run(replace(made, scatter_shapes=shapes_added, windows=windows),
                       *inputs, *numbers,
                       like=like_outputs(len(spec.function.results)
                                         + len(spec.scatter_shapes)))
    return Batching(tuple(program.steps), outs)


@lru_cache(maxsize=KEPT)
def _by_sample(spec: Map, raw: tuple[str, ...]) -> Map | None:
    """The function that finds its sample, and its index in there, from its own index.

    Its last parameter is the number of points of a sample.  `raw` arrays, and all that
    it scatters to, have the sample as first index.  None if a function with a rule of
    its own takes one of these: the rule does not know the sample.
    """
    kinds = dict(zip(spec.function.params, spec.kinds, strict=True))
    moved = {*raw, *(p for p, kind in kinds.items() if kind == "scatter")}
    if any(isinstance(s, Custom) and (s.vjp or s.jvp) and moved & names(s.args)
           for s in walk(spec.function.body)):
        return None
    f = inline(spec.function, lambda call: not moved & names(call.args))
    taken = {*f.params, *defined(f.body)}
    index, count = _free("index", taken), _free("per_sample", taken)
    b = Builder({*taken, *defined(f.body), index, count})
    sample = b.let("floordiv", index, count)
    local = b.let("mod", index, count)
    table: dict[str, Value] = {
        p: local if kind == "index" else count if kind == "size" else p
        for p, kind in kinds.items()}

    def change(s: Let) -> Iterable[Statement]:
        if s.op not in ACCESSES or s.args[0] not in moved:
            return (s,)
        if s.op == "extent":
            return (replace(s, attr=str(int(s.attr or 0) + 1)),)
        return (replace(s, args=(s.args[0], sample, *s.args[1:])),)

    body = rename(rewrite(f.body, change), table, b.fresh)
    kept = [p for p, kind in kinds.items() if kind not in ("index", "size")]
    made = Function(f.name, (*kept, index, count),
                    Block((*b.statements, *body.statements), body.yields),
                    f.pyfile, f.line)
    return Map(made, (*(kinds[p] for p in kept), "index", "scalar"),
               spec.scatter_shapes)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
