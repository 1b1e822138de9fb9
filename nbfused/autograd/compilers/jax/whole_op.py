"""Functions of arrays as programs that run on buffers, and those derived from them.

They run the function once more, as nothing but the arguments is saved.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ....arrays import dtype_of, is_array
from ....errors import KernelTypeError
from ...nodes import is_floating
from ...variable import Variable
from ..derived import Pull, Push, Samples
from .kernels import BufferProgram

__all__ = ["Trace", "WholeOp", "in_dtypes_of_jax"]

#: ``trace(function, name, leaves)``: the program of a function of numbers, and arrays
#: of these shapes and dtypes.
Trace = Callable[[Callable[..., Any], str, Sequence[Any]], BufferProgram]
_NARROW = {np.dtype(wide): np.dtype(narrow) for wide, narrow in (
    ("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"),
    ("complex128", "complex64"))}


class WholeOp:
    """A function of arrays and of numbers that are fixed.

    Parameters
    ----------
    name
        What its kernels are called.
    function
        Returns a tuple of arrays.
    numbers
        For each argument the number that it is, or None.
    trace
        Makes programs of functions.
    steps
        The same function of arrays that JAX traces, operation by operation.
    """

    def __init__(self, name: str, function: Callable[..., Any],
                 numbers: tuple[Any, ...], trace: Trace,
                 steps: Callable[..., Sequence[Any]]) -> None:
        self.name, self.function, self.numbers = name, function, numbers
        self.steps, self._trace = steps, trace
        self.places = tuple([k for k, x in enumerate(numbers) if x is None])
        self._programs: dict[Hashable, BufferProgram] = {}
        self._derived: dict[Hashable, WholeOp] = {}

    def __repr__(self) -> str:
        return self.name

    def program(self, arrays: Sequence[Any]) -> BufferProgram:
        """The program for arrays of such shapes and dtypes.

        Raises
        ------
        Exception
            The function cannot be traced as one.
        """
        avals = tuple([(tuple(x.shape), np.dtype(x.dtype)) for x in arrays])
        found = self._programs.get(avals)
        if found is None:
            rest = iter(avals)
            found = self._programs[avals] = self._trace(self.function, self.name, [
                next(rest) if x is None else x for x in self.numbers])
        return found

    def fits(self, arrays: Sequence[Any]) -> bool:
        """Whether there is a program for such arrays."""
        try:
            self.program(arrays)
        except Exception:  # of the function's, which are of any kind
            return False
        return True

    def pull(self, moving: tuple[int, ...], results: int) -> WholeOp:
        """Cotangents of some arguments, by those of the floating results."""
        def steps(*values: Any) -> Any:
            arrays, cotangents = self._split(values)
            return sys.modules["jax"].vjp(
                self._of_some(arrays, moving), *[arrays[k] for k in moving],
                )[1](tuple(cotangents))

        places = tuple([self.places[k] for k in moving])
        return self._derive("gradient", (moving, results), results, lambda: Pull(
            _Floating(self.function), len(self.numbers), places), steps)

    def push(self, moving: tuple[int, ...]) -> WholeOp:
        """Tangents of the floating results, by those of some arguments."""
        def steps(*values: Any) -> Any:
            arrays, tangents = self._split(values)
            return sys.modules["jax"].jvp(
                self._of_some(arrays, moving), [arrays[k] for k in moving],
                list(tangents))[1]

        places = tuple([self.places[k] for k in moving])
        return self._derive("tangent", moving, len(moving), lambda: Push(
            _Floating(self.function), len(self.numbers), places), steps)

    def samples(self, dims: tuple[int | None, ...]) -> WholeOp:
        """The results for samples, which lie along `dims` of the arrays."""
        axes: list[int | None] = [None] * len(self.numbers)
        for place, dim in zip(self.places, dims, strict=True):
            axes[place] = dim

        def steps(*values: Any) -> Any:
            return sys.modules["jax"].vmap(self.steps, dims)(*values)

        return self._derive("samples", dims, 0, lambda: Samples(
            self.function, tuple(axes), False), steps)

    def _derive(self, kind: str, key: Hashable, more: int, make: Callable[[], Any],
                steps: Callable[..., Any]) -> WholeOp:
        """The op of a function derived from this one, of `more` arrays."""
        found = self._derived.get((kind, key))
        if found is None:
            found = self._derived[kind, key] = WholeOp(
                f"{self.name}_{kind}", make(), (*self.numbers, *(None,) * more),
                self._trace, steps)
        return found

    def _split(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        return values[:len(self.places)], values[len(self.places):]

    def _of_some(self, arrays: Sequence[Any],
                 moving: Sequence[int]) -> Callable[..., tuple[Any, ...]]:
        """The floating results of the steps, as a function of some of the arrays."""
        def of_some(*chosen: Any) -> tuple[Any, ...]:
            given = list(arrays)
            for k, x in zip(moving, chosen, strict=True):
                given[k] = x
            return tuple([x for x in self.steps(*given) if is_floating(x.dtype)])

        return of_some


class _Floating:
    """A function's floating results alone."""

    __nbfused_constant__ = True  # to `nf.fuse`

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        """Call the function."""
        return tuple([x for x in self.function(*given) if is_floating(dtype_of(x))])


def in_dtypes_of_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose results have dtypes that JAX has with the settings of now."""
    wide = sys.modules["jax"].config.jax_enable_x64
    return _Narrow(function, {} if wide else _NARROW)


class _Narrow:
    """A function with other dtypes of results."""

    __nbfused_constant__ = True  # to `nf.fuse`

    def __init__(self, function: Callable[..., Any],
                 dtypes: dict[np.dtype, np.dtype]) -> None:
        self.function, self.dtypes = function, dtypes

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        """Call the function."""
        return tuple(map(self._narrow, self.function(*given)))

    def _narrow(self, x: Any) -> Any:
        if not is_array(x) and not isinstance(x, Variable):
            raise KernelTypeError(f"a result is a {type(x).__name__}, and no array")
        narrow = self.dtypes.get(np.dtype(dtype_of(x)))
        return x if narrow is None else x.astype(narrow)
