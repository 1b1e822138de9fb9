"""A View over samples: what it says of axes is about the later ones."""

from __future__ import annotations

from functools import lru_cache

from ..base import KEPT, Batching, Program, Shape
from ..view import View
from .layout import aligned, like_outputs, repeated

__all__ = ["view_batched"]


@lru_cache(maxsize=KEPT)
def view_batched(spec: View, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
                 size: int) -> Batching:
    """The rule of a View: `View.batched`."""
    program = Program()
    rank = len(spec.params) if spec.kind == "broadcast" else len(shapes[0])
    inputs = [aligned(program, k, shape, rank) if has else
              repeated(program, k, shape, rank, size)
              for k, (shape, has) in enumerate(zip(shapes, batched, strict=True))]
    outs = program.run(View(spec.kind, _with_samples(spec, size)), *inputs,
                       like=like_outputs(1))
    return Batching(tuple(program.steps), outs)


def _with_samples(spec: View, size: int) -> tuple[object, ...]:
    params = spec.params
    match spec.kind:
        case "reshape" | "broadcast":
            return (size, *params)
        case "transpose":
            return (0, *(axis + 1 for axis in params))
        case "slice":
            return ((0, size, 1), *params)
        case "unslice":
            shape, slices = params
            return ((size, *shape), ((0, size, 1), *slices))
    return tuple(axis + 1 for axis in params)
