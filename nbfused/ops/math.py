"""Elementary functions, as in NumPy and SciPy.

Integers compute in floating point, of the width that NumPy gives them; 16-bit floats
compute in float32.  NaN gives NaN unless a function says otherwise.
"""

from __future__ import annotations

import math

import numpy as np

from ..op import Case, elementwise, op
from ..scalar.language import names as nb

__all__ = [
    "arccos", "arcsin", "arcsinh", "arctan", "arctan2", "cbrt", "ceil", "cos", "cosh",
    "erf", "erfc", "exp", "exp2", "expm1", "floor", "hypot", "log", "log1p", "log2",
    "log10", "rint", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
]

POSITIVE = Case(domains=((0.2, 4.0),), dtypes="iuf")
ANGLE = Case(domains=((-6.0, 6.0),))
UNIT = Case(domains=((-0.9, 0.9),))
STEPS = Case(smooth=False)


@op(np.exp, Case(dtypes="if"))
@elementwise
def exp(x):
    """The exponential; inf where it overflows, 0 at -inf."""
    return nb.exp(x)


@op(lambda x: 2.0 ** x, Case())
@elementwise
def exp2(x):
    """``2 ** x``; inf where it overflows, 0 at -inf."""
    return nb.exp2(x)


@op(np.expm1, Case())
@elementwise
def expm1(x):
    """``exp(x) - 1``, accurate near 0; -1 at -inf."""
    return nb.expm1(x)


@op(np.log, POSITIVE)
@elementwise
def log(x):
    """The natural logarithm; -inf at 0, NaN below."""
    return nb.log(x)


@op(np.log2, POSITIVE)
@elementwise
def log2(x):
    """The logarithm to base 2; -inf at 0, NaN below."""
    return nb.log2(x)


@op(np.log10, POSITIVE)
@elementwise
def log10(x):
    """The logarithm to base 10; -inf at 0, NaN below."""
    return nb.log10(x)


@op(np.log1p, Case(domains=((-0.8, 3.0),)))
@elementwise
def log1p(x):
    """``log(1 + x)``, accurate near 0; -inf at -1, NaN below."""
    return nb.log1p(x)


@op(np.sqrt, POSITIVE)
@elementwise
def sqrt(x):
    """The square root; NaN below 0.  Its derivative at 0 is taken as 0."""
    return nb.sqrt(x)


@op(lambda x: 1.0 / np.sqrt(x), Case(domains=((0.2, 4.0),)))
@elementwise
def rsqrt(x):
    """``1 / sqrt(x)``; inf at 0, -inf at -0.0, NaN below."""
    return nb.rsqrt(x)


@op(np.cbrt, Case(domains=((0.2, 4.0),)))
@elementwise
def cbrt(x):
    """The cube root, of negative numbers too; its derivative at 0 is inf."""
    return nb.cbrt(x)


@op(np.sin, ANGLE)
@elementwise
def sin(x):
    """The sine of an angle in radians; NaN at inf and -inf."""
    return nb.sin(x)


@op(np.cos, ANGLE)
@elementwise
def cos(x):
    """The cosine of an angle in radians; NaN at inf and -inf."""
    return nb.cos(x)


@op(np.tan, Case(domains=((-1.2, 1.2),)))
@elementwise
def tan(x):
    """The tangent of an angle in radians; NaN at inf and -inf."""
    return nb.tan(x)


@op(np.arcsin, UNIT)
@elementwise
def arcsin(x):
    """The inverse sine, in radians; NaN outside [-1, 1]."""
    return nb.asin(x)


@op(np.arccos, UNIT)
@elementwise
def arccos(x):
    """The inverse cosine, in radians; NaN outside [-1, 1]."""
    return nb.acos(x)


@op(np.arctan, Case())
@elementwise
def arctan(x):
    """The inverse tangent, in radians; ``pi / 2`` at inf."""
    return nb.atan(x)


@op(np.arctan2, Case(domains=((0.3, 3.0),)))
@elementwise
def arctan2(y, x):
    """The angle in radians of the point ``(x, y)``, in [-pi, pi].

    Signed zeros and infinities as in C; derivative 0 at the origin.
    """
    return nb.atan2(y, x)


@op(np.hypot, Case(domains=((0.3, 3.0),)))
@elementwise
def hypot(x, y):
    """``sqrt(x*x + y*y)`` without overflow; derivative 0 at the origin.

    inf if either is infinite, also beside NaN.
    """
    return nb.hypot(x, y)


@op(np.sinh, Case())
@elementwise
def sinh(x):
    """The hyperbolic sine; inf or -inf where it overflows."""
    return nb.sinh(x)


@op(np.cosh, Case())
@elementwise
def cosh(x):
    """The hyperbolic cosine; inf where it overflows."""
    return nb.cosh(x)


@op(np.tanh, Case())
@elementwise
def tanh(x):
    """The hyperbolic tangent; 1 at inf, -1 at -inf."""
    return nb.tanh(x)


@op(np.arcsinh, Case())
@elementwise
def arcsinh(x):
    """The inverse hyperbolic sine, accurate near 0 and without overflow."""
    return nb.asinh(x)


@op(np.vectorize(math.erf, otypes=[float]), Case())
@elementwise
def erf(x):
    """The error function; 1 at inf, -1 at -inf."""
    return nb.erf(x)


@op(np.vectorize(math.erfc, otypes=[float]), Case())
@elementwise
def erfc(x):
    """``1 - erf(x)``, accurate for large `x`; 0 at inf, 2 at -inf."""
    return nb.erfc(x)


@op(np.floor, STEPS)
@elementwise
def floor(x):
    """The largest integer not above `x`, in its dtype.  Derivative zero."""
    return nb.floor(x)


@op(np.ceil, STEPS)
@elementwise
def ceil(x):
    """The smallest integer not below `x`, in its dtype.  Derivative zero."""
    return nb.ceil(x)


@op(np.trunc, STEPS)
@elementwise
def trunc(x):
    """`x` without its fraction, in the dtype of `x`.  Derivative zero."""
    return nb.trunc(x)


@op(np.rint, STEPS)
@elementwise
def rint(x):
    """The nearest integer, ties to even, in floating point.  Derivative zero."""
    return nb.rint(x)
