"""The derivative of an op of PyTorch, itself one op.

A backward pass that is not differentiated itself is one call, whatever steps it takes:
so a compiler sees what shape its results have, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ...scalar.typing.types import Weak
from ..nodes import CachedRecording, RecordingPlan, plan
from ..tape import PLAIN
from ..torch_bridge import TENSORS, conjugated, in_memory
from .identity import Call, Gradient
from .pulling import forward_call, pull, recording_of
from .torch_names import NAMESPACE, library
from .torch_ops import (
    TorchOp,
    define,
    exact,
    symbolic_first,
    torch_dtypes,
    types_of,
)
from .torch_tangents import (
    keep_moving,
    moves,
    outside_records,
    pushed,
    tangents_of,
)

__all__ = ["GradientOp", "record"]


def record(op: TorchOp, args: Sequence[Any]) -> Any:
    """Run an op, and record it on PyTorch's tape."""
    apply = _function()
    if sys.modules["torch"]._C._are_functorch_transforms_active():
        from torch._functorch.utils import enable_single_level_autograd_function

        with enable_single_level_autograd_function():
            made = apply(op, *args)
    else:
        made = apply(op, *args)
    count = op.call.outputs
    return made[0] if count == 1 else tuple(made[:count])


def _hints(shape: Sequence[Any]) -> tuple[int, ...]:
    """A shape as it is at present: what is planned by it asks for 1 and equality."""
    return tuple([n if isinstance(n, int) else n.node.hint for n in shape])


def _planned(call: Call, needs: tuple[bool, ...], shapes: tuple[tuple[int, ...], ...],
             types: tuple[Any, ...]) -> RecordingPlan | None:
    return plan(call.spec, needs, shapes, types, call.asked)


class GradientOp:
    """The op that computes the cotangents of a call's inputs.

    It takes the arrays that were saved and the cotangents that there are, the numbers
    of the call, and the extents of its inputs.
    """

    def __init__(self, part: Gradient, name: str) -> None:
        self.part = part
        lib, torch = library(), sys.modules["torch"]
        lib.define(f"{name}(Tensor[] arrays, Scalar[] numbers, SymInt[] extents) "
                   "-> Tensor[]")
        lib.impl(name, self.compute, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{NAMESPACE}::{name}", self.infer, lib=lib)
        self.run = getattr(torch.ops.nbfused, name).default
        self.types: tuple[Any, ...] = tuple([
            Weak(kind) if number == "" else np.dtype(kind)
            for kind, number in zip(part.types, part.call.numbers, strict=True)])
        self._known: dict[tuple[tuple[int, ...], ...], CachedRecording] = {}

    def shapes(self, extents: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The shape of each input."""
        rest = iter(extents)
        return [tuple([next(rest) for _ in range(n)]) for n in self.part.ranks]

    def compute(self, arrays: Sequence[Any], numbers: Sequence[Any],
                extents: Sequence[int]) -> list[Any]:
        """Pull cotangents back on tensors with elements."""
        part = self.part
        shapes = tuple(self.shapes(extents))
        cached = self._known.get(shapes)
        if cached is None:
            planned = plan(part.call.spec, part.needs, shapes, self.types,
                           part.call.asked)
            assert planned is not None
            cached = self._known[shapes] = recording_of(planned, part.call, self.types)
        found = pull(cached, part.call, part.present, arrays, numbers, PLAIN,
                     conjugated, part.gives)
        given = {x.data_ptr() for x in arrays}
        made = []
        for k in part.gives:
            x = found[k].contiguous()
            made.append(x.clone() if x.data_ptr() in given else x)
        return made

    def infer(self, arrays: Sequence[Any], numbers: Sequence[Any],
              extents: Sequence[Any]) -> list[Any]:
        """Tensors like the cotangents, without elements."""
        shapes, like = self.shapes(extents), symbolic_first(arrays)
        return [like.new_empty(shapes[k], dtype=torch_dtypes()[self.types[k]])
                for k in self.part.gives]


@cache
def _function() -> Any:
    """The ``apply`` of a `torch.autograd.Function`, which records a call of an op.

    It is that of the base, which asks nothing of `torch.func`: each level of its
    transforms calls the op itself.
    """
    import torch

    class Recorded(torch.autograd.Function):
        """An op with its gradient; saved state is among its results."""

        @staticmethod
        def forward(ctx: Any, op: TorchOp, *args: Any) -> Any:
            ctx.set_materialize_grads(False)
            types = types_of(op.call.values(args))
            planned = _planned(op.call, ctx.needs_input_grad[1:],
                               tuple([
                                   _hints(getattr(x, "shape", ())) for x in args]),
                               types)
            if planned is None:
                with outside_records():
                    made = op.unrecorded(args)
                results = made if isinstance(made, (tuple, list)) else (made,)
                ctx.moving = keep_moving(op, args, [False] * len(results))
                ctx.mark_non_differentiable(*results)
                return tuple(results)
            call = forward_call(op.call, planned)
            with outside_records():
                made = define(call).unrecorded(args)
            results = made if isinstance(made, (tuple, list)) else (made,)
            tensor = torch.Tensor
            ctx.moving = keep_moving(define(call), args, [*map(moves, results)])
            ctx.call, ctx.planned, ctx.types = call, planned, types
            ctx.numbers = [x for x in args if not isinstance(x, tensor)]
            ctx.shapes = [tuple(getattr(x, "shape", ())) for x in args]
            ctx.save_for_backward(
                *[args[k] for k in planned.inputs if isinstance(args[k], tensor)],
                *[results[k] for k in planned.outputs])
            constant = [x for x in results if not (
                x.is_floating_point() or x.is_complex())]
            if constant:
                ctx.mark_non_differentiable(*constant)
            return tuple(results)

        @staticmethod
        def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
            op, args, results = ctx.moving
            return pushed(op.as_function().push, args, tangents, results)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            call, planned = ctx.call, ctx.planned
            present = tuple([c is not None for c in cotangents])
            if not any(present):
                return (None,) * (1 + len(planned.needs))
            # Wrappers of a transform that is over, as where `torch.func.vjp` has ended.
            arrays = [in_memory(torch._C._functorch.unwrap_if_dead(x)) for x in (
                *ctx.saved_tensors, *[c for c in cotangents if c is not None])]
            if torch.is_grad_enabled() or tangents_of(arrays) is not None or any(
                    map(torch._C._functorch.is_functorch_wrapped_tensor, arrays)):
                return None, *_in_steps(ctx, present, arrays)
            made = _passed_on(ctx, present, cotangents)
            gives = tuple([k for k, want in enumerate(planned.wants)
                           if want and k not in made])
            if not gives:
                return None, *[made.get(k) for k in range(len(planned.needs))]
            part = Gradient(call, tuple([
                t.kind if isinstance(t, Weak) else np.dtype(t).name
                for t in ctx.types]), tuple(map(len, ctx.shapes)), planned.needs,
                present, gives)
            found = define(part).run(arrays, ctx.numbers,
                                     [n for shape in ctx.shapes for n in shape])
            made |= zip(gives, found, strict=True)
            return None, *[made.get(k) for k in range(len(planned.needs))]

    return super(torch.autograd.Function, Recorded).apply


def _passed_on(ctx: Any, present: tuple[bool, ...], cotangents: Sequence[Any],
               ) -> dict[int, Any]:
    """The cotangents of inputs that are those of outputs, as in a sum."""
    shapes = tuple(map(_hints, ctx.shapes))
    results = ctx.planned.forward.vjp(ctx.planned.needs, shapes, present).results
    found = {}
    for k, ref in enumerate(results):
        if ref is None or ref.source != "cotangent":
            continue
        given = cotangents[ref.index]
        if given.dtype == torch_dtypes()[ctx.types[k]] and \
                _hints(given.shape) == shapes[k]:
            found[k] = given
    return found


def _in_steps(ctx: Any, present: tuple[bool, ...], arrays: Sequence[Any],
              ) -> Sequence[Any]:
    """Pull back by operations that are recorded themselves."""
    planned = plan(ctx.planned.forward, ctx.planned.needs,
                   tuple(map(exact, ctx.shapes)), ctx.types, ctx.call.asked)
    assert planned is not None
    return pull(recording_of(planned, ctx.call, ctx.types), ctx.call, present, arrays,
                ctx.numbers, TENSORS, conjugated)
