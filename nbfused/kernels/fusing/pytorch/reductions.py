"""PyTorch's functions along axes, with its names `dim` and `keepdim`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from ....arrays import dtype_of
from ....registry.operations import NUMPY, OPS
from .dtypes import converted, promoted, torch_dtype
from .table import of_torch

__all__: list[str] = []


def _axis(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, list) else dim


def _spread(name: str) -> None:
    """The variance or its root: by default of a sample."""

    def reduce(x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
               correction: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        if dtype_of(x).kind not in "fV" or dim == ():
            return NotImplemented
        return OPS[name](x, axis=_axis(dim), ddof=correction, keepdims=keepdim)

    def with_mean(x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
                  *, correction: Any = None) -> Any:
        found = reduce(x, dim, unbiased, keepdim, correction=correction)
        if isinstance(dim, bool):
            dim = None
        return found if found is NotImplemented else (
            found, OPS["mean"](x, axis=_axis(dim), keepdims=keepdim))

    of_torch(name)(reduce)
    of_torch(f"{name}_mean")(with_mean)


_spread("var")
_spread("std")


@of_torch("norm", "linalg_vector_norm")
def norm(x: Any, p: Any = None, dim: Any = None, keepdim: bool = False, *,
         ord: Any = None, dtype: Any = None) -> Any:
    """The norm of vectors."""
    order = p if ord is None else ord
    order = 2 if order in (None, "fro") else order
    if not isinstance(order, (int, float)) or dtype_of(x).kind not in "fcV":
        return NotImplemented
    x = x if dtype is None else converted(x, torch_dtype(dtype))
    return NUMPY["numpy.linalg.vector_norm"](x, axis=_axis(dim), keepdims=keepdim,
                                             ord=order)


def _extreme(name: str, place: str) -> None:
    """The largest or smallest elements: of all, of two tensors, or with indices."""
    pair = namedtuple(name, ["values", "indices"])  # type: ignore[misc]

    def call(x: Any, dim: Any = None, keepdim: bool = False, *,
             other: Any = None) -> Any:
        if other is not None or hasattr(dim, "shape"):
            two = (x, dim if other is None else other)
            return promoted(OPS[f"{name}imum"], two)
        if dim is None:
            return OPS[name](x)
        if not isinstance(dim, int) or not x.ndim:
            return NotImplemented
        # Of equal elements one has the gradient: the one whose index is given.
        indices = OPS[place](x, axis=dim, keepdims=True)
        values = OPS["take_along_axis"](x, indices, axis=dim)
        return pair(*[y if keepdim else OPS["squeeze"](y, dim)
                      for y in (values, indices)])

    of_torch(name)(call)


_extreme("max", "argmax")
_extreme("min", "argmin")


def _running(name: str) -> None:
    def call(x: Any, dim: int, *, dtype: Any = None) -> Any:
        if dtype is not None:
            x = converted(x, torch_dtype(dtype))
        elif dtype_of(x).kind in "biu":
            x = converted(x, np.dtype(np.int64))
        return NUMPY[f"numpy.{name}"](x, axis=dim)

    of_torch(name)(call)


_running("cumsum")
_running("cumprod")


@of_torch("clamp", "clip")
def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """Elements held between bounds, at which the gradient is 1."""
    if min is not None:
        x = promoted(lambda a, b: OPS["where"](OPS["less"](a, b), b, a), (x, min))
    if max is not None:
        x = promoted(lambda a, b: OPS["where"](OPS["greater"](a, b), b, a), (x, max))
    return x


@of_torch()
def clamp_min(x: Any, min: Any) -> Any:
    """Elements not below a bound."""
    return clamp(x, min=min)


@of_torch()
def clamp_max(x: Any, max: Any) -> Any:
    """Elements not above a bound."""
    return clamp(x, max=max)


@of_torch()
def lerp(x: Any, end: Any, weight: Any) -> Any:
    """A weighted mean of two tensors."""
    return promoted(lambda a, b, w: OPS["add"](a, OPS["multiply"](
        w, OPS["subtract"](b, a))), (x, end, weight))


@of_torch()
def addcmul(x: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """A product of elements, added."""
    return promoted(lambda a, b, c: OPS["add"](a, OPS["multiply"](
        OPS["multiply"](b, c), value)), (x, tensor1, tensor2))


@of_torch()
def addcdiv(x: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """A quotient of elements, added."""
    return promoted(lambda a, b, c: OPS["add"](a, OPS["multiply"](
        OPS["divide"](b, c), value)), (x, tensor1, tensor2))
