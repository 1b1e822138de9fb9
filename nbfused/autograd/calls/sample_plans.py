"""Plans for specs on samples: direct calls in place of what was checked before.

A spec that ran on the arrays of all samples once runs on others of the same types,
shapes and dtypes by the same calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ...specs import Ref, Spec
from ...specs.base import Batching

__all__ = ["DirectCall", "Repeated", "SamplePlan", "is_plain_number", "remember",
           "sample_key"]

#: Results, or None where the arguments need a closer look.
DirectCall = Callable[..., Any]
#: The direct call of a step, if there is one, and how many results it has.
Repeated = tuple[DirectCall | None, int]
#: See `SamplePlan.steps`.
Step = tuple[DirectCall, list[tuple[int | None, Any]], int, bool]

#: Types of numbers, whose values are passed.
_NUMBERS = (int, float, complex, bool)
#: Most plans of a spec.
_LIMIT = 256


def sample_key(held: Sequence[Any], has: tuple[bool, ...],
               dtypes: Any) -> Hashable | None:
    """A key of the plan; None where there is none, as a tape has to know."""
    found: list[Any] = [has, None if dtypes is None else tuple(dtypes)]
    for x in held:
        kind = type(x)
        if kind is np.ndarray:
            found += (x.shape, x.dtype)
        elif is_plain_number(x):
            found.append(kind)
        else:
            return None
    return tuple(found)


def is_plain_number(x: Any) -> bool:
    """Whether `x` is a number of Python or NumPy, which is passed by value."""
    return type(x) in _NUMBERS or isinstance(x, np.generic)


class SamplePlan:
    """Direct calls, whose inputs are those of the spec, or results of calls before.

    Attributes
    ----------
    steps
        Each call with the places of its inputs, the number of its results, and whether
        these are in memory of their own.  A number of the rule itself has None for a
        place and stands beside.
    results
        The places of what is returned.
    """

    __slots__ = ("results", "steps")

    def __init__(self, steps: Sequence[Step], results: Sequence[int]) -> None:
        self.steps: Sequence[Step] = steps
        self.results: Sequence[int] = results

    @staticmethod
    def of(rule: Batching, inputs: int, calls: Sequence[Repeated]) -> SamplePlan | None:
        """The plan for a rule; None where a step has no direct call.

        Parameters
        ----------
        inputs
            How many the spec has.
        calls
            Those of the steps.
        """
        starts = list(accumulate((count for _, count in calls), initial=inputs))

        def place(x: Any) -> tuple[int | None, Any]:
            if not isinstance(x, Ref):
                return None, x
            return x.index if x.source == "input" else starts[x.index] + x.output, None

        steps = [(direct, list(map(place, step.inputs)), count,
                  bool(step.spec.launches))
                 for step, (direct, count) in zip(rule.steps, calls, strict=True)
                 if direct is not None]
        if len(steps) < len(calls):
            return None
        return SamplePlan(steps, [place(ref)[0] or 0 for ref in rule.results])

    @staticmethod
    def single(spec: Spec, direct: DirectCall | None, inputs: int,
               outputs: int) -> SamplePlan | None:
        """The plan of one spec, on what all samples share."""
        if direct is None:
            return None
        return SamplePlan([(direct, [(k, None) for k in range(inputs)], outputs,
                            bool(spec.launches))], range(inputs, inputs + outputs))

    def run(self, held: Sequence[Any]) -> list[Any] | None:
        """The results; None where one of the calls needs a closer look."""
        values = list(held)
        for direct, inputs, *_ in self.steps:
            outs = direct(*[fixed if k is None else values[k] for k, fixed in inputs])
            if outs is None:
                return None
            values += outs
        return [values[k] for k in self.results]


def remember(plans: dict[Hashable, SamplePlan], key: Hashable,
             plan: SamplePlan | None) -> None:
    """Keep a plan, if there is one."""
    if plan is not None:
        if len(plans) >= _LIMIT:
            plans.clear()
        plans[key] = plan
