"""Reductions with NumPy's keywords, those that skip NaN, and methods of ufuncs.

Of associative ufuncs the methods combine pairs, in as many steps as the extent has
binary digits; so they run, and have gradients, wherever the ufunc does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..autograd.numpy_api.integers import check_integer
from ..errors import KernelTypeError, RangeError, ShapeError
from ..op.base import check_inexact, check_spread_dtype
from ..registry.operations import NUMPY
from ..specs.shapes import names_only_element
from .base import (
    axes_of,
    axis_of,
    converted,
    copied,
    floating,
    implements,
    index_array,
    is_value,
    ops,
    shape_of,
    sizes,
    stored,
    truth,
)

__all__: list[str] = []

_NOTHING: Any = np._NoValue


def _chosen(where: Any, a: Any) -> Any:
    """A condition as an array of bools that broadcasts to `a`; True chooses all."""
    if where is True or where is _NOTHING:
        return True
    if not is_value(where):
        where = index_array(np.asarray(where), a)
    if dtype_of(where).kind != "b":
        raise KernelTypeError(f"'where' has dtype {dtype_of(where)}, expected bool; "
                              "write where != 0")
    shape = shape_of(a)
    try:
        fits = np.broadcast_shapes(shape_of(where), shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"'where' has the shape {shape_of(where)}, expected one that "
                         f"broadcasts to {shape}, that of the array")
    return where


def _selected(a: Any, where: Any, neutral: Any) -> Any:
    """Elements that take part; `neutral` in place of the others."""
    return a if where is True else ops.where(where, a, neutral)


def _first(initial: Any, of: Any, name: str) -> Any:
    """An `initial` in the dtype of what it is combined with, as NumPy casts it."""
    dtype = dtype_of(of)
    initial = check_integer(initial, of, f"numpy.{name}", "initial")
    if isinstance(initial, (bool, int, float, complex, np.generic)):
        number = np.asarray(initial)
        problem = (f"numpy.{name}: 'initial' is {initial!r}, which {dtype} does not "
                   "hold; convert the array with astype")
        if number.dtype.kind == "c" and dtype.kind not in "cb":
            raise KernelTypeError(problem)
        if dtype.kind in "iu" and not np.isfinite(number):
            raise RangeError(problem)
        return number.astype(dtype)[()]
    return ops.astype(initial, dtype)


def _summing(name: str, neutral: int) -> Callable[..., Any]:
    """A sum or a product: `initial` and `where` by the neutral element."""
    combine = "add" if name == "sum" else "multiply"

    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
             keepdims: Any = False, initial: Any = _NOTHING, where: Any = True) -> Any:
        a = _selected(a, _chosen(where, a), neutral)
        if initial is _NOTHING:
            return ops[name](a, axis=axis, dtype=dtype, out=out,
                                         keepdims=bool(keepdims))
        made = ops[name](a, axis=axis, dtype=dtype, keepdims=bool(keepdims))
        return ops[combine](made, _first(initial, made, name), out=out)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


sum = _summing("sum", 0)
prod = _summing("prod", 1)


def _extremum(names: tuple[str, ...], combine: str) -> Callable[..., Any]:
    """A largest or smallest element; with `where` an `initial` is needed."""
    name = names[0]

    def call(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False,
             initial: Any = _NOTHING, where: Any = True) -> Any:
        if initial is _NOTHING:
            if where is not True:
                raise ValueError(f"numpy.{name}: 'where' without 'initial': a result "
                                 "of no elements would have no value; give both")
            return ops[name](a, axis=axis, out=out, keepdims=bool(keepdims))
        initial = _first(initial, a, name)
        if not np.prod([shape_of(a)[k] for k in axes_of(axis, len(shape_of(a)))]):
            return ops.full_like(ops.sum(a, axis=axis, keepdims=bool(keepdims),
                                         dtype=dtype_of(a)), initial, out=out)
        made = ops[name](_selected(a, _chosen(where, a), initial), axis=axis,
                         keepdims=bool(keepdims))
        return ops[combine](made, initial, out=out)

    call.__name__ = call.__qualname__ = name
    return implements(*names)(call)


max = _extremum(("max", "amax"), "maximum")
min = _extremum(("min", "amin"), "minimum")


def _logical(name: str, neutral: bool) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *,
             where: Any = True) -> Any:
        return ops[name](_selected(a, _chosen(where, a), neutral), axis=axis,
                         out=out, keepdims=bool(keepdims))

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


all = _logical("all", True)
any = _logical("any", False)


def _placed(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: Any = None, *,
             keepdims: Any = False) -> Any:
        return ops[name](a, axis=axis, out=out, keepdims=bool(keepdims))

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


argmax = _placed("argmax")
argmin = _placed("argmin")


def _count(where: Any, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Any:
    """The number of elements that take part in each result."""
    return ops.sum(ops.broadcast_to(where, shape), axis=axis, keepdims=keepdims)


@implements("mean")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
         keepdims: Any = False, *, where: Any = True) -> Any:
    """The arithmetic mean."""
    where = _chosen(where, a)
    if where is True:
        return ops.mean(a, axis=axis, dtype=dtype, out=out, keepdims=bool(keepdims))
    check_inexact("mean", dtype)
    total = ops.sum(floating(_selected(a, where, 0)), axis=axis, dtype=dtype,
                    keepdims=bool(keepdims))
    return ops.divide(total, _like(_count(where, shape_of(a), axis, bool(keepdims)),
                                   total), out=out)



def _like(counts: Any, of: Any) -> Any:
    """Counts in the dtype of what they divide."""
    return ops.astype(counts, dtype_of(of))


def _spread(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
             ddof: float = 0, keepdims: Any = False, *, where: Any = True,
             mean: Any = _NOTHING, correction: Any = _NOTHING) -> Any:
        ddof = _divisor(name, ddof, correction)
        check_spread_dtype(name, a, dtype)
        where = _chosen(where, a)
        if where is True and mean is _NOTHING:
            return ops[name](a, axis=axis, dtype=dtype, out=out, ddof=ddof,
                                         keepdims=bool(keepdims))
        return _spread_about(name, a, axis, dtype, out, ddof, bool(keepdims),
                             where, mean)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


def _divisor(name: str, ddof: float, correction: Any) -> Any:
    if correction is _NOTHING or correction is None:
        return ddof
    if ddof:
        raise ValueError(f"numpy.{name}: 'ddof' and 'correction' were both given; they "
                         "mean the same, leave one out")
    return correction


def _spread_about(name: str, a: Any, axis: Any, dtype: Any, out: Any, ddof: Any,
                  keepdims: bool, where: Any, about: Any) -> Any:
    """The spread of some elements, or about a mean that is known."""
    a = floating(a) if dtype is None else ops.astype(a, dtype)
    kind = dtype_of(a) if dtype is not None or dtype_of(a) == np.float16 else None
    if about is _NOTHING:
        about = mean(a, axis, keepdims=True, where=where)
    # Chosen before they are squared: the derivative of what is not is 0 times NaN.
    apart = _selected(ops.subtract(a, about), where, 0)
    total = ops.sum(ops.square(sizes(apart)), axis=axis, keepdims=keepdims)
    count = _like(_count(where, shape_of(a), axis, keepdims), total) \
        if where is not True else np.prod(
            [shape_of(a)[k] for k in axes_of(axis, len(shape_of(a)))], dtype=float)
    left = ops.maximum(ops.subtract(count, float(ddof)), 0.0) \
        if where is not True else float(np.maximum(count - ddof, 0))
    found = ops.divide(total, left)
    found = found if kind is None else converted(
        found, np.zeros((), kind).real.dtype)
    found = stored(found, out) if name == "var" else ops.sqrt(found, out=out)
    return found if dtype is None or out is not None else converted(found, dtype)


var = _spread("var")
std = _spread("std")


@implements("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The number of elements that are not 0."""
    return ops.sum(ops.not_equal(a, 0), axis=axis, keepdims=keepdims)


@implements("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """The largest less the smallest element."""
    return ops.subtract(ops.max(a, axis=axis, keepdims=bool(keepdims)),
                        ops.min(a, axis=axis, keepdims=bool(keepdims)), out=out)


def _is_number(a: Any, where: Any = True) -> Any:
    """Whether elements are no NaN, and chosen; True where all are."""
    chosen = _chosen(where, a)
    if dtype_of(a).kind not in "fcV":
        return chosen
    known = ops.logical_not(ops.isnan(a))
    return known if chosen is True else ops.logical_and(known, chosen)


def _skipping(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction of the elements that are no NaN."""
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
             keepdims: Any = False, initial: Any = _NOTHING, where: Any = True) -> Any:
        return of(a, axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial,
                  where=_is_number(a, where))

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


nansum = _skipping("nansum", sum)
nanprod = _skipping("nanprod", prod)


@implements("nanmean")
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
            keepdims: Any = False, *, where: Any = True) -> Any:
    """The mean of the elements that are no NaN."""
    return mean(a, axis, dtype, out, keepdims, where=_is_number(a, where))


def _skipping_spread(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
             ddof: float = 0, keepdims: Any = False, *, where: Any = True,
             mean: Any = _NOTHING, correction: Any = _NOTHING) -> Any:
        known, correct = _is_number(a, where), _divisor(name, ddof, correction)
        if dtype_of(a).kind not in "fcV":
            return of(a, axis, dtype, out, correct, keepdims, where=known, mean=mean)
        found = of(a, axis, dtype, None, correct, keepdims, where=known, mean=mean)
        enough = ops.greater(_count(known, shape_of(a), axis, bool(keepdims)), correct)
        return ops.where(enough, found, np.nan, out=out)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


nanvar = _skipping_spread("nanvar", var)
nanstd = _skipping_spread("nanstd", std)


def _skipping_extremum(name: str, of: str, worst: float) -> Callable[..., Any]:
    """An extremum of what is no NaN; NaN where nothing else is."""
    def call(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False,
             initial: Any = _NOTHING, where: Any = True) -> Any:
        known = _is_number(a, where)
        if known is True or initial is not _NOTHING:
            return NUMPY[f"numpy.{of}"](a, axis, out, bool(keepdims), initial, known)
        if where is not True:
            raise ValueError(f"numpy.{name}: 'where' without 'initial': a result of no "
                             "elements would have no value; give both")
        found = ops[of](ops.where(known, a, worst), axis=axis,
                                    keepdims=bool(keepdims))
        some = ops.any(known, axis=axis, keepdims=bool(keepdims))
        return ops.where(some, found, np.nan, out=out)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


nanmax = _skipping_extremum("nanmax", "max", -np.inf)
nanmin = _skipping_extremum("nanmin", "min", np.inf)


def _skipping_place(name: str, of: str, worst: float) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: Any = None, *,
             keepdims: Any = False) -> Any:
        known = _is_number(a)
        if known is not True:
            if not truth(ops.all(ops.any(known, axis=axis)), name):
                raise ValueError(f"numpy.{name}: all elements of a slice are NaN")
            a = ops.where(known, a, worst)
        return ops[of](a, axis=axis, out=out, keepdims=bool(keepdims))

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


nanargmax = _skipping_place("nanargmax", "argmax", -np.inf)
nanargmin = _skipping_place("nanargmin", "argmin", np.inf)


def _along(x: Any, axis: int, where: slice) -> Any:
    return ops.getitem(x, (*(slice(None),) * axis, where))


@implements("ufunc.accumulate")
def ufunc_accumulate(name: str, combine: Callable[..., Any], array: Any,
                     axis: int | None = 0, dtype: Any = None, out: Any = None) -> Any:
    """Results of an associative ufunc over the elements up to each one."""
    if axis is None:
        if len(shape_of(array)) > 1:
            raise KernelTypeError(f"numpy.{name}.accumulate: 'axis' is None, and the "
                                  f"array has the shape {shape_of(array)}; expected an "
                                  "integer, one axis")
        axis = 0
    if name in _RUNNING:
        return NUMPY[f"numpy.{_RUNNING[name]}"](array, axis, dtype, out)
    axis = axis_of(axis, len(shape_of(array)))
    x = _in_result_dtype(name, array, dtype)
    count, step = shape_of(x)[axis], 1
    x = copied(x, count < 2)  # else `concatenate` makes a new one
    while step < count:  # each element has what is combined of the `step` up to it
        later = combine(_along(x, axis, slice(0, -step)),
                        _along(x, axis, slice(step, None)))
        x = ops.concatenate([_along(x, axis, slice(0, step)), later], axis=axis)
        step *= 2
    return stored(x, out)


def _in_result_dtype(name: str, x: Any, dtype: Any) -> Any:
    """Elements in the dtype of results: bool for ``logical_and``, say."""
    if dtype is None:
        own = dtype_of(x)
        if own.kind not in "biu" and not name.startswith("logical"):
            return x
        dtype = getattr(np, name).resolve_dtypes((own, own, None))[-1]
        return x if dtype == own else ops.astype(x, dtype)
    return converted(x, dtype)


#: `ufunc_accumulate` by another name.
_RUNNING = {"add": "cumsum", "multiply": "cumprod"}


@implements("ufunc.reduce")
def ufunc_reduce(name: str, combine: Callable[..., Any], array: Any, axis: Any = 0,
                 dtype: Any = None, keepdims: bool = False, out: Any = None) -> Any:
    """The result of an associative ufunc over all elements along some axes."""
    x = _in_result_dtype(name, array, dtype)
    only = not shape_of(x) and names_only_element(axis)
    axes = () if only else axes_of(axis, len(shape_of(x)))
    if not [k for k in axes if shape_of(x)[k] != 1]:
        # NumPy starts with the identity, which makes one number positive.
        x = combine(x, 0) if name in ("gcd", "hypot") else copied(x)
    for k in sorted(axes, reverse=True):
        x = _reduced(name, combine, x, k)
        x = x if keepdims else ops.squeeze(x, k)
    return stored(x, out)


def _reduced(name: str, combine: Callable[..., Any], x: Any, axis: int) -> Any:
    """An array whose extent along one axis is 1."""
    if not shape_of(x)[axis]:
        raise ShapeError(f"numpy.{name}.reduce: axis {axis} has no elements, and there "
                         "is no first one")
    while (count := shape_of(x)[axis]) > 1:
        half = count // 2
        pairs = combine(_along(x, axis, slice(0, half)),
                        _along(x, axis, slice(half, 2*half)))
        x = pairs if count == 2*half else ops.concatenate(
            [pairs, _along(x, axis, slice(2*half, None))], axis=axis)
    return x


@implements("ufunc.outer")
def ufunc_outer(name: str, combine: Callable[..., Any], A: Any, B: Any, /) -> Any:
    """The result for each element beside each one."""
    spread = shape_of(A) + (1,) * len(shape_of(B))
    return combine(ops.reshape(A, spread) if shape_of(A) else A, B)
