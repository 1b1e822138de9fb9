"""Clipping of gradients by the norm of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays import Array, describe, dtype_of
from ..arrays.traced import Traced
from ..autograd import Variable, no_grad
from ..autograd.updates import (
    Leaves,
    Names,
    NumberOf,
    SpecCall,
    Together,
    check_leaf,
    native,
)
from ..autograd.versions import note_write
from ..errors import KernelTypeError
from ..op import AnyArray, Reduction, elementwise, reduction
from ..op.base import non_negative

__all__ = ["clip_by_global_norm"]

#: What PyTorch adds to the norm that it divides by.
_EPS = 1e-6


@reduction(combine="sum")
def squares(x):
    """The sum of squares, of the sizes of complex numbers."""
    return np.real(np.conj(x) * x)


@reduction(combine="sum")
def wide_squares(x):
    """The sum of squares of 16-bit floats, which would overflow as such."""
    wide = np.float32(x)
    return wide * wide


def _factor(total, limit, eps):
    norm = np.sqrt(total)
    return norm, np.minimum(1.0, limit / (norm + eps))


@reduction(combine="sum", post=_factor)
def norm_and_factor(x, limit, eps):
    """The norm of which the sums of squares are given, and the factor that clips it."""
    return x


@elementwise
def scaled(x, factor):
    """An array times a number, in the dtype of the array."""
    return x * factor


def clip_by_global_norm(grads: Any, max_norm: float) -> AnyArray:
    """Scale all arrays of a tree, in place, so that their common norm is at most this.

    Two reductions, of the arrays and of their sums, then one launch for all.

    Parameters
    ----------
    grads : tree of arrays or of Variables
        Changed in place where their norm is larger.
    max_norm : float
        The largest norm; inf only computes the norm.

    Returns
    -------
    array
        The norm before, without dimensions: float64 if one of them is, or complex128,
        else float32.

    Raises
    ------
    KernelTypeError
        There is no array, or one that is not floating, which the message names:
        ``grads['w'][0]``.
    RangeError
        `max_norm` is negative.

    Notes
    -----
    As PyTorch's ``clip_grad_norm_``, the factor is ``max_norm / (norm + 1e-6)``, at
    most 1.  It is NaN if the norm is.

    Examples
    --------
    >>> import numpy as np
    >>> grads = {"w": np.array([3.0, 0.0]), "b": np.array([4.0])}
    >>> float(clip_by_global_norm(grads, 1.0)), grads["b"].round(3)
    (5.0, array([0.8]))
    """
    limit = non_negative(max_norm, "clip_by_global_norm", "max_norm")
    leaves = Leaves("clip_by_global_norm", {"grads": grads})
    (column,) = leaves.columns
    if not column:
        raise KernelTypeError("clip_by_global_norm: 'grads' holds no array; pass the "
                              "gradients")
    if leaves.traced:
        with no_grad():
            return _record(leaves, limit)
    arrays = [native(x) for x in column]
    like = describe(arrays[0], leaves.names()[0]) if len(arrays) == 1 else describe(
        arrays[0], "grads")
    dtype = _wide([dtype_of(x) for x in arrays])
    made = [like.library.empty(shape, dtype, like.device)
            for shape in ((len(arrays),), (), ())]
    _TOGETHER([*arrays, *made], (limit, _EPS),
              lambda: [*leaves.names(), "sums", "norm", "factor"])
    note_write(arrays)
    norm = like.library.finish(made[1])
    return Variable(norm) if isinstance(column[0], Variable) else norm


def _wide(dtypes: Sequence[Any]) -> np.dtype:
    """The dtype of the norm of arrays of these dtypes."""
    return np.dtype("f8" if {np.dtype("f8"), np.dtype("c16")} & {*dtypes} else "f4")


def _squares(dtype: Any) -> Reduction:
    return wide_squares if dtype.itemsize == 2 else squares


def _calls(arrays: Sequence[Array], names: Names) -> list[SpecCall]:
    """Sums of squares, the factor, and the products with it."""
    *grads, sums, norm, factor = arrays
    named = names()
    for x, name in zip(grads, named, strict=False):
        check_leaf("clip_by_global_norm", x, name, x, name)
    size = sums.dtype.itemsize
    parts = [replace(sums, pointer=sums.pointer + k * size, shape=(), strides=())
             for k in range(len(grads))]
    first = [SpecCall(_squares(x.dtype).spec(("element",), None, False, None), (x,),
                      (part,)) for x, part in zip(grads, parts, strict=True)]
    middle = SpecCall(
        norm_and_factor.spec(("element", "scalar", "scalar"), None, False, None),
        (sums, NumberOf(0), NumberOf(1)), (norm, factor))
    last = [SpecCall(scaled.spec(("element", "element")), (x, factor), (x,))
            for x in grads]
    return [*first, middle, *last]


_TOGETHER = Together(_calls)


def _record(leaves: Leaves, limit: Any) -> Any:
    """Record it on placeholders, leaf by leaf."""
    (column,), names = leaves.columns, leaves.names()
    for x, name in zip(column, names, strict=True):
        found = x if isinstance(x, Traced) else describe(native(x), name)
        check_leaf(leaves.what, found, name, found, name)
    dtype = _wide([dtype_of(x) for x in column])
    total = sum(_squares(dtype_of(x))(x).astype(dtype) for x in column)
    norm = np.sqrt(total)
    factor = np.minimum(1.0, limit / (norm + _EPS))
    for x in column:
        scaled(x, factor, out=x)
    return norm
