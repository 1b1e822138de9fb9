"""Functions of NumPy with their parameters, on what `fuse` traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...autograd.numpy_api.functions import FUNCTIONS as ON_VARIABLES
from ...autograd.numpy_api.functions import NumpyFunction, filling_functions
from ...registry.operations import OPS

__all__ = ["ATTRIBUTES", "FUNCTIONS", "GIVE_ARRAYS", "METHODS", "traced_function"]

#: Functions of NumPy that give an array without dimensions, where others give a scalar.
GIVE_ARRAYS = frozenset({np.where, np.copy, np.astype, np.zeros_like, np.ones_like,
                         np.empty_like, np.full_like})


def _filled(a: Any, number: Any, dtype: Any) -> Any:
    """An array in the shape of `a`, of one number, computed for every element."""
    return OPS["where"](OPS["equal"](a, a), number, number, dtype=dtype or dtype_of(a))


#: NumPy's function -> the same with NumPy's parameters on what is traced.
FUNCTIONS: Mapping[Callable[..., Any], Callable[..., Any]] = MappingProxyType({
    **ON_VARIABLES,
    **filling_functions(_filled),
})

#: Methods of NumPy's arrays that Variables do not have, by the functions that they are.
METHODS: Mapping[str, Callable[..., Any]] = MappingProxyType({
    name: getattr(np, name) for name in (
        "argpartition", "argsort", "compress", "cumprod", "cumsum", "diagonal", "dot",
        "nonzero", "repeat", "round", "searchsorted", "trace")})

#: Names of an array that what is traced does not have.
ATTRIBUTES = frozenset(name for name in dir(np.ndarray) if not name.startswith("_"))


@lru_cache(maxsize=256)
def traced_function(function: Callable[..., Any]) -> NumpyFunction | None:
    """The function of the table that stands for one of NumPy's."""
    call = FUNCTIONS.get(function)
    return None if call is None else NumpyFunction(function, call)
