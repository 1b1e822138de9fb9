"""The vocabulary of scalar functions: one table, a row for each builtin.

It serves typing, both directions of differentiation, the printers, C bodies and NumPy's
and PyTorch's names.  Conventions, the same on every backend:

- relu'(0) = abs'(0) = sqrt'(0) = hypot'(0, 0) = atan2'(0, 0) = 0;
- a tie of max or min, or an operand that is NaN, gives each side one half;
- where a value is NaN, a derivative that is not identically zero is NaN or a share,
  never a silent zero;
- rounding functions, `sign` and comparisons have derivative zero.
"""

from __future__ import annotations

from . import (  # noqa: F401  # which fill the table
    complex_functions,
    complex_numbers,
    composites,
    elementary,
)
from .row import NUMPY, OPS, Op

__all__ = ["NUMPY", "OPS", "Op"]
