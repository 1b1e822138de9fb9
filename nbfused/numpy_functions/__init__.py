"""NumPy's functions, once: each as a composition of operations, or with a rule.

The table is read by NumPy's protocols on Variables and by `nf.fuse`; its functions take
NumPy's parameters by NumPy's names, on arrays of every library.  They stand below
`nbfused.ops`, whose operations they look up when they are called.

============== =========================================================================
`base`         the decorator that enters a function; operations by name; axes
`cumulative`   running sums and products, differences, finite-difference gradients
`elementwise`  functions of elements that are no ufuncs: `clip`, `where`, `nan_to_num`
`filling`      arrays shaped like another one
`indexing`     elements by index arrays, masks and choices
`joining`      arrays joined, stacked, split, and repeated
`linalg`       decompositions and solvers of the caller's library, with their rules
`products`     `einsum`, `tensordot` and what is made of them
`reductions`   reductions with NumPy's keywords, and those that skip NaN
`shapes`       axes moved, added and reversed; diagonals and triangles
`sorting`      sorted arrays and order statistics, differentiated through indices
`statistics`   averages, covariances, interpolation
============== =========================================================================
"""

from . import (
    cumulative,
    elementwise,
    filling,
    indexing,
    joining,
    linalg,
    products,
    reductions,
    shapes,
    sorting,
    statistics,
)

__all__ = ["cumulative", "elementwise", "filling", "indexing", "joining", "linalg",
           "products", "reductions", "shapes", "sorting", "statistics"]
