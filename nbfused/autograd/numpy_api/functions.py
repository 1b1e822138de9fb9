"""NumPy's functions with NumPy's parameters, for Variables and traced arrays.

A function of the table has those parameters of NumPy's that it honours, by the same
names and in the same order; every other one is refused by name unless it has NumPy's
default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...arrays import check_dtype, dtype_of
from ...dispatch.outputs import can_cast
from ...errors import KernelTypeError
from ...registry.operations import OPS
from .methods import check_layout, no_operation, refuse_options

__all__ = ["FUNCTIONS", "NumpyFunction", "filling_functions", "numpy_function"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY,
               inspect.Parameter.POSITIONAL_OR_KEYWORD)


class NumpyFunction:
    """An implementation of a NumPy function, called as NumPy's own.

    Parameters
    ----------
    function
        NumPy's.
    call
        What it is here.
    """

    def __init__(self, function: Callable[..., Any], call: Callable[..., Any]) -> None:
        self.name, self.call = f"numpy.{function.__name__}", call
        self.taken: frozenset[str] = frozenset(inspect.signature(call).parameters)
        try:
            self.signature = inspect.signature(function)
        except ValueError:  # written in C, in an older NumPy
            self.signature = inspect.signature(call)
        self._positional = _shared_parameters(self.signature, inspect.signature(call))

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call it with the arguments of NumPy's function.

        Raises
        ------
        KernelTypeError
            One of them is not honoured.
        """
        if len(args) <= self._positional and self.taken.issuperset(kwargs) and not any(
                x is np._NoValue for x in args):
            return self.call(*args, **kwargs)
        return self.call(**self._by_name(args, kwargs))

    def _by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any],
                 ) -> dict[str, Any]:
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise KernelTypeError(f"{self.name}{self.signature}: {error}") from None
        for p in self.signature.parameters.values():
            if p.kind is p.VAR_KEYWORD:
                given |= given.pop(p.name, {})
        refuse_options(self.name, {n: x for n, x in given.items()
                                   if n not in self.taken})
        return {n: x for n, x in given.items() if n in self.taken
                and x is not np._NoValue}


def _shared_parameters(theirs: inspect.Signature, ours: inspect.Signature) -> int:
    """Number of leading positional parameters that two functions share."""
    count = 0
    for a, b in zip(theirs.parameters.values(), ours.parameters.values(), strict=False):
        if a.name != b.name or a.kind not in _POSITIONAL or b.kind not in _POSITIONAL:
            break
        count += 1
    return count


@lru_cache(maxsize=256)
def numpy_function(function: Callable[..., Any]) -> NumpyFunction | None:
    """Look up the implementation of a NumPy function."""
    call = FUNCTIONS.get(function)
    return None if call is None else NumpyFunction(function, call)


def _reduction(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
             keepdims: bool = False) -> Any:
        return OPS[name](a, axis=axis, out=out, keepdims=keepdims, dtype=dtype)

    return call


def _extremum(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return OPS[name](a, axis=axis, out=out, keepdims=keepdims)

    return call


def _spread(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
             ddof: float = 0, keepdims: bool = False, *,
             correction: float | None = None) -> Any:
        return getattr(a, name)(axis, dtype, out, ddof, keepdims, correction=correction)

    return call


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        raise no_operation("numpy.where: 'x' and 'y' must be given: how many places "
                           "fulfil the condition is not known before it is computed")
    return OPS["where"](condition, x, y)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *,
          min: Any = None, max: Any = None, dtype: Any = None) -> Any:
    return a.clip(a_min if min is None else min, a_max if max is None else max, out,
                  dtype=dtype)


def _joined(name: str) -> Callable[..., Any]:
    def call(arrays: Iterable[Any], axis: int | None = 0, out: Any = None, *,
             dtype: Any = None, casting: str = "same_kind") -> Any:
        found = list(arrays)
        if axis is None:
            found, axis = [x.reshape(-1) for x in found], 0
        if dtype is not None or casting != "same_kind":
            found = _converted(f"numpy.{name}", found, dtype, out, casting)
        return OPS[name](found, axis=axis, out=out)

    return call


def _converted(what: str, arrays: list[Any], dtype: Any, out: Any,
               casting: str) -> list[Any]:
    """Convert arrays to the requested dtype, or to their common one."""
    if dtype is not None and out is not None:
        raise KernelTypeError(f"{what}: 'dtype' and 'out' were both given; leave one "
                              "out, as for NumPy")
    target = check_dtype(dtype) if dtype is not None else \
        dtype_of(out) if out is not None else np.result_type(*map(dtype_of, arrays))
    for k, x in enumerate(arrays):
        if not can_cast(dtype_of(x), target, casting):
            raise KernelTypeError(
                f"{what}: arrays[{k}] is {dtype_of(x)}, which does not cast to {target}"
                f" under casting='{casting}'; use astype")
    return [x if dtype_of(x) == target else OPS["astype"](x, target) for x in arrays]


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    if not (np.ndim(a) and np.ndim(b)):
        return OPS["multiply"](a, b, out=out)
    if np.ndim(b) > 2:
        raise no_operation("numpy.dot of more than two dimensions has no kernel; "
                           "use nf.ops.contract or numpy.matmul")
    return OPS["matmul"](a, b, out=out)


def _moved(source: Any, destination: Any, ndim: int) -> list[int]:
    """The permutation of axes that moves those of `source` to `destination`."""
    places = [[axis] if isinstance(axis, int) else list(axis)
              for axis in (source, destination)]
    old, new = ([_axis(k, ndim) for k in axes] for axes in places)
    order = [k for k in range(ndim) if k not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return order


def _axis(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    axes = list(range(np.ndim(a)))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return OPS["transpose"](a, axes)


def _expanded(a: Any, axis: Any) -> Any:
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = np.ndim(a) + len(axes)
    for k in sorted(_axis(k, ndim) for k in axes):
        a = OPS["expand_dims"](a, k)
    return a


def filling_functions(make: Callable[[Any, Any, Any], Any],
                      ) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Make ``zeros_like``, ``full_like`` and so on from ``make(a, number, dtype)``."""
    def of(name: str, number: int) -> Callable[..., Any]:
        def call(a: Any, dtype: Any = None, order: str = "K") -> Any:
            check_layout(name, order)
            return make(a, number, dtype)

        return call

    def empty_like(prototype: Any, dtype: Any = None, order: str = "K") -> Any:
        check_layout("empty_like", order)
        return make(prototype, 0, dtype)  # any number will do

    def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K") -> Any:
        check_layout("full_like", order)
        return make(a, fill_value, dtype)

    return {np.zeros_like: of("zeros_like", 0), np.ones_like: of("ones_like", 1),
            np.empty_like: empty_like, np.full_like: full_like}


#: NumPy's function -> the same with NumPy's parameters.
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.sum: _reduction("sum"), np.prod: _reduction("prod"), np.mean: _reduction("mean"),
    np.max: _extremum("max"), np.min: _extremum("min"), np.amax: _extremum("max"),
    np.amin: _extremum("min"), np.all: _extremum("all"), np.any: _extremum("any"),
    np.argmax: _extremum("argmax"), np.argmin: _extremum("argmin"),
    np.var: _spread("var"), np.std: _spread("std"),
    np.where: _where,
    np.reshape: lambda a, shape: OPS["reshape"](a, shape),
    np.ravel: lambda a: OPS["reshape"](a, (-1,)),
    np.squeeze: lambda a, axis=None: a.squeeze(axis),
    np.expand_dims: _expanded,
    np.transpose: lambda a, axes=None: OPS["transpose"](a, axes),
    np.swapaxes: _swapaxes,
    np.moveaxis: lambda a, source, destination: OPS["transpose"](
        a, _moved(source, destination, np.ndim(a))),
    np.broadcast_to: lambda array, shape: OPS["broadcast_to"](array, shape),
    np.concatenate: _joined("concatenate"), np.stack: _joined("stack"),
    np.take: lambda a, indices, axis=None, out=None: a.take(indices, axis, out),
    np.clip: _clip, np.dot: _dot,
    **filling_functions(lambda a, number, dtype: OPS["full_like"](a, number, dtype)),
    np.copy: lambda a, order="K": a.copy(order),
    np.astype: lambda x, dtype, copy=True: x.astype(dtype, copy=copy),
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
}
