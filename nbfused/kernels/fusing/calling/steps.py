"""Steps of a trace that are calls of functions in Python, between the launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays import byte_range, describe, dtype_of, is_array
from ....autograd import Variable, no_grad
from ....autograd.nodes import is_floating
from ....autograd.recording import recording
from ....scalar.typing.types import Type
from ....specs.base import Shape
from ....specs.fusion.graph import Node, Value
from ..outside.watching import unwatched
from ..program import Opaque, Program, data_of

if TYPE_CHECKING:
    from ..trace import Trace

__all__ = ["is_differentiated", "record_callback", "record_opaque", "record_step"]


def record_step(trace: Trace, function: Callable[..., Any], args: Sequence[Any],
                name: str, has_rule: bool = False) -> tuple[Any, ...]:
    """A call that no spec describes: it is run now, for the shapes of its results.

    In the program it is a step of its own.

    Parameters
    ----------
    function
        Returns a tuple of arrays.
    has_rule
        Whether the caller sees to its derivative.
    """
    trace.exact = True
    if not trace.records():
        function = no_grad()(function)
    values = tuple(map(trace.operand, args))
    wanted = [v for v in values if isinstance(v, Value)]
    with no_grad(), unwatched():
        known = iter(Program.from_trace(trace, wanted, {}, whole=False).run(
            list(trace.given.values())))
        given = [next(known) if isinstance(v, Value) else v for v in values]
        results = function(*given)
    floating = any(is_floating(dtype_of(r)) for r in results)
    if not has_rule and floating and is_differentiated(args):
        trace.refuse(
            f"{name} is differentiated inside of a fused function, which nf.fuse "
            "does not see into; give it a derivative with nf.custom_vjp or "
            "nf.callback(..., vjp=...), or fuse what is differentiated, as in "
            "nf.grad(nf.fuse(f))")
    spec = Opaque(function, values, False, _viewed_operands(given, results))
    return record_opaque(trace, spec, args, values, [
        (tuple(r.shape), dtype_of(r)) for r in results])


def record_callback(trace: Trace, callback: Any,
                    args: Sequence[Any]) -> tuple[Any, ...]:
    """Record a call of a `Callback`, which is not run now."""
    trace.exact = True
    shapes, count = callback.shapes(args), len(args)

    def run(*values: Any) -> tuple[Any, ...]:
        made = callback(*values[:count])
        if not shapes:
            return (np.zeros(()),)  # something to wait for
        return (made,) if callback.single else made

    run.__name__ = callback.__name__
    effects = () if shapes else tuple(trace.effects[-1:])  # in their order
    values = (*map(trace.operand, args), *effects)
    spec = Opaque(run if trace.records() else no_grad()(run), values, False,
                  (None,) * max(1, len(shapes)))
    made = record_opaque(trace, spec, args, values, [
        *zip(shapes, callback.dtypes, strict=True)] or [((), np.dtype("f8"))])
    if shapes:
        for symbol in made:
            symbol.scalar = False
        return made
    trace.effects.append(made[0].value)
    return ()


def record_opaque(trace: Trace, spec: Opaque, args: Sequence[Any],
                  values: tuple[Any, ...],
                  results: Sequence[tuple[Shape, Type]]) -> tuple[Any, ...]:
    """Record a step with results of these shapes and dtypes.

    Parameters
    ----------
    args
        What it is called with.
    values
        What it has to run after.
    """
    node = Node(spec, values, results)
    trace.nodes.append(node)
    bases = [None if k is None else args[k] for k in spec.views]
    made = []
    for value, base in zip(node.outputs, bases, strict=True):
        symbol = trace.symbol(trace, value, base=base if isinstance(
            base, Variable) else None)
        symbol.scalar = base is None
        made.append(symbol)
    return tuple(made)


def is_differentiated(args: Sequence[Any]) -> bool:
    """Whether a transform inside of the function differentiates by an argument."""
    return recording() and any(
        isinstance(a, Variable) and a.requires_grad and is_floating(dtype_of(a))
        for a in args)


def _viewed_operands(values: Sequence[Any],
                    results: Sequence[Any]) -> tuple[int | None, ...]:
    """Find the operand that each result shares memory with, by position."""
    places = [(k, byte_range(describe(data_of(x)))) for k, x in enumerate(values)
              if isinstance(x, Variable) or (is_array(x)
                                             and not isinstance(x, np.generic))]
    found = [byte_range(describe(data_of(r))) for r in results]
    return tuple(next((k for k, place in places if place.overlaps(own)), None)
                 for own in found)
