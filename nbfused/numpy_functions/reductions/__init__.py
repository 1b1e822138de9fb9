"""Reductions by NumPy's names.

=============== ========================================================================
`with_keywords` sums, extrema, means and deviations with NumPy's keywords
`without_nan`   those that skip NaN
`of_ufuncs`     `accumulate`, `reduce` and `outer` of ufuncs
=============== ========================================================================
"""

from . import of_ufuncs, with_keywords, without_nan

__all__ = ["of_ufuncs", "with_keywords", "without_nan"]
