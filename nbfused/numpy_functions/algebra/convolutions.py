"""`convolve` and `correlate`: sums of products with a vector that is moved along."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...arrays.traced import Traced
from ...errors import KernelTypeError, ShapeError
from ...scalar.typing.types import compute_dtype, promoted_dtype
from ..base import as_arrays, converted, implements, index_array, ops, shape_of
from .stacks import conjugated

__all__ = ["convolve"]

#: Factors up to which each is multiplied with a slice where functions are fused, and
#: products from which on it is elsewhere.  Else so many factors at a time meet a matrix
#: of gathered elements: benchmarks/notes/cpu.md#convolutions.
FEW, MANY, PIECE = 256, 1 << 16, 64


@implements("convolve")
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Sums of products with a vector that is moved along, and reversed."""
    a, v = (x if shape_of(x) else ops.reshape(x, (1,))
            for x in as_arrays([a, v], "numpy.convolve", weak=False))
    sizes = [shape_of(x) for x in (a, v)]
    if [len(s) for s in sizes] != [1, 1] or (0,) in sizes:
        raise ShapeError(f"numpy.convolve: shapes {sizes[0]} and {sizes[1]}, expected "
                         "one dimension, not empty")
    if sizes[0][0] < sizes[1][0]:
        a, v = v, a
    (n,), (k,) = shape_of(a), shape_of(v)
    middle = _middle(a, v)
    if mode == "valid":
        return middle
    if mode not in ("full", "same"):
        raise KernelTypeError(f"numpy.convolve: mode {mode!r}, expected 'full', 'same' "
                              "or 'valid'")
    full = middle if k == 1 else ops.concatenate([
        _at_an_end(a, v, 0, k - 1), middle, _at_an_end(a, v, n, n + k - 1)])
    start = (k - 1) // 2
    return full if mode == "full" else ops.getitem(full, slice(start, start + n))


@implements("correlate")
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Sums of products with a vector that is moved along."""
    from ..shapes import flip
    made = convolve(a, flip(conjugated(v)), mode)
    if mode == "same" and shape_of(a)[0] < shape_of(v)[0]:
        # NumPy takes the middle of the longer one, from the other side.
        full = convolve(a, flip(conjugated(v)), "full")
        (n,), (k,) = shape_of(v), shape_of(a)
        start = k // 2
        return ops.getitem(full, slice(start, start + n))
    return made


def _middle(a: Any, v: Any) -> Any:
    """The sums to which all factors contribute.

    Those of 16-bit floats are rounded once, at the end.
    """
    kind = promoted_dtype(dtype_of(a), dtype_of(v))
    a, v = (converted(x, compute_dtype(kind)) for x in (a, v))
    (n,), (k,) = shape_of(a), shape_of(v)
    slices = k <= FEW if isinstance(a, Traced) else n*k >= MANY
    made = reduce(ops.add, _by_slices(a, v) if slices else _by_matrices(a, v))
    return converted(made, kind)


def _by_slices(a: Any, v: Any) -> Iterator[Any]:
    (n,), (k,) = shape_of(a), shape_of(v)
    for i in range(k):
        yield ops.multiply(ops.getitem(a, slice(k - 1 - i, n - i)), ops.getitem(v, i))


def _by_matrices(a: Any, v: Any) -> Iterator[Any]:
    (n,), (k,) = shape_of(a), shape_of(v)
    for first in range(0, k, PIECE):
        last = min(first + PIECE, k)
        part = ops.getitem(a, slice(k - last, n - first))
        places = _moved(last - first - 1, n - first - k + last, last - first)
        yield ops.matmul(ops.take(part, index_array(places, part), axis=0),
                         ops.getitem(v, slice(first, last)))


def _moved(begin: int, end: int, k: int) -> np.ndarray:
    """Places of the factors of the elements of a reversed vector, one row for each."""
    return np.arange(begin, end)[:, None] - np.arange(k)


def _at_an_end(a: Any, v: Any, begin: int, end: int) -> Any:
    """Sums of products where the vector stands out: what has no factor is left away.

    Zeros as factors would make NaN of infinities.
    """
    places, last = _moved(begin, end, shape_of(v)[0]), shape_of(a)[0] - 1
    factors = ops.take(a, index_array(np.clip(places, 0, last), a), axis=0)
    inside = index_array((places >= 0) & (places <= last), a)
    products = ops.multiply(factors, v)
    kind = dtype_of(products)
    made = ops.where(inside, products, 0)
    return ops.any(made, axis=1) if kind.kind == "b" else ops.sum(
        converted(made, kind), axis=1, dtype=kind)
