"""Elements that a mask chooses of an array, where nobody knows yet how many.

While `nf.fuse` or `vmap` runs a function, ``x[mask]`` cannot be an array: its extent
depends on values.  It is a `Chosen`: the array and the mask.  What is computed with it
is computed with all elements, a reduction counts those of the mask (``where=``), and
``x[mask] = ...`` takes them.  Elements that are not chosen are 1 while one computes, so
that none of them is NaN, or brings a derivative that is: the gradient of a selection is
none, not 0 times whatever it was.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ...arrays import dtype_of, is_array
from ...arrays.traced import Traced, extents
from ...dispatch.outputs import can_cast
from ...errors import KernelTypeError
from ...registry.operations import OPS

__all__ = ["Chosen", "choose", "has_mask", "with_chosen"]

#: Reductions, and what each adds where nothing is chosen.
_REDUCTIONS = {
    np.sum: {}, np.prod: {}, np.mean: {}, np.var: {}, np.std: {}, np.all: {},
    np.any: {}, np.max: {"initial": -np.inf}, np.min: {"initial": np.inf},
    np.amax: {"initial": -np.inf}, np.amin: {"initial": np.inf}}
#: Functions of each element that are no ufuncs.
_ELEMENTWISE = frozenset({np.where, np.clip, np.nan_to_num, np.round, np.real, np.imag,
                          np.angle, np.sinc, np.i0, np.isclose})
_WAY_OUT = ("sums and other reductions over all that is chosen, functions of each "
            "element and x[mask] = ... are there; else keep all elements, as in "
            "np.where(mask, y, 0)")


def has_mask(key: Any) -> bool:
    """Whether an index has a mask whose values are not known."""
    for item in key if type(key) is tuple else (key,):  # as each index passes here
        if isinstance(item, Traced) and _is_mask(item):
            return True
    return False


def choose(x: Any, key: Any) -> Chosen:
    """``x[key]``, whose index has a mask.

    Raises
    ------
    KernelTypeError
        It has other arrays, too; integers that are not beside the mask; or a mask of
        other extents.
    """
    basic, mask, first = _parts(x, key)
    return Chosen(x if basic is None else x[basic], mask, first)


def with_chosen(x: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """The view of `x` that an index with a mask is in, and its elements afterwards.

    The first is the index of the view, None for all of `x`.
    """
    basic, mask, first = _parts(x, key)
    part = Chosen(x if basic is None else x[basic], mask, first)
    new = value.full_beside(part) if isinstance(value, Chosen) else part.spread(value)
    return basic, OPS["where"](part.where, new, part.full)


def _now(x: Any) -> Any:
    """A placeholder for what `x` is now, which later changes of `x` leave alone."""
    return x.at(x, getattr(x, "_edge", None)) if isinstance(x, Traced) else x


def _is_mask(item: Any) -> bool:
    return isinstance(item, Traced) and not isinstance(item, Chosen) and \
        dtype_of(item) == np.bool_ and bool(extents(item))


def _parts(x: Any, key: Any) -> tuple[Any, Any, int]:
    """The basic index around a mask, None for all; the mask; the axis it begins at."""
    keys = list(key if isinstance(key, tuple) else (key,))
    at = next(k for k, item in enumerate(keys) if _is_mask(item))
    mask = keys[at]
    others = keys[:at] + keys[at + 1:]
    if not all(k is None or k is Ellipsis or isinstance(k, (int, slice, np.integer))
               for k in others):
        raise KernelTypeError("x[index]: a mask that is not known yet stands beside "
                              "another array; index by one after the other")
    if Ellipsis in [k for k in others if not isinstance(k, slice)]:
        here = next(k for k, item in enumerate(keys) if item is Ellipsis)
        used = sum(len(extents(k)) if k is mask else 1 for k in keys
                   if k is not None and k is not Ellipsis)
        keys[here:here + 1] = [slice(None)]*(len(extents(x)) - used)
        at = next(k for k, item in enumerate(keys) if item is mask)
    integers = [k for k, item in enumerate(keys) if isinstance(item, (int, np.integer))]
    if integers and max(*integers, at) - min(*integers, at) > len(integers):
        raise KernelTypeError("x[index]: integers that are not beside a mask put the "
                              "axis of what it chooses in front; index by one after "
                              "the other")
    first = at - sum(k < at for k in integers)
    axes = len(extents(mask))
    basic = (*keys[:at], *(slice(None),)*axes, *keys[at + 1:])
    whole = all(isinstance(k, slice) and k == slice(None) for k in basic)
    return (None if whole else basic), mask, first


class Chosen(NDArrayOperatorsMixin):
    """Elements of an array that a mask chooses.

    Parameters
    ----------
    full
        The array.
    mask
        Its truth for some neighbouring axes.
    first
        The first of them.
    """

    def __init__(self, full: Any, mask: Any, first: int) -> None:
        shape, own = extents(full), extents(mask)
        if shape[first:first + len(own)] != own:
            raise KernelTypeError(
                f"x[mask]: the mask has the shape {own}, the axes of x that it is for "
                f"{shape[first:first + len(own)]}")
        self.full, self.mask, self.first = _now(full), _now(mask), first
        after = len(shape) - first - len(own)
        self.where: Any = OPS["reshape"](self.mask, (*own, *(1,)*after)) if after \
            else self.mask

    def like(self, full: Any) -> Chosen:
        """Other values of the same elements."""
        return Chosen(full, self.mask, self.first)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the elements."""
        return dtype_of(self.full)

    @property
    def ndim(self) -> int:
        """Number of dimensions: what is chosen has one."""
        return len(extents(self.full)) - len(extents(self.mask)) + 1

    @property
    def size(self) -> Any:
        """The number of elements, an array without dimensions."""
        beside = extents(self.full)[:self.first] + extents(self.full)[
            self.first + len(extents(self.mask)):]
        return np.count_nonzero(self.mask)*int(np.prod(beside))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise KernelTypeError(f"x[mask].{name}: how many elements a mask chooses is "
                              f"not known yet; {_WAY_OUT}")

    def _unknown(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise KernelTypeError("x[mask]: how many elements a mask chooses is not known "
                              f"yet; {_WAY_OUT}")

    __len__ = __iter__ = __bool__ = __float__ = __int__ = __array__ = _unknown
    __getitem__ = __setitem__ = _unknown

    def spread(self, value: Any) -> Any:
        """A number or array that stands beside the elements, for all of the array."""
        if not (is_array(value) or hasattr(value, "dtype")):
            return value
        shape, axes = np.shape(value) if not isinstance(value, Traced) else extents(
            value), len(extents(self.mask))
        after = len(extents(self.full)) - self.first - axes
        if len(shape) <= after:
            return value
        at = len(shape) - after - 1
        if shape[at] != 1:
            raise KernelTypeError(
                f"x[mask]: an array of the shape {shape} stands beside elements whose "
                "number is not known yet; take those of the same mask, y[mask]")
        return OPS["reshape"](value, (*shape[:at], *(1,)*axes, *shape[at + 1:]))

    def full_beside(self, other: Chosen) -> Any:
        """All elements, beside those of another array that the same mask chooses."""
        if other.first != self.first or not self.mask.equals(other.mask):
            raise KernelTypeError(
                "x[mask]: elements that different masks choose stand side by side; "
                "give the mask one name and use it for both")
        return self.full

    def _operand(self, value: Any) -> Any:
        """An operand where chosen, else 1."""
        full = value.full_beside(self) if isinstance(value, Chosen) else self.spread(
            value)
        if full is value and not hasattr(value, "dtype"):
            return value  # a number
        return OPS["where"](self.where, full, dtype_of(full) == np.bool_ or 1)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any,
                        **options: Any) -> Any:
        if method == "reduce" and ufunc in _BY_UFUNC:
            return self._reduce(_BY_UFUNC[ufunc], *inputs[1:], **options)
        given = options.pop("out", None)
        if method != "__call__" or options or not (given is None or given[0] is self):
            self._unknown()
        made = ufunc(*map(self._operand, inputs))
        if given is not None:  # x += y
            return self._become(made, ufunc.__name__)
        return tuple(map(self.like, made)) if isinstance(made, tuple) else \
            self.like(made)

    def _become(self, made: Any, name: str) -> Chosen:
        """Have other values, in the dtype that is there."""
        if not can_cast(dtype_of(made), self.dtype, "same_kind"):
            raise KernelTypeError(
                f"x[mask]: the result of np.{name} is {dtype_of(made)}, which does not "
                f"fit elements of {self.dtype}; convert it with astype")
        self.full = _now(made.astype(self.dtype))
        return self

    def __array_function__(self, function: Any, types: Any, args: Any,
                           options: Any) -> Any:
        if function in _ELEMENTWISE:
            return self.like(function(*map(self._operand, args), **options))
        if function is np.size:
            return self.size
        if function not in _REDUCTIONS or args[0] is not self:
            raise KernelTypeError(f"np.{function.__name__} of x[mask]: how many "
                                  "elements a mask chooses is not known yet; "
                                  f"{_WAY_OUT}")
        return self._reduce(function, *args[1:], **options)

    def _reduce(self, function: Any, axis: Any = None, *args: Any,
                **options: Any) -> Any:
        """A reduction over all elements, or over the axis of what is chosen."""
        axes = len(extents(self.mask))
        if axis is not None:
            if isinstance(axis, tuple) or axis % self.ndim != self.first:
                self._unknown()
            axis = tuple(range(self.first, self.first + axes))
        if options.get("keepdims") or options.get("where") is not None:
            self._unknown()
        more = dict(_REDUCTIONS[function])
        if "initial" in more and "initial" not in options:
            if self.dtype.kind not in "f":
                raise KernelTypeError(
                    f"np.{function.__name__} of x[mask]: of {self.dtype} there is no "
                    "number for where nothing is chosen; give initial=")
            found = function(self.full, axis, *args, where=self.where, **more)
            return OPS["where"](np.any(self.where, axis=axis), found, np.nan)
        return function(self._operand(self), axis, *args, where=self.where, **options)

    def astype(self, dtype: Any) -> Chosen:
        """The elements converted."""
        return self.like(self.full.astype(dtype))

    def copy(self) -> Chosen:
        """The elements, which are no view."""
        return self.like(self.full.copy())


_BY_UFUNC = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max,
             np.minimum: np.min, np.logical_and: np.all, np.logical_or: np.any}


def _method(function: Any) -> Any:
    def method(self: Chosen, *args: Any, **options: Any) -> Any:
        return self._reduce(function, *args, **options)

    return method


for _function in (np.sum, np.prod, np.mean, np.var, np.std, np.all, np.any, np.max,
                  np.min):
    setattr(Chosen, {"amax": "max", "amin": "min"}.get(
        _function.__name__, _function.__name__), _method(_function))
