"""NumPy's functions, once: each as a composition of operations, or with a rule.

The table is read by NumPy's protocols on Variables and by `nf.fuse`; its functions take
NumPy's parameters by NumPy's names, on arrays of every library.  They stand below
`nbfused.ops`, whose operations they look up when they are called.

=============== ========================================================================
`algebra`       products, decompositions, polynomials, Fourier transforms
`base`          the decorator that enters a function; operations by name; axes
`complex_parts` parts of complex numbers, and questions about them
`cumulative`    running sums and products, differences, finite-difference gradients
`counting`      counts, sets and positions, which are not differentiated
`elementwise`   functions of elements that are no ufuncs: `clip`, `where`, `nan_to_num`
`filling`       arrays like another one, equal distances, elements set in place
`indexing`      elements by index arrays, masks and choices
`library`       functions that the caller's library computes, with our rules
`joining`       arrays joined, stacked, split, and repeated
`on_arrays`     functions by name, on arrays of every library
`queries`       questions about dtypes, grids, functions of slices
`reductions`    reductions with NumPy's keywords, those that skip NaN, of ufuncs
`refused`       functions that have no meaning here, with the way out
`shapes`        axes moved, added and reversed; diagonals and triangles
`sorting`       sorted arrays, sets and positions, differentiated through indices
`statistics`    averages, covariances, interpolation, quantiles
=============== ========================================================================
"""

from . import (
    algebra,
    complex_parts,
    counting,
    cumulative,
    elementwise,
    filling,
    indexing,
    joining,
    queries,
    reductions,
    refused,
    shapes,
    sorting,
    statistics,
)

__all__ = [
    "algebra",
    "complex_parts",
    "counting",
    "cumulative",
    "elementwise",
    "filling",
    "indexing",
    "joining",
    "queries",
    "reductions",
    "refused",
    "shapes",
    "sorting",
    "statistics",
]
