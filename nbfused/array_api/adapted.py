"""Functions of the standard that differ from NumPy's of the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import dtype_of
from ..autograd import Variable
from ..errors import ShapeError
from ..numpy_functions.base import axis_of, shape_of
from ..numpy_functions.on_arrays import on_arrays
from .dtypes import check_category, is_number, promoted

__all__ = ["ADAPTED", "joined", "one_kind"]

_astype, _copy = on_arrays("astype"), on_arrays("copy")


def one_kind(name: str) -> Callable[..., Any]:
    """NumPy's function of two arrays, which have to be of one kind."""
    source = on_arrays(name)
    short = name.rpartition(".")[2]

    def call(x1: Any, x2: Any, /, **options: Any) -> Any:
        promoted(short, x1, x2)
        return source(x1, x2, **options)

    return call


def joined(name: str) -> Callable[..., Any]:
    """NumPy's function of a sequence of arrays, which have to be of one kind."""
    source = on_arrays(name)

    def call(arrays: Any, /, **options: Any) -> Any:
        arrays = list(arrays)
        check_category(name, "all", *arrays)
        promoted(name, *arrays)
        return source(arrays, **options)

    return call


def _as_list(name: str) -> Callable[..., Any]:
    source = on_arrays(name)
    return lambda *arrays, **options: list(source(*arrays, **options))


def where(condition: Any, x1: Any, x2: Any) -> Any:
    """`x1` where a condition holds, else `x2`."""
    check_category("where", "boolean", condition)
    check_category("where", "all", *(x for x in (x1, x2) if not is_number(x)))
    promoted("where", x1, x2)
    return _where(condition, x1, x2)


_where = on_arrays("where")


def clip(x: Any, *, min: Any = None, max: Any = None) -> Any:
    """`x` limited to an interval, in its own dtype."""
    for name, bound in (("min", min), ("max", max)):
        if bound is not None:
            promoted(f"clip: {name}", x, bound)
    found = _clip(x, min, max)
    return found if dtype_of(found) == dtype_of(x) else _astype(found, dtype_of(x))


_clip = on_arrays("clip")


def reshape(x: Any, *, shape: Any, copy: bool | None = None) -> Any:
    """`x` in another shape; with ``copy=False`` only where that is a view."""
    if copy:
        x = _copy(x)
    elif copy is False and not _views(x, shape):
        raise ValueError(f"reshape: copy=False, and {shape} is no view of the array of "
                         f"shape {shape_of(x)}; leave copy out")
    return _reshape(x, shape)


_reshape = on_arrays("reshape")


def _views(x: Any, shape: Any) -> bool:
    """Whether elements in C order in another shape have the same memory."""
    from ..arrays import describe
    from ..support.loop_nests import is_dense

    array = describe(x.data if isinstance(x, Variable) else x)
    return 0 in array.shape or is_dense(array.shape, array.strides)


def take(x: Any, indices: Any, *, axis: int | None = None) -> Any:
    """Elements at indices along an axis, which a vector has one of only."""
    if axis is None and len(shape_of(x)) != 1:
        raise ShapeError(f"take: 'axis' was left out with shape {shape_of(x)}; only a "
                         "vector has one axis, name it")
    check_category("take", "integer", indices)
    return _take(x, indices, axis=axis or 0)


_take = on_arrays("take")


def diff(x: Any, *, axis: int = -1, n: int = 1, prepend: Any = None,
         append: Any = None) -> Any:
    """Differences of neighbours along an axis."""
    ends = {k: v for k, v in (("prepend", prepend), ("append", append))
            if v is not None}
    return _diff(x, n=n, axis=axis, **ends)


_diff = on_arrays("diff")


def argsort(x: Any, *, axis: int = -1, descending: bool = False,
            stable: bool = True) -> Any:
    """The indices that sort along an axis."""
    if not descending:
        return _argsort(x, axis=axis, stable=stable)
    # The order upwards of the array turned round, read backwards: ties stay in order.
    turned = _argsort(_flip(x, axis=axis), axis=axis, stable=stable)
    last = shape_of(x)[axis_of(axis, len(shape_of(x)))] - 1
    return _subtract(last, _flip(turned, axis=axis))


def sort(x: Any, *, axis: int = -1, descending: bool = False,
         stable: bool = True) -> Any:
    """The elements in order along an axis."""
    if not descending:
        return _sort(x, axis=axis, stable=stable)
    return _along(x, argsort(x, axis=axis, descending=True, stable=stable), axis=axis)


_argsort, _sort, _flip, _along, _subtract = map(
    on_arrays, ("argsort", "sort", "flip", "take_along_axis", "subtract"))


def _running(name: str) -> Callable[..., Any]:
    source = on_arrays(name)

    def call(x: Any, *, axis: int | None = None, **options: Any) -> Any:
        if axis is None and len(shape_of(x)) > 1:
            raise ShapeError(f"{name}: 'axis' was left out with shape {shape_of(x)}; "
                             "only a vector has one axis, name it")
        return source(x, axis=axis, **options)

    return call


def nonzero(x: Any) -> Any:
    """The indices of elements that are not 0, for each axis."""
    if not shape_of(x):
        raise ShapeError("nonzero: got an array without dimensions; compare it with 0")
    return _nonzero(x)


_nonzero = on_arrays("nonzero")


def vecdot(x1: Any, x2: Any, *, axis: int = -1) -> Any:
    """Sums of products along an axis that is counted from the end."""
    smaller = min(len(shape_of(x1)), len(shape_of(x2)))
    if not -smaller <= axis <= -1:
        raise ShapeError(f"vecdot: axis {axis}, expected one from {-smaller} to -1: it "
                         "is counted from the end")
    return _vecdot(x1, x2, axis=axis)


_vecdot = one_kind("vecdot")


def searchsorted(x1: Any, x2: Any, *, side: str = "left", sorter: Any = None) -> Any:
    """The positions at which elements keep a sorted vector in order."""
    promoted("searchsorted", x1, x2)
    if len(shape_of(x1)) != 1:
        raise ShapeError(f"searchsorted: x1 has shape {shape_of(x1)}, expected one "
                         "dimension")
    return _searchsorted(x1, x2, side=side, sorter=sorter)


_searchsorted = on_arrays("searchsorted")


#: Those that a row names, with the parameters of the row.
ADAPTED: dict[str, Callable[..., Any]] = {
    "argsort": argsort, "broadcast_arrays": _as_list("broadcast_arrays"), "clip": clip,
    "concat": joined("concat"), "cumulative_prod": _running("cumulative_prod"),
    "cumulative_sum": _running("cumulative_sum"), "diff": diff,
    "matmul": one_kind("matmul"), "meshgrid": _as_list("meshgrid"), "nonzero": nonzero,
    "reshape": reshape, "searchsorted": searchsorted, "sort": sort,
    "stack": joined("stack"), "take": take, "tensordot": one_kind("tensordot"),
    "vecdot": vecdot, "where": where,
}
