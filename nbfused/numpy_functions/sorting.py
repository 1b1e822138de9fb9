"""Sorted arrays, sets and positions, differentiated through indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import dtype_of
from .base import (
    as_arrays,
    as_given,
    axis_of,
    detached,
    implements,
    index_array,
    lined,
    ops,
    shape_of,
)
from .indexing import host_of
from .library import has_samples, is_constant, native, without_gradient

__all__: list[str] = []


def _by_library(name: str) -> Any:
    def call(x: Any, axis: int, kind: str | None = None) -> Any:
        options = {"kind": kind} if kind else {}
        return native(name, x)(x, axis=axis, **options)

    return without_gradient(name, call)


_argsort, _sorted = _by_library("argsort"), _by_library("sort")


def _flattened(a: Any, axis: Any) -> tuple[Any, int]:
    if axis is None:
        return ops.reshape(a, (-1,)), 0
    return a, axis_of(axis, len(shape_of(a)))


@implements("argsort")
def argsort(a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Any:
    """The indices that sort along an axis."""
    a, at = lined(a, axis)
    return _argsort(a, axis=at - len(shape_of(a)), kind="stable" if stable else kind)


@implements("sort")
def sort(a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Any:
    """The elements in order along an axis; gradients go where elements came from."""
    a, at = _flattened(a, axis)
    if is_constant(a):
        return _sorted(a, axis=at - len(shape_of(a)), kind="stable" if stable else kind)
    return ops._take_lines(a, argsort(a, at, kind, stable=stable), axis=at)


@implements("partition")
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect") -> Any:
    """Elements with the `kth` in its sorted place: here, all are sorted."""
    return sort(a, axis)


@implements("argpartition")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect") -> Any:
    """Indices with the `kth` in its sorted place: here, all are sorted."""
    return argsort(a, axis)


@implements("sort_complex")
def sort_complex(a: Any) -> Any:
    """The elements in order, as complex numbers."""
    kind = dtype_of(a)
    short = kind.kind in "iu" and kind.itemsize < 4  # not float16 and float32, as NumPy
    return ops.astype(sort(a), "complex64" if short or kind == np.complex64
                      else "complex128")


@implements("lexsort")
def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices that sort by several keys, the last one first."""
    given = list(keys)
    host = np.lexsort([host_of(k, "lexsort") for k in given], axis)
    return index_array(host, given[0])


@implements("unique")
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False,
           return_counts: bool = False, axis: Any = None, *,
           equal_nan: bool = True, sorted: bool = True) -> Any:
    """The different elements in order; gradients go to the first of equal ones."""
    options: dict[str, Any] = {"axis": axis, "equal_nan": equal_nan,
                               "return_inverse": return_inverse,
                               "return_counts": return_counts}
    found = np.unique(host_of(ar, "unique"), return_index=True, **options)
    flat, at = _flattened(ar, axis)
    values = ops.take(flat, index_array(found[1], ar), axis=at)
    rest = [x for x, wanted in zip(found[1:], (return_index, *[True] * 3),
                                   strict=False) if wanted]
    made = [values, *(as_given(index_array(x, ar), ar) for x in rest)]
    return made[0] if len(made) == 1 else tuple(made)



@implements("unique_values")
def unique_values(x: Any, /) -> Any:
    """The different elements in order: each NaN is one of its own."""
    return unique(x, equal_nan=False)


@implements("searchsorted")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """The positions at which elements keep a sorted array in order."""
    if sorter is not None:
        a = ops.take(a, sorter, axis=0)
    a, v = as_arrays([a, v], "numpy.searchsorted", weak=False)
    if has_samples(a):  # each has an order of its own, which libraries take one of
        below = ops.less if side == "left" else ops.less_equal
        return ops.sum(below(detached(a), ops.expand_dims(detached(v), -1)), axis=-1)
    return _searchsorted(a, v, side=side)


_searchsorted = without_gradient("searchsorted", lambda a, v, side: native(
    "searchsorted", a)(a, v, side=side))
