"""The vocabulary as Python names, for use in scalar functions.

Each is callable on numbers too.  ``from nbfused.scalar.language import sigmoid``, or
``nf.sigmoid``.
"""

from __future__ import annotations

from typing import Any

from .vocabulary import OPS

exp, exp2, expm1 = OPS["exp"], OPS["exp2"], OPS["expm1"]
log, log2, log10, log1p = OPS["log"], OPS["log2"], OPS["log10"], OPS["log1p"]
sqrt, rsqrt, cbrt = OPS["sqrt"], OPS["rsqrt"], OPS["cbrt"]
sin, cos, tan = OPS["sin"], OPS["cos"], OPS["tan"]
asin, acos, atan, atan2 = OPS["asin"], OPS["acos"], OPS["atan"], OPS["atan2"]
sinh, cosh, tanh = OPS["sinh"], OPS["cosh"], OPS["tanh"]
asinh, acosh, atanh = OPS["asinh"], OPS["acosh"], OPS["atanh"]
erf, erfc, lgamma = OPS["erf"], OPS["erfc"], OPS["lgamma"]
digamma, trigamma = OPS["digamma"], OPS["trigamma"]
floor, ceil, trunc, rint = OPS["floor"], OPS["ceil"], OPS["trunc"], OPS["rint"]
sign, copysign, hypot, fmod = OPS["sign"], OPS["copysign"], OPS["hypot"], OPS["fmod"]
isnan, isinf, isfinite = OPS["isnan"], OPS["isinf"], OPS["isfinite"]
square, reciprocal, select = OPS["square"], OPS["reciprocal"], OPS["select"]
sigmoid, log_sigmoid, softplus = OPS["sigmoid"], OPS["log_sigmoid"], OPS["softplus"]
silu, relu, mish = OPS["silu"], OPS["relu"], OPS["mish"]
gelu_erf, gelu_tanh = OPS["gelu_erf"], OPS["gelu_tanh"]
logaddexp, philox = OPS["logaddexp"], OPS["philox"]
detach = OPS["detach"]


class Access:
    """An access to a raw array, as its `__doc__` says."""

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = self.__nbfused_op_name__ = name
        self.__doc__ = doc

    def __call__(self, array: Any, *args: Any) -> Any:
        """On a NumPy array, as plain Python; on a symbol, defer to it."""
        if hasattr(array, "__nbfused_op__"):
            return array.__nbfused_op__(self.__name__, (array, *args))
        if self.__name__ == "load":
            return array[args]
        array[args[:-1]] += args[-1]
        return None

    def __repr__(self) -> str:
        return f"<nbfused {self.__name__}>"


load = Access("load", "The element ``load(a, i, j)`` of an array: ``a[i, j]``.")
atomic_add = Access("atomic_add", """Add to an element, ``atomic_add(a, i, j, value)``.

No other thread comes between; it gives nothing back, and has a derivative.
""")

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "atomic_add",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "detach",
    "digamma",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fmod",
    "gelu_erf",
    "gelu_tanh",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "lgamma",
    "load",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_sigmoid",
    "logaddexp",
    "mish",
    "philox",
    "reciprocal",
    "relu",
    "rint",
    "rsqrt",
    "select",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trigamma",
    "trunc",
]
