"""Functions that are made of a function of arrays: derivatives, and loops over samples.

They are made by our own transforms, inside of an op of PyTorch or a program that JAX
runs, and compute the function again: nothing but its arguments is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import dtype_of, is_array
from ...specs import Map, Reduce, Row, View
from ...support.records import record
from ..nodes import is_floating
from ..transforms.gradients import jvp, vjp
from ..transforms.vmap import vmap
from ..variable import Variable

__all__ = ["CHEAP", "Pull", "Push", "Samples"]

#: Specs that are cheap to compute again for a gradient.
CHEAP = (Map, Reduce, Row, View)


def _of_some(function: Callable[..., Any], given: Sequence[Any],
             places: Sequence[int]) -> Callable[..., tuple[Any, ...]]:
    """`function` of the arguments at `places`; the others are as given."""
    def of_some(*chosen: Any) -> tuple[Any, ...]:
        values = list(given)
        for k, x in zip(places, chosen, strict=True):
            values[k] = x
        return tuple(function(*values))

    return of_some


@record(frozen=True)
class Pull:
    """The cotangents of some arguments of a function: itself a function of arrays."""

    __nbfused_constant__ = True  # to `nf.fuse`

    function: Callable[..., Any]
    inputs: int
    needs: tuple[int, ...]

    def __call__(self, *given: Any) -> Sequence[Any]:
        """Pull back; the arguments come first, then a cotangent for each result."""
        inputs, cotangents = given[:self.inputs], given[self.inputs:]
        return vjp(_of_some(self.function, inputs, self.needs),
                   *[inputs[k] for k in self.needs])[1](*cotangents)


@record(frozen=True)
class Push:
    """The tangents of a function's floating results: itself a function of arrays."""

    __nbfused_constant__ = True  # to `nf.fuse`

    function: Callable[..., Any]
    inputs: int
    moving: tuple[int, ...]

    def __call__(self, *given: Any) -> Sequence[Any]:
        """Push forward; the arguments come first, then the tangents of some."""
        inputs, tangents = given[:self.inputs], given[self.inputs:]
        made, pushed = jvp(_of_some(self.function, inputs, self.moving),
                           [inputs[k] for k in self.moving], tangents)
        return [t for x, t in zip(made, pushed, strict=True)
                if is_floating(dtype_of(x))]


@record(frozen=True)
class Samples:
    """A function of samples, which lie along `axes` of arguments.

    Where the function has no rule for samples, such as a launch of a kernel, it is
    called for each of them.
    """

    __nbfused_constant__ = True  # to `nf.fuse`

    function: Callable[..., Any]
    axes: tuple[int | None, ...]
    one_by_one: bool

    def __call__(self, *given: Any) -> Sequence[Any]:
        """Compute all samples; they lie along the first axis of each result."""
        if not self.one_by_one:
            made: Sequence[Any] = vmap(
                lambda *args: tuple(self.function(*args)), self.axes)(*given)
            return made
        arrays = [Variable(x) if is_array(x) else x for x in given]
        size = next(x.shape[axis] for x, axis in zip(arrays, self.axes, strict=True)
                    if axis is not None)
        results = [self.function(*[
            x if axis is None else x[(slice(None),) * axis + (k,)]
            for x, axis in zip(arrays, self.axes, strict=True)]) for k in range(size)]
        return [np.stack([_variable(x) for x in column])
                for column in zip(*results, strict=True)]


def _variable(x: Any) -> Any:
    return Variable(x) if is_array(x) else x
