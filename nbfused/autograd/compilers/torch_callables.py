"""Functions with a derivative on our tape, as ops of PyTorch.

Its gradient is such an op again, made by `vjp`: so there are derivatives of any order.
It runs the function once more, as nothing but the arguments is saved.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any
from uuid import uuid4

import numpy as np

from ...errors import KernelTypeError
from ...support.records import record as data
from ..torch_bridge import conjugated
from ..transforms.gradients import vjp
from ..variable import Variable
from .torch_names import MAKING, NAMESPACE, install, library
from .torch_ops import torch_dtypes

__all__ = ["CallableOp"]

#: Shape and dtype of an array.
Aval = tuple[tuple[Any, ...], np.dtype]
_NUMBER = count()


@data(frozen=True)
class _Pull:
    """The cotangents of some arguments of a function: itself a function of arrays."""

    function: Callable[..., Any]
    inputs: int
    needs: tuple[int, ...]

    def __call__(self, *given: Any) -> Sequence[Any]:
        """Pull back; the arguments come first, then a cotangent for each result."""
        inputs, cotangents = [*given[:self.inputs]], given[self.inputs:]

        def of_needed(*needed: Any) -> Any:
            values = list(inputs)
            for k, x in zip(self.needs, needed, strict=True):
                values[k] = x
            return tuple(self.function(*values))

        return vjp(of_needed, *[inputs[k] for k in self.needs])[1](*cotangents)


class CallableOp:
    """A function of tensors and numbers as an op.

    Parameters
    ----------
    name
        What it is called in graphs; a number is added.
    function
        Returns a tuple of arrays.
    infer
        Of the same arguments, without elements: shape and dtype of each result.
    numbers
        For each argument, whether it is a number.
    """

    def __init__(self, name: str, function: Callable[..., Any],
                 infer: Callable[..., Sequence[Aval]], numbers: Sequence[bool]) -> None:
        self.name, self.function = name, function
        self.infer, self.numbers = infer, tuple(numbers)
        self._pulls: dict[tuple[int, ...], CallableOp] = {}
        install()
        lib, torch = library(), sys.modules["torch"]
        # Of this process: what a compiler has cached under its name is of no other.
        full = f"{name}_{next(_NUMBER)}_{uuid4().hex[:8]}"
        MAKING.add(full)
        try:
            lib.define(f"{full}(Tensor[] arrays, Scalar[] numbers) -> Tensor[]")
            lib.impl(full, self._compute, "CompositeExplicitAutograd")
            lib.impl(full, self._record, "Autograd")
            torch.library.register_fake(f"{NAMESPACE}::{full}", self._fake, lib=lib)
            self._op = getattr(torch.ops.nbfused, full).default
        finally:
            MAKING.discard(full)

    def __call__(self, *args: Any) -> list[Any]:
        """Call it with tensors and numbers."""
        found: list[Any] = self._op(
            [x for x, number in zip(args, self.numbers, strict=True) if not number],
            [x for x, number in zip(args, self.numbers, strict=True) if number])
        return found

    def pull(self, needs: tuple[int, ...], results: int) -> CallableOp:
        """The op that gives the cotangents of some arguments."""
        found = self._pulls.get(needs)
        if found is None:
            inputs = len(self.numbers)

            def infer(*given: Any) -> list[Aval]:
                kinds = {theirs: ours for ours, theirs in torch_dtypes().items()}
                return [(tuple(given[k].shape), kinds[given[k].dtype]) for k in needs]

            found = self._pulls[needs] = CallableOp(
                f"{self.name}_gradient", _Pull(self.function, inputs, needs), infer,
                (*self.numbers, *(False,) * results))
        return found

    def _values(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        rest, values = iter(arrays), iter(numbers)
        return [next(values) if number else next(rest) for number in self.numbers]

    def _compute(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        made = self.function(*self._values([x.detach() for x in arrays], numbers))
        found = [x.data if isinstance(x, Variable) else x for x in made]
        given = {x.data_ptr() for x in arrays}
        return [x.clone() if x.data_ptr() in given else x.contiguous() for x in found]

    def _fake(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        like = arrays[0]
        return [like.new_empty(shape, dtype=torch_dtypes()[dtype])
                for shape, dtype in self.infer(*self._values(arrays, numbers))]

    def _record(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> Any:
        torch = sys.modules["torch"]
        if torch._C._are_functorch_transforms_active():
            raise KernelTypeError(
                f"{self.name}: torch.func does not transform a kernel; use "
                "torch.autograd.grad, or nbfused.grad and nbfused.vmap on tensors")
        if torch.autograd.forward_ad._current_level >= 0 and any(
                torch.autograd.forward_ad.unpack_dual(x).tangent is not None
                for x in arrays):
            raise KernelTypeError(
                f"{self.name}: a tensor has a tangent of torch.autograd.forward_ad, "
                "which a kernel does not hand on; use nbfused.jvp on plain tensors")
        if torch.is_grad_enabled() and any(x.requires_grad for x in arrays):
            return list(_recorded()(self, numbers, *arrays))
        with torch._C._AutoDispatchBelowAutograd():
            return self._op(arrays, numbers)


@cache
def _recorded() -> Any:
    import torch

    class Recorded(torch.autograd.Function):
        """A function with the op of its gradient."""

        @staticmethod
        def forward(ctx: Any, op: CallableOp, numbers: Sequence[Any],
                    *arrays: Any) -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                made = op._op(arrays, numbers)
            ctx.op, ctx.numbers, ctx.count = op, numbers, len(made)
            ctx.save_for_backward(*arrays)
            constant = [x for x in made if not (
                x.is_floating_point() or x.is_complex())]
            ctx.mark_non_differentiable(*constant)
            return tuple(made)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            op, wanted = ctx.op, ctx.needs_input_grad[2:]
            places = [k for k, number in enumerate(op.numbers) if not number]
            needs = tuple([k for k, want in zip(places, wanted, strict=True) if want])
            values = op._values(ctx.saved_tensors, ctx.numbers)
            pulled = op.pull(needs, ctx.count)(*values, *map(conjugated, cotangents))
            found = dict(zip(needs, map(conjugated, pulled), strict=True))
            return None, None, *[found.get(k) for k in places]

    return super(torch.autograd.Function, Recorded).apply
