"""NumPy's protocols for `Variable`: ``np.exp(v)`` and ``np.sum(v)`` are our ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ..errors import KernelTypeError
from ..scalar.ir import Block, Function, Let
from ..specs import Map
from ..table import OPS
from .methods import takes

__all__ = ["FUNCTIONS", "NumpyProtocols"]

#: `ufunc.reduce` by another name.
_REDUCTIONS: dict[np.ufunc, str] = {
    np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min",
}


def _ufunc(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """The op that stands for one of NumPy's own ufuncs."""
    name = ufunc.__name__
    return OPS.get(name) if getattr(np, name, None) is ufunc else None


def _reduction(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
             keepdims: bool = False) -> Any:
        return getattr(a, name)(axis=axis, out=out, keepdims=keepdims,
                                **({} if dtype is None else {"dtype": dtype}))

    return call


def _extremum(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return getattr(a, name)(axis=axis, out=out, keepdims=keepdims)

    return call


def _spread(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, **kwargs: Any) -> Any:
        return getattr(a, name)(axis=axis, **kwargs)

    return call


def _clip(a: Any, a_min: Any = None, a_max: Any = None, **kwargs: Any) -> Any:
    low, high = kwargs.pop("min", a_min), kwargs.pop("max", a_max)
    return OPS["clip"](a, low, high, **kwargs)


def _joined(name: str) -> Callable[..., Any]:
    def call(arrays: Sequence[Any], axis: int = 0) -> Any:
        return OPS[name](arrays, axis=axis)

    return call


#: NumPy's function -> the same with NumPy's parameters on Variables.
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.sum: _reduction("sum"), np.prod: _reduction("prod"), np.mean: _reduction("mean"),
    np.max: _extremum("max"), np.min: _extremum("min"),
    np.argmax: _extremum("argmax"), np.argmin: _extremum("argmin"),
    np.var: _spread("var"), np.std: _spread("std"),
    np.where: lambda condition, x, y: OPS["where"](condition, x, y),
    np.reshape: lambda a, shape: OPS["reshape"](a, shape),
    np.ravel: lambda a: a.ravel(),
    np.squeeze: lambda a, axis=None: a.squeeze(axis),
    np.transpose: lambda a, axes=None: OPS["transpose"](a, axes),
    np.broadcast_to: lambda array, shape: OPS["broadcast_to"](array, shape),
    np.concatenate: _joined("concatenate"), np.stack: _joined("stack"),
    np.take: lambda a, indices, axis=None: a.take(indices, axis),
    np.clip: _clip,
    np.zeros_like: lambda a, dtype=None: OPS["zeros_like"](a, dtype),
    np.ones_like: lambda a, dtype=None: OPS["ones_like"](a, dtype),
    np.full_like: lambda a, fill_value, dtype=None: OPS["full_like"](
        a, fill_value, dtype),
    np.astype: lambda x, dtype: x.astype(dtype),
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim, np.size: lambda a: a.size,
}


class NumpyProtocols:
    """Functions of NumPy and of the scalar vocabulary, on Variables."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        """Never convert silently: the gradient, or the device, would be lost."""
        raise TypeError("a Variable does not become a NumPy array by itself, as its "
                        "gradient would be lost; use .to_numpy()")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any,
                        **kwargs: Any) -> Any:
        """NumPy's ufuncs, and the ``reduce`` of add, multiply, maximum, minimum."""
        if not all(map(takes, inputs)):
            return NotImplemented
        if kwargs.get("out") is not None:
            raise KernelTypeError(
                f"out: numpy.{ufunc.__name__} does not store results of Variables; "
                "take the result, or use the nbfused op with out= inside no_grad()")
        if method == "__call__":
            op = _ufunc(ufunc)
        else:
            op = _numpy_reduce(ufunc) if method == "reduce" else None
        if op is None or set(kwargs) - {"dtype", "axis", "keepdims"}:
            return NotImplemented  # NumPy raises the TypeError
        return op(*inputs, **kwargs)

    def __array_function__(self, function: Callable[..., Any], types: Any,
                           args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The functions that there are ops for; `TypeError` for all others."""
        call = FUNCTIONS.get(function)
        return NotImplemented if call is None else call(*args, **kwargs)

    def __nbfused_op__(self, name: str, args: tuple[Any, ...]) -> Any:
        """A function of the scalar vocabulary over all elements."""
        from .tape import apply  # which makes Variables

        params = tuple(f"x{k}" for k in range(len(args)))
        body = Block((Let(("y",), name, params),), ("y",))
        kinds = tuple("scalar" if isinstance(a, (bool, int, float, complex, np.generic))
                      else "element" for a in args)
        return apply(Map(Function(name, params, body), kinds), args, names=params)[0]


def _numpy_reduce(ufunc: np.ufunc) -> Callable[..., Any] | None:
    name = _REDUCTIONS.get(ufunc)
    if name is None:
        return None
    return lambda a, axis=0, **kwargs: getattr(a, name)(axis=axis, **kwargs)
