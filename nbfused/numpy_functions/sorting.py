"""Sorted arrays and order statistics, differentiated through indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..errors import KernelTypeError
from .base import (
    as_given,
    axes_of,
    axis_of,
    converted,
    detached,
    floating,
    implements,
    index_array,
    lined,
    ops,
    permuted,
    shape_of,
    stored,
)
from .indexing import host_of
from .library import has_samples, is_constant, native, without_gradient
from .reductions import _is_number, mean

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
    return ops.astype(sort(a), "complex64" if dtype_of(a) == np.float32
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
    if has_samples(a):  # each has an order of its own, which libraries take one of
        below = ops.less if side == "left" else ops.less_equal
        return ops.sum(below(detached(a), ops.expand_dims(detached(v), -1)), axis=-1)
    return _searchsorted(a, v, side=side)


_searchsorted = without_gradient("searchsorted", lambda a, v, side: native(
    "searchsorted", a)(a, v, side=side))


@implements("median")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
           keepdims: bool = False) -> Any:
    """The middle element, or the mean of the two in the middle; NaN of none."""
    extents = shape_of(a)
    if not all(extents[k] for k in axes_of(axis, len(extents))):
        return mean(a, axis, None, out, keepdims)
    return quantile(a, 0.5, axis, out, keepdims=keepdims)


@implements("percentile")
def percentile(a: Any, q: Any, axis: Any = None, out: Any = None,
               overwrite_input: bool = False, method: str = "linear",
               keepdims: bool = False) -> Any:
    """The element below which a percentage of the elements are."""
    return _quantiles(a, q, axis, out, method, keepdims, False, 100)


@implements("quantile")
def quantile(a: Any, q: Any, axis: Any = None, out: Any = None,
             overwrite_input: bool = False, method: str = "linear",
             keepdims: bool = False) -> Any:
    """The element below which a share of the elements are."""
    return _quantiles(a, q, axis, out, method, keepdims, False)


@implements("nanmedian")
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Any:
    """The median of what is no NaN."""
    return _quantiles(a, 0.5, axis, out, "linear", keepdims, True)


@implements("nanquantile")
def nanquantile(a: Any, q: Any, axis: Any = None, out: Any = None,
                overwrite_input: bool = False, method: str = "linear",
                keepdims: bool = False) -> Any:
    """The quantile of what is no NaN."""
    return _quantiles(a, q, axis, out, method, keepdims, True)


@implements("nanpercentile")
def nanpercentile(a: Any, q: Any, axis: Any = None, out: Any = None,
                  overwrite_input: bool = False, method: str = "linear",
                  keepdims: bool = False) -> Any:
    """The percentile of what is no NaN."""
    return _quantiles(a, q, axis, out, method, keepdims, True, 100)


#: How a place between two elements is rounded, by NumPy's name of the method.
_METHODS: dict[str, str | None] = {
    "linear": None, "lower": "floor", "higher": "ceil", "nearest": "rint",
    "midpoint": "half"}
#: Methods that place quantiles of a sample elsewhere, by NumPy's name: the two
#: constants of its formula (Hyndman and Fan 1996, The American Statistician 50(4)).
_PLACED = {"interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5),
           "weibull": (0.0, 0.0), "median_unbiased": (1 / 3, 1 / 3),
           "normal_unbiased": (3 / 8, 3 / 8)}
_METHODS |= dict.fromkeys(_PLACED)
#: Those that give elements, in their dtype.
_TAKEN = {"lower", "higher", "nearest"}


def _quantiles(a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: bool,
               skip: bool, scale: int = 1) -> Any:
    """Quantiles of lines that are sorted, each `q` along a new first axis."""
    if method not in _METHODS:
        raise KernelTypeError(f"numpy.quantile: method {method!r} is not supported on "
                              f"what nbfused computes; expected one of "
                              f"{', '.join(map(repr, _METHODS))}")
    shares = np.asarray(q, np.float64) / scale
    if shares.size and not (shares.min() >= 0 and shares.max() <= 1):
        raise ValueError("numpy.quantile: a share is outside of [0, 1]")
    extents, axes = shape_of(a), axes_of(axis, len(shape_of(a)))
    free = [k for k in range(len(extents)) if k not in axes]
    if method not in _TAKEN:
        a = floating(a)
        if type(q) not in (int, float):  # which are of the dtype of `a`
            kind = np.asarray(q).dtype
            kind = kind if kind.kind == "f" else np.dtype(np.float64)
            a = converted(a, np.result_type(dtype_of(a), kind))
    size = int(np.prod([extents[k] for k in axes], dtype=int))
    lines = ops.reshape(permuted(a, [*free, *axes]), (
        *(extents[k] for k in free), size))
    ordered = sort(lines, -1)
    made = [_quantile(ordered, float(s), method, skip) for s in shares.reshape(-1)]
    kept = tuple(1 if k in axes else n for k, n in enumerate(extents))
    if keepdims:
        made = [ops.reshape(x, kept) for x in made]
    found = made[0] if not shares.ndim else ops.reshape(
        ops.stack(made), (*shares.shape, *shape_of(made[0])))
    return stored(found, out)


def _quantile(ordered: Any, share: float, method: str, skip: bool) -> Any:
    """One quantile of sorted lines; NaN comes last in them."""
    count = shape_of(ordered)[-1]
    last = ops.getitem(ordered, (..., -1))
    known = _is_number(ordered) if skip else True
    if known is True:
        place = float(_place(np.float64(count), np.float64(count - 1), share, method))
        low, weight = _rounded(place, method)
        found = _between(ops.getitem(ordered, (..., low)),
                         ops.getitem(ordered, (..., min(low + 1, count - 1))), weight)
        return ops.where(ops.isnan(last), last, found)
    counts = ops.sum(known, axis=-1, keepdims=True)
    ends = ops.maximum(ops.subtract(counts, 1), 0)
    many, end = (ops.astype(x, dtype_of(ordered)) for x in (counts, ends))
    places = _place(many, end, share, method)
    lows = ops.floor(places)
    weights = ops.subtract(places, lows)
    step = _METHODS[method]
    if step == "half":
        weights = ops.where(ops.equal(weights, 0), 0.0 * weights, 0.5)
    elif step is not None:
        lows, weights = ops[step](places), 0.0 * weights
    index = ops.astype(lows, "int64")
    above = ops.minimum(ops.add(index, 1), ends)
    first, second = (ops.take_along_axis(ordered, k, axis=-1) for k in (index, above))
    return ops.squeeze(_between(first, second, weights), -1)


def _place(count: Any, end: Any, share: float, method: str) -> Any:
    """The place of a quantile among so many elements, of which the last is at `end`.

    Rounded as NumPy rounds it, which decides between two elements.
    """
    if method not in _PLACED:
        return end * share
    first, last = _PLACED[method]
    found = count * share + (first + share * (1 - first - last)) - 1
    return np.maximum(np.minimum(found, end), 0)


def _rounded(place: float, method: str) -> tuple[int, float]:
    """The element below a place, and how far from it to the next one the place is."""
    low = int(np.floor(place))
    step = _METHODS[method]
    if step is None:
        return low, place - low
    if step == "half":
        return low, 0.5 if place != low else 0.0
    return int({"floor": np.floor, "ceil": np.ceil, "rint": np.rint}[step](place)), 0.0


def _between(low: Any, high: Any, weight: Any) -> Any:
    if isinstance(weight, float):
        return low if not weight else ops.add(ops.multiply(low, 1 - weight),
                                              ops.multiply(high, weight))
    return ops.add(low, ops.multiply(ops.subtract(high, low), weight))
