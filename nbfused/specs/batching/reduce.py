"""A Reduce over samples: one kept axis more."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..base import KEPT, Batching, Program, Shape
from ..reduce import Reduce
from ..shapes import normalize_axes
from .layout import elements, like_outputs

__all__ = ["reduce_batched"]


@lru_cache(maxsize=KEPT)
def reduce_batched(spec: Reduce, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
                   size: int) -> Batching | None:
    """The rule of a Reduce: `Reduce.batched`."""
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
