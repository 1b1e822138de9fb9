"""Reductions of the elements that are no NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...op import reduction
from ...op.base import check_inexact
from ...registry.operations import NUMPY
from ...specs.shapes import names_only_element
from ..base import implements, ops, shape_of, truth
from .with_keywords import (
    NOTHING,
    chosen,
    count_chosen,
    divisor,
    mean,
    prod,
    std,
    sum,
    var,
)

__all__ = ["is_number"]


def is_number(a: Any, where: Any = True) -> Any:
    """Whether elements are no NaN, and chosen; True where all are."""
    where = chosen(where, a)
    if dtype_of(a).kind not in "fcV":
        return where
    known = ops.logical_not(ops.isnan(a))
    return known if where is True else ops.logical_and(known, where)


def _maybe_nan(a: Any, where: Any) -> bool:
    """Whether all elements are chosen and any may be NaN: that is one launch."""
    return where is True and dtype_of(a).kind in "fcV"


@reduction(combine="sum")
def _nansum(x: Any) -> Any:
    return x if x == x else 0


@reduction(combine="prod", identity=1)
def _nanprod(x: Any) -> Any:
    return x if x == x else 1


@reduction(combine="nanmean")
def _nanmean(x: Any) -> Any:
    return x


@reduction(combine="nanmax")
def _nanmax(x: Any) -> Any:
    return x


@reduction(combine="nanmin")
def _nanmin(x: Any) -> Any:
    return x


def _at_once(of: Any, a: Any, axis: Any, **options: Any) -> Any:
    """A reduction of ours; of one number along the axis 0 or -1, too."""
    axis = None if not shape_of(a) and names_only_element(axis) else axis
    return of(a, axis=axis, **options)


def _skipping(name: str, of: Callable[..., Any], whole: Any) -> Callable[..., Any]:
    """A reduction of the elements that are no NaN; of `whole` arrays one launch."""
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
             keepdims: Any = False, initial: Any = NOTHING, where: Any = True) -> Any:
        if initial is NOTHING and _maybe_nan(a, where):
            return _at_once(whole, a, axis, dtype=dtype, out=out,
                            keepdims=bool(keepdims))
        return of(a, axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial,
                  where=is_number(a, where))

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


nansum = _skipping("nansum", sum, _nansum)
nanprod = _skipping("nanprod", prod, _nanprod)


@implements("nanmean")
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
            keepdims: Any = False, *, where: Any = True) -> Any:
    """The mean of the elements that are no NaN."""
    if _maybe_nan(a, where):
        check_inexact("nanmean", dtype)
        a = a if dtype is None else ops.astype(a, dtype)  # its count has that dtype
        return _at_once(_nanmean, a, axis, out=out, keepdims=bool(keepdims))
    return mean(a, axis, dtype, out, keepdims, where=is_number(a, where))


def _skipping_spread(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
             ddof: float = 0, keepdims: Any = False, *, where: Any = True,
             mean: Any = NOTHING, correction: Any = NOTHING) -> Any:
        known, correct = is_number(a, where), divisor(name, ddof, correction)
        if dtype_of(a).kind not in "fcV":
            return of(a, axis, dtype, out, correct, keepdims, where=known, mean=mean)
        found = of(a, axis, dtype, None, correct, keepdims, where=known, mean=mean)
        count = count_chosen(known, shape_of(a), axis, bool(keepdims))
        enough = ops.greater(count, correct)
        return ops.where(enough, found, np.nan, out=out)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


nanvar = _skipping_spread("nanvar", var)
nanstd = _skipping_spread("nanstd", std)


def _skipping_extremum(name: str, of: str, whole: Any) -> Callable[..., Any]:
    """An extremum of what is no NaN; NaN where nothing else is."""
    def call(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False,
             initial: Any = NOTHING, where: Any = True) -> Any:
        if initial is NOTHING and _maybe_nan(a, where):
            return _at_once(whole, a, axis, out=out, keepdims=bool(keepdims))
        known = is_number(a, where)
        if known is True or initial is not NOTHING:
            return NUMPY[f"numpy.{of}"](a, axis, out, bool(keepdims), initial, known)
        raise ValueError(f"numpy.{name}: 'where' without 'initial': a result of no "
                         "elements would have no value; give both")

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


nanmax = _skipping_extremum("nanmax", "max", _nanmax)
nanmin = _skipping_extremum("nanmin", "min", _nanmin)


def _skipping_place(name: str, of: str, worst: float) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: Any = None, *,
             keepdims: Any = False) -> Any:
        known = is_number(a)
        if known is not True:
            if not truth(ops.all(ops.any(known, axis=axis)), name):
                raise ValueError(f"numpy.{name}: all elements of a slice are NaN")
            a = ops.where(known, a, worst)
        return ops[of](a, axis=axis, out=out, keepdims=bool(keepdims))

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


nanargmax = _skipping_place("nanargmax", "argmax", -np.inf)
nanargmin = _skipping_place("nanargmin", "argmin", np.inf)
