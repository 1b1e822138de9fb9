"""Inputs of a batched spec: where the axis of samples stands beside the others."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import Program, Ref, Shape
from ..view import View

__all__ = ["aligned", "like_outputs", "repeated"]


def aligned(program: Program, k: int, shape: Shape, rank: int) -> Ref:
    """Input `k`, of `shape` for each sample, with axes of 1 up to `rank` of them.

    Broadcasting aligns the last axes, so that the axis of samples has to be in front of
    all that others have.
    """
    missing = rank - len(shape)
    ref = Ref("input", k)
    if not missing:
        return ref
    return program.run(View("expand", tuple(range(1, 1 + missing))), ref)[0]


def repeated(program: Program, k: int, shape: Shape, rank: int, size: int) -> Ref:
    """Input `k`, the same for all samples, repeated for each without a copy."""
    whole = (size, *(1,) * (rank - len(shape)), *shape)
    return program.run(View("broadcast", whole), Ref("input", k))[0]


def like_outputs(count: int) -> tuple[Ref, ...]:
    """The dtypes that the outputs have without an axis of samples."""
    return tuple(Ref("output", k) for k in range(count))


def elements(program: Program, kinds: Sequence[str], batched: Sequence[bool],
             shapes: Sequence[Shape], rank: int) -> list[Ref]:
    """Every input, those of kinds ``"element"`` and ``"window"`` aligned."""
    return [aligned(program, k, shape, rank) if own and kind in ("element", "window")
            else Ref("input", k)
            for k, (kind, own, shape) in enumerate(zip(kinds, batched, shapes,
                                                       strict=True))]
