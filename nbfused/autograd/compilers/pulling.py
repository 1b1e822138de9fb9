"""The pullback of a call, run by whoever traces it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...scalar.typing.types import Type
from ..graph import Edge, Leaf, Pass
from ..nodes import CachedRecording, RecordingPlan, SpecNode
from .identity import Call

__all__ = ["forward_call", "pull", "recording_of", "result_dtypes"]

#: The edge of what wants a cotangent: the caller knows where it goes.
_WANTED: Edge = (Leaf(), 0)


def result_dtypes(call: Call, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
    """Dtypes of the results: those asked for, else NumPy's."""
    natural = call.spec.result_types(types)
    return tuple([want or have for want, have in zip(
        call.asked or (None,) * len(natural), natural, strict=True)])


def forward_call(call: Call, planned: RecordingPlan) -> Call:
    """The call that also gives what is saved."""
    dtypes = None if call.dtypes is None else (*call.dtypes, *(None,) * planned.extra)
    return Call(planned.forward, dtypes, call.numbers, call.outputs + planned.extra)


def recording_of(planned: RecordingPlan, call: Call,
                 types: tuple[Any, ...]) -> CachedRecording:
    """The common part of calls of a forward spec."""
    return CachedRecording(planned, planned.forward.name, planned.tracked,
                           results=result_dtypes(call, types))


def pull(recording: CachedRecording, call: Call, present: Sequence[bool],
         arrays: Sequence[Any], numbers: Sequence[Any], mode: Pass,
         conjugated: Callable[[Any], Any] | None = None,
         gives: Sequence[int] | None = None) -> Sequence[Any]:
    """Cotangents of the inputs of a call.

    Parameters
    ----------
    arrays
        Inputs and outputs that the plan saves, then the cotangents that are present.
    numbers
        Of the call.
    mode
        What runs the steps.
    conjugated
        Of complex cotangents, where the caller's are the conjugates of ours.
    gives
        The inputs whose cotangents are asked for; by default all that there are.
    """
    planned = recording.plan
    assert planned is not None
    rest, values = iter(arrays), iter(numbers)
    inputs = [None if kind is None else next(values) for kind in call.numbers]
    inputs = [x if x is None or not kind else np.dtype(kind).type(x)
              for x, kind in zip(inputs, call.numbers, strict=True)]
    for k in planned.inputs:
        if call.numbers[k] is None:
            inputs[k] = next(rest)
    outputs: list[Any] = [None] * call.outputs
    for k in planned.outputs:
        outputs[k] = next(rest)
    cotangents = [next(rest) if some else None for some in present]
    edges = [_WANTED if need else None for need in planned.needs]
    node = SpecNode(recording, edges, inputs, outputs, ())
    wanted = node.wants if gives is None else tuple(
        [k in gives for k in range(len(node.wants))])
    if conjugated is None or not planned.complex:
        return node.pull(cotangents, wanted, mode)
    return [*map(conjugated, node.pull([*map(conjugated, cotangents)], wanted, mode))]
