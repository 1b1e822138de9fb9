"""The tape's nodes of an operation that launches a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....autograd import Function, Variable
from ....autograd.nodes import zeros
from ....autograd.recording import recording
from ....errors import NotDifferentiableError
from ....support.records import record
from ..arguments import array_of, arrays_of
from ..launching import Places
from ..pairs import gradient_buffer, in_dtypes_of
from ..views import Dual
from .leaves import Layout

if TYPE_CHECKING:
    from .as_op import KernelOp

__all__ = ["Call", "OpGradient", "OpLaunch"]


@record(frozen=True)
class Call:
    """One call of an operation.

    Attributes
    ----------
    layout
        Of its arguments.
    places
        What its threads counted; None where no derivative needs that.
    again
        Whether another run has given the results that cotangents are of.
    wanted
        Of a gradient: the leaves that get one.
    """

    layout: Layout
    places: Places | None = None
    again: bool = False
    wanted: tuple[str, ...] = ()


class OpLaunch(Function):
    """The tape's node of a launch; the class of an op has the op as attribute."""

    op: KernelOp

    @classmethod
    def forward(cls, ctx: Any, call: Call, *args: Any) -> Any:
        """Launch the kernel."""
        op, layout = cls.op, call.layout
        leaves = arrays_of(op.__name__, layout.names, args)
        outputs = op.allocate(layout, leaves)
        plain = {**leaves, **outputs}
        places = call.places
        if places is None and any(ctx.needs_input_grad):
            places = op.places(layout, plain)
            if places is not None and call.again:
                raise _counts(op)
        op.launch(op.kernel, layout, plain, plain, places)
        results = tuple(map(Variable, outputs.values()))
        arrays = [a for a in args if isinstance(a, Variable)]
        ctx.call = Call(layout, places)
        ctx.numbers = [None if isinstance(a, Variable) else a for a in args]
        ctx.save_for_backward(*arrays, *results)
        return results if len(results) > 1 else results[0]

    @classmethod
    def backward(cls, ctx: Any, *cotangents: Any) -> Any:
        """Launch its derivative on pairs."""
        op, saved, layout = cls.op, iter(ctx.saved_tensors), ctx.call.layout
        args = [next(saved) if x is None else x for x in ctx.numbers]
        _, *needs = ctx.needs_input_grad
        needed = {n: x for n, x, need in zip(layout.names, args, needs, strict=True)
                  if need}
        for n, x in needed.items():
            op.check_declared(layout, n, array_of(op.__name__, x))
        wanted = tuple(n for n, x in needed.items()
                       if op.differentiable(layout, n, array_of(op.__name__, x)))
        slopes = arrays_of(op.__name__, [*op.outputs], cotangents)
        if not wanted or not any(op.differentiable(layout, n, g)
                                 for n, g in slopes.items()):
            return (None, *(_zeros(x) if n in wanted else None
                            for n, x in zip(layout.names, args, strict=True)))
        found = op._gradient.apply(replace(ctx.call, wanted=wanted), *args, *saved,
                                   *cotangents)
        gradients = dict(zip(wanted, found, strict=True))
        return (None, *map(gradients.get, layout.names))


class OpGradient(Function):
    """The gradient of a launch, which has a derivative itself.

    Takes how the launch was called, the leaves, the outputs and their cotangents.
    """

    op: KernelOp

    @classmethod
    def forward(cls, ctx: Any, call: Call, *given: Any) -> Any:
        """Launch ``bwd`` on pairs."""
        op, layout, wanted = cls.op, call.layout, call.wanted
        plain, cotangents = op.split(layout, given, wanted)
        gradients = {n: gradient_buffer(plain[n]) for n in wanted}
        duals = {n: Dual(plain[n], g) for n, g in gradients.items()}
        op.launch(op.kernel.bwd, layout, {**plain, **duals, **cotangents}, plain,
                  call.places)
        ctx.call = call
        ctx.numbers = [None if isinstance(x, Variable) else x for x in given]
        ctx.save_for_backward(*(x for x in given if isinstance(x, Variable)))
        return tuple(in_dtypes_of(gradients, plain).values())

    @classmethod
    def backward(cls, ctx: Any, *directions: Any) -> Any:
        """The change of the gradients, and of the results, along `directions`."""
        op, call, layout, wanted = cls.op, ctx.call, ctx.call.layout, ctx.call.wanted
        saved = iter(ctx.saved_tensors)
        if recording():
            raise NotDifferentiableError(
                f"{op.__name__}: an operation made by .as_op has two derivatives, and "
                "a third was asked for (create_graph, or nf.grad three times); make "
                "operations of kernels for the first derivative and go on from those, "
                "or write it as @nf.elementwise, which has derivatives of any order")
        given = [next(saved) if x is None else x for x in ctx.numbers]
        _, *needs = ctx.needs_input_grad
        plain, cotangents = op.split(layout, given, wanted)
        along = {n: u.data for n, u in zip(wanted, directions, strict=True)}
        asked = [n for n, need in zip(layout.names, needs, strict=False)
                 if need and op.differentiable(layout, n, plain[n])]
        bent = op.gradient_change(layout, asked, along, plain, cotangents,
                                  call.places) if asked else {}
        moved = op.output_change(layout, along, plain, cotangents, call.places) \
            if any(needs[-len(op.outputs):]) else {}
        return (None, *map(bent.get, layout.names), *(None for _ in op.outputs),
                *map(moved.get, op.outputs))


def _zeros(x: Variable) -> Variable:
    return Variable(zeros(x.shape, x.dtype, x.data, x.device))


def _counts(op: KernelOp) -> NotDifferentiableError:
    """The error for places that another run would count otherwise."""
    name = op.__name__
    return NotDifferentiableError(
        f"{name}: the gradient depends on what atomic operations gave in the launch, "
        "which PyTorch's compiler and transforms run once more for it, and that may "
        f"give it otherwise; call {name} on tensors outside of them, or on Variables, "
        "or store places that threads count in one kernel, to read them in another")
