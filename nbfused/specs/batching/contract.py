"""A Contract over samples: a letter more in its subscripts.

Where one factor alone has samples they are rows of one larger product.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from string import ascii_letters

from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import Function, Value
from ..base import KEPT, Batching, Program, Ref, Shape
from ..contract import Contract
from ..map import Map
from ..shapes import contract_shapes
from ..subscripts import Bound, parse_subscripts
from ..view import View
from ..vjp.functions import compose
from .layout import aligned, like_outputs, repeated

__all__ = ["contract_batched"]


@lru_cache(maxsize=KEPT)
def contract_batched(spec: Contract, batched: tuple[bool, ...],
                     shapes: tuple[Shape, ...], size: int) -> Batching | None:
    """The rule of a Contract: `Contract.batched`."""
    if any(has and kind == "scalar" for has, (kind, _) in zip(
            batched, spec.parameters, strict=True)):
        return None
    program = Program()
    rank = len(contract_shapes(spec.subscripts, shapes[0], shapes[1]))
    factors = [Ref("input", k) for k in (0, 1)]
    has = list(batched[:2])
    if not any(has):  # of what is added only: the product is that of one for each
        factors[0], has[0] = repeated(program, 0, shapes[0], len(shapes[0]), size), True
    extras = [aligned(program, k, shapes[k], rank) if batched[k] else Ref("input", k)
              for k in range(2, len(shapes))]
    axes = spec.out_axes
    a, b = ((size, *s) if own else s for s, own in zip(shapes[:2], has, strict=True))
    form = parse_subscripts(_with_samples(spec.subscripts, *has)).bind(a, b)
    if not form.k:
        return _products(program, spec, form, factors, extras, batched, shapes)
    made = replace(spec, subscripts=_with_samples(spec.subscripts, *has),
                   out_axes=axes and (0, *(axis + 1 for axis in axes)))
    outs = program.run(made, *factors, *extras,
                       like=like_outputs(len(spec.epilogue.results)))
    return Batching(tuple(program.steps), outs)


def _products(program: Program, spec: Contract, form: Bound, factors: list[Ref],
              extras: list[Ref], batched: tuple[bool, ...],
              shapes: tuple[Shape, ...]) -> Batching:
    """The rule where nothing is summed: a Map over both factors.

    The engines of products are no help there: 10,000 outer products of 16 and 32
    elements took 14 ms by them and 1.3 as a Map on the cpu
    (benchmarks/notes/host.md#vmap).
    """
    order = spec.out_axes and (0, *(axis + 1 for axis in spec.out_axes))
    out = tuple(form.out[a] for a in order) if order else form.out
    inputs = [_placed(program, ref, labels, out)
              for ref, labels in zip(factors, (form.a, form.b), strict=True)]
    for k, (ref, kind) in enumerate(zip(extras, spec.kinds, strict=True), 2):
        labels = form.out[len(form.out) - len(shapes[k]):]
        if kind == "element" and batched[k]:
            labels = form.out
        inputs.append(ref if kind == "scalar" else _placed(program, ref, labels, out))
    outs = program.run(Map(_multiplied(spec), ("element", "element", *spec.kinds)),
                       *inputs, like=like_outputs(len(spec.epilogue.results)))
    return Batching(tuple(program.steps), outs)


def _placed(program: Program, ref: Ref, labels: tuple[str, ...],
            out: tuple[str, ...]) -> Ref:
    """An array with its axes where `out` has them, and 1 in place of others."""
    there = [label for label in out if label in labels]
    axes = tuple(labels.index(label) for label in there)
    if axes != tuple(range(len(axes))):
        (ref,) = program.run(View("transpose", axes), ref)
    ones = tuple(a for a, label in enumerate(out) if label not in labels)
    return program.run(View("expand", ones), ref)[0] if ones else ref


@lru_cache(maxsize=KEPT)
def _multiplied(spec: Contract) -> Function:
    """``epilogue(prologue_a(a) * prologue_b(b), *extras)``."""
    taken = {*spec.epilogue.params}
    a, b = ("a" if "a" not in taken else "left"), ("b" if "b" not in taken else "right")

    def build(builder: Builder) -> tuple[Value, ...]:
        first, second = (x if f is None else builder.call(f, x)[0]
                         for x, f in zip((a, b), spec.prologues, strict=True))
        product = builder.let("mul", first, second)
        return builder.call(spec.epilogue, product, *spec.epilogue.params[1:])

    return compose(spec.epilogue.name, (a, b, *spec.epilogue.params[1:]), build)


def _with_samples(subscripts: str, a: bool, b: bool) -> str:
    form = parse_subscripts(subscripts)
    letter = next(x for x in reversed(ascii_letters) if x not in subscripts)
    parts = [letter * has + "".join(labels)
             for labels, has in ((form.a, a), (form.b, b), (form.out, True))]
    return f"{parts[0]},{parts[1]}->{parts[2]}"
