"""Arithmetic, as in NumPy: dtypes promote, Python numbers are weak (NEP 50)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.numpy_api.ufuncs import NUMPY_KEYWORDS
from ..op import AnyArray, Case, Operand, elementwise, op
from ..op.base import check_operand, strong_dtype
from ..op.elementwise import cast
from ..op.keywords import as_numpy
from ..scalar.language import names as nb

__all__ = [
    "absolute", "add", "divide", "floor_divide", "multiply", "negative", "positive",
    "reciprocal", "remainder", "sign", "square", "subtract",
]

NUMBERS = Case(dtypes="iuf")
NONZERO = Case(domains=((-3.0, 3.0), (0.5, 4.0)), dtypes="iuf")


@op(np.add, Case(dtypes="biufc"))
@elementwise
def add(x, y):
    """The elementwise sum; ``x or y`` for bools, as in NumPy."""
    return x + y


@op(np.subtract, Case(dtypes="iufc"))
@elementwise
def subtract(x, y):
    """The elementwise difference; `KernelTypeError` for bools, as in NumPy."""
    return x - y


@op(np.multiply, Case(dtypes="biufc"))
@elementwise
def multiply(x, y):
    """The elementwise product; ``x and y`` for bools, as in NumPy."""
    return x * y


@op(np.true_divide, NONZERO)
@elementwise
def divide(x, y):
    """The quotient; float64 for integers.  ``1/0`` is inf and ``0/0`` NaN."""
    return x / y


@op(np.floor_divide,
    Case(domains=((-3.0, 3.0), (0.5, 4.0)), dtypes="iuf", smooth=False))
@elementwise
def floor_divide(x, y):
    """The quotient rounded down.  Derivative zero.

    An integer divided by zero is 0; a float is inf, -inf or NaN, as in NumPy.
    """
    return x // y


@op(np.remainder, Case(domains=((0.1, 0.4), (0.5, 4.0)), dtypes="iuf"))
@elementwise
def remainder(x, y):
    """The remainder of `floor_divide`, with the sign of `y`.

    ``n % 0`` is 0 for integers, NaN for floats.
    """
    return x % y


@op(np.negative, Case(dtypes="ifc"))
@elementwise
def negative(x):
    """``-x``; unsigned integers wrap around, as in NumPy."""
    return -x


@op(np.positive, Case(dtypes="iufc"))
@elementwise
def positive(x):
    """``+x``, a copy."""
    return +x


@op(np.absolute, Case(domains=((0.2, 3.0),), dtypes="iuf"), Case(smooth=False))
@elementwise
def absolute(x):
    """The absolute value; its derivative at 0 is 0.

    The smallest signed integer stays itself, as in NumPy.
    """
    return abs(x)


@op(np.sign, Case(dtypes="if", smooth=False))
@elementwise
def sign(x):
    """-1, 0 or 1, ``x / abs(x)`` of complex numbers; NaN for NaN.  At 0 it is 0.

    The derivative of real numbers is zero.
    """
    return np.sign(x)


@op(lambda x: x * x, NUMBERS)
@elementwise
def square(x):
    """``x * x``; integers wrap around."""
    return nb.square(x)


@elementwise
def reciprocal_of(x):
    """``1 / x`` in floating point."""
    return nb.reciprocal(x)


@elementwise
def whole_reciprocal(x):
    """``1 / x`` in integers: 0 except for 1 and -1."""
    return x if x == 1 or x == -1 else x - x


reciprocal_of.parameters.name = whole_reciprocal.parameters.name = "reciprocal"


@op(lambda x: 1.0 / x, Case(domains=((0.3, 3.0),)), scalar=reciprocal_of)
def reciprocal(x: Operand, **options: Any) -> AnyArray:
    """``1 / x``; inf at 0, -inf at -0.0; an integer for an integer, 0 at 0.

    Parameters
    ----------
    x : array or number
        Any shape; bools count as int8, as in NumPy.
    **options
        ``out``, ``dtype``, ``where`` and ``casting``, as of any elementwise op.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> reciprocal(np.array([0.5, 4.0])), reciprocal(np.array([1, 4]))
    (array([2.  , 0.25]), array([1, 0]))
    """
    if not NUMPY_KEYWORDS.isdisjoint(options):
        return as_numpy("reciprocal", x, **options)
    dtype = getattr(x, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "f":
        return reciprocal_of(x, **options)
    check_operand(x, "reciprocal", "x")
    dtype = strong_dtype(x)
    kind = np.result_type(type(x)).kind if dtype is None else dtype.kind
    if kind == "b":
        return cast("int8")(x, **options)
    return (whole_reciprocal if kind in "iu" else reciprocal_of)(x, **options)
