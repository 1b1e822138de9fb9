"""Parts of complex numbers, and questions about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import dtype_of
from .base import detached, implements, ops, part_of, truth, vocabulary

__all__: list[str] = []


@implements("real")
def real(val: Any) -> Any:
    """The real part."""
    return val if dtype_of(val).kind != "c" else part_of(val, vocabulary("real", val))


@implements("imag")
def imag(val: Any) -> Any:
    """The imaginary part: zeros for real numbers."""
    return ops.full_like(val, 0) if dtype_of(val).kind != "c" else part_of(
        val, vocabulary("imag", val))


def conj(x: Any) -> Any:
    """The complex conjugate; `x` itself where it is real."""
    return x if dtype_of(x).kind != "c" else vocabulary("conj", x)


@implements("real_if_close")
def real_if_close(a: Any, tol: float = 100) -> Any:
    """The real part where no imaginary part is large, else `a`."""
    if dtype_of(a).kind != "c":
        return a
    limit = tol if tol <= 1 else tol * np.finfo(dtype_of(a)).eps
    small = truth(ops.all(ops.less(ops.absolute(imag(detached(a))), limit)),
                  "real_if_close")
    return real(a) if small else a


@implements("angle")
def angle(z: Any, deg: bool = False) -> Any:
    """The argument of complex numbers; 0 or pi of real ones."""
    if dtype_of(z).kind == "b":
        z = ops.astype(z, np.int64)  # NumPy's other operand is the integer 0
    found = ops.arctan2(imag(z), real(z))
    return ops.multiply(found, 180.0 / np.pi) if deg else found


@implements("isreal")
def isreal(x: Any) -> Any:
    """Whether the imaginary part is 0."""
    return ops.equal(imag(x), 0)


@implements("iscomplex")
def iscomplex(x: Any) -> Any:
    """Whether the imaginary part is not 0."""
    return ops.not_equal(imag(x), 0)


@implements("isrealobj")
def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex."""
    return dtype_of(x).kind != "c"


@implements("iscomplexobj")
def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    return dtype_of(x).kind == "c"
