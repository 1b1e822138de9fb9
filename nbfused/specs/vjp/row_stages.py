"""Derivatives of the single stages of a Row."""

from __future__ import annotations

from dataclasses import replace

from ...scalar.autodiff.differentiate import vjp
from ...scalar.ir.build import ZERO, Builder
from ...scalar.ir.nodes import Function, Value, drop_params, used_params
from ..row import Out, Stage
from .functions import compose, is_zero

__all__ = ["Term", "exposed", "inlined", "post_vjp", "saved", "states_of", "trim_after"]

#: A result of a function whose parameters are wired by name.
Term = tuple[Function, int]


def saved(s: Stage) -> tuple[str, ...]:
    """The identity of the state that the derivative needs."""
    return (s.combine.saving or s.combine).identity


def states_of(s: Stage) -> tuple[str, ...]:
    """The names of the state, if it has some."""
    return s.names[len(s.names) - s.saves:]


def exposed(s: Stage, states: tuple[str, ...]) -> Stage:
    """The stage with its state as further values."""
    if s.saves:
        return s
    plain = len(s.combine.identity)

    def build(b: Builder) -> tuple[Value, ...]:
        return (*b.call(s.post, *states[:plain], *s.wired), *states)

    post = compose(s.post.name, (*states, *s.wired), build)
    return Stage((*s.names, *states), s.map, s.combine.saving or s.combine, post,
                 s.detach, len(states))


def post_vjp(s: Stage, bars: dict[str, str], states: tuple[str, ...],
              wanted: tuple[str, ...]) -> Function:
    """Cotangents of the parameters `wanted` of post from `bars`, those of the names."""
    shown = exposed(s, states)
    post = shown.post
    present = tuple(n in bars for n in shown.names)
    d = vjp(post, tuple(p in wanted for p in post.params), present)
    params = (*post.params, *(bars[n] for n in s.names if n in bars))
    return compose("d" + post.name, params, lambda b: b.call(d, *params))


def trim_after(function: Function, keep: int) -> Function:
    """Drop unused parameters after the first `keep`."""
    used = used_params(function)
    return drop_params(function, tuple(k < keep or u for k, u in enumerate(used)))


def inlined(stages: list[Stage],
             outs: list[Out]) -> tuple[tuple[Stage, ...], tuple[Out, ...]]:
    """Stages that sum nothing but zeros become functions of names: no pass needed."""
    known: dict[str, Term] = {}
    kept: list[Stage] = []
    for s in stages:
        plain = len(s.combine.identity)
        s = replace(s, map=_insert(known, s.map, 0), post=_insert(known, s.post, plain))
        if all(is_zero(r) for r in s.map.results):
            known |= {n: (_at_zero(s), k) for k, n in enumerate(s.names)}
        else:
            kept.append(s)
    return tuple(kept), tuple(
        Out(o.kind, _insert(known, o.function, 0)) for o in outs)


def _at_zero(s: Stage) -> Function:
    """A stage's values where its state is zero."""
    zeros = (ZERO,) * len(s.combine.identity)
    return compose(s.post.name, s.wired,
                   lambda b: b.call(s.post, *zeros, *s.wired))


def _insert(known: dict[str, Term], function: Function, fixed: int) -> Function:
    """Compute the parameters that are `known` inside `function`."""
    if not known.keys() & set(function.params):
        return function
    params = tuple(dict.fromkeys(
        q for p in function.params
        for q in (known[p][0].params if p in known else (p,))))

    def build(b: Builder) -> tuple[Value, ...]:
        return b.call(function, *(
            b.call(known[p][0], *known[p][0].params)[known[p][1]] if p in known else p
            for p in function.params))

    return trim_after(compose(function.name, params, build), fixed)
