"""A Row over samples: more rows.

What is summed over the rows has to stop at those of a sample.  A sum over all of them
becomes elements, added afterwards: not at all where a sample is one row, as it is of a
vector.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...scalar.ir.nodes import Block, Function
from ..base import KEPT, Batching, Program, Ref, Shape
from ..combine import COMBINES
from ..reduce import sum_over
from ..row import Out, Row, Stage
from ..shapes import normalize_axis, row_whole
from ..view import View
from ..vjp.functions import identity
from .layout import aligned, repeated

__all__ = ["row_batched"]


@lru_cache(maxsize=KEPT)
def row_batched(spec: Row, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
                size: int) -> Batching | None:
    """The rule of a Row: `Row.batched`."""
    if any(has and kind == "scalar" for has, kind in zip(batched, spec.kinds,
                                                         strict=True)):
        return None
    rank = len(row_whole(spec.kinds, shapes))
    axis = normalize_axis(spec.axis, rank)
    program = Program()
    inputs, kinds = _inputs(program, spec, batched, shapes, size, rank, axis)
    if not any(has and kind == "element" for has, kind in zip(batched, spec.kinds,
                                                              strict=True)):
        first = spec.kinds.index("element")
        inputs[first] = repeated(program, first, shapes[first], rank, size)
    made = _per_row(replace(spec, kinds=kinds, axis=axis - rank), rank > 1)
    refs = program.run(made, *inputs, like=tuple(
        None if rank > 1 and out.kind in ("column", "scalar") else Ref("output", k)
        for k, out in enumerate(spec.outs)))
    results = [_total(program, ref, k, out.kind, rank, axis)
               for k, (ref, out) in enumerate(zip(refs, spec.outs, strict=True))]
    return Batching(tuple(program.steps), tuple(results))


def _inputs(program: Program, spec: Row, batched: tuple[bool, ...],
            shapes: tuple[Shape, ...], size: int, rank: int, axis: int,
            ) -> tuple[list[Ref], tuple[str, ...]]:
    """The inputs, and their kinds: a column for each sample is an element."""
    refs: list[Ref] = []
    kinds = list(spec.kinds)
    for k, (kind, has) in enumerate(zip(spec.kinds, batched, strict=True)):
        ref = Ref("input", k)
        if kind == "element" and has:
            ref = aligned(program, k, shapes[k], rank)
        elif kind == "row" and not has:
            ref = repeated(program, k, shapes[k], rank - 1, size)
        elif kind == "column" and has:
            kinds[k] = "element"
            ones = [1 + a for a in range(rank) if a != axis]
            if ones:
                (ref,) = program.run(View("expand", tuple(ones)), ref)
        refs.append(ref)
    return refs, tuple(kinds)


def _per_row(spec: Row, saved: bool) -> Row:
    """The Row without sums over rows: of a column its elements, of all a row's sum."""
    stages, outs = list(spec.stages), []
    for k, out in enumerate(spec.outs):
        if out.kind == "column":
            out = Out("element", out.function, saved)
        elif out.kind == "scalar":
            name = f"row_sum_{k}"
            stages.append(Stage((name,), out.function, COMBINES["sum"], identity()))
            out = Out("row", Function("row_sum", (name,), Block((), (name,))), saved)
        outs.append(out)
    return replace(spec, stages=tuple(stages), outs=tuple(outs))


def _total(program: Program, ref: Ref, k: int, kind: str, rank: int,
           axis: int) -> Ref:
    """The sum over the rows of each sample."""
    if rank == 1 or kind not in ("column", "scalar"):
        return ref
    last = rank if kind == "column" else rank - 1
    axes = tuple(a for a in range(1, 1 + last) if kind == "scalar" or a != axis + 1)
    return program.run(sum_over(axes), ref, like=(Ref("output", k),))[0]
