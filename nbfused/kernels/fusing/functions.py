"""Functions of NumPy with their parameters, on what `fuse` traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from ...arrays import check_dtype, dtype_of
from ...autograd.numpy_api.functions import NumpyFunction, numpy_function
from ...autograd.numpy_api.integers import check_integer
from ...autograd.numpy_api.layouts import in_layout
from ...registry.operations import NUMPY, OPS

__all__ = ["ATTRIBUTES", "GIVE_ARRAYS", "METHODS", "traced_function"]

#: Functions of NumPy that give an array without dimensions, where others give a scalar.
GIVE_ARRAYS = frozenset({np.where, np.copy, np.astype, np.zeros_like, np.ones_like,
                         np.empty_like, np.full_like, np.tensordot, np.select,
                         np.piecewise, np.apply_along_axis, np.roll, np.real_if_close,
                         np.i0, np.cov})


def _filled(a: Any, number: Any, dtype: Any) -> Any:
    """An array in the shape of `a`, of one number, computed for every element."""
    kind = dtype_of(a) if dtype is None else check_dtype(dtype)
    number = check_integer(number, np.empty((), kind), "full_like", "fill_value")
    return OPS["where"](OPS["equal"](a, a), number, number, dtype=kind)


def _full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K",
               subok: bool = True, shape: Any = None) -> Any:
    if shape is not None or isinstance(fill_value, (list, tuple)):
        return NUMPY["numpy.full_like"](a, fill_value, dtype, order, subok, shape)
    return in_layout("full_like", _filled(a, fill_value, dtype), order, a)


#: Methods of NumPy's arrays that are traced by the functions that they are.
METHODS: Mapping[str, Callable[..., Any]] = MappingProxyType({
    name: getattr(np, name) for name in (
        "argpartition", "argsort", "compress", "cumprod", "cumsum", "diagonal", "dot",
        "nonzero", "repeat", "round", "searchsorted", "trace")})

#: Names of an array that what is traced does not have.
ATTRIBUTES = frozenset(name for name in dir(np.ndarray) if not name.startswith("_"))


def _filling(number: int, first: str = "a") -> Callable[..., Any]:
    def call(a: Any, dtype: Any = None, order: str = "K", subok: bool = True,
             shape: Any = None) -> Any:
        return _full_like(a, number, dtype, order, subok, shape)

    def prototyped(prototype: Any, dtype: Any = None, order: str = "K",
                   subok: bool = True, shape: Any = None) -> Any:
        return _full_like(prototype, number, dtype, order, subok, shape)

    return call if first == "a" else prototyped


#: What is traced otherwise than computed: arrays that no operation makes from others.
_TRACED: dict[Callable[..., Any], Callable[..., Any]] = {
    np.full_like: _full_like, np.zeros_like: _filling(0), np.ones_like: _filling(1),
    np.empty_like: _filling(0, "prototype")}


@lru_cache(maxsize=512)
def traced_function(function: Callable[..., Any]) -> NumpyFunction | None:
    """The function of the table that stands for one of NumPy's."""
    call = _TRACED.get(function)
    return numpy_function(function) if call is None else NumpyFunction(function, call)
