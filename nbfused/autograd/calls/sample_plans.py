"""Plans for specs on samples: direct calls in place of what was checked before.

A spec that ran on the arrays of all samples once runs on others of the same types,
shapes and dtypes by the same calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ...specs import Ref
from ...specs.base import Batching

__all__ = ["Repeated", "SamplePlan", "remember", "sample_key"]

#: Results, or None where the arguments need a closer look.
DirectCall = Callable[..., Any]
#: The direct call of a step, if there is one, and how many results it has.
Repeated = tuple[DirectCall | None, int]

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
        elif kind in _NUMBERS or issubclass(kind, np.generic):
            found.append(kind)
        else:
            return None
    return tuple(found)


class SamplePlan:
    """Direct calls, whose inputs are those of the spec, or results of calls before.

    Parameters
    ----------
    steps
        Each call with the places of its inputs; a number of the rule itself has None
        and stands beside.
    results
        The places of what is returned.
    """

    __slots__ = ("_results", "_steps")

    def __init__(self, steps: Sequence[tuple[DirectCall, list[tuple[int | None, Any]]]],
                 results: Sequence[int]) -> None:
        self._steps, self._results = steps, results

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

        steps = [(direct, list(map(place, step.inputs)))
                 for step, (direct, _) in zip(rule.steps, calls, strict=True)
                 if direct is not None]
        if len(steps) < len(calls):
            return None
        return SamplePlan(steps, [place(ref)[0] or 0 for ref in rule.results])

    def run(self, held: Sequence[Any]) -> list[Any] | None:
        """The results; None where one of the calls needs a closer look."""
        values = list(held)
        for direct, inputs in self._steps:
            outs = direct(*[fixed if k is None else values[k] for k, fixed in inputs])
            if outs is None:
                return None
            values += outs
        return [values[k] for k in self._results]


def remember(plans: dict[Hashable, SamplePlan], key: Hashable,
             plan: SamplePlan | None) -> None:
    """Keep a plan, if there is one."""
    if plan is not None:
        if len(plans) >= _LIMIT:
            plans.clear()
        plans[key] = plan
