"""Functions of NumPy with their parameters, on what `fuse` traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ..arrays import dtype_of
from ..autograd.numpy_functions import FUNCTIONS as ON_VARIABLES
from ..autograd.numpy_functions import NumpyFunction, filled
from ..table import OPS

__all__ = ["FUNCTIONS", "traced_function"]


def _filled(a: Any, number: Any, dtype: Any) -> Any:
    """Every element is computed to be one number."""
    return OPS["where"](OPS["equal"](a, a), number, number, dtype=dtype or dtype_of(a))


#: NumPy's function -> the same with NumPy's parameters on what is traced.
FUNCTIONS: Mapping[Callable[..., Any], Callable[..., Any]] = MappingProxyType({
    **ON_VARIABLES,
    **filled(_filled),
})


@lru_cache(maxsize=256)
def traced_function(function: Callable[..., Any]) -> NumpyFunction | None:
    """The function of the table that stands for one of NumPy's."""
    call = FUNCTIONS.get(function)
    return None if call is None else NumpyFunction(function, call)
