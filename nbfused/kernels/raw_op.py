"""`ThreadKernel.as_op`: an operation on Variables that launches a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import BFLOAT16, Array, check_dtype, describe, dtype_of, is_array
from ..autograd import Function, Variable
from ..autograd.custom import zeros_like
from ..errors import (
    KernelTypeError,
    NotDifferentiableError,
    ShapeError,
    UnsupportedError,
)
from .raw_second import Bent, Second
from .views import Dual, ViewType, is_floating

if TYPE_CHECKING:
    from .rawkernel import ThreadKernel

__all__ = ["KernelOp"]

_FLOAT32 = np.dtype(np.float32)


class KernelOp:
    """An operation that launches a kernel; made by `ThreadKernel.as_op`.

    Attributes
    ----------
    names : tuple of str
        The parameters of the kernel that are its arguments, in order.
    """

    def __init__(self, kernel: ThreadKernel, outputs: Mapping[str, Any], grid: Any,
                 block: Any) -> None:
        if not isinstance(outputs, Mapping) or not outputs or \
                not set(outputs) <= set(kernel.signature.parameters):
            raise KernelTypeError(
                f"{kernel.__name__}.as_op: outputs {outputs!r} must name parameters of "
                f"{kernel.__name__}{kernel.signature}, as in {{'y': 'x'}}")
        self.kernel, self.outputs = kernel, dict(outputs)
        self.grid, self.block = grid, block
        self.__name__ = kernel.__name__
        self.names = tuple(p for p in kernel.signature.parameters if p not in outputs)
        self.second = Second(kernel)
        self._function: Any = type(f"{kernel.__name__}_op", (_Launch,), {"op": self})
        self._gradient: Any = type(f"{kernel.__name__}.bwd", (_Pull,), {"op": self})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Allocate the outputs, launch, record what a gradient needs.

        Parameters
        ----------
        *args, **kwargs
            Arrays, Variables and numbers for `names`.

        Returns
        -------
        array, Variable or tuple
            The outputs, in the order of `as_op`; zero where no thread stores.
        """
        given = dict(zip(self.names, args, strict=False)) | kwargs
        filled = {p: given.get(p, self.kernel.signature.parameters[p].default)
                  for p in self.names}
        empty = [p for p, v in filled.items() if v is self.kernel.signature.empty]
        twice = len(given) < len(args) + len(kwargs)
        if twice or not set(given) <= set(filled) or empty:
            raise KernelTypeError(f"{self.__name__} takes {', '.join(self.names)}; got "
                                  f"{len(args)} arguments and {sorted(kwargs)}")
        for p, value in filled.items():
            if is_array(value):
                self._check_library(p, describe(value, p), value)
        return self._function.apply(*filled.values())

    def _check_library(self, name: str, array: Array, value: Any) -> None:
        """Whether outputs can be made beside an argument, and nothing is lost."""
        library = array.library
        if library.tracks(value):
            raise NotDifferentiableError(
                f"{self.__name__}: '{name}' is an array of {library.name} that "
                "requires a gradient, which only Variables record here; pass "
                f"nbfused.Variable({name}.detach(), requires_grad=True)")
        if not library.writable:
            raise UnsupportedError(
                f"{self.__name__}: '{name}' is an array of {library.name}, whose "
                "arrays are immutable, so that no kernel can store results into one; "
                f"pass nbfused.to_numpy({name})")

    def allocate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A zero array for each output."""
        like = next((v for v in arguments.values() if is_array(v)), None)
        if like is None:
            raise KernelTypeError(f"{self.__name__}: no argument is an array")
        device = describe(like).device
        made = {}
        for name, rule in self.outputs.items():
            shape, dtype = self._aval(name, rule, arguments)
            made[name] = zeros_like((shape, dtype, device), like)
        return made

    def _aval(self, name: str, rule: Any,
              arguments: Mapping[str, Any]) -> tuple[tuple[int, ...], np.dtype]:
        found = self._called(f"the rule of output '{name}'", rule, arguments)
        if isinstance(found, str) and found in arguments:
            like = arguments[found]
            return tuple(like.shape), dtype_of(like)
        if isinstance(found, tuple) and len(found) == 2 and isinstance(
                found[0], (tuple, list)):
            return self._shape(name, found[0]), check_dtype(found[1], name)
        raise KernelTypeError(
            f"{self.__name__}.as_op: the rule of output '{name}' gave {found!r}; "
            "expected (shape, dtype), or the name of an argument that it is like")

    def _shape(self, name: str, given: Sequence[Any]) -> tuple[int, ...]:
        try:
            shape = tuple(map(index, given))
        except TypeError:
            shape = (-1,)
        if any(n < 0 for n in shape):
            raise ShapeError(f"{self.__name__}.as_op: the shape of output '{name}' is "
                             f"{given!r}; expected integers of 0 or more")
        return shape

    def _called(self, what: str, rule: Any, arguments: Mapping[str, Any]) -> Any:
        """A rule, or what it gives for `arguments` if it is a function."""
        if not callable(rule):
            return rule
        try:
            signature(rule).bind(**arguments)
        except (TypeError, ValueError) as error:
            raise KernelTypeError(
                f"{self.__name__}.as_op: {what} is a function that is called with "
                f"{', '.join(arguments)} by name: {error}") from None
        return rule(**arguments)

    def launch(self, kernel: Any, arguments: Mapping[str, Any],
               plain: Mapping[str, Any]) -> None:
        """Launch `kernel` on arguments or pairs; the rules see the `plain` ones."""
        grid = self._called("grid", self.grid, plain)
        block = self._called("block", self.block, plain)
        kernel.bind(**arguments).launch(grid=grid, block=block)

    def parted(self, given: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Dual]]:
        """Arguments and outputs, and copies of the cotangents, which are consumed."""
        names = (*self.names, *self.outputs)
        plain = dict(zip(names, map(_plain, given), strict=False))
        cotangents = dict(zip(self.outputs, given[len(names):], strict=True))
        return plain, {n: Dual(plain[n], (g * 1).data) for n, g in cotangents.items()
                       if self.differentiable(n, plain[n])}

    def bend(self, names: Sequence[str], along: Mapping[str, Any],
             plain: Mapping[str, Any],
             cotangents: Mapping[str, Dual]) -> dict[str, Any]:
        """How the gradients of some arguments change `along` a direction."""
        changes = {n: _buffer(plain[n]) for n in names}
        bent = {n: Bent(plain[n], along.get(n), changes.get(n)) for n in self.names}
        self.launch(self.second, {**plain, **bent, **cotangents}, plain)
        return _like(changes, plain)

    def move(self, along: Mapping[str, Any], plain: Mapping[str, Any],
             names: Iterable[str]) -> dict[str, Any]:
        """How some outputs change `along` a direction."""
        slopes = {n: _buffer(plain[n]) for n in names}
        duals = {n: Dual(plain[n], u) for n, u in along.items()}
        results = self.allocate({n: plain[n] for n in self.names})
        results |= {n: Dual(results[n], u) for n, u in slopes.items()}
        self.launch(self.kernel.fwd, {**plain, **duals, **results}, plain)
        return _like(slopes, plain)

    def check_declared(self, name: str, array: Any) -> None:
        """`NotDifferentiableError` if nothing says whether there is a derivative."""
        view = self.kernel.annotations.get(name)
        if not self.kernel.differentiable and not isinstance(view, ViewType) and \
                is_array(array) and is_floating(dtype_of(array)):
            raise NotDifferentiableError(
                f"{self.__name__}: '{name}' requires a gradient and the kernel is not "
                "declared differentiable; write @nf.rawkernel(differentiable=True), or "
                "annotate it with nf.DiffView, or nf.View if it has none")

    def differentiable(self, name: str, array: Any) -> bool:
        """Whether the kernel's derivative takes a pair for a parameter."""
        view = self.kernel.annotations.get(name)
        allowed = view.differentiable if isinstance(view, ViewType) \
            else self.kernel.differentiable
        return allowed and is_array(array) and is_floating(dtype_of(array))


class _Launch(Function):
    """The node on the tape; the class of an op has the op as attribute."""

    op: KernelOp

    @classmethod
    def forward(cls, ctx: Any, *args: Any) -> Any:
        """Launch the kernel."""
        op = cls.op
        arguments = dict(zip(op.names, map(_plain, args), strict=True))
        outputs = op.allocate(arguments)
        op.launch(op.kernel, {**arguments, **outputs}, {**arguments, **outputs})
        results = tuple(map(Variable, outputs.values()))
        arrays = [a for a in args if isinstance(a, Variable)]
        ctx.numbers = [None if isinstance(a, Variable) else a for a in args]
        ctx.save_for_backward(*arrays, *results)
        return results if len(results) > 1 else results[0]

    @classmethod
    def backward(cls, ctx: Any, *cotangents: Any) -> Any:
        """Launch its derivative on pairs."""
        op, saved = cls.op, iter(ctx.saved_tensors)
        args = [next(saved) if x is None else x for x in ctx.numbers]
        needed = {n: x for n, x, need in
                  zip(op.names, args, ctx.needs_input_grad, strict=True) if need}
        for n, x in needed.items():
            op.check_declared(n, _plain(x))
        wanted = tuple(n for n, x in needed.items() if op.differentiable(n, _plain(x)))
        if not wanted or not any(op.differentiable(n, g.data) for n, g in
                                 zip(op.outputs, cotangents, strict=True)):
            return tuple(_zeros(x) if n in wanted else None
                         for n, x in zip(op.names, args, strict=True))
        found = op._gradient.apply(wanted, *args, *saved, *cotangents)
        gradients = dict(zip(wanted, found, strict=True))
        return tuple(map(gradients.get, op.names))


class _Pull(Function):
    """The gradient of a launch, which has a derivative itself.

    Takes the names of the arguments whose gradients it gives, the arguments, the
    outputs and their cotangents.
    """

    op: KernelOp

    @classmethod
    def forward(cls, ctx: Any, wanted: tuple[str, ...], *given: Any) -> Any:
        """Launch ``bwd`` on pairs."""
        op = cls.op
        plain, cotangents = op.parted(given)
        gradients = {n: _buffer(plain[n]) for n in wanted}
        duals = {n: Dual(plain[n], g) for n, g in gradients.items()}
        op.launch(op.kernel.bwd, {**plain, **duals, **cotangents}, plain)
        ctx.wanted = wanted
        ctx.numbers = [None if isinstance(x, Variable) else x for x in given]
        ctx.save_for_backward(*(x for x in given if isinstance(x, Variable)))
        return tuple(_like(gradients, plain).values())

    @classmethod
    def backward(cls, ctx: Any, *directions: Any) -> Any:
        """The change of the gradients, and of the results, along `directions`."""
        op, saved = cls.op, iter(ctx.saved_tensors)
        given = [next(saved) if x is None else x for x in ctx.numbers]
        _, *needs = ctx.needs_input_grad
        plain, cotangents = op.parted(given)
        along = {n: u.data for n, u in zip(ctx.wanted, directions, strict=True)}
        asked = [n for n, need in zip(op.names, needs, strict=False)
                 if need and op.differentiable(n, plain[n])]
        bent = op.bend(asked, along, plain, cotangents) if asked else {}
        moved = op.move(along, plain, cotangents) if any(needs[-len(op.outputs):]) \
            else {}
        return (None, *map(bent.get, op.names), *(None for _ in op.outputs),
                *map(moved.get, op.outputs))


def _plain(x: Any) -> Any:
    return x.data if isinstance(x, Variable) else x


def _buffer(x: Any) -> Any:
    """Zeros to add to; 16-bit sums would round at every addition."""
    array = describe(x)
    narrow = array.dtype == np.float16 or array.dtype == BFLOAT16
    return zeros_like((array.shape, _FLOAT32 if narrow else array.dtype, array.device),
                      x)


def _zeros(x: Variable) -> Variable:
    return Variable(zeros_like((x.shape, x.dtype, x.device), x.data))


def _like(found: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Gradients in the dtypes of what they are of."""
    return {n: _as(g, dtype_of(plain[n])) for n, g in found.items()}


def _as(gradient: Any, dtype: Any) -> Any:
    return gradient if dtype_of(gradient) == dtype \
        else Variable(gradient).astype(dtype).data
