"""The extension of linear algebra."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..autograd import Variable
from ..numpy_functions.base import shape_of
from ..numpy_functions.on_arrays import on_arrays
from .adapted import ADAPTED, one_kind
from .face import by_library, by_rows
from .standard import LINALG

__all__: list[str] = []


def _cross(x1: Any, x2: Any, *, axis: int = -1) -> Any:
    return one_kind("linalg.cross")(x1, x2, axis=axis)


def _diagonal(x: Any, *, offset: int = 0) -> Any:
    """Diagonals of the last two axes; NumPy's older function takes the first two."""
    return on_arrays("diagonal")(x, offset=offset, axis1=-2, axis2=-1)


def _trace(x: Any, *, offset: int = 0, dtype: Any = None) -> Any:
    return on_arrays("trace")(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def _qr(x: Any, *, mode: str = "reduced") -> Any:
    """Wide matrices and complete factors have no rule."""
    rows, columns = shape_of(x)[-2:]
    if mode == "reduced" and rows >= columns:
        return on_arrays("linalg.qr")(x, mode)
    return QRResult(*by_library("linalg.qr")(x, mode=mode))


def _svd(x: Any, *, full_matrices: bool = True) -> Any:
    """All vectors of matrices that are not square have no rule."""
    rows, columns = shape_of(x)[-2:]
    if not full_matrices or rows == columns:
        return on_arrays("linalg.svd")(x, full_matrices)
    return SVDResult(*by_library("linalg.svd")(x, full_matrices=True))


def _pinv(x: Any, *, rtol: Any = None) -> Any:
    """Matrices whose small singular values are cut off have no rule."""
    if rtol is None:
        return on_arrays("linalg.pinv")(x)
    # An array has a tolerance for each matrix; nothing changes smoothly with it.
    return by_library("linalg.pinv")(
        x, rtol=rtol.data if isinstance(rtol, Variable) else rtol)


class QRResult(NamedTuple):
    """Orthogonal and triangular factors."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """Singular vectors and values."""

    U: Any
    S: Any
    Vh: Any


_FUNCTIONS = by_rows(LINALG, {
    "cross": _cross, "diagonal": _diagonal, "matmul": ADAPTED["matmul"],
    "pinv": _pinv, "qr": _qr, "svd": _svd,
    "outer": one_kind("linalg.outer"), "solve": one_kind("linalg.solve"),
    "tensordot": ADAPTED["tensordot"], "trace": _trace, "vecdot": ADAPTED["vecdot"],
}, "linalg.")
globals().update(_FUNCTIONS)
__all__ += sorted(_FUNCTIONS)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"nbfused.array_api.linalg has no {name!r}: the standard "
                         "2024.12 does not, either")
