"""Functions with a derivative on our tape, as ops of PyTorch.

What is derived from such an op is one again: its gradient, its derivative along
tangents, and its loop over samples.  So there are derivatives of any order.  They run
the function once more, as nothing but the arguments is saved.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any
from uuid import uuid4

import numpy as np

from ...arrays.libraries.torch import refuse_tracing
from ..nodes import is_floating
from ..torch_bridge import conjugated
from ..variable import Variable
from .derived import Pull, Push, Samples
from .torch_names import MAKING, NAMESPACE, install, library
from .torch_ops import torch_dtypes
from .torch_tangents import (
    Tangents,
    keep_moving,
    moves,
    outside_records,
    pushed,
    tangents_of,
    with_tangents,
)

__all__ = ["CallableOp"]

#: Shape and dtype of an array.
Aval = tuple[tuple[Any, ...], np.dtype]
_NUMBER = count()


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
    one_by_one
        Whether samples of `torch.func.vmap` are computed one after the other; by
        default by our own `vmap`.
    compiled
        What is made of functions that are derived from this one, before they are
        called.
    """

    def __init__(self, name: str, function: Callable[..., Any],
                 infer: Callable[..., Sequence[Aval]], numbers: Sequence[bool],
                 one_by_one: bool = False,
                 compiled: Callable[[Any], Callable[..., Any]] | None = None) -> None:
        self.name, self.function, self.compiled = name, function, compiled
        self.infer, self.numbers = infer, tuple(numbers)
        self.one_by_one = one_by_one
        self._derived: dict[Any, CallableOp] = {}
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
            torch.library.register_vmap(f"{NAMESPACE}::{full}", self._batch, lib=lib)
            self._op = getattr(torch.ops.nbfused, full).default
        finally:
            MAKING.discard(full)

    def __call__(self, *args: Any) -> list[Any]:
        """Call it with tensors and numbers."""
        if sys.modules["torch"]._C._get_tracing_state() is not None:
            refuse_tracing(self.name)
        found: list[Any] = self._op(
            [x for x, number in zip(args, self.numbers, strict=True) if not number],
            [x for x, number in zip(args, self.numbers, strict=True) if number])
        return found

    def pull(self, needs: tuple[int, ...], results: int) -> CallableOp:
        """The op that gives the cotangents of some arguments."""
        def infer(*given: Any) -> list[Aval]:
            return [_aval(given[k]) for k in needs]

        return self._derive(
            "gradient", Pull(self.function, len(self.numbers), needs), infer, results)

    def push(self, moving: tuple[int, ...]) -> CallableOp:
        """The op that gives the tangents of floating results for those of arguments."""
        def infer(*given: Any) -> list[Aval]:
            return [(shape, dtype) for shape, dtype in
                    self.infer(*given[:len(self.numbers)]) if is_floating(dtype)]

        return self._derive("tangent", Push(self.function, len(self.numbers), moving),
                            infer, len(moving))

    def samples(self, axes: tuple[int | None, ...]) -> CallableOp:
        """The op of samples, which lie along `axes` of the arguments."""
        def infer(*given: Any) -> list[Aval]:
            size = next(x.shape[axis] for x, axis in zip(given, axes, strict=True)
                        if axis is not None)
            one = [x if axis is None else x.select(axis, 0)
                   for x, axis in zip(given, axes, strict=True)]
            return [((size, *shape), dtype) for shape, dtype in self.infer(*one)]

        return self._derive("samples", Samples(self.function, axes, self.one_by_one),
                            infer, 0)

    def _derive(self, kind: str, function: Any, infer: Callable[..., Sequence[Aval]],
                more: int) -> CallableOp:
        """The op of a function derived from this one, of `more` arrays."""
        key = kind, *[getattr(function, name) for name in (
            "needs", "moving", "axes") if hasattr(function, name)], more
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = CallableOp(
                f"{self.name}_{kind}", self.compiled(function) if self.compiled else
                function, infer, (*self.numbers, *(False,) * more), self.one_by_one,
                self.compiled)
        return found

    def _values(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        rest, values = iter(arrays), iter(numbers)
        return [next(values) if number else next(rest) for number in self.numbers]

    def _places(self) -> list[int]:
        """The places of arrays among the arguments."""
        return [k for k, number in enumerate(self.numbers) if not number]

    def _compute(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        made = self.function(*self._values([x.detach() for x in arrays], numbers))
        found = [x.data if isinstance(x, Variable) else x for x in made]
        taken = {x.untyped_storage().data_ptr() for x in arrays}
        return [_apart(x, taken) for x in found]

    def _fake(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        like = arrays[0]
        return [like.new_empty(shape, dtype=torch_dtypes()[dtype])
                for shape, dtype in self.infer(*self._values(arrays, numbers))]

    def _batch(self, info: Any, in_dims: Sequence[Any], arrays: Sequence[Any],
               numbers: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """Run it for the samples of `torch.func.vmap`."""
        dims = dict(zip(self._places(), in_dims[0], strict=True))
        axes = tuple([dims.get(k) for k in range(len(self.numbers))])
        made = self.samples(axes)(*self._values(arrays, numbers))
        return made, [0] * len(made)

    def _record(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> Any:
        torch = sys.modules["torch"]
        found = tangents_of(arrays)
        recorded = torch.is_grad_enabled() and any(x.requires_grad for x in arrays)
        if found is not None and not recorded:
            return self._with_tangents(found, numbers)
        if recorded:
            if not torch._C._are_functorch_transforms_active():
                return list(_recorded()(self, numbers, *arrays))
            from torch._functorch.utils import enable_single_level_autograd_function

            with enable_single_level_autograd_function():
                return list(_recorded()(self, numbers, *arrays))
        return self._unrecorded(arrays, numbers)

    def _unrecorded(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Run it where this tape is through with it; a transform outside may record."""
        with sys.modules["torch"]._C._AutoDispatchBelowAutograd():
            made: list[Any] = self._op(arrays, numbers)
        return made

    def _with_tangents(self, found: Tangents, numbers: Sequence[Any]) -> list[Any]:
        """Run it, and push tangents of arrays forward."""
        arrays, tangents = found
        made = self._op(arrays, numbers)
        if not any(map(moves, made)):
            return list(made)
        places = self._places()
        pushed = self.push(tuple([places[k] for k in tangents]))(
            *self._values(arrays, numbers), *tangents.values())
        return with_tangents(made, pushed)


def _apart(x: Any, taken: set[int]) -> Any:
    """A contiguous tensor in memory that nobody has taken, from here on it."""
    made = x.contiguous()
    if made.untyped_storage().data_ptr() in taken:
        made = x.clone()
    taken.add(made.untyped_storage().data_ptr())
    return made


def _aval(x: Any) -> Aval:
    kinds = {theirs: ours for ours, theirs in torch_dtypes().items()}
    return tuple(x.shape), kinds[x.dtype]


@cache
def _recorded() -> Any:
    import torch

    class Recorded(torch.autograd.Function):
        """A function with the op of its gradient."""

        @staticmethod
        def forward(ctx: Any, op: CallableOp, numbers: Sequence[Any],
                    *arrays: Any) -> Any:
            with outside_records():
                made = op._unrecorded(arrays, numbers)
            ctx.op, ctx.numbers, ctx.count = op, numbers, len(made)
            ctx.moving = keep_moving(op, arrays, [*map(moves, made)])
            ctx.save_for_backward(*arrays)
            ctx.mark_non_differentiable(*[x for x in made if not moves(x)])
            return tuple(made)

        @staticmethod
        def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> Any:
            op, arrays, results = ctx.moving
            places = dict(zip(op._places(), tangents, strict=True))
            return pushed(op.push, op._values(arrays, ctx.numbers),
                          [places.get(k) for k in range(len(op.numbers))], results)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            op, wanted = ctx.op, ctx.needs_input_grad[2:]
            places = op._places()
            needs = tuple([k for k, want in zip(places, wanted, strict=True) if want])
            # Wrappers of a transform that is over, as where `torch.func.vjp` has ended.
            arrays, given = ([*map(torch._C._functorch.unwrap_if_dead, tensors)]
                             for tensors in (ctx.saved_tensors, cotangents))
            pulled = op.pull(needs, ctx.count)(
                *op._values(arrays, ctx.numbers), *map(conjugated, given))
            found = dict(zip(needs, map(conjugated, pulled), strict=True))
            return None, None, *[found.get(k) for k in places]

    return super(torch.autograd.Function, Recorded).apply
