"""Operations on PyTorch tensors that require grad: nodes of PyTorch's autograd.

PyTorch's gradients by complex numbers are the conjugates of ours: cotangents and
gradients are conjugated where they pass from one to the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..arrays import describe, is_array
from ..arrays.libraries.torch import stands_for_others
from ..dispatch import execute
from ..errors import KernelTypeError, TapeError
from ..specs import Spec, View
from ..support.records import record
from .graph import Edge, GraphArray, Leaf, Pass
from .nodes import CachedRecording, SpecNode, is_floating, is_number
from .recipes import Picker, picker
from .tape import PLAIN, apply, run_recorded
from .versions import HandedOver

__all__ = ["TENSORS", "WANTED", "apply_torch", "conjugated", "in_memory", "operation",
           "readable", "recording_state"]


def apply_torch(spec: Spec, inputs: Sequence[Any], out: Sequence[Any] | None,
                options: dict[str, Any]) -> tuple[Any, ...]:
    """Run a spec on tensors that PyTorch's autograd tracks.

    Returns
    -------
    tuple of torch.Tensor
        With a ``grad_fn`` whose backward runs the spec's pullback, and which can be
        differentiated again.

    Raises
    ------
    KernelTypeError
        A tensor that requires grad is mixed with a Variable, or with arrays of another
        library.
    TapeError
        `out` was given.
    """
    torch = sys.modules["torch"]
    inner = torch._C
    transforms = inner._functorch.peek_interpreter_stack() is not None or \
        inner._len_torch_dispatch_stack() > 0
    traced = torch.autograd.forward_ad._current_level >= 0 or (
        transforms and any(map(stands_for_others, (*inputs, *(out or ())))))
    for x in inputs:
        if traced or type(x) not in _ORDINARY:
            if traced or any(map(stands_for_others, (*inputs, *(out or ())))):
                from .compilers.torch_calls import run_symbolic

                return run_symbolic(spec, inputs, out, options)
            _check_inputs(spec, inputs, options)
            break
    if out is not None and any(o is not None for o in out):
        raise TapeError(f"out: {spec.name} is recorded by PyTorch, because an input "
                        "requires grad; leave out=None and change nothing in "
                        "place, or use torch.no_grad()")
    shown = _viewed(spec, inputs[0], options) if isinstance(spec, View) else None
    if shown is not None:
        return (shown,)
    # How many results the user asked for is found out on the way.
    call = [spec, options, 0, None]
    function, record_call = operation()
    try:
        results = record_call(call, *inputs)
    except RuntimeError:  # PyTorch says so where torch.func or vmap is at work
        try:
            results = function.apply(call, *inputs)
        except RuntimeError:
            _describe_all(inputs, options)  # it can name the argument
            raise
    count = call[2]
    return results if len(results) == count else results[:count]


def _viewed(spec: View, x: Any, options: dict[str, Any]) -> Any | None:
    """PyTorch's own view of a tensor, which may be changed in place; None of others.

    It refuses that of views which a `torch.autograd.Function` gives.
    """
    spec.out_shapes((tuple(x.shape),))  # which refuses what does not fit in our words
    if any(k is not None for k in options.get("dtypes") or ()):
        return None
    match spec.kind:
        case "reshape":
            return x.reshape(spec.params)
        case "transpose":
            return x.permute(spec.params)
        case "broadcast":
            return x.expand(spec.params)
        case "squeeze":
            return x.squeeze(spec.params)
        case "expand":
            for axis in spec.params:
                x = x.unsqueeze(axis)
            return x
        case "slice" if all(step > 0 for _, _, step in spec.params):
            return x[tuple([slice(*part) for part in spec.params])]
    return None


def _describe_all(inputs: Sequence[Any], options: dict[str, Any]) -> None:
    """Raise `KernelTypeError` for a tensor without storage of its own."""
    names = options.get("names") or range(len(inputs))
    for x, name in zip(inputs, names, strict=False):
        if is_array(x):
            describe(x, str(name))


#: Types of inputs that need no closer look; tensors are among them once there are any.
_ORDINARY: set[type] = {bool, int, float, complex}


def _check_inputs(spec: Spec, inputs: Sequence[Any], options: dict[str, Any]) -> None:
    """Refuse what PyTorch's tape does not see beside a tensor that requires grad."""
    if any(isinstance(x, GraphArray) for x in inputs):
        raise KernelTypeError(
            f"{spec.name}: a tensor that requires grad in PyTorch and a Variable in "
            "one call belong to two tapes; use one of them, or x.detach()")
    names = options.get("names") or range(len(inputs))
    for x, name in zip(inputs, names, strict=False):
        # Also raises for JAX tracers, which are tracked, too.
        if is_array(x) and describe(x, str(name)).library.name != "torch" and x.shape:
            raise KernelTypeError(
                f"{name} is a {type(x).__name__} beside a tensor that requires grad; "
                "expected tensors only: use torch.asarray")
        if isinstance(x, np.generic):
            _ORDINARY.add(type(x))


#: On tensors: where PyTorch's backward is itself differentiated, operations find that
#: their inputs require grad, and come back to `apply_torch`.
TENSORS = Pass(apply, lambda data, edge: data, True)


#: The edge of what wants a gradient: PyTorch knows where it goes.
WANTED: Edge = (Leaf(), 0)


#: Edges by which of the inputs want a gradient.
_EDGES: dict[tuple[bool, ...], tuple[Edge | None, ...]] = {}


def _edges(needs: tuple[bool, ...]) -> tuple[Edge | None, ...]:
    found = _EDGES[needs] = tuple([WANTED if need else None for need in needs])
    return found


def _detached(spec: Spec, inputs: Sequence[Any]) -> list[Any]:
    """The inputs of a call as plain tensors, which may be used while it is recorded."""
    import torch

    data: list[Any] = []
    for x in inputs:
        if not isinstance(x, torch.Tensor):
            data.append(x)
            continue
        # A view is one of a tensor of ours, so that it may be a result.
        plain = type(x) is torch.Tensor and spec.launches
        data.append(x if plain else x.detach())
    return data


@cache
def readable() -> dict[type, bool]:
    """Types of tensors that recorded calls read; whether they are detached first."""
    import torch

    return {torch.Tensor: False, torch.nn.Parameter: True}


@cache
def recording_state() -> dict[str, Any]:
    """The functions that tell whether PyTorch's tape, and nothing else, records."""
    import torch

    return {"enabled": torch.is_grad_enabled, "forward_ad": torch.autograd.forward_ad,
            "modes": torch._C._len_torch_dispatch_stack,
            "transforms": torch._C._are_functorch_transforms_active,
            "tracing": torch._C._get_tracing_state}


@record(frozen=True)
class _Taped:
    """The parts of a call that PyTorch's tape keeps, for one `CachedRecording`.

    Attributes
    ----------
    count
        How many results the user asked for.
    places, constant
        Numbers of the results that PyTorch has to know: the user's, and the state that
        is saved; of those of them that are constant.
    whole
        Whether these are all results.
    outputs
        How many results there are.
    inputs, results
        Numbers of those that are saved.
    numbers
        Of the inputs that a pullback reads, those that are no arrays.
    saved
        Numbers of all that is saved: see `HandedOver`.
    pick_inputs, pick_results, pick_numbers, pick_told
        Take the inputs and results that are saved, the numbers, and what PyTorch has to
        know.
    """

    count: int
    places: tuple[int, ...]
    constant: tuple[int, ...]
    whole: bool
    outputs: int
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    numbers: tuple[int, ...]
    saved: tuple[int, ...]
    pick_inputs: Picker
    pick_results: Picker
    pick_numbers: Picker
    pick_told: Picker


@cache
def operation() -> tuple[Any, Callable[..., Any]]:
    """The `torch.autograd.Function`, defined once PyTorch is imported.

    Also what records a call of it outside of transforms: `apply` of its base, without
    the questions of torch.func, which are a third of a call.
    """
    import torch

    plain, forward_ad = torch.Tensor, torch.autograd.forward_ad
    enabled, is_neg = torch.is_grad_enabled, torch.Tensor.is_neg
    transforms = torch._C._functorch.peek_interpreter_stack
    _ORDINARY.update(readable())

    class Operation(torch.autograd.Function):
        """A spec as an autograd function; saved state is among its results."""

        # What is assigned to `ctx` is what its methods assign, each a call more.

        @staticmethod
        def forward(ctx: Any, call: Any, *inputs: Any) -> Any:
            ctx.materialize_grads = False
            spec, options, _, known = call
            needs = ctx.needs_input_grad[1:]
            edges = _EDGES.get(needs) or _edges(needs)
            made = None if known is None else known(*inputs, *edges)
            if made is None:
                data = _detached(spec, inputs)
                made = run_recorded(spec, data, edges, None, options)
            if made is None:
                plain = execute(spec, data, **options)
                call[2] = len(plain)
                ctx.non_differentiable = plain
                return plain
            recording, results = made
            taped = recording.taped or _taped(recording, inputs, results)
            call[2] = taped.count
            watch = None
            if taped.saved:
                arrays = *taped.pick_inputs(inputs), *taped.pick_results(results)
                ctx.to_save = arrays
                names = options.get("names") or ()
                watch = HandedOver(arrays, (taped.saved, names, recording.name))
            ctx.kept = recording, watch, taped.pick_numbers(inputs)
            if taped.constant:
                ctx.non_differentiable = tuple([results[k] for k in taped.constant])
            return tuple(results if taped.whole else taped.pick_told(results))

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            recording, watch, numbers = ctx.kept
            taped, plan = recording.taped, recording.plan
            present, some = [None] * taped.outputs, False
            for place, cotangent in zip(taped.places, cotangents, strict=True):
                if cotangent is not None:
                    some = True
                    present[place] = in_memory(cotangent) if is_neg(cotangent) else \
                        cotangent
            if not some:
                return (None,) * (1 + len(plan.wants))
            if plan.complex:
                present = [*map(conjugated, present)]
            again = enabled() or forward_ad._current_level >= 0 or \
                transforms() is not None
            tensors: Sequence[Any] = ()
            if watch is not None:
                if watch.changed:
                    watch.check()  # it can name what PyTorch refuses below
                tensors = ctx.saved_tensors
                if watch.checksums:
                    watch.check(tensors)
                if not again:
                    tensors = [x if type(x) is plain else x.detach() for x in tensors]
            inputs = dict(zip(taped.inputs, tensors, strict=False))
            outputs = dict(zip(taped.results, tensors[len(inputs):], strict=True))
            if numbers:
                inputs.update(zip(taped.numbers, numbers, strict=True))
            node = SpecNode.of_arrays(recording, inputs, outputs)
            found = node.pull(present, plan.wants, TENSORS if again else PLAIN)
            return (None, *(map(conjugated, found) if plan.complex else found))

    return Operation, super(torch.autograd.Function, Operation).apply


def in_memory(x: Any) -> Any:
    """A tensor whose elements lie in memory, which PyTorch makes of three kinds late.

    Its derivatives are marked as zeros, negated or conjugated ones.
    """
    torch = sys.modules["torch"]
    if torch._is_zerotensor(x):
        return x.clone()
    return x.resolve_conj().resolve_neg()


def conjugated(x: Any) -> Any:
    """A complex tensor conjugated in memory, where PyTorch would only note it."""
    return x.conj().resolve_conj() if x is not None and x.is_complex() else x


def _taped(recording: CachedRecording, inputs: Sequence[Any],
           results: Sequence[Any]) -> _Taped:
    """Find out which parts of calls like this one PyTorch's tape keeps."""
    plan, tracked = recording.plan, recording.tracked
    assert plan is not None
    count = len(tracked)
    places = (*range(count), *(k for k in plan.outputs if k >= count))
    arrays = tuple([k for k in plan.inputs if not is_number(inputs[k])])
    numbers = tuple([k for k in plan.inputs if k not in arrays])
    found = recording.taped = _Taped(
        count, places, tuple([
            k for k in places
            if not (tracked[k] if k < count else is_floating(recording.results[k]))]),
        len(places) == len(results), len(results), arrays, plan.outputs,
        numbers, (*arrays, *(-1 for _ in plan.outputs)),
        *map(picker, (arrays, plan.outputs, numbers, places)))
    return found
