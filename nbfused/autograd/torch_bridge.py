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
from ..arrays.detect import TORCH_DEVICES, device_of
from ..arrays.libraries.torch import stands_for_others
from ..dispatch import execute
from ..errors import KernelTypeError, TapeError
from ..specs import Spec
from .graph import Edge, GraphArray, Leaf, Pass
from .nodes import SpecNode, is_floating
from .tape import PLAIN, apply, run_recorded
from .versions import Saved

__all__ = ["TENSORS", "WANTED", "apply_torch", "conjugated", "operation", "readable",
           "unusual"]


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
    # How many results the user asked for is found out on the way.
    call = [spec, options, 0, None]
    function, record = operation()
    try:
        results = record(call, *inputs)
    except RuntimeError:  # PyTorch says so where torch.func or vmap is at work
        try:
            results = function.apply(call, *inputs)
        except RuntimeError:
            _describe_all(inputs, options)  # it can name the argument
            raise
    count = call[2]
    return results if len(results) == count else results[:count]


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


def unusual() -> bool:
    """Whether PyTorch does not record, or something else than its tape is at work."""
    torch = sys.modules["torch"]
    return bool(not torch.is_grad_enabled() or torch._C._len_torch_dispatch_stack()
                or torch.autograd.forward_ad._current_level >= 0
                or torch._C._get_tracing_state() is not None)


@cache
def operation() -> tuple[Any, Callable[..., Any]]:
    """The `torch.autograd.Function`, defined once PyTorch is imported.

    Also what records a call of it outside of transforms: `apply` of its base, without
    the questions of torch.func, which are a third of a call.
    """
    import torch

    plain = torch.Tensor
    _ORDINARY.update(readable())

    class Operation(torch.autograd.Function):
        """A spec as an autograd function; saved state is among its results."""

        @staticmethod
        def forward(ctx: Any, call: Any, *inputs: Any) -> Any:
            ctx.set_materialize_grads(False)
            spec, options, _, known = call
            needs = ctx.needs_input_grad[1:]
            edges = _EDGES.get(needs) or _edges(needs)
            recorded = None if known is None else known(*inputs, *edges)
            if recorded is None:
                data = _detached(spec, inputs)
                recorded = run_recorded(spec, data, edges, None, options)
            if recorded is None:
                made = execute(spec, data, **options)
                call[2] = len(made)
                ctx.mark_non_differentiable(*made)
                return made
            node, results = recorded
            call[2] = count = len(node.recording.tracked)
            ctx.node = node
            ctx.slots = _save(ctx, node, inputs)
            # What PyTorch has to know: the user's results, and the state that is saved.
            ctx.places, constant = node.recording.places or _places(node, count)
            if constant:
                ctx.mark_non_differentiable(*[results[k] for k in constant])
            return tuple(results) if len(results) == len(ctx.places) else tuple(
                [results[k] for k in ctx.places])

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            node = ctx.node
            present, some = [None] * node.outputs, False
            for place, cotangent in zip(ctx.places, cotangents, strict=True):
                present[place] = cotangent
                some |= cotangent is not None
            if not some:
                return (None,) * (1 + len(node.edges))
            conjugates = node.recording.plan.complex
            if conjugates:
                present = [*map(conjugated, present)]
            again = torch.is_grad_enabled() or \
                torch.autograd.forward_ad._current_level >= 0 or \
                torch._C._functorch.peek_interpreter_stack() is not None
            for saved in ctx.slots:
                if saved.guarded:
                    saved.check()  # it can name what PyTorch refuses below
            for saved, tensor in zip(ctx.slots, ctx.saved_tensors, strict=True):
                saved.data = tensor if again or type(tensor) is plain \
                    else tensor.detach()
            try:
                mode = TENSORS if again else PLAIN
                found = node.pull(present, node.wants, mode)
                return (None, *(map(conjugated, found) if conjugates else found))
            finally:
                for saved in ctx.slots:
                    saved.data = None

    return Operation, super(torch.autograd.Function, Operation).apply


def conjugated(x: Any) -> Any:
    """A complex tensor conjugated in memory, where PyTorch would only note it."""
    return x.conj().resolve_conj() if x is not None and x.is_complex() else x


def _save(ctx: Any, node: SpecNode, inputs: Sequence[Any]) -> list[Saved]:
    """Hand the arrays that a node saves to PyTorch; returns their places in it."""
    slots, tensors = [], []
    for k, saved in node.saved_inputs.items():
        if type(saved) is Saved:
            slots.append(saved)
            tensors.append(inputs[k])
    for saved in node.saved_outputs.values():
        slots.append(saved)
        tensors.append(saved.data)
    for saved in slots:
        x, place = saved.data, None
        device = TORCH_DEVICES.get(x.device) or device_of(x)  # most are known
        if x.is_contiguous():
            low = x.data_ptr()
            place = device, low, low + x.nbytes
        saved.hand_over(place)
    if tensors:
        ctx.save_for_backward(*tensors)
    return slots


def _places(node: SpecNode, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Numbers of the results that PyTorch has to know, and of the constants of them."""
    tracked = node.recording.tracked
    places = (*range(count), *(k for k in node.saved_outputs if k >= count))
    found = node.recording.places = places, tuple([
        k for k in places
        if not (tracked[k] if k < count else is_floating(node.results[k]))])
    return found
