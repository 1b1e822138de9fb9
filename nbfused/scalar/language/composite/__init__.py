"""Vectors, matrices and quaternions: values of kernels and of plain Python.

One definition serves both: the parser computes with these classes on components that
record what is done.  `arithmetic` is their base; `vectors`, `matrices` and
`quaternions` have the classes and their functions.
"""

from __future__ import annotations

from .arithmetic import COMPOSITES as COMPOSITES
from .arithmetic import FUNCTIONS as FUNCTIONS
from .arithmetic import Composite as Composite
from .matrices import (
    determinant,
    diagonal,
    inverse,
    mat22,
    mat33,
    mat44,
    matrix_from_cols,
    matrix_from_rows,
    outer,
    transpose,
)
from .quaternions import (
    conjugate,
    quat,
    quat_from_axis_angle,
    quat_identity,
    quat_to_matrix,
    rotate,
    rotate_inv,
    slerp,
)
from .vectors import cross, dot, length, normalize, vec2, vec3, vec4

__all__ = [
    "conjugate", "cross", "determinant", "diagonal", "dot", "inverse", "length",
    "mat22", "mat33", "mat44", "matrix_from_cols", "matrix_from_rows", "normalize",
    "outer", "quat", "quat_from_axis_angle", "quat_identity", "quat_to_matrix",
    "rotate", "rotate_inv", "slerp", "transpose", "vec2", "vec3", "vec4",
]
