"""Medians and quantiles by NumPy's methods, differentiated through elements.

Which elements a quantile is made of follows from how many there are, and is computed on
the host.  Where NaN is skipped, each line has a number of its own, which is looked up
in a table of all that it could be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...arrays import dtype_of, to_numpy
from ...autograd import Variable
from ...errors import KernelTypeError
from ...support.records import record
from ..base import (
    as_arrays,
    axes_of,
    check_values,
    converted,
    detached,
    floating,
    implements,
    index_array,
    ops,
    permuted,
    shape_of,
    stored,
)
from ..cumulative import cumsum
from ..reductions.with_keywords import mean
from ..reductions.without_nan import is_number
from ..sorting import argsort, sort
from .averages import spread_weights

__all__: list[str] = []


@implements("median")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
           keepdims: bool = False) -> Any:
    """The middle element, or the mean of the two in the middle; NaN of none."""
    extents = shape_of(a)
    if not all(extents[k] for k in axes_of(axis, len(extents))):
        return mean(a, axis, None, out, keepdims)
    return _of_lines(a, 0.5, axis, out, keepdims=keepdims)


@implements("percentile")
def percentile(a: Any, q: Any, axis: Any = None, out: Any = None,
               overwrite_input: bool = False, method: str = "linear",
               keepdims: bool = False, *, weights: Any = None) -> Any:
    """The element below which a percentage of the elements are."""
    return _quantiles(a, q, axis, out, method, keepdims, weights, False, 100)


@implements("quantile")
def quantile(a: Any, q: Any, axis: Any = None, out: Any = None,
             overwrite_input: bool = False, method: str = "linear",
             keepdims: bool = False, *, weights: Any = None) -> Any:
    """The element below which a share of the elements are."""
    return _quantiles(a, q, axis, out, method, keepdims, weights, False)


@implements("nanmedian")
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Any:
    """The median of what is no NaN; NaN of none."""
    if not all(shape_of(a)[k] for k in axes_of(axis, len(shape_of(a)))):
        return mean(a, axis, None, out, keepdims)
    return _of_lines(a, 0.5, axis, out, keepdims=keepdims, skip=True)


@implements("nanquantile")
def nanquantile(a: Any, q: Any, axis: Any = None, out: Any = None,
                overwrite_input: bool = False, method: str = "linear",
                keepdims: bool = False, *, weights: Any = None) -> Any:
    """The quantile of what is no NaN."""
    return _quantiles(a, q, axis, out, method, keepdims, weights, True)


@implements("nanpercentile")
def nanpercentile(a: Any, q: Any, axis: Any = None, out: Any = None,
                  overwrite_input: bool = False, method: str = "linear",
                  keepdims: bool = False, *, weights: Any = None) -> Any:
    """The percentile of what is no NaN."""
    return _quantiles(a, q, axis, out, method, keepdims, weights, True, 100)


class _Method(NamedTuple):
    """A method of quantiles.

    Attributes
    ----------
    place
        Where the quantile of a share is among `n` elements, rounded as NumPy rounds it,
        which decides between two elements.
    step
        The element below a place, and the weight of the next one; without a weight,
        the element that is the quantile.
    """

    place: Callable[[Any, Any], Any]
    step: Callable[[Any], Any]


def _spaced(first: float, last: float) -> Callable[[Any, Any], Any]:
    """Places by two constants of Hyndman and Fan 1996, The American Statistician 50."""
    return lambda n, share: n * share + (first + share * (1 - first - last)) - 1


def _even(n: Any, share: Any) -> Any:
    return (n - 1) * share


def _inverted(n: Any, share: Any) -> Any:
    return n * share - 1


def _between(place: Any) -> Any:
    low = np.floor(place)
    return low, place - low


def _in_the_middle(place: Any) -> Any:
    low = np.floor(place)
    return low, np.where(place == low, 0.0, 0.5)


def _averaged(place: Any) -> Any:
    low = np.floor(place)
    return low, np.where(place == low, 0.5, 1.0)


def _to_odd(place: Any) -> Any:
    low = np.floor(place)
    return low + ((place != low) | (low % 2 != 1))


#: By NumPy's name.
_METHODS = {
    "linear": _Method(_even, _between), "lower": _Method(_even, np.floor),
    "higher": _Method(_even, np.ceil), "nearest": _Method(_even, np.rint),
    "midpoint": _Method(_even, _in_the_middle),
    "inverted_cdf": _Method(_inverted, np.ceil),
    "averaged_inverted_cdf": _Method(_inverted, _averaged),
    "closest_observation": _Method(lambda n, share: n * share - 1 - 0.5, _to_odd),
    "interpolated_inverted_cdf": _Method(_spaced(0.0, 1.0), _between),
    "hazen": _Method(_spaced(0.5, 0.5), _between),
    "weibull": _Method(_spaced(0.0, 0.0), _between),
    "median_unbiased": _Method(_spaced(1 / 3, 1 / 3), _between),
    "normal_unbiased": _Method(_spaced(3 / 8, 3 / 8), _between),
}
#: Those that give elements, in their dtype.
_TAKEN = frozenset({"lower", "higher", "nearest", "inverted_cdf",
                    "closest_observation"})


def _quantiles(a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: bool,
               weights: Any, skip: bool, scale: int = 1) -> Any:
    """Quantiles of real numbers, with their parameters checked."""
    if dtype_of(a).kind == "c":
        raise KernelTypeError(f"numpy.quantile: 'a' has complex numbers "
                              f"({dtype_of(a)}), which have no order; expected real "
                              "ones, as x.real")
    if method not in _METHODS:
        raise KernelTypeError(f"numpy.quantile: method {method!r}, expected one of "
                              f"{', '.join(map(repr, _METHODS))}")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"numpy.quantile: 'weights' with method {method!r}; only "
                         "method='inverted_cdf' has weights, as in NumPy")
    return _of_lines(a, q, axis, out, method, bool(keepdims), weights, skip, scale)


def _of_lines(a: Any, q: Any, axis: Any, out: Any, method: str = "linear",
              keepdims: bool = False, weights: Any = None, skip: bool = False,
              scale: int = 1) -> Any:
    """Quantiles of lines that are sorted, each `q` along a new first axis."""
    shares = _shares(q, scale)
    extents, axes = shape_of(a), axes_of(axis, len(shape_of(a)))
    if method not in _TAKEN:
        a = _of_common_dtype(floating(a), q)
    if weights is None:
        lines = sort(_lines(a, axes), -1)
        made = [_quantile(lines, s, _METHODS[method], skip) for s in shares.flat]
    else:
        a, weights = as_arrays([a, weights], "numpy.quantile")
        weights = spread_weights(a, weights, axis, "numpy.quantile")
        made = _weighted(_lines(a, axes), _lines(weights, axes), shares, skip)
    kept = tuple(1 if k in axes else n for k, n in enumerate(extents))
    if keepdims:
        made = [ops.reshape(x, kept) for x in made]
    found = made[0] if not shares.ndim else ops.reshape(
        ops.stack(made), (*shares.shape, *shape_of(made[0])))
    return stored(found, out)


def _shares(q: Any, scale: int) -> np.ndarray:
    found = np.asarray(q)
    found = found if found.dtype.kind == "f" else found.astype(np.float64)
    found = np.asarray(np.true_divide(found, scale) if scale != 1 else found)
    if found.size and not (found.min() >= 0 and found.max() <= 1):
        raise ValueError(f"numpy.quantile: 'q' is {q!r}, expected shares between 0 and "
                         "1, or percentages between 0 and 100")
    return found


def _of_common_dtype(a: Any, q: Any) -> Any:
    """`a` in the dtype that it has beside `q`, where that is no number of Python."""
    if type(q) in (int, float):
        return a
    kind = np.asarray(q).dtype
    return converted(a, np.result_type(dtype_of(a), kind if kind.kind == "f" else
                                       np.float64))


def _lines(a: Any, axes: tuple[int, ...]) -> Any:
    """The elements along some axes as the last one."""
    extents = shape_of(a)
    free = [k for k in range(len(extents)) if k not in axes]
    size = int(np.prod([extents[k] for k in axes], dtype=int))
    return ops.reshape(permuted(a, [*free, *axes]), (
        *(extents[k] for k in free), size))


def _places(counts: np.ndarray, share: Any, method: _Method) -> Any:
    """The element below the quantile of so many, and the weight of the next one."""
    place = method.place(counts.astype(share.dtype), share)
    end = np.maximum(counts - 1, 0)
    found = method.step(place)
    low, weight = found if isinstance(found, tuple) else (found, 0.0 * place)
    weight = np.where((place >= 0) & (place < end), weight, 0.0)
    return np.clip(low, 0, end).astype(np.int64), weight


def _quantile(ordered: Any, share: Any, method: _Method, skip: bool) -> Any:
    """One quantile of sorted lines; NaN comes last in them."""
    count = shape_of(ordered)[-1]
    known = is_number(ordered) if skip else True
    if known is True:
        (low,), (weight,) = _places(np.array([count]), share, method)
        last = ops.getitem(ordered, (..., -1))
        found = _interpolated(
            ops.getitem(ordered, (..., int(low))), ops.getitem(
                ordered, (..., min(int(low) + 1, count - 1))), float(weight))
        return ops.where(ops.isnan(last), last, found)
    counts = ops.sum(known, axis=-1, keepdims=True)
    tables = _places(np.arange(count + 1), share, method)
    low, weight = (ops.take(index_array(x, ordered), counts, axis=0) for x in (
        tables[0], tables[1].astype(dtype_of(ordered))))
    above = ops.minimum(ops.add(low, 1), ops.maximum(ops.subtract(counts, 1), 0))
    first, second = (ops.take_along_axis(ordered, k, axis=-1) for k in (low, above))
    # Beside an infinity, which is not 0 times itself, the element alone.
    found = ops.where(ops.equal(weight, 0), first, _interpolated(first, second, weight))
    return ops.squeeze(found, -1)


def _interpolated(low: Any, high: Any, weight: Any) -> Any:
    if not isinstance(weight, float):
        return ops.add(low, ops.multiply(ops.subtract(high, low), weight))
    if weight in (0.0, 1.0):
        return high if weight else low
    return ops.add(ops.multiply(low, 1 - weight), ops.multiply(high, weight))


def _weighted(lines: Any, weights: Any, shares: np.ndarray, skip: bool) -> list[Any]:
    """Elements up to which the weights are a share of their sum.

    Nothing is differentiated through the weights, which only choose.
    """
    lines, weights = (ops.broadcast_to(x, np.broadcast_shapes(*map(
        shape_of, (lines, weights)))) for x in (lines, weights))
    chosen = argsort(detached(lines), -1)
    ordered = ops.take_along_axis(lines, chosen, axis=-1)
    share = ops.take_along_axis(converted(detached(weights), np.float64), chosen,
                                axis=-1)
    known = is_number(ordered) if skip else True
    if known is not True:
        share = ops.where(known, share, 0.0)
    total = ops.sum(share, axis=-1, keepdims=True)
    _check_weights(share, total if known is True else ops.where(
        ops.any(known, axis=-1, keepdims=True), total, 1.0))
    share = ops.astype(ops.divide(cumsum(share, axis=-1), total), shares.dtype)
    share = ops.where(ops.equal(share, 0), -1.0, share)  # none has no weight yet
    last = ops.getitem(ordered, (..., -1))
    found = []
    for q in shares.flat:
        index = ops.minimum(ops.sum(ops.less(share, q.item()), axis=-1, keepdims=True),
                            shape_of(lines)[-1] - 1)
        one = ops.squeeze(ops.take_along_axis(ordered, index, axis=-1), -1)
        found.append(one if skip else ops.where(ops.isnan(last), last, one))
    return found


def _check_weights(weights: Any, total: Any) -> None:
    check_values(weights, _Weights(sums=False))
    check_values(total, _Weights(sums=True))


@record(frozen=True)
class _Weights:
    """A check of weights.

    Attributes
    ----------
    sums
        Whether it is of their sums, and not of each.
    """

    sums: bool

    def __call__(self, values: Any) -> None:
        """Raise `ValueError` if one is negative, or a sum is no positive number."""
        found = values.to_numpy() if isinstance(values, Variable) else to_numpy(values)
        if self.sums and not (np.isfinite(found) & (found != 0)).all():
            raise ValueError("numpy.quantile: 'weights' have NaN or infinities, or are "
                             "all 0; expected finite numbers whose sum is positive")
        if not self.sums and (found < 0).any():
            raise ValueError(f"numpy.quantile: 'weights' have {found.min()}, expected "
                             "no negative ones")
