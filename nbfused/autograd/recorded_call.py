"""The recorded call of a function that a transform differentiates, and its pullback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import array, dtype_of, is_array
from ..arrays.traced import Traced, find_traced
from ..errors import KernelTypeError, ShapeError
from .custom import as_outputs, check_callable, is_tracked
from .gradients import separate_gradients, without_repeats
from .graph import FULL, Edge, Leaf, Pass, Target, reachable, walk_back
from .nodes import Identity, check_differentiable, is_floating, zeros
from .recording import grad_mode, recording
from .tape import PLAIN
from .variable import RECORDING, Variable

__all__ = ["RecordedCall", "as_variable", "copy_shared"]


class RecordedCall:
    """A recorded call of a function, with the arguments to differentiate by."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any],
                 wrt: Sequence[int], kwargs: dict[str, Any] | None = None,
                 has_aux: bool = False) -> None:
        check_callable(function)
        self.name = getattr(function, "__name__", "the function")
        self.targets = [argument_variable(args[k], k, self.name) for k in wrt]
        given = list(args)
        for k, target in zip(wrt, self.targets, strict=True):
            given[k] = target
        self.outside = outside = recording()
        with grad_mode(True):
            result = function(*given, **(kwargs or {}))
        for node in (t.edge[0] for t in self.targets if t.edge is not None):
            if isinstance(node, Target):
                node.running = False
        self.aux = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise ShapeError(f"has_aux=True: {self.name} returned a "
                                 f"{type(result).__name__}; expected (output, aux)")
            result, self.aux = result
        self.single = not isinstance(result, (tuple, list))
        values = (result,) if self.single else result
        self.outputs = as_outputs([self._array(v) for v in values], self.name)
        self.edges = [t.edge for t in self.targets if t.edge is not None]
        self.native = not any(isinstance(args[k], Variable) for k in wrt)
        self.open = outside and (
            any(is_tracked(args[k]) for k in wrt) or self._reaches_others())

    def _array(self, value: Any) -> Any:
        """Convert a number that the function returned to an array."""
        if type(value) not in (bool, int, float) or not self.targets:
            return value
        like = self.targets[0]
        dtype = dtype_of(like) if type(value) is float else np.dtype(type(value))
        space = zeros((), dtype, like.data)
        return PLAIN.run(FULL, (space, value), dtypes=(dtype,))[0]

    def _reaches_others(self) -> bool:
        roots = [v.edge for v in self.outputs if v.edge is not None]
        return any(isinstance(node, Leaf) and getattr(node, "running", True)
                   for node in reachable(roots, self.edges))

    @property
    def mode(self) -> Pass:
        """The pass to pull back with: recording if a caller may differentiate."""
        return RECORDING if self.open else PLAIN

    def result(self) -> Any:
        """The function's result, in the type of the arguments."""
        made = tuple(self.given_back(v) for v in self.outputs)
        return made[0] if self.single else made

    def given_back(self, v: Variable) -> Any:
        """A result in the type of the arguments, tracked if the pass records."""
        if self.open:
            return v
        if isinstance(v, Traced):
            return v.separate() if self.outside else v.detach()
        return v.data if self.native else v.detach()

    def pull(self, cotangents: Sequence[Any], mode: Pass,
             given: Sequence[Any] = ()) -> list[Variable]:
        """Cotangents of the targets; zeros where nothing depends on one.

        They share no memory with each other, nor with arrays that the caller has given.
        """
        seeds = [(v.edge, c) for v, c in zip(self.outputs, cotangents, strict=True)
                 if v.edge is not None and c is not None]
        found = walk_back(seeds, mode, targets=self.edges, keep=True)
        if not mode.records:
            found = copy_shared(found, given)
        return [as_variable(found[t.edge] if t.edge in found else zeros(
            t.shape, dtype_of(t), t.data)) for t in self.targets]


def copy_shared(found: dict[Edge, Any], given: Sequence[Any]) -> dict[Edge, Any]:
    """Copy gradients to memory that the caller may write to."""
    if find_traced([*found.values()]) is not None:
        return {edge: g.separate() for edge, g in found.items()}
    return separate_gradients(
        {edge: without_repeats(g) for edge, g in found.items()}, given)


def as_variable(x: Any) -> Variable:
    """`x` as a Variable, which requires no grad if `x` is an array."""
    return x if isinstance(x, Variable) else Variable.at(x, None)


def argument_variable(x: Any, position: int, name: str) -> Variable:
    """A new Variable for an argument, connected to it if it is tracked."""
    if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic):
        x = array(float(x))
    what = f"argument {position} of {name}"
    if not isinstance(x, Variable) and not is_array(x):
        raise KernelTypeError(f"{what} is a {type(x).__name__}; expected an array, a "
                              "Variable or a number to differentiate by; see argnums=")
    made = x if isinstance(x, Variable) else Variable(x)
    if not is_floating(dtype_of(made)) and dtype_of(made).kind != "c":
        raise KernelTypeError(f"{what} has dtype {made.dtype}; expected a floating one "
                              "to differentiate by: use astype, or see argnums=")
    if made.edge is None:
        check_differentiable(dtype_of(made))
        return made.at(made.data, (Target(True), 0))
    return made.at(made.data, (Identity(made.edge), 0))
