"""Polynomials by their coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import dtype_of, to_numpy
from ...arrays.traced import Traced
from ...errors import ShapeError
from ...op.base import is_number
from ..base import (
    as_arrays,
    converted,
    detached,
    implements,
    index_array,
    is_value,
    ops,
    shape_of,
)
from ..indexing import host_of
from .convolutions import convolve

__all__: list[str] = []


@implements("polyval")
def polyval(p: Any, x: Any) -> Any:
    """A polynomial at `x`."""
    if not is_value(p) and not any(map(is_value, p)):
        p = [*np.asarray(p)]  # whose dtype is that of all coefficients
    count = shape_of(p)[0] if is_value(p) else len(p)
    terms = [ops.getitem(p, k) if is_value(p) else p[k] for k in range(count)]
    found: Any = ops.zeros_like(x) if is_value(x) and not is_number(x) else 0 * x
    for term in terms:
        found = ops.add(ops.multiply(found, x), term)
    return found


def _coefficients(x: Any, name: str) -> Any:
    """The coefficients of a polynomial; a number is a constant one."""
    if len(shape_of(x)) > 1:
        raise ShapeError(f"{name}: coefficients of shape {shape_of(x)}, expected one "
                         "dimension")
    return x if shape_of(x) else ops.reshape(x, (1,))


def _of_one_length(a1: Any, a2: Any, name: str) -> tuple[Any, Any]:
    a1, a2 = (_coefficients(x, name) for x in as_arrays([a1, a2], name, False))
    size = max(shape_of(a1)[0], shape_of(a2)[0])
    made = []
    for x in (a1, a2):
        missing = size - shape_of(x)[0]
        if missing:
            zero = ops.zeros_like(ops.getitem(x, slice(0, 1)))
            x = ops.concatenate([ops.broadcast_to(zero, (missing,)), x])
        made.append(x)
    return made[0], made[1]


@implements("polyadd")
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of polynomials."""
    return ops.add(*_of_one_length(a1, a2, "numpy.polyadd"))


@implements("polysub")
def polysub(a1: Any, a2: Any) -> Any:
    """The difference of polynomials."""
    return ops.subtract(*_of_one_length(a1, a2, "numpy.polysub"))


@implements("polymul")
def polymul(a1: Any, a2: Any) -> Any:
    """The product of polynomials, without their leading zeros.

    Raises
    ------
    ShapeError
        A leading coefficient is 0 in a call that was traced: the length of the result
        would depend on it.
    """
    return convolve(*map(_trimmed, as_arrays([a1, a2], "numpy.polymul", False)))


def _trimmed(x: Any) -> Any:
    """The coefficients from the first on that is not 0; one at least."""
    x = _coefficients(x, "numpy.polymul")
    if isinstance(x, Traced):
        ops.getitem(x, slice(0, 1)).record_check(_check_leading)
        return x
    known = host_of(detached(x), "polymul")
    nonzero = np.flatnonzero(known)
    first = int(nonzero[0]) if nonzero.size else max(known.size - 1, 0)
    return ops.getitem(x, slice(first, None)) if first else x


def _check_leading(found: Any) -> None:
    if (to_numpy(found) == 0).any():
        raise ShapeError(
            "numpy.polymul: a leading coefficient is 0 in a call that was traced, and "
            "NumPy leaves such zeros away; call it outside of nf.fuse and nf.vmap, or "
            "use np.convolve, which keeps them")


@implements("polyder")
def polyder(p: Any, m: int = 1) -> Any:
    """The derivative of a polynomial."""
    for _ in range(m):
        count = shape_of(p)[0]
        powers = index_array(np.arange(count - 1, 0, -1), p)
        p = ops.multiply(ops.getitem(p, slice(0, count - 1)), powers)
    return p


@implements("polyint")
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """An integral of a polynomial, with constants `k`."""
    constants = [0.0] * m if k is None else np.broadcast_to(k, (m,)).tolist()
    for constant in constants:
        powers = np.arange(shape_of(p)[0], 0, -1).astype(float).tolist()
        p = ops.divide(p, as_arrays([p, powers], "numpy.polyint")[1])
        last = ops.full_like(ops.getitem(p, slice(0, 1)), constant)
        p = ops.concatenate([p, last])
    return p


@implements("poly")
def poly(seq_of_zeros: Any) -> Any:
    """The polynomial with these zeros."""
    if len(shape_of(seq_of_zeros)) != 1:
        raise ShapeError(f"numpy.poly: shape {shape_of(seq_of_zeros)}, expected one "
                         "dimension: the zeros")
    kind = np.mintypecode(dtype_of(seq_of_zeros).char)
    seq_of_zeros = converted(seq_of_zeros, np.dtype(kind))
    made = ops.ones_like(ops.getitem(seq_of_zeros, slice(0, 1)))
    for k in range(shape_of(seq_of_zeros)[0]):
        zero = ops.getitem(seq_of_zeros, slice(k, k + 1))
        factor = ops.concatenate([ops.ones_like(zero), ops.negative(zero)])
        made = convolve(made, factor)
    return made
