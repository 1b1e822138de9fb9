"""The recorded call of a function that a transform differentiates, and its pullback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np

from ...arrays import array, dtype_of, is_array
from ...arrays.traced import Traced, TracedNumber, find_traced
from ...errors import KernelTypeError, ShapeError
from ...support.trees import Structure, flatten, leaves_of, map_tree
from ..custom import as_outputs, check_callable, is_tracked
from ..gradients import separate_gradients, without_repeats
from ..graph import FULL, Edge, Leaf, Ones, Pass, Target
from ..nodes import Identity, check_differentiable, is_floating, zeros
from ..numpy_api.of_cupy import looking_at_arguments
from ..recording import grad_mode, recording
from ..tape import PLAIN, ones_like
from ..variable import RECORDING, Variable
from ..walk import reachable, walk_back
from .batched import LEVEL

__all__ = ["RecordedCall", "as_variable", "copy_shared"]


class RecordedCall:
    """A recorded call of a function, with the arguments to differentiate by."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any],
                 wrt: Sequence[int], kwargs: dict[str, Any] | None = None,
                 has_aux: bool = False) -> None:
        check_callable(function)
        self.name = getattr(function, "__name__", "the function")
        self.targets: list[Any] = []
        self.trees: list[Structure] = []
        self.native = True
        given = list(args)
        for k in wrt:
            leaves, tree = flatten(args[k])
            made = [self._target(function, args, x, k, n, tree)
                    for n, x in enumerate(leaves)]
            self.native &= not any(isinstance(x, Variable) for x in leaves)
            self.targets += made
            self.trees.append(tree)
            given[k] = tree.build(made)
        self.outside = outside = recording()
        with grad_mode(True), looking_at_arguments():
            result = function(*given, **(kwargs or {}))
        for node in (t.edge[0] for t in self.targets if t.edge is not None):
            if isinstance(node, Target):
                node.running = False
        aux = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise ShapeError(f"has_aux=True: {self.name} returned a "
                                 f"{type(result).__name__}; expected (output, aux)")
            result, aux = result
        self.single = not isinstance(result, (tuple, list))
        values, self.form = flatten(result)
        if not values:
            raise KernelTypeError(f"{self.name} returned {result!r}; expected an "
                                  "array, or a tree of arrays")
        self.outputs = as_outputs([self._array(v) for v in values], self.name)
        self.edges = [t.edge for t in self.targets if t.edge is not None]
        self.open = outside and (
            any(is_tracked(x) for k in wrt for x in leaves_of(args[k]))
            or self._reaches_others())
        self.aux = map_tree(aux, lambda x: self.given_back(x)
                            if isinstance(x, Variable) else x)

    def _target(self, function: Callable[..., Any], args: Sequence[Any], x: Any,
                position: int, leaf: int, tree: Structure) -> Any:
        """A leaf of an argument, as a Variable to differentiate by.

        Integers in trees are no numbers to differentiate by: they are sizes and counts
        as a rule.
        """
        kinds = (float, complex) if tree.shape is not None else (
            bool, int, float, complex)
        if isinstance(x, TracedNumber):
            if x.python is None:  # NumPy's, as `argument_variable` has it
                x = _number(x, ())
            elif x.python in kinds:
                x = _number(x if x.python in (float, complex) else x.computed(float),
                            args)
        elif isinstance(x, kinds) and not isinstance(x, np.generic):
            x = _number(x if isinstance(x, complex) else float(x), args)

        def what() -> str:
            whole = f"argument {position} of {self.name}"
            if tree.shape is None:
                return whole
            return f"{tree.paths(_parameter(function, position))[leaf]} in {whole}"

        return argument_variable(x, what, tree.shape is not None)

    def _array(self, value: Any) -> Any:
        """Convert a number that the function returned to an array."""
        if type(value) not in (bool, int, float, complex) or not self.targets:
            return value
        like = self.targets[0]
        dtype = np.result_type(dtype_of(like), value) if type(value) is complex else \
            dtype_of(like) if type(value) is float else np.dtype(type(value))
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
        return self.form.build([self.given_back(v) for v in self.outputs])

    def by_argument(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """Gradients of the targets as trees, one for each argument."""
        rest = iter(gradients)
        return tuple([tree.build([next(rest) for _ in range(tree.count)])
                      for tree in self.trees])

    def given_back(self, v: Variable) -> Any:
        """A result in the type of the arguments, tracked if the pass records."""
        if self.open:
            return v
        if isinstance(v, Traced):
            made: Any = v.separate() if self.outside else v.detach()
            return made.untaped() if self.native else made
        return v.data if self.native else v.detach()

    def gradients(self, output: Variable) -> list[Any]:
        """Gradients of the only output by the targets, in the type of the arguments."""
        seed = RECORDING.lift(ones_like(output.data), None) if self.open else Ones(
            output.shape, dtype_of(output), output.data)
        return [self.given_back(g) for g in self.pull([seed], self.mode)]

    def pull_plainly(self, output: Variable,
                     finished: Callable[[int, Any], None]) -> None:
        """Pull back the only output; nothing that is done here is recorded.

        Parameters
        ----------
        finished
            Called with the number of a target and its gradient, an array that others
            may read, as soon as it is known; zeros where nothing depends on it.
        """
        numbers = {t.edge: k for k, t in enumerate(self.targets)}
        left = dict(numbers)

        def one(edge: Edge, gradient: Any) -> None:
            finished(left.pop(edge), gradient)

        seed = Ones(output.shape, dtype_of(output), output.data)
        found = {} if output.edge is None else walk_back(
            [(output.edge, seed)], PLAIN, targets=self.edges, finished=one)
        for edge, k in tuple(left.items()):
            t = self.targets[k]
            finished(k, found[edge] if edge in found else zeros(
                t.shape, dtype_of(t), t.data))

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
        return {edge: g.separate() if isinstance(g, Traced) else g
                for edge, g in found.items()}
    # What is computed from traced arrays is traced, so that the others share none.
    return separate_gradients({edge: without_repeats(g) for edge, g in found.items()},
                              [x for x in given if not isinstance(x, Traced)])


def as_variable(x: Any) -> Variable:
    """`x` as a Variable, which requires no grad if `x` is an array."""
    return x if isinstance(x, Variable) else Variable.at(x, None)


def _parameter(function: Callable[..., Any], position: int) -> str:
    """The name of a parameter, as far as it is known."""
    try:
        return list(signature(function).parameters)[position]
    except (TypeError, ValueError, IndexError):
        return f"args[{position}]"


def _number(x: complex | TracedNumber, args: Sequence[Any]) -> Any:
    """An array of a number, of the library of the other arguments."""
    like = next((leaf for leaf in leaves_of(tuple(args)) if isinstance(leaf, Variable)
                 or (is_array(leaf) and not isinstance(leaf, np.generic))), None)
    if like is None:
        if not isinstance(x, TracedNumber):
            return array(x)
        like = x
    data = like.plain() if isinstance(like, Traced) else \
        like.data if isinstance(like, Variable) else like
    dtype = dtype_of(x) if isinstance(x, TracedNumber) else np.dtype(type(x))
    return PLAIN.run(FULL, (zeros((), dtype, data), x), dtypes=(dtype,))[0]


def argument_variable(x: Any, what: Callable[[], str], in_tree: bool) -> Variable:
    """A new Variable for an argument, connected to it if it is tracked.

    `what` gives its name for messages.
    """
    if isinstance(x, np.generic):  # others than arrays are constants to `vmap`
        x = np.asarray(x)
    level = LEVEL.get()
    if level is not None and (isinstance(x, Variable) or is_array(x)):
        x = level.lift(x)
    if not isinstance(x, Variable) and not is_array(x):
        raise KernelTypeError(
            f"{what()} is {_described(x)}; expected an array, a Variable or a number "
            f"to differentiate by{_way(in_tree)}")
    made = x if isinstance(x, Variable) else Variable(x)
    if not is_floating(dtype_of(made)):
        raise KernelTypeError(f"{what()} has dtype {made.dtype}; expected a floating "
                              f"one to differentiate by: use astype{_way(in_tree)}")
    if made.edge is None:
        check_differentiable(dtype_of(made))
        return made.at(made.data, (Target(True), 0))
    return made.at(made.data, (Identity(made.edge), 0))


def _described(x: Any) -> str:
    if isinstance(x, TracedNumber) and x.python in (bool, int):
        return "an integer"
    return f"the integer {x!r}" if isinstance(x, int) else f"a {type(x).__name__}"


def _way(in_tree: bool) -> str:
    if not in_tree:
        return "; see argnums="
    return ("; pass what is not differentiated by in another argument, close over it, "
            "or make it a field of a dataclass with metadata={'static': True}")
