"""The tape's nodes of an operation that launches a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....autograd import Function, Variable
from ....autograd.nodes import zeros
from ....errors import NotDifferentiableError
from ....support.records import record
from ..arguments import array_of, arrays_of
from ..launching import Places
from .derived import Change
from .leaves import Layout, keep, kept

if TYPE_CHECKING:
    from .as_op import KernelOp

__all__ = ["Call", "OpChange", "OpGradient", "OpLaunch"]


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
        op, wanted = cls.op, call.wanted
        plain, cotangents = op.split(call.layout, given, wanted)
        ctx.call = call
        keep(ctx, given)
        return tuple(op.pulled(call, plain, cotangents, wanted).values())

    @classmethod
    def backward(cls, ctx: Any, *directions: Any) -> Any:
        """The change of the gradients, and of the results, along `directions`."""
        op, call, (_, *needs) = cls.op, ctx.call, ctx.needs_input_grad
        given = kept(ctx)
        names = call.layout.names
        plain = arrays_of(op.__name__, (*names, *op.outputs), given)
        asked = tuple(n for n, need in zip(names, needs, strict=False)
                      if need and op.differentiable(call.layout, n, plain[n]))
        moving = tuple(n for n in op.outputs if op.differentiable(
            call.layout, n, plain[n])) if any(needs[-len(op.outputs):]) else ()
        if not asked and not moving:
            return (None, *(None for _ in given))
        made = iter(op._change.apply(call, asked, moving, *given, *directions))
        bent = {n: next(made) for n in asked}
        moved = {n: next(made) for n in moving}
        return (None, *map(bent.get, names), *(None for _ in op.outputs),
                *map(moved.get, op.outputs))


class OpChange(Function):
    """The change of a gradient and of the outputs; it is linear in its directions.

    Takes how the launch was called, the leaves whose gradients' change is asked, and
    the outputs whose is; then leaves, outputs, cotangents and directions.
    """

    op: KernelOp

    @classmethod
    def forward(cls, ctx: Any, call: Call, asked: tuple[str, ...],
                moving: tuple[str, ...], *given: Any) -> Any:
        """Differentiate ``bwd`` and the kernel along the directions."""
        op, count = cls.op, len(given) - len(call.wanted)
        plain, cotangents = op.split(call.layout, given[:count], call.wanted)
        along = arrays_of(op.__name__, call.wanted, given[count:])
        ctx.call, ctx.asked, ctx.moving = call, asked, moving
        keep(ctx, given)
        bent = op.gradient_change(call, asked, along, plain, cotangents) \
            if asked else {}
        moved = op.output_change(call, along, plain, moving) if moving else {}
        return (*bent.values(), *moved.values())

    @classmethod
    def backward(cls, ctx: Any, *cotangents: Any) -> Any:
        """The derivative of a recorded launch, which the call of an operation is."""
        op, call, given = cls.op, ctx.call, kept(ctx)
        names = call.layout.names
        ends = len(names), len(names) + len(op.outputs)
        bars = dict(zip(op.outputs, given[ends[1]:], strict=False))
        plain, slopes = op.split(call.layout, given[:ends[1] + len(bars)], call.wanted)
        launch = op.as_launch(call, plain, tuple(slopes))
        change = Change(launch, call.wanted, ctx.asked, bool(ctx.moving))
        asks = ctx.asks[3:]
        asked = dict(zip(op.outputs, asks[ends[1]:], strict=False))
        found = change.pulled(
            [*given[:ends[0]], *(plain[n] for n in op.outputs),
             *(bars[n] for n in slopes), *given[ends[1] + len(bars):]],
            cotangents, [*asks[:ends[0]], *(False for _ in op.outputs), *(
                asked[n] for n in slopes), *asks[ends[1] + len(bars):]])
        made = dict(zip(slopes, found[ends[1]:], strict=False))
        return (*(None,) * 3, *found[:ends[0]], *(None for _ in op.outputs),
                *map(made.get, op.outputs), *found[ends[1] + len(slopes):])


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
