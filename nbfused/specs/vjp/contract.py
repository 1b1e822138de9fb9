"""The derivative of a Contract.

A Map for the epilogue, its result summed for a bias, then a Contract for each operand,
with the derivative of its prologue as epilogue.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...scalar.autodiff.differentiate import vjp
from ...scalar.ir.nodes import Function, used_params
from ..base import KEPT, Operand, Program, Pullback, Ref, Shape
from ..contract import Contract, saving
from ..fusion.epilogues import begun
from ..map import Map
from ..subscripts import Bound, parse_subscripts
from ..view import View, unbroadcast
from .functions import identity, trim

__all__ = ["contract_vjp"]


@lru_cache(maxsize=KEPT)
def contract_vjp(spec: Contract, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
                 present: tuple[bool, ...]) -> Pullback:
    """The derivative of a Contract: `Contract.vjp`."""
    form = parse_subscripts(spec.subscripts).bind(shapes[0], shapes[1])
    program = Program()
    users = len(spec.epilogue.results)
    total = Ref("output", users - 1 if spec.saves else users)
    rest, added = begun(spec.epilogue) if needs[0] or needs[1] else (spec.epilogue, ())
    gacc, extras = _epilogue(program, spec, form, rest, needs, shapes, present, total)
    operands: list[Ref | None] = [None, None]
    for which in (0, 1):
        if needs[which] and gacc is not None:
            operands[which] = _operand(program, spec, form, which, gacc, shapes)
    steps = tuple(program.steps)
    reads = any(r == total for s in steps for r in s.inputs)
    return Pullback(saving(spec, rest, added) if reads else spec, steps,
                    (*operands, *extras))


def _epilogue(program: Program, spec: Contract, form: Bound, rest: Function,
              needs: tuple[bool, ...], shapes: tuple[Shape, ...],
              present: tuple[bool, ...], total: Ref,
              ) -> tuple[Ref | None, tuple[Ref | None, ...]]:
    """Cotangents of the accumulator and of the extras.

    `rest` is a function of the `total` and of the extras that are not in it.
    """
    logical = tuple(form.extents[label] for label in form.out)
    others = [k for k, p in enumerate(spec.epilogue.params[1:], 2) if p in rest.params]
    present = (present + (False,) * len(rest.results))[:len(rest.results)]
    inner = Map(rest, ("element", *(spec.kinds[k - 2] for k in others))).vjp(
        (needs[0] or needs[1], *(needs[k] for k in others)),
        (logical, *(shapes[k] for k in others)), present)
    gacc, *found = _inlined(program, spec, inner, (total, *(
        Ref("input", k) for k in others)))
    extras = dict(zip(others, found, strict=True))
    if gacc is not None:  # what is added to the product has the product's cotangent
        extras |= {k: unbroadcast(program, gacc, logical, shapes[k], Ref("input", k))
                   for k in range(2, len(needs)) if k not in extras and needs[k]}
    return gacc, tuple(extras.get(k) for k in range(2, len(needs)))


def _inlined(program: Program, spec: Contract, inner: Pullback,
             inputs: tuple[Ref, ...]) -> tuple[Ref | None, ...]:
    """Run the steps of the epilogue's derivative; the cotangents of its `inputs`."""
    table = {Ref("input", k): r for k, r in enumerate(inputs)}
    reads: set[Operand | None] = {r for s in inner.steps for r in s.inputs}
    reads |= set(inner.results)
    for r in sorted((r for r in reads if isinstance(r, Ref) and r.source in
                     ("output", "cotangent")), key=repr):
        table[r] = _unpermuted(program, spec, r)
    if Ref("input", 0) in reads:
        table[Ref("input", 0)] = _unpermuted(program, spec, inputs[0])
    steps = tuple(  # the total may not be saved: its cotangent's dtype is natural
        replace(s, like=tuple(None if r == Ref("input", 0) else r for r in s.like))
        for s in inner.steps)
    table = program.extend(steps, table)
    return tuple(None if r is None else table.get(r, r) for r in inner.results)


def _unpermuted(program: Program, spec: Contract, ref: Ref) -> Ref:
    """An array in the layout of the output, as subscripted."""
    axes = spec.out_axes
    if axes is None:
        return ref
    back = tuple(axes.index(a) for a in range(len(axes)))
    return program.run(View("transpose", back), ref)[0]


def _operand(program: Program, spec: Contract, form: Bound, which: int, gacc: Ref,
             shapes: tuple[Shape, ...]) -> Ref | None:
    """The product of the accumulator's cotangent with the other operand."""
    other = 1 - which
    labels = (form.a, form.b)
    mine, theirs = shapes[which], shapes[other]
    kept = _kept(form, labels[which], mine)
    theirs_kept = _kept(form, labels[other], theirs)
    a = _squeezed(program, Ref("input", other), labels[other], theirs_kept)
    letters = {label: chr(ord("a") + k) if k < 26 else chr(ord("A") + k - 26)
               for k, label in enumerate(form.extents)}

    def text(part: tuple[str, ...]) -> str:
        return "".join(letters[label] for label in part)

    epilogue, kinds = _prologue_vjp(spec.prologues[which])
    factors = [(gacc, text(form.out), None),
               (a, text(theirs_kept), spec.prologues[other])]
    if kept and kept[-1] in form.out:  # neighbours in the result are the columns
        factors.reverse()
    (first, rows, p), (second, columns, q) = factors
    extras = []
    if kinds:
        own = Ref("input", which)
        extras.append(_squeezed(program, own, labels[which], kept))
    product = Contract(f"{rows},{columns}->{text(kept)}", epilogue, kinds, (p, q),
                       precision=spec.precision)
    (out,) = program.run(product, first, second, *extras, like=(Ref("input", which),))
    if len(kept) == len(mine):
        return out
    return program.run(View("reshape", mine), out)[0]


def _prologue_vjp(prologue: Function | None) -> tuple[Function, tuple[str, ...]]:
    """Takes a cotangent through a prologue: an epilogue, the kinds of its extras."""
    if prologue is None:
        return identity(), ()
    d = vjp(prologue, (True,), (True,))  # (x, g) -> g * prologue'(x)
    flipped = Function(d.name, (d.params[1], d.params[0]), d.body)
    if used_params(flipped)[1]:
        return flipped, ("element",)
    return trim(flipped)[0], ()


def _kept(form: Bound, labels: tuple[str, ...], shape: Shape) -> tuple[str, ...]:
    """The labels of an operand without its broadcast batch axes of extent 1."""
    return tuple(label for label, n in zip(labels, shape, strict=True)
                 if n == form.extents[label])


def _squeezed(program: Program, ref: Ref, labels: tuple[str, ...],
              kept: tuple[str, ...]) -> Ref:
    """The operand without the axes that are not `kept`."""
    axes = tuple(k for k, label in enumerate(labels) if label not in kept)
    return program.run(View("squeeze", axes), ref)[0] if axes else ref
