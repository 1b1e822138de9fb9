"""Each base operation on NumPy numbers and arrays.

NumPy's own function where it has one; results for special values are NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["NUMPY"]

NumPyFunction = Callable[..., Any]


def _by_element(function: Callable[[float], float]) -> NumPyFunction:
    """Evaluate in double precision, rounded to the dtype of ``numpy.exp``."""
    double = np.vectorize(function, otypes=[np.float64])

    def call(a: Any) -> Any:
        dtype = np.exp.resolve_dtypes((np.asarray(a).dtype, None))[-1]
        return double(a).astype(dtype)[()]
    return call


def _lgamma(a: float) -> float:
    try:
        return math.lgamma(a)
    except (ValueError, OverflowError):  # a pole, or beyond the largest number
        return math.inf


def _powi(a: Any, n: Any) -> Any:
    """NumPy's power; the type of a floating `a` is kept, as for a Python exponent."""
    if np.asarray(a).dtype.kind in "fc":
        return np.power(a, np.asarray(n).astype(np.asarray(a).dtype))
    return np.power(a, n)


_NAMED: dict[str, NumPyFunction] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "fmod": np.fmod,
    "pow": np.power, "powi": _powi, "neg": np.negative, "pos": np.positive,
    "abs": np.absolute, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "invert": np.invert, "lshift": np.left_shift, "rshift": np.right_shift,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal, "select": np.where,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "rsqrt": lambda a: 1 / np.sqrt(a), "conj": np.conjugate,
    "erf": _by_element(math.erf), "erfc": _by_element(math.erfc),
    "lgamma": _by_element(_lgamma), "id": lambda a: a, "detach": lambda a: a,
}

_SAME_NAME = (
    "logical_and logical_or logical_not isnan isinf isfinite sqrt cbrt exp exp2 "
    "expm1 log log2 log10 log1p sin cos tan sinh cosh tanh hypot copysign floor "
    "ceil trunc rint sign real imag"
)

NUMPY: dict[str, NumPyFunction] = {
    **_NAMED, **{name: getattr(np, name) for name in _SAME_NAME.split()},
}
