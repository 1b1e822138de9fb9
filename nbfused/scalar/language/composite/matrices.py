"""Square matrices of two to four rows."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from .arithmetic import COMPOSITES, Composite, function, named
from .quaternions import quat
from .vectors import VECTORS, Vector, vector_of

__all__ = ["MATRICES", "Matrix", "determinant", "diagonal", "inverse", "mat22", "mat33",
           "mat44", "matrix_from_cols", "matrix_from_rows", "outer", "transpose"]

MATRICES = ("mat22", "mat33", "mat44")


class Matrix(Composite):
    """Base of matrices: ``A @ B``, ``A @ v``, ``v @ A``, ``A[i, j]``, rows ``A[i]``."""

    __slots__ = ()

    @classmethod
    def _alternative(cls) -> str:
        n = cls.shape[0]
        return f", row by row, or {n} rows of an array; of vectors " \
            "matrix_from_rows() and matrix_from_cols() make one"

    def _hint(self, sign: str) -> str:
        return "; A @ B and A @ v are products" if sign == "*" else \
            super()._hint(sign)

    @property
    def rows(self) -> tuple[Any, ...]:
        """The rows, as vectors."""
        n, flat = self.shape[0], tuple(self)
        return tuple(vector_of(flat[n*i:n*i + n]) for i in range(n))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple):
            i, j = index
            return self.rows[i][j]
        return self.rows[index]

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Vector) and len(other) == self.shape[0]:
            return vector_of([_inner(row, other) for row in self.rows])
        if type(other) is not type(self):
            self._refuse("@", self, other)
        columns = _transposed(other).rows
        return self._make(_inner(row, c) for row in self.rows for c in columns)

    def __rmatmul__(self, other: Any) -> Any:
        if isinstance(other, Vector) and len(other) == self.shape[0]:
            return _transposed(self) @ other
        self._refuse("@", other, self)


class mat22(Matrix, namedtuple("mat22", "m00 m01 m10 m11")):
    """A matrix of two rows and columns; see `mat33`."""

    __slots__ = ()
    shape = (2, 2)


class mat33(Matrix, namedtuple("mat33", "m00 m01 m02 m10 m11 m12 m20 m21 m22")):
    """A matrix of three rows and columns.

    Of its nine numbers, row by row, or in a kernel of an array with two axes;
    `matrix_from_rows` and `matrix_from_cols` take vectors.  ``A @ B``, ``A @ v`` and
    ``v @ A`` are products, ``+ -`` and ``*``, ``/`` by a number componentwise.
    ``A[i, j]`` is an element and ``A[i]`` a row.  An array annotated
    ``nf.View[nf.mat33]`` has them as elements, along its last two axes.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> @nf.rawkernel
    ... def solved(a: nf.View[nf.mat33], b: nf.View[nf.vec3], x: nf.View[nf.vec3]):
    ...     i = nf.grid(1)
    ...     x[i] = nf.inverse(a[i]) @ b[i]
    >>> a, b, x = 2.0 * np.eye(3)[None], np.ones((1, 3)), np.zeros((1, 3))
    >>> solved.launch(a, b, x, dim=1)
    >>> x
    array([[0.5, 0.5, 0.5]])
    """

    __slots__ = ()
    shape = (3, 3)


class mat44(Matrix, namedtuple("mat44", "m00 m01 m02 m03 m10 m11 m12 m13 "
                               "m20 m21 m22 m23 m30 m31 m32 m33")):
    """A matrix of four rows and columns; see `mat33`."""

    __slots__ = ()
    shape = (4, 4)


def _inner(a: Any, b: Any) -> Any:
    total, *more = (x * y for x, y in zip(a, b, strict=True))
    for product in more:
        total = total + product
    return total


def _matrix(flat: Any) -> Any:
    found = list(flat)
    n = {4: 2, 9: 3, 16: 4}[len(found)]
    return COMPOSITES[f"mat{n}{n}"]._make(found)


def _transposed(a: Any) -> Any:
    return _matrix(x for column in zip(*a.rows, strict=True) for x in column)


def _check_square(name: str, parts: tuple[Any, ...]) -> None:
    if len(parts) not in (2, 3, 4) or any(
            not isinstance(p, Vector) or len(p) != len(parts) for p in parts):
        raise TypeError(f"{name}() takes as many vectors as each has components; got "
                        f"{', '.join(map(named, parts)) or 'nothing'}")


@function(many=True, doc="The matrix whose rows are these vectors.")
def matrix_from_rows(*rows: Any) -> Any:
    """Vectors of as many components as there are of them."""
    _check_square("matrix_from_rows", rows)
    return _matrix(x for row in rows for x in row)


@function(many=True, doc="The matrix whose columns are these vectors.")
def matrix_from_cols(*columns: Any) -> Any:
    """Vectors of as many components as there are of them."""
    _check_square("matrix_from_cols", columns)
    return _transposed(_matrix(x for c in columns for x in c))


transpose: Any = function(MATRICES, name="transpose", doc="A matrix with rows and "
                          "columns exchanged.")(_transposed)


@function(VECTORS, VECTORS, doc="The matrix of the products ``a[i] * b[j]``.")
def outer(a: Any, b: Any) -> Any:
    """Vectors of as many components."""
    a._same(b, "and")
    return _matrix(x * y for x in a for y in b)


@function(VECTORS, doc="The matrix with a vector on its diagonal, 0 elsewhere.")
def diagonal(v: Any) -> Any:
    """Zeros have the type of what they meet."""
    n = len(v)
    return _matrix(v[i] if i == j else 0 for i in range(n) for j in range(n))


def _minor(rows: Any, i: int, j: int) -> list[list[Any]]:
    return [[x for k, x in enumerate(row) if k != j]
            for r, row in enumerate(rows) if r != i]


def _determinant(rows: Any) -> Any:
    """By the first row; the minors of four rows are formed again for each element."""
    if len(rows) == 2:
        (a, b), (c, d) = rows
        return a*d - b*c
    total = rows[0][0] * _determinant(_minor(rows, 0, 0))
    for j in range(1, len(rows)):
        term = rows[0][j] * _determinant(_minor(rows, 0, j))
        total = total - term if j % 2 else total + term
    return total


@function(MATRICES, doc="The determinant of a matrix.")
def determinant(a: Any) -> Any:
    """By cofactors."""
    return _determinant([tuple(row) for row in a.rows])


@function((*MATRICES, "quat"), doc="""The inverse of a matrix or a quaternion.

That of a matrix whose determinant is 0 is not finite.
""")
def inverse(a: Any) -> Any:
    """By cofactors."""
    if isinstance(a, quat):
        return a.conjugate() / _inner(a, a)
    rows = [tuple(row) for row in a.rows]
    n = len(rows)
    if n == 2:
        (p, q), (r, s) = rows
        return _matrix([s, -q, -r, p]) / _determinant(rows)
    cofactors = [[_determinant(_minor(rows, j, i)) * (-1)**(i + j) for j in range(n)]
                 for i in range(n)]
    return _matrix(x for row in cofactors for x in row) / \
        _inner(rows[0], [row[0] for row in cofactors])
