"""Counts, sets and positions: results that are not differentiated.

They are computed by NumPy on the host, as the shapes of most depend on elements: an
array of a device is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .base import as_given, implements, index_array, is_value, ops, shape_of
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
        like = next(x for x in (*args, *kwargs.values()) if is_value(x))
        made = function(*(_plain(x, name) for x in args),
                        **{k: _plain(x, name) for k, x in kwargs.items()})
        return _as_given(made, like)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


def _as_given(made: Any, like: Any) -> Any:
    if isinstance(made, (tuple, list)):
        return type(made)(_as_given(x, like) for x in made)
    if not isinstance(made, np.ndarray) or made.dtype == object:
        return made
    return as_given(index_array(made, like), like)


for _name in ("bincount", "digitize", "histogram", "histogram2d", "histogramdd",
              "histogram_bin_edges", "isin", "packbits", "unpackbits",
              "ravel_multi_index", "unravel_index", "trim_zeros"):
    _on_host(_name)


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
    return ops.concatenate([ops.reshape(ar1, (-1,)), ops.reshape(ar2, (-1,))])


@implements("union1d")
def union1d(ar1: Any, ar2: Any) -> Any:
    """The different elements of both arrays, in order."""
    return unique(_both(ar1, ar2))


def _chosen(name: str, keep: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Any:
    """Elements of the first array, or of both, that a rule on the host keeps."""
    def call(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
        both = _both(ar1, ar2)
        first, second = (host_of(x, name).reshape(-1) for x in (ar1, ar2))
        values = keep(first, second)
        whole = np.concatenate([first, second])
        places = [int(np.flatnonzero(whole == v)[0]) for v in values]
        return ops.take(both, index_array(np.asarray(places, np.int64), both), axis=0)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


intersect1d = _chosen("intersect1d", np.intersect1d)
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
