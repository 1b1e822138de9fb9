"""Functions with a derivative of their own, while `fuse` traces.

`nf.custom_vjp` and `nf.Function` are run on symbols, and so are their rules, so that
both join what is traced.  Where one asks for values, or reads an array from outside, it
is a call, and so is its derivative: that runs the function once more, recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays import dtype_of, is_array
from ....arrays.traced import Traced
from ....autograd import Variable
from ....autograd.custom import is_tracked
from ....autograd.graph import Node, Pass
from ....autograd.nodes import is_floating
from ....autograd.recording import grad_mode
from ....autograd.transforms import vjp
from ....errors import NbFusedError
from ....support.trees import leaves_of
from .steps import is_differentiated, record_step

if TYPE_CHECKING:
    from ..trace import Trace

__all__ = ["Gradient", "differentiated_call", "record_rule"]


def record_rule(trace: Trace, function: Callable[..., Any], args: Sequence[Any],
                inline: Callable[[Sequence[Any]], Any]) -> Any:
    """Record a call of a function with a rule, on symbols if that is possible."""
    if trace.tracked and is_differentiated(args):
        trace.refuse(f"{_name(function)} is differentiated inside of a fused function "
                     "whose arguments require grad, too; fuse what is differentiated, "
                     "as in nf.grad(nf.fuse(f))")
    if trace.tracked:  # the tape outside is to see the rule
        return _called(trace, function, args)
    before = trace.state()
    given = [trace.symbol(trace, trace.operand(x)) if _is_outside(x) else x
             for x in args]
    watched, constants = dict(trace.watch.found), len(trace.constants)
    try:
        made = inline(given)
        if len(trace.constants) == constants and trace.watch.found == watched \
                and all(isinstance(x, trace.symbol) for x in leaves_of(made)):
            return made
    except (NbFusedError, TypeError, AttributeError):
        pass  # as it is made for arrays
    trace.restore(before)
    trace.watch.found = watched
    return _called(trace, function, args)


def _is_outside(x: Any) -> bool:
    """Whether an argument is an array that is not traced."""
    return not isinstance(x, (Traced, np.generic)) and is_array(
        x.data if isinstance(x, Variable) else x)


def _called(trace: Trace, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Record it as a call, with the call of its derivative in the graph."""
    name = _name(function)
    single: list[bool] = []

    wanted = [is_tracked(x) for x in args]
    run = _by_rule(function, wanted) if is_differentiated(args) else function

    def flat(*values: Any) -> tuple[Any, ...]:
        result = run(*values)
        single.append(not isinstance(result, (tuple, list)))
        return (result,) if single[-1] else tuple(result)

    flat.__name__ = name
    made = record_step(trace, flat, args, name, has_rule=True)
    if is_differentiated(args):
        made = _attached(_CallNode(trace, function, name, args, made), made)
    return made[0] if single[-1] else made


def differentiated_call(trace: Trace, function: Callable[..., Any], name: str,
                        args: Sequence[Any], gradient: type[Gradient],
                        ) -> tuple[Any, ...]:
    """Record a call with a derivative that is a call of a `gradient` of the function.

    Parameters
    ----------
    gradient
        Made as `Gradient` is.
    """
    made = record_step(trace, function, args, name, has_rule=True)
    return _attached(_CallNode(trace, function, name, args, made, gradient), made)


def _attached(node: _CallNode, made: Sequence[Any]) -> tuple[Any, ...]:
    """Results of a call with their places in the graph."""
    return tuple([x.given_as(x.at(x, (node, k))) if is_floating(dtype_of(x)) else x
                  for k, x in enumerate(made)])


def _name(function: Callable[..., Any]) -> str:
    name = str(getattr(function, "__qualname__", type(function).__name__))
    return name.replace("Function.apply", getattr(getattr(
        function, "__self__", None), "__name__", "Function.apply"))


class _CallNode(Node):
    """The graph node of a call of a function whose rules are not traced."""

    __slots__ = ("args", "function", "gradient", "results", "trace")

    def __init__(self, trace: Trace, function: Callable[..., Any], name: str,
                 args: Sequence[Any], results: Sequence[Any],
                 gradient: type[Gradient] | None = None) -> None:
        super().__init__(name, (x.edge if is_tracked(x) else None for x in args),
                         len(results))
        self.trace, self.function = trace, function
        self.gradient = gradient or Gradient
        self.args = [x.plain() if isinstance(x, Traced) else x for x in args]
        self.results = [x.plain() for x in results]

    def pull(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
             mode: Pass) -> Sequence[Any | None]:
        """Record a call of the derivative."""
        if mode.records:
            self.trace.refuse(
                f"{self.name}: a second derivative inside of a fused function, which "
                "nf.fuse does not see into; write its rules with operations, or fuse "
                "what is differentiated")
        floating = [k for k, x in enumerate(self.results) if is_floating(dtype_of(x))]
        given = [x.zeros(x.extents, dtype_of(x)) if (c := cotangents[k]) is None else c
                 for k, x in enumerate(self.results) if k in floating]
        gradient = self.gradient(self.function, len(self.args), wanted, floating)
        gradient.__name__ = f"{self.name}'s derivative"
        found = iter(record_step(
            self.trace, gradient, [*self.args, *given], self.name, True))
        return [next(found) if want else None for want in wanted]


def _by_rule(function: Callable[..., Any],
             wanted: Sequence[bool]) -> Callable[..., Any]:
    """The function by its forward rule, as where a gradient is wanted."""
    at = [k for k, want in enumerate(wanted) if want]

    def run(*values: Any) -> Any:
        args = [*values]

        def moving(*some: Any) -> Any:
            for k, x in zip(at, some, strict=True):
                args[k] = x
            return function(*args)

        with grad_mode(True):
            return vjp(moving, *[values[k] for k in at])[0]

    return run


class Gradient:
    """The gradients of a function by the arguments that are wanted.

    It takes the arguments, then a cotangent for each floating result.
    """

    def __init__(self, function: Callable[..., Any], count: int,
                 wanted: Sequence[bool], floating: Sequence[int]) -> None:
        self.__name__ = "derivative"
        self.function, self.count = function, count
        self.wanted = [k for k, want in enumerate(wanted) if want]
        self.floating = floating

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """Run the function on our tape, and pull the cotangents back."""
        args, cotangents = [*values[:self.count]], values[self.count:]

        def moving(*some: Any) -> tuple[Any, ...]:
            for k, x in zip(self.wanted, some, strict=True):
                args[k] = x
            result = self.function(*args)
            listed = result if isinstance(result, (tuple, list)) else (result,)
            return tuple(listed[k] for k in self.floating)

        with grad_mode(True):
            pullback = vjp(moving, *[args[k] for k in self.wanted])[1]
        with grad_mode(False):
            return tuple(pullback(*cotangents))
