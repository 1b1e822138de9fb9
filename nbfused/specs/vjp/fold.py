"""The derivative of a reduction whose combine has none: its elements, one by one.

Each output is the fold of its elements from the left, in C order: a `Map` over the
outputs that reads the inputs in a loop.  What that gives is differentiated instead.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import Block, For, Function, Value, literal
from ..base import Operand, Program, Pullback, Ref, Shape
from ..map import Map
from ..shapes import normalize_axes
from ..view import View, unbroadcast
from .functions import compose

if TYPE_CHECKING:
    from ..reduce import Reduce

__all__ = ["fold_pullback"]


def fold_pullback(spec: Reduce, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
                  present: tuple[bool, ...]) -> Pullback:
    """The pullback of `spec`, whose combine has no cotangent."""
    full = spec.extent(shapes)
    if 0 in full:
        return Pullback(spec, (), (None,) * len(needs))
    frame = _Frame(full, tuple(sorted(normalize_axes(spec.axes, len(full)))))
    program, function = Program(), _function(spec)
    kinds = [k for k in spec.kinds if k not in ("index", "size")]
    inputs: list[Operand] = [
        frame.rows_of(program, Ref("input", i), shapes[i]) if kind == "element"
        else Ref("input", i) for i, kind in enumerate(kinds)]
    seeds = [frame.flat(program, Ref("cotangent", k)) if p else None
             for k, p in enumerate(present)]
    points = next(s for s in seeds if s is not None)
    fold = Map(function, (*("raw" if k == "element" else "scalar" for k in kinds),
                          "index", "scalar", "element"))
    own = tuple((frame.count, frame.width) if k == "element" else () for k in kinds)
    inner = fold.vjp((*needs, False, False), (*own, (), (frame.count,)), present)
    table: dict[Ref, Any] = {Ref("input", i): x for i, x in enumerate(inputs)}
    table[Ref("input", len(inputs))] = frame.width
    table[Ref("input", len(inputs) + 1)] = points
    table |= {Ref("cotangent", k): s for k, s in enumerate(seeds) if s is not None}
    table = program.extend(inner.steps, table)
    results = tuple(
        None if ref is None else frame.back(program, table[ref], i, shapes[i])
        for i, ref in enumerate(inner.results[:len(needs)]))
    return Pullback(spec, tuple(program.steps), results)


class _Frame:
    """The outputs as rows, the elements of each along them."""

    def __init__(self, full: Shape, axes: tuple[int, ...]) -> None:
        self.full = full
        kept = tuple(a for a in range(len(full)) if a not in axes)
        self.order = (*kept, *axes)
        self.moved = tuple(full[a] for a in self.order)
        self.count = prod(full[a] for a in kept)
        self.width = prod(full[a] for a in axes)

    def rows_of(self, program: Program, ref: Ref, shape: Shape) -> Ref:
        """An input, one row for each output."""
        if shape != self.full:
            (ref,) = program.run(View("broadcast", self.full), ref)
        (ref,) = program.run(View("transpose", self.order), ref)
        return program.run(View("reshape", (self.count, self.width)), ref)[0]

    def flat(self, program: Program, ref: Ref) -> Ref:
        """A cotangent, one for each row."""
        return program.run(View("reshape", (self.count,)), ref)[0]

    def back(self, program: Program, ref: Ref, index: int, shape: Shape) -> Ref:
        """The part of a gradient that belongs to an input, in its shape."""
        (ref,) = program.run(View("reshape", self.moved), ref)
        inverse = tuple(self.order.index(a) for a in range(len(self.order)))
        (ref,) = program.run(View("transpose", inverse), ref)
        return unbroadcast(program, ref, self.full, shape, Ref("input", index))


def _function(spec: Reduce) -> Function:
    """The outputs of row `row` of the inputs, which have `width` elements each."""
    inputs = [p for p, k in zip(spec.map.params, spec.kinds, strict=True)
              if k not in ("index", "size")]
    names = Builder(inputs)
    row, width, points = map(names.fresh, ("row", "width", "points"))
    params = (*inputs, row, width, points)

    def state(b: Builder, at: Value) -> tuple[Value, ...]:
        values: list[Value] = []
        for p, kind in zip(spec.map.params, spec.kinds, strict=True):
            values.append(b.let("load", p, row, at, stem=p) if kind == "element" else
                          at if kind == "index" else
                          width if kind == "size" else p)
        mapped = b.call(spec.map, *values)
        indexed = (at,) if spec.combine.indexed else ()
        return b.call(spec.combine.lift, *mapped, *indexed)

    def build(b: Builder) -> tuple[Value, ...]:
        first = state(b, literal(0))
        carried = tuple(b.fresh("state") for _ in first)
        results = tuple(b.fresh("folded") for _ in first)
        index = b.fresh("k")
        with b.region() as body:
            more = state(b, b.let("add", index, literal(1)))
            merged = b.call(spec.combine.merge, *carried, *more)
        rest = b.let("sub", width, literal(1))
        b.statements.append(For(results, index, rest, carried, first,
                                Block(tuple(body), merged)))
        extra = spec.post.params[len(first):]
        return b.call(spec.post, *results, *(
            width if p == "size" else p for p in extra))

    function = compose(f"{spec.name}_fold", params, build)
    return Function(function.name, params, function.body)
