"""Arithmetic, as in NumPy: dtypes promote, Python numbers are weak (NEP 50)."""

from __future__ import annotations

import numpy as np

from ..op import Case, elementwise, op
from ..scalar import language as nb

__all__ = [
    "absolute", "add", "divide", "floor_divide", "multiply", "negative", "positive",
    "reciprocal", "remainder", "sign", "square", "subtract",
]

NUMBERS = Case(dtypes="iuf")
NONZERO = Case(domains=((-3.0, 3.0), (0.5, 4.0)), dtypes="iuf")


@op(np.add, Case(dtypes="biufc"))
@elementwise
def add(x, y):
    """The sum, element by element; ``x or y`` for bools, as in NumPy."""
    return x + y


@op(np.subtract, Case(dtypes="iufc"))
@elementwise
def subtract(x, y):
    """The difference, element by element; `KernelTypeError` for bools, as in NumPy."""
    return x - y


@op(np.multiply, Case(dtypes="biufc"))
@elementwise
def multiply(x, y):
    """The product, element by element; ``x and y`` for bools, as in NumPy."""
    return x * y


@op(np.true_divide, NONZERO)
@elementwise
def divide(x, y):
    """The quotient; integers give float64.  ``1/0`` is inf and ``0/0`` NaN."""
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
    """What `floor_divide` leaves, with the sign of `y`.

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
    """-1, 0 or 1, NaN for NaN.  Derivative zero."""
    return nb.sign(x)


@op(lambda x: x * x, NUMBERS)
@elementwise
def square(x):
    """``x * x``; integers wrap around."""
    return nb.square(x)


@op(lambda x: 1.0 / x, Case(domains=((0.3, 3.0),)))
@elementwise
def reciprocal(x):
    """``1 / x`` in floating point; inf at 0, -inf at -0.0."""
    return nb.reciprocal(x)
