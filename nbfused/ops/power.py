"""`power`, with NumPy's rules for integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..arrays.traced import Traced
from ..autograd.numpy_api.ufuncs import NUMPY_KEYWORDS
from ..errors import RangeError
from ..op import AnyArray, Case, elementwise, op
from ..op.base import Operand, check_operand, is_number
from ..op.keywords import as_numpy
from ..scalar.language import names as nb
from ..support.dtypes import BFLOAT16
from .arithmetic import reciprocal_of, square
from .checks import check_range

__all__ = ["power"]


@elementwise
def raise_to(x, y):
    """``x ** y``; 0 for an integer to a negative power."""
    return x ** y


@elementwise
def cube(x):
    """``x ** 3``."""
    return x ** 3


@elementwise
def fourth_power(x):
    """``x ** 4``."""
    return x ** 4


@elementwise
def root(x):
    """``x ** 0.5``."""
    return nb.half_power(x)


@elementwise
def inverse_root(x):
    """``x ** -0.5``: 0 at -inf and inf at -0.0."""
    return 0.0 if x == -math.inf else nb.rsqrt(x + 0.0)


#: Powers by these numbers; by others floats take 20 to 50 times as long, and complex
#: numbers 680 (benchmarks/notes/cpu.md#powers).
_KNOWN = {2: square, 3: cube, 4: fourth_power, -1: reciprocal_of, 0.5: root,
          -0.5: inverse_root}
for function in (raise_to, cube, fourth_power, root, inverse_root):
    function.parameters.name = "power"  # for messages


@op(np.power, Case(domains=((0.3, 3.0), (-2.0, 2.0)), dtypes="f"),
    Case(domains=((-3.0, 3.0), (0.0, 3.0)), dtypes="iu", smooth=False),
    scalar=raise_to)
def power(x: Operand, y: Operand, **options: Any) -> AnyArray:
    """``x ** y``; NaN for a negative base and a fractional exponent.

    The derivative by `y` is 0 where ``x <= 0``.  Arrays to the power of the numbers 2,
    3, 4, -1, 0.5 and -0.5 are products and roots: one rounding or two more, and faster.

    Parameters
    ----------
    x, y : array or number
        Base and exponent.
    **options
        ``out``, ``dtype``, ``where`` and ``casting``, as of any elementwise op.

    Raises
    ------
    RangeError
        An integer to a negative power, as in NumPy.  Exponents in a GPU array are
        looked at under ``NBFUSED_DEBUG=1`` only; otherwise such a power is 0 there.

    Examples
    --------
    >>> import numpy as np
    >>> power(np.array([2.0, 3.0]), -1).round(6)
    array([0.5     , 0.333333])
    """
    if not NUMPY_KEYWORDS.isdisjoint(options):
        return as_numpy("power", x, y, **options)
    for value, name in ((x, "x"), (y, "y")):
        check_operand(value, "power", name)
    if type(y) in (int, float) and y in _KNOWN and _takes(x, y):
        return _KNOWN[y](x, **options)
    if _is_whole(x, "biu") and _is_whole(y, "iu") and not _is_floating(x, y):
        y = _checked_exponent(y)
    return raise_to(x, y, **options)


def _takes(x: Any, y: float) -> bool:
    """Whether what is known of an exponent holds for arrays like `x`."""
    if is_number(x):
        return False
    dtype = dtype_of(x)
    if dtype.kind in "iu":
        return type(y) is int and y > 1
    return dtype.kind == "f" or dtype == BFLOAT16 or (dtype.kind == "c" and y % 1 == 0)


def _is_whole(x: Any, kinds: str) -> bool:
    if isinstance(x, int):
        return "b" in kinds or not isinstance(x, bool)
    return not isinstance(x, (float, complex)) and dtype_of(x).kind in kinds


def _is_floating(x: Any, y: Any) -> bool:
    """Whether two integer dtypes promote to float64: uint64 and a signed one."""
    return not isinstance(x, int) and not isinstance(y, int) and np.result_type(
        dtype_of(x), dtype_of(y)).kind == "f"


def _checked_exponent(y: Any) -> Any:
    way_out = "convert the base to floating point first"
    if isinstance(y, Traced):
        y.record_check(_checked_exponent)
        return y
    what = "is 2**63 or more" if is_number(y) and y > 0 else "is negative"
    problem = f"power: 'y' {what} and 'x' an integer"
    if not is_number(y):
        return y if dtype_of(y).kind == "u" else check_range(
            y, 0, 2**63, problem, way_out, name="y")
    if not 0 <= y < 2**63:
        raise RangeError(f"{problem}: got {y}, expected an exponent of at least 0, "
                         f"below 2**63; {way_out}")
    return y
