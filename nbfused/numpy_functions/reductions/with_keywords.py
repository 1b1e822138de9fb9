"""Reductions with NumPy's keywords: `dtype`, `initial`, `where`, `ddof` and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...autograd.numpy_api.integers import check_integer
from ...errors import KernelTypeError, RangeError, ShapeError
from ...op.base import check_inexact, check_spread_dtype
from ...specs.shapes import broadcasts_to
from ..base import (
    axes_of,
    converted,
    floating,
    implements,
    index_array,
    is_value,
    ops,
    shape_of,
    sizes,
    stored,
)

__all__ = ["NOTHING", "chosen", "count_chosen", "divisor", "mean", "prod", "std", "sum",
           "var"]

NOTHING: Any = np._NoValue


def chosen(where: Any, a: Any) -> Any:
    """A condition as an array of bools that broadcasts to `a`; True chooses all."""
    if where is True or where is NOTHING:
        return True
    if not is_value(where):
        where = index_array(np.asarray(where), a)
    if dtype_of(where).kind != "b":
        raise KernelTypeError(f"'where' has dtype {dtype_of(where)}, expected bool; "
                              "write where != 0")
    if not broadcasts_to(shape_of(where), shape_of(a)):
        raise ShapeError(f"'where' has the shape {shape_of(where)}, expected one that "
                         f"broadcasts to {shape_of(a)}, that of the array")
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
             keepdims: Any = False, initial: Any = NOTHING, where: Any = True) -> Any:
        a = _selected(a, chosen(where, a), neutral)
        if initial is NOTHING:
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
             initial: Any = NOTHING, where: Any = True) -> Any:
        if initial is NOTHING:
            if where is not True:
                raise ValueError(f"numpy.{name}: 'where' without 'initial': a result "
                                 "of no elements would have no value; give both")
            return ops[name](a, axis=axis, out=out, keepdims=bool(keepdims))
        initial = _first(initial, a, name)
        if not np.prod([shape_of(a)[k] for k in axes_of(axis, len(shape_of(a)))]):
            return ops.full_like(ops.sum(a, axis=axis, keepdims=bool(keepdims),
                                         dtype=dtype_of(a)), initial, out=out)
        made = ops[name](_selected(a, chosen(where, a), initial), axis=axis,
                         keepdims=bool(keepdims))
        return ops[combine](made, initial, out=out)

    call.__name__ = call.__qualname__ = name
    return implements(*names)(call)


max = _extremum(("max", "amax"), "maximum")
min = _extremum(("min", "amin"), "minimum")


def _logical(name: str, neutral: bool) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *,
             where: Any = True) -> Any:
        return ops[name](_selected(a, chosen(where, a), neutral), axis=axis,
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


def count_chosen(where: Any, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Any:
    """The number of elements that take part in each result."""
    return ops.sum(ops.broadcast_to(where, shape), axis=axis, keepdims=keepdims)


@implements("mean")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
         keepdims: Any = False, *, where: Any = True) -> Any:
    """The arithmetic mean."""
    where = chosen(where, a)
    if where is True:
        return ops.mean(a, axis=axis, dtype=dtype, out=out, keepdims=bool(keepdims))
    check_inexact("mean", dtype)
    total = ops.sum(floating(_selected(a, where, 0)), axis=axis, dtype=dtype,
                    keepdims=bool(keepdims))
    count = count_chosen(where, shape_of(a), axis, bool(keepdims))
    return ops.divide(total, _like(count, total), out=out)



def _like(counts: Any, of: Any) -> Any:
    """Counts in the dtype of what they divide."""
    return ops.astype(counts, dtype_of(of))


def _spread(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
             ddof: float = 0, keepdims: Any = False, *, where: Any = True,
             mean: Any = NOTHING, correction: Any = NOTHING) -> Any:
        ddof = divisor(name, ddof, correction)
        check_spread_dtype(name, a, dtype)
        where = chosen(where, a)
        if where is True and mean is NOTHING:
            return ops[name](a, axis=axis, dtype=dtype, out=out, ddof=ddof,
                                         keepdims=bool(keepdims))
        return _spread_about(name, a, axis, dtype, out, ddof, bool(keepdims),
                             where, mean)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


def divisor(name: str, ddof: float, correction: Any) -> Any:
    """The number taken off the count of elements: `ddof`, or `correction` if given."""
    if correction is NOTHING or correction is None:
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
    if about is NOTHING:
        about = mean(a, axis, keepdims=True, where=where)
    # Chosen before they are squared: the derivative of what is not is 0 times NaN.
    apart = _selected(ops.subtract(a, about), where, 0)
    total = ops.sum(ops.square(sizes(apart)), axis=axis, keepdims=keepdims)
    count = _like(count_chosen(where, shape_of(a), axis, keepdims), total) \
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
