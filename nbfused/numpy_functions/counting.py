"""Counts, sets and positions.

They are computed by NumPy on the host, as the shapes of most depend on elements: an
array of a device is read.  Sums of weights are differentiated by these, and nothing
else is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arrays import dtype_of
from ..errors import KernelTypeError, ShapeError
from .base import (
    as_arrays,
    as_given,
    axes_of,
    converted,
    implements,
    index_array,
    is_value,
    ops,
    shape_of,
)
from .indexing import host_of
from .sorting import unique

__all__: list[str] = []


def _plain(x: Any, name: str) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(_plain(y, name) for y in x)
    return host_of(x, name) if is_value(x) else x


def _on_host(name: str) -> Callable[..., Any]:
    """NumPy's own function of the elements, its results where the arguments are."""
    function = getattr(np, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        like = next(filter(is_value, _leaves((*args, *kwargs.values()))))
        made = function(*(_plain(x, name) for x in args),
                        **{k: _plain(x, name) for k, x in kwargs.items()})
        return _as_given(made, like)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


def _leaves(found: Iterable[Any]) -> Iterator[Any]:
    for x in found:
        if isinstance(x, (list, tuple)):
            yield from _leaves(x)
        else:
            yield x


def _as_given(made: Any, like: Any) -> Any:
    if isinstance(made, (tuple, list)):
        return type(made)(_as_given(x, like) for x in made)
    if not isinstance(made, np.ndarray) or made.dtype == object:
        return made
    return as_given(index_array(made, like), like)


_counted = {name: _on_host(name) for name in (
    "bincount", "digitize", "histogram", "histogram2d", "histogramdd",
    "histogram_bin_edges", "isin", "packbits", "unpackbits", "ravel_multi_index",
    "unravel_index")}


def _summed(places: np.ndarray, weights: Any, count: int) -> Any:
    """Sums of weights by the place of each."""
    return ops.add_at(index_array(np.zeros(count), weights), ops.astype(
        weights, np.float64), index_array(places, weights))


@implements("bincount")
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """Counts of integers, or the sums of their weights."""
    if not is_value(weights):
        return _counted["bincount"](x, weights, minlength)
    places = np.asarray(_plain(x, "bincount"))
    if places.ndim != 1 or shape_of(weights) != places.shape:
        raise ShapeError(f"numpy.bincount: 'x' has shape {places.shape} and 'weights' "
                         f"{shape_of(weights)}; expected one dimension, as many")
    count = max(len(np.bincount(places)), minlength)  # what NumPy refuses of these
    return _summed(places.astype(np.int64), weights, count)


@implements("histogram")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None,
              weights: Any = None) -> Any:
    """Counts of elements in bins, or the sums of their weights."""
    if not is_value(weights):
        return _counted["histogram"](a, bins, range, density, weights)
    found = np.ravel(np.asarray(_plain(a, "histogram")))
    if shape_of(weights) != np.shape(a):
        raise ShapeError(f"numpy.histogram: 'a' has shape {np.shape(a)} and 'weights' "
                         f"{shape_of(weights)}; expected the same")
    edges = np.histogram_bin_edges(found, _plain(bins, "histogram"), range)
    last = len(edges) - 2
    places = np.searchsorted(edges, found, "right") - 1
    places[found == edges[-1]] = last  # the last bin has both of its edges
    inside = np.flatnonzero((places >= 0) & (places <= last))
    sums = _summed(places[inside], ops.getitem(
        ops.reshape(weights, (-1,)), index_array(inside, weights)), last + 1)
    edges_given = as_given(index_array(edges, weights), weights)
    if not density:
        return converted(sums, dtype_of(weights)), edges_given
    widths = index_array(np.diff(edges), weights)
    return ops.divide(ops.divide(sums, widths), ops.sum(sums)), edges_given


def _without_gradient_of_weights(name: str) -> None:
    """Refuse weights that are differentiated by, where NumPy counts on the host."""
    counted = _counted[name]

    def call(*args: Any, **kwargs: Any) -> Any:
        for x in (*args[4:], kwargs.get("weights")):
            if getattr(x, "requires_grad", False):
                raise KernelTypeError(
                    f"numpy.{name}: 'weights' requires grad, which it would lose; use "
                    "numpy.bincount of the number of each element's bin")
        return counted(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    implements(name)(call)


_without_gradient_of_weights("histogram2d")
_without_gradient_of_weights("histogramdd")


@implements("trim_zeros")
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """The elements without zeros at the ends."""
    host = np.asarray(_plain(filt, "trim_zeros"))
    places = [np.flatnonzero(np.any(host != 0, axis=tuple(
        j for j in range(host.ndim) if j != k))) for k in range(host.ndim)]
    axes = axes_of(axis, host.ndim)
    trim = trim.lower()

    def kept(k: int) -> slice:
        if k not in axes:
            return slice(None)
        if not places[k].size:
            return slice(0, 0)
        return slice(int(places[k][0]) if "f" in trim else None,
                     int(places[k][-1]) + 1 if "b" in trim else None)

    return ops.getitem(filt, tuple(kept(k) for k in range(host.ndim)))


class UniqueAllResult(NamedTuple):
    """The different elements, where each is first, and how often."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """The different elements, and how often each is there."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """The different elements, and which of them each element is."""

    values: Any
    inverse_indices: Any


def _sets(name: str, kind: Callable[..., Any], *wanted: bool) -> None:
    """The elements of a set with their places: each NaN is one of its own."""
    def call(x: Any) -> Any:
        return kind(*unique(x, *wanted, equal_nan=False))

    call.__name__ = call.__qualname__ = name
    implements(name)(call)


_sets("unique_all", UniqueAllResult, True, True, True)
_sets("unique_counts", UniqueCountsResult, False, False, True)
_sets("unique_inverse", UniqueInverseResult, False, True, False)


def _both(ar1: Any, ar2: Any) -> Any:
    return ops.concatenate([ops.reshape(x, (-1,)) for x in as_arrays(
        [ar1, ar2], "numpy.union1d and its like", weak=False)])


@implements("union1d")
def union1d(ar1: Any, ar2: Any) -> Any:
    """The different elements of both arrays, in order."""
    return unique(_both(ar1, ar2))


def _chosen(name: str, keep: Callable[..., np.ndarray]) -> Any:
    """Elements of the first array, or of both, that a rule on the host keeps."""
    def call(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
        both = _both(ar1, ar2)
        first, second = (host_of(x, name).reshape(-1) for x in (ar1, ar2))
        values = keep(first, second, assume_unique)
        whole = np.concatenate([first, second])
        places = [int(np.flatnonzero((whole == v) | ((v != v) & (whole != whole)))[0])
                  for v in values]
        return ops.take(both, index_array(np.asarray(places, np.int64), both), axis=0)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


@implements("intersect1d")
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False,
                return_indices: bool = False) -> Any:
    """The different elements that both arrays have, in order, and where they are."""
    one, other = (host_of(x, "intersect1d") for x in (ar1, ar2))
    _, *places = np.intersect1d(one, other, assume_unique, return_indices=True)
    first, second = (index_array(np.asarray(k, np.int64), ar1) for k in places)
    found = ops.take(_both(ar1, ar2), first, axis=0)  # of their common dtype
    return (found, as_given(first, ar1), as_given(second, ar1)) if return_indices \
        else found


setdiff1d = _chosen("setdiff1d", np.setdiff1d)
setxor1d = _chosen("setxor1d", np.setxor1d)


def _from_shape(name: str) -> Callable[..., Any]:
    """Indices that follow from the shape of an array."""
    function = getattr(np, name)

    def call(arr: Any, k: int = 0) -> Any:
        made = function(np.broadcast_to(0, shape_of(arr)), k)
        return tuple(_as_given(np.ascontiguousarray(x), arr) for x in made)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


tril_indices_from = _from_shape("tril_indices_from")
triu_indices_from = _from_shape("triu_indices_from")


@implements("diag_indices_from")
def diag_indices_from(arr: Any) -> Any:
    """The indices of the main diagonal."""
    made = np.diag_indices_from(np.broadcast_to(0, shape_of(arr)))
    return tuple(_as_given(x, arr) for x in made)
