"""A spec run for many samples at once, by its own rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arrays import dtype_of
from ...arrays.traced import TracedNumber, extents
from ...dispatch.direct import direct_call
from ...errors import KernelTypeError
from ...scalar.typing.python_numbers import number_type
from ...specs import Ref, Spec
from ...specs.base import Batching
from ..nodes import NUMBERS
from ..tape import apply
from .sample_plans import Repeated, SamplePlan, remember, sample_key

__all__ = ["run_batched", "run_planned"]

#: Shapes of one sample, by input.
Shapes = tuple[tuple[int, ...], ...]


def run_planned(spec: Spec, held: Sequence[Any], has: tuple[bool, ...], size: int,
                dtypes: Any) -> list[Any]:
    """Run `spec` for `size` samples, by the direct calls of a run before if it can.

    The samples lie along axis 0 of the arrays that `has` marks.
    """
    key = sample_key(held, has, dtypes)
    plans = spec.__dict__.setdefault("_sample_plans", {})
    plan = None if key is None else plans.get(key)
    made: list[Any] | None = None if plan is None else plan.run(held)
    if made is not None:
        return made
    shapes = tuple([_extents(x)[own:] for x, own in zip(held, has, strict=True)])
    rule = _rule(spec, has, shapes, size)
    dtypes = _asked(spec, rule, held, dtypes)
    calls: list[Repeated] | None = None if key is None else []
    made = _run(rule, held, dtypes, calls)
    if calls is not None:
        remember(plans, key, SamplePlan.of(rule, len(held), calls))
    return made


def run_batched(spec: Spec, held: Sequence[Any], has: tuple[bool, ...], shapes: Shapes,
                size: int, dtypes: Any) -> list[Any]:
    """Run `spec` for `size` samples, along axis 0 of the arrays that `has` marks.

    `shapes` are those of one sample.
    """
    rule = _rule(spec, has, shapes, size)
    return _run(rule, held, _asked(spec, rule, held, dtypes), None)


def _rule(spec: Spec, has: tuple[bool, ...], shapes: Shapes, size: int) -> Batching:
    spec.out_shapes(shapes)  # its messages are of one sample
    rule = spec.batched(has, shapes, size)
    if rule is None:
        raise KernelTypeError(
            f"vmap: {spec.name} has no rule for many samples at once; give it an "
            "axis for them and call it outside of vmap, or call it in a loop")
    return rule


def _asked(spec: Spec, rule: Batching, held: Sequence[Any], dtypes: Any) -> Any:
    """The dtypes of results, all of them where steps hand rounded values on."""
    launches = sum(step.spec.launches for step in rule.steps)
    if launches < 2 or None not in (dtypes or (None,)):
        return dtypes
    natural = spec.result_types(tuple(map(_type, held)))
    return [a or b for a, b in zip(dtypes or (None,)*len(natural), natural,
                                   strict=True)]


def _run(rule: Batching, held: Sequence[Any], dtypes: Any,
         calls: list[Repeated] | None) -> list[Any]:
    """The results; the direct calls of the steps are added to `calls`."""
    known: dict[Ref, Any] = {Ref("input", k): x for k, x in enumerate(held)}
    for k, step in enumerate(rule.steps):
        asked = None if dtypes is None or not step.spec.launches else tuple(
            [None if ref is None else dtypes[ref.index] for ref in step.like])
        inputs = [known[x] if isinstance(x, Ref) else x for x in step.inputs]
        outs = apply(step.spec, inputs, dtypes=asked)
        if calls is not None:
            calls.append((direct_call(step.spec, inputs, None, dtypes=asked),
                          len(outs)))
        known |= {Ref("step", k, j): x for j, x in enumerate(outs)}
    return [known[ref] for ref in rule.results]


def _extents(x: Any) -> tuple[int, ...]:
    return () if isinstance(x, NUMBERS) else extents(x)


def _type(x: Any) -> Any:
    if isinstance(x, TracedNumber):
        return x.number_type
    return number_type(x) if isinstance(x, NUMBERS) else dtype_of(x)
