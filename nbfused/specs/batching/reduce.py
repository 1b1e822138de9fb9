"""A Reduce over samples: one kept axis more."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..base import KEPT, Batching, Program, Ref, Shape
from ..reduce import Reduce
from ..shapes import normalize_axes
from .layout import elements, like_outputs

__all__ = ["reduce_batched"]


@lru_cache(maxsize=KEPT)
def reduce_batched(spec: Reduce, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
                   size: int) -> Batching | None:
    """The rule of a Reduce: `Reduce.batched`."""
    if spec.stored:
        return _apart(spec, batched, shapes, size)
    kinds = [kind for kind, _ in spec.parameters]
    if any(has and kind != "element" for has, kind in zip(batched, kinds, strict=True)):
        return None
    rank = len(spec.extent(shapes))
    program = Program()
    inputs = elements(program, kinds, batched, shapes, rank)
    axes = tuple(axis + 1 for axis in sorted(normalize_axes(spec.axes, rank)))
    outs = program.run(replace(spec, axes=axes), *inputs,
                       like=like_outputs(len(spec.post.results)))
    return Batching(tuple(program.steps), outs)


def _apart(spec: Reduce, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
           size: int) -> Batching | None:
    """The elements of the samples, then what is reduced of each."""
    program, results = Program(), list[Ref]()
    for part, first in zip(spec.apart, (0, spec.stored), strict=True):
        own = part.batched(batched, shapes, size)
        if own is None:
            return None
        table = program.extend(own.steps, {
            Ref("output", k): Ref("output", first + k)
            for k in range(len(own.results))})
        results += [table[r] for r in own.results]
    return Batching(tuple(program.steps), tuple(results))
