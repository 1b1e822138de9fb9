"""The derivative of a Contract.

A Map for the epilogue, then a Contract for each operand, with the derivative of its
prologue as epilogue.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..scalar.differentiate import vjp
from ..scalar.ir import Function, literal, used_params
from .base import Operand, Program, Pullback, Ref, Shape
from .contract import Contract, saving
from .functions import identity, trim
from .map import Map
from .subscripts import Bound, parse_subscripts
from .view import View, unbroadcast

__all__ = ["contract_vjp"]


@lru_cache(maxsize=4096)
def contract_vjp(spec: Contract, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
                 present: tuple[bool, ...]) -> Pullback:
    """See `Contract.vjp`."""
    form = parse_subscripts(spec.subscripts).bind(shapes[0], shapes[1])
    program = Program()
    users = len(spec.epilogue.results)
    accumulator = Ref("output", users - 1 if spec.saves else users)
    gacc, extras = _epilogue(program, spec, form, needs, shapes, present, accumulator)
    operands: list[Ref | None] = [None, None]
    for which in (0, 1):
        if needs[which] and gacc is not None:
            operands[which] = _operand(program, spec, form, which, gacc, shapes)
    steps = tuple(program.steps)
    reads = any(r == accumulator for s in steps for r in s.inputs)
    return Pullback(saving(spec) if reads else spec, steps, (*operands, *extras))


def _epilogue(program: Program, spec: Contract, form: Bound, needs: tuple[bool, ...],
              shapes: tuple[Shape, ...], present: tuple[bool, ...], accumulator: Ref,
              ) -> tuple[Ref | None, tuple[Ref | None, ...]]:
    """Cotangents of the accumulator and of the extras."""
    logical = tuple(form.extents[label] for label in form.out)
    epilogue = Map(spec.epilogue, ("element", *spec.kinds))
    users = len(spec.epilogue.results)
    present = (present + (False,) * users)[:users]
    alike = _alike(spec.epilogue, needs, present)
    inner = epilogue.vjp(
        (needs[0] or needs[1],
         *(n and not a for n, a in zip(needs[2:], alike, strict=True))),
        (logical, *shapes[2:]), present)
    table = {Ref("input", k): Ref("input", k + 1) for k in range(1, len(needs) - 1)}
    table[Ref("input", 0)] = accumulator
    reads: set[Operand | None] = {r for s in inner.steps for r in s.inputs}
    reads |= set(inner.results)
    for r in sorted((r for r in reads if isinstance(r, Ref) and r.source in
                     ("output", "cotangent")), key=repr):
        table[r] = _unpermuted(program, spec, r)
    if Ref("input", 0) in reads:
        table[Ref("input", 0)] = _unpermuted(program, spec, accumulator)
    steps = tuple(  # the accumulator may not be saved: its cotangent's dtype is natural
        replace(s, like=tuple(None if r == Ref("input", 0) else r for r in s.like))
        for s in inner.steps)
    table = program.extend(steps, table)
    gacc, *extras = (None if r is None else table.get(r, r) for r in inner.results)
    return gacc, tuple(
        unbroadcast(program, gacc, logical, shape, Ref("input", k))
        if same and gacc is not None else extra
        for k, (extra, same, shape) in enumerate(
            zip(extras, alike, shapes[2:], strict=True), 2))


def _alike(epilogue: Function, needs: tuple[bool, ...],
           present: tuple[bool, ...]) -> tuple[bool, ...]:
    """Which extras have the accumulator's cotangent, summed where they broadcast.

    A bias has: the array that the products read is summed, nothing computed again.
    """
    wanted = needs[2:]
    if not (needs[0] or needs[1]):
        return (False,) * len(wanted)
    first, *others = vjp(epilogue, (True, *wanted), present).results
    given = iter(others)
    return tuple(need and next(given) == first != literal(0.0) for need in wanted)


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
    a = _squeezed(program, Ref("input", other), theirs, labels[other], theirs_kept)
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
        extras.append(_squeezed(program, own, mine, labels[which], kept))
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


def _squeezed(program: Program, ref: Ref, shape: Shape, labels: tuple[str, ...],
              kept: tuple[str, ...]) -> Ref:
    """The operand without the axes that are not `kept`."""
    axes = tuple(k for k, label in enumerate(labels) if label not in kept)
    return program.run(View("squeeze", axes), ref)[0] if axes else ref
