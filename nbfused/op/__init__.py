"""The decorators that turn scalar functions into public functions.

Built-in ops and users' kernels are made by the same ones.
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
