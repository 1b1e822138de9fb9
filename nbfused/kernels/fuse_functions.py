"""Functions of NumPy with their parameters, on what `fuse` traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..autograd.protocols import FUNCTIONS as ON_VARIABLES
from ..errors import KernelTypeError
from ..table import OPS

__all__ = ["FUNCTIONS"]


def _truth(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return OPS[name](a, axis=axis, out=out, keepdims=keepdims)

    return call


def _filled(value: float | None) -> Callable[..., Any]:
    """``zeros_like`` and the like: every element is computed to be one number."""
    def call(a: Any, *fill: Any, dtype: Any = None) -> Any:
        number = fill[0] if value is None else value
        return OPS["where"](OPS["equal"](a, a), number, number, dtype=dtype or a.dtype)

    return call


def _dot(a: Any, b: Any) -> Any:
    if not (np.ndim(a) and np.ndim(b)):
        return OPS["multiply"](a, b)
    if np.ndim(b) > 2:
        raise KernelTypeError("numpy.dot of more than two dimensions is not traced by "
                              "nf.fuse; use nf.ops.contract or numpy.matmul")
    return OPS["matmul"](a, b)


def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    axes = list(range(a.ndim))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return OPS["transpose"](a, axes)


def _moveaxis(a: Any, source: int, destination: int) -> Any:
    axes = [k for k in range(a.ndim) if k != source % a.ndim]
    axes.insert(destination % a.ndim, source % a.ndim)
    return OPS["transpose"](a, axes)


#: NumPy's function -> the same with NumPy's parameters on what is traced.
FUNCTIONS: Mapping[Callable[..., Any], Callable[..., Any]] = MappingProxyType({
    **ON_VARIABLES,
    np.all: _truth("all"), np.any: _truth("any"),
    np.amax: ON_VARIABLES[np.max], np.amin: ON_VARIABLES[np.min],
    np.expand_dims: lambda a, axis: OPS["expand_dims"](a, axis),
    np.zeros_like: _filled(0), np.ones_like: _filled(1), np.full_like: _filled(None),
    np.copy: lambda a: OPS["astype"](a, a.dtype),
    np.dot: _dot, np.swapaxes: _swapaxes, np.moveaxis: _moveaxis,
})
