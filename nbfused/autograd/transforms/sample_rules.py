"""Functions with rules of their own inside of `vmap`.

Inside of the function a rule is called on placeholders.  Where a tape outside records,
it sees another rule: of all samples, made of those for one by `vmap`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import is_array
from ...arrays.traced import Traced
from ...errors import NotDifferentiableError
from ...specs.reduce import sum_over
from ..calls.batched import SAMPLE_RULES, Batched, Level
from ..custom import Function, as_outputs, is_tracked
from ..recording import RECORDING, grad_mode, recording
from ..rules import RuleNode, custom_vjp
from ..tape import apply, tracked_by_library
from ..variable import Variable
from .vmap import vmap

__all__ = ["call_function", "call_rule"]


def call_rule(rule: custom_vjp, level: Level, args: Sequence[Any]) -> Any:
    """Call a `custom_vjp` on placeholders of `level`."""
    lifted = _lifted(level, args)
    inside = recording() and any(map(is_tracked, lifted))
    outside = _recorded_outside(level, lifted)
    plain = [x.plain() if isinstance(x, Batched) else x for x in lifted]
    if not inside and not outside:
        return rule.function(*plain)
    if rule.fwd is None or rule.bwd is None:
        raise NotDifferentiableError(
            f"{rule.name} has no derivative yet: call {rule.name}.{rule.way}")
    value = _of_all_samples(rule, level, plain) if outside else None
    if not inside:
        return value
    with grad_mode(outside):
        result, residuals = rule.forward(*plain)
    outputs = as_outputs(result if value is None else value,
                         f"the forward rule of {rule.name}")
    return RuleNode(rule, lifted, residuals).attach(
        outputs, not isinstance(result, (tuple, list)))


def call_function(function: type[Function], level: Level, args: Sequence[Any]) -> Any:
    """Call an `nf.Function` on placeholders of `level`."""
    lifted = _lifted(level, args)
    outside = _recorded_outside(level, lifted)
    if outside and hasattr(function, "native"):  # made of what that sees
        plain = [x.plain() if isinstance(x, Batched) else x for x in lifted]
        return function._run(lifted, plain)
    if outside:
        raise NotDifferentiableError(
            f"vmap: {function.__name__} is an nf.Function, and a tape outside of vmap "
            "differentiates through it, which would not see its backward; write it "
            "with nf.custom_vjp, or differentiate inside of vmap")
    return function._run(lifted)


def _lifted(level: Level, args: Sequence[Any]) -> list[Any]:
    return [level.lift(x) if isinstance(x, Variable) or (
        is_array(x) and not isinstance(x, np.generic)) else x for x in args]


def _recorded_outside(level: Level, args: Sequence[Any]) -> bool:
    """Whether a derivative outside may see what is done with these."""
    return level.recording is True and any(
        isinstance(x, Batched) and (isinstance(x.held, Traced) or is_tracked(x.held)
                                    or tracked_by_library(x.held)) for x in args)


def _of_all_samples(rule: custom_vjp, level: Level, args: Sequence[Any]) -> Any:
    """The results for all samples, by a rule that the tape outside sees."""
    level.recorder = None
    axes = tuple([0 if isinstance(x, Batched) and x.batched else None for x in args])
    before = RECORDING.get()
    RECORDING.set(level.recording)
    try:
        made = _over_samples(rule, axes)(*[
            x.held if isinstance(x, Batched) else x for x in args])
    finally:
        RECORDING.set(before)
    several = isinstance(made, (tuple, list))
    found = tuple([Batched(level, x, True) for x in (made if several else (made,))])
    return found if several else found[0]


def _over_samples(rule: custom_vjp, axes: tuple[int | None, ...]) -> custom_vjp:
    assert rule.bwd is not None
    pull = rule.bwd
    made = custom_vjp(vmap(rule.function, axes) if any(a is not None for a in axes)
                      else rule.function)

    def backward(residuals: Any, cotangent: Any) -> tuple[Any, ...]:
        found = vmap(pull)(residuals, cotangent)
        each = found if isinstance(found, (tuple, list)) else (found,)
        return tuple([g if g is None or axis is not None else
                      apply(sum_over((0,)), (g,))[0]
                      for g, axis in zip(each, axes, strict=False)])

    made.defvjp(vmap(rule.forward, axes), backward)
    return made


SAMPLE_RULES[custom_vjp] = call_rule
SAMPLE_RULES[Function] = call_function
