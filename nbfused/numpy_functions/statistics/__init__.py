"""Averages and order statistics.

=========== ============================================================================
`averages`  averages, covariances, interpolation
`quantiles` medians and quantiles by each of NumPy's methods
=========== ============================================================================
"""

from . import averages, quantiles

__all__ = ["averages", "quantiles"]
