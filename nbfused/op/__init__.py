"""Decorators that turn scalar functions into public operations on arrays.

Built-in ops and users' kernels are made by the same ones.

=============== =======================================================================
`base`          what public operations share: cases, parameters, argument checks
`cached_call`   cached calls of ops, looked up by the types of their arguments
`contraction`   `contraction`, a product of two arrays with an epilogue
`derivative`    `derivative` and `tangent` of scalar functions
`elementwise`   `elementwise`, scalar functions of users on arrays
`func`          `func`, scalar functions for other scalar functions to call
`keywords`      signatures with the options of calls, refusals of unknown keywords
`kernel_counts` warning about one line of a program that makes kernel after kernel
`numbers`       checks of numeric arguments: Python integers beside arrays, and options
`reduction`     `reduction`: a map, a combine, and a function of the result
`row`           `row`: reductions along one axis and a final map
`scalar`        conversion of an object, function or name to a scalar function
`source`        readable text of generated functions
`specialize`    `specialize`: copies of a function with other constants
`ufunc`         attributes and methods of NumPy's ufuncs, for `Elementwise`
=============== =======================================================================
"""

from .base import AnyArray, Case, Operand, op
from .contraction import Contraction, contraction
from .elementwise import Elementwise, Func, elementwise, func
from .reduction import Reduction, reduction
from .row import RowOp, index, row, size, stage
from .scalar import ScalarFunction, scalar_function

__all__ = [
    "AnyArray", "Case", "Contraction", "Elementwise", "Func", "Operand", "Reduction",
    "RowOp", "ScalarFunction", "contraction", "elementwise", "func", "index", "op",
    "reduction", "row", "scalar_function", "size", "stage",
]
