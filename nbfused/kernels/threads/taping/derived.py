"""The derivatives of a recorded launch, which are nodes of the tape themselves.

A launch is a function f of its leaves.  `Pulled` is its gradient, and `Bent` the change
of that along directions; the derivative of `Bent` is that of ``fwd``, a kernel which
takes the directions as arguments, so that there are derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....arrays import dtype_of
from ....autograd import Function, Variable
from ....autograd.recording import no_grad
from ....dispatch.calls import COPY
from ....dispatch.execute import execute
from ....specs import Raw
from ....support.records import record
from ..arguments import array_of, arrays_of
from ..differentiable import DifferentiableKernel, Linearized, tangent_of
from ..launching import Options
from ..pairs import gradient_buffer, in_dtypes_of
from ..recording.places import Counted, needed_before
from ..second import Moving
from ..views import Dual
from .leaves import Layout, keep, kept

__all__ = ["Bent", "Call", "Change", "Pulled", "copy_of", "needed_leaves"]


@record(eq=False)
class Call:
    """One launch.

    Attributes
    ----------
    kernel, options, layout
        What was launched, how, and the structure of its arguments.
    changed
        The leaves that it writes to and that have a gradient.
    written
        All that it writes to.
    needed
        Those of them whose values before the launch the derivative reads.
    paired
        The leaves for which the derivative takes a pair.
    counted
        How places are recorded that its threads count; None where there are none.
    """

    kernel: DifferentiableKernel
    options: Options
    layout: Layout
    changed: tuple[str, ...]
    written: frozenset[str]
    needed: frozenset[str]
    paired: tuple[str, ...]
    counted: Counted | None




class Pulled(Function):
    """The gradient of a launch, which has a derivative itself.

    Takes the launch, the names of the leaves whose gradients it gives, the leaves as
    they were before, and the cotangents of what the launch changed.
    """

    @classmethod
    def forward(cls, ctx: Any, call: Call, wanted: tuple[str, ...],
                *given: Any) -> Any:
        """Launch ``bwd`` on pairs."""
        plain, cotangents, _ = _parts(call, given)
        ctx.call, ctx.wanted = call, wanted
        keep(ctx, given)
        found = _pulled(call, plain, cotangents, wanted)
        results = tuple(map(Variable, found.values()))
        return results if len(results) > 1 else results[0]

    @classmethod
    def backward(cls, ctx: Any, *directions: Any) -> Any:
        """The change of the gradient, and of the results, along `directions`."""
        call: Call = ctx.call
        names, needs = call.layout.names, ctx.needs_input_grad[2:]
        asked = tuple(n for n, need in zip(names, needs, strict=False) if need)
        moves = any(needs[len(names):])
        found = Bent.apply(call, ctx.wanted, asked, moves, *kept(ctx), *directions)
        made = iter(found if isinstance(found, tuple) else (found,))
        bent = {n: next(made) for n in asked}
        moved = {n: next(made) for n in call.changed if moves}
        return (None, None, *map(bent.get, names), *map(moved.get, call.changed))


class Bent(Function):
    """The change of a gradient and of the results; it is linear in its directions.

    Takes the launch, the leaves that have a direction, those whose gradients change is
    asked, whether that of the results is; then leaves, cotangents and directions.
    """

    @classmethod
    def forward(cls, ctx: Any, call: Call, wanted: tuple[str, ...],
                asked: tuple[str, ...], moves: bool, *given: Any) -> Any:
        """Differentiate ``bwd`` and the kernel along the directions."""
        plain, cotangents, directions = _parts(call, given)
        along = dict(zip(wanted, directions, strict=True))
        ctx.call, ctx.wanted, ctx.asked, ctx.moves = call, wanted, asked, moves
        keep(ctx, given)
        bent = _gradient_change(call, plain, cotangents, along, asked) if asked else {}
        moved = _result_change(call, plain, along) if moves else {}
        results = tuple(map(Variable, (*bent.values(), *moved.values())))
        return results if len(results) > 1 else results[0]

    @classmethod
    def backward(cls, ctx: Any, *cotangents: Any) -> Any:
        """By the symmetry of the second derivative, and by the third one."""
        change = Change(ctx.call, ctx.wanted, ctx.asked, ctx.moves)
        return (*(None,) * 4, *change.pulled(kept(ctx), cotangents, ctx.asks[4:]))


@record(frozen=True)
class Change:
    """The change of a gradient and of the results: what a `Bent` computes.

    Attributes
    ----------
    call, wanted, asked, moves
        The launch, the leaves that have a direction, those whose gradients change is
        asked, whether that of the results is.
    """

    call: Call
    wanted: tuple[str, ...]
    asked: tuple[str, ...]
    moves: bool

    def pulled(self, given: Sequence[Any], cotangents: Sequence[Any],
               asks: Sequence[bool]) -> list[Any]:
        """The gradients of leaves, cotangents and directions; None if not asked."""
        ends = len(self.call.layout.names), len(given) - len(self.wanted)
        leaves, bars, along = given[:ends[0]], given[ends[0]:ends[1]], given[ends[1]:]
        bent, moved = cotangents[:len(self.asked)], cotangents[len(self.asked):]
        found: list[Any] = [None] * len(given)
        if any(asks[ends[1]:]):
            found[ends[1]:] = self._of_directions(leaves, bars, bent, moved)
        if any(asks[:ends[1]]):
            found[:ends[1]] = self._of_values(leaves, bars, along, bent, moved, asks)
        return found

    def _of_directions(self, leaves: Sequence[Any], bars: Sequence[Any],
                       bent: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
        """The change along the cotangents: the second derivative is symmetric."""
        parts = []
        if self.asked:
            parts.append(_several(Bent.apply(self.call, self.asked, self.wanted, False,
                                             *leaves, *bars, *bent)))
        if self.moves:
            parts.append(_several(Pulled.apply(self.call, self.wanted, *leaves,
                                               *moved)))
        return [_sum(x) for x in zip(*parts, strict=True)]

    def _of_values(self, leaves: Sequence[Any], bars: Sequence[Any],
                   along: Sequence[Any], bent: Sequence[Any], moved: Sequence[Any],
                   asks: Sequence[bool]) -> list[Any]:
        """By the derivatives of ``fwd`` as a kernel.

        A gradient's change is the gradient of the tangents of its results.
        """
        names, kernel = self.call.layout.names, self.call.kernel.__name__
        higher, given = linearized(self.call, leaves, dict(zip(
            self.wanted, along, strict=True)))
        still = [Variable(gradient_buffer(array_of(kernel, x))) for x in bars]
        wanted = tuple(n for n, ask in zip(names, asks, strict=False) if ask)
        further = any(asks[len(names):len(names) + len(bars)])
        parts, bar = list[Sequence[Any]](), [None] * len(bars)
        if self.asked:
            made = _several(Bent.apply(higher, self.asked, wanted, further, *given,
                                       *still, *bars, *bent))
            parts.append(made[:len(wanted)])
            bar = list(made[-len(bars):]) if further else bar
        if self.moves and wanted:
            parts.append(_several(Pulled.apply(higher, wanted, *given, *still, *moved)))
        slopes = dict(zip(wanted, map(_sum, zip(*parts, strict=True)), strict=True))
        return [*map(slopes.get, names), *bar]


def linearized(call: Call, leaves: Sequence[Any],
               along: Mapping[str, Any]) -> tuple[Call, list[Any]]:
    """The launch of ``fwd`` of a launch, and its leaves: these, then tangents."""
    names, kernel = call.layout.names, call.kernel
    plain = arrays_of(kernel.__name__, names, leaves)
    with no_grad():
        carried = Linearized(kernel, call.layout, {*along, *call.changed}, plain,
                             call.options)
    tangents = [along[n] if n in along else Variable(gradient_buffer(plain[n]))
                for n in carried.moving]
    more = tuple(map(tangent_of, carried.moving))
    layout = Layout((*names, *more), (*call.layout.annotations, *(None,) * len(more)),
                    tuple((n, n) for n in (*names, *more)))
    options = replace(call.options, places=None)
    changed = (*call.changed, *map(tangent_of, call.changed))
    paired = (*call.paired, *more)
    arrays = {**plain, **arrays_of(kernel.__name__, more, tangents)}
    with no_grad():
        flat = carried.flatten(layout.arguments(arrays), False)
    spec, _ = carried.launched(flat, options)
    return Call(carried, options, layout, changed, call.written.union(changed),
                needed_leaves(carried, spec, [x.name for x in flat.leaves], paired),
                paired, None), [*leaves, *tangents]


def _several(found: Any) -> Sequence[Any]:
    return found if isinstance(found, tuple) else (found,)


def _sum(parts: Sequence[Any]) -> Any:
    first, *rest = parts
    return first + rest[0] if rest else first


def _parts(call: Call, given: Sequence[Any]) -> tuple[
        dict[str, Any], dict[str, Any], list[Any]]:
    """Arrays of the leaves, of the cotangents of what is changed, of the rest."""
    arrays = [array_of(call.kernel.__name__, x) for x in given]
    leaves, results = len(call.layout.names), len(call.changed)
    return dict(zip(call.layout.names, arrays, strict=False)), dict(zip(
        call.changed, arrays[leaves:], strict=False)), arrays[leaves + results:]


def _pulled(call: Call, plain: Mapping[str, Any], cotangents: Mapping[str, Any],
            wanted: Sequence[str]) -> dict[str, Any]:
    """Launch ``bwd``: what is left of the cotangents is that of what was before."""
    slopes = {n: _filled(plain[n], cotangents.get(n)) for n in call.paired}
    duals = {n: Dual(plain[n], g) for n, g in slopes.items()}
    with no_grad():
        call.kernel.bwd.start(call.layout.arguments({**plain, **duals}), call.options)
    return in_dtypes_of({n: slopes[n] for n in wanted}, plain)


def _gradient_change(call: Call, plain: Mapping[str, Any],
                     cotangents: Mapping[str, Any], along: Mapping[str, Any],
                     asked: Sequence[str]) -> dict[str, Any]:
    """The change of the gradients of the `asked` leaves, their values moving."""
    changes = {n: gradient_buffer(plain[n]) for n in asked}
    bars = {n: _filled(plain[n], g) for n, g in cotangents.items()}
    unread = call.written - call.needed
    moving = {n: Moving(plain[n], None if n in unread else along.get(n),
                        changes.get(n), bars.get(n)) for n in call.paired}
    with no_grad():
        call.kernel.second.start(
            call.layout.arguments({**plain, **moving}), call.options)
    return in_dtypes_of(changes, plain)


def _result_change(call: Call, plain: Mapping[str, Any],
                   along: Mapping[str, Any]) -> dict[str, Any]:
    """The change of what is written, of which the kernel runs on copies."""
    arrays = {**plain, **{n: copy_of(plain[n]) for n in call.written}}
    slopes = {n: _filled(plain[n], along.get(n)) for n in {*along, *call.changed}}
    with no_grad():
        call.kernel.fwd.start(call.layout.arguments(
            {**arrays, **{n: Dual(arrays[n], u) for n, u in slopes.items()}}),
            call.options)
    return in_dtypes_of({n: slopes[n] for n in call.changed}, plain)


def _filled(x: Any, values: Any | None) -> Any:
    """A buffer for derivatives of `x`, with these values or zeros."""
    made = gradient_buffer(x)
    if values is not None:
        execute(COPY, (values,), out=(made,), dtypes=(dtype_of(made),))
    return made


def needed_leaves(kernel: DifferentiableKernel, spec: Raw, names: Sequence[str],
            paired: Sequence[str]) -> frozenset[str]:
    """The arrays that the kernel reads and writes and whose old values count."""
    found = spec.written if kernel.rules else needed_before(
        spec, tuple(n in paired for n in names))
    return frozenset(n for p, n in zip(spec.function.params, names, strict=True)
                     if p in found)


def copy_of(array: Any) -> Any:
    """A copy of an array."""
    return execute(COPY, (array,), dtypes=(dtype_of(array),))[0]
