"""Operators and NumPy's array methods for `Variable`, each calling an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import check_dtype, dtype_of, is_array
from ...arrays.operators import store_in_place
from ...arrays.traced import Traced
from ...dispatch.outputs import can_cast
from ...errors import KernelTypeError
from ...registry.operations import NUMPY, OPS
from ..graph import COPY
from ..tape import apply
from .chosen import choose, has_mask
from .functions import with_arrays
from .in_place import check_whole, is_element, is_recorded, replace
from .layouts import flattened, in_layout, ordered_copy, raveled
from .refusals import refuse_options
from .table_methods import TableMethods

__all__ = ["ArrayMethods", "is_operand", "operand_beside"]


def is_operand(x: Any) -> bool:
    """Whether `x` can be the other operand of a Variable's operator."""
    return isinstance(x, (bool, int, float, complex, ArrayMethods, Traced)) \
        or is_array(x)


def operand_beside(x: Any, other: Any) -> Any:
    """The other operand of an operator of `x`; NotImplemented for what is none.

    A list of numbers is an array, as beside NumPy's arrays.  Ops refuse other lists by
    name: Python would repeat them, and find them unequal.
    """
    if is_operand(other):
        return other
    return with_arrays((x, other))[1] if isinstance(other, (list, tuple)) \
        else NotImplemented


def _unary(name: str) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return OPS[name](self)

    return method


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        other = operand_beside(self, other)
        return other if other is NotImplemented else OPS[name](self, other)

    return method


_to_the_power = _binary("power")


def _power(self: Any, other: Any) -> Any:
    """`**`, which for bools squared gives int8, as in NumPy."""
    squared = type(other) is int and other == 2 and self.dtype == np.bool_
    return OPS["square"](self) if squared else _to_the_power(self, other)


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        other = operand_beside(self, other)
        return other if other is NotImplemented else OPS[name](other, self)

    return method


def _vocabulary(name: str) -> Callable[..., Any]:
    """An operator without an op: a function of the scalar vocabulary."""
    def method(self: Any, *others: Any) -> Any:
        others = tuple([operand_beside(self, other) for other in others])
        return NotImplemented if any(x is NotImplemented for x in others) \
            else self.__nbfused_op__(name, (self, *others))

    return method


def _vocabulary_reflected(name: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        other = operand_beside(self, other)
        return other if other is NotImplemented \
            else self.__nbfused_op__(name, (other, self))

    return method


def _in_place(name: str, symbol: str) -> Callable[[Any, Any], Any]:
    """``x op= y`` through the op's `out` argument."""
    def store(self: Any, other: Any) -> None:
        store_in_place(name, self, other)

    return _storing(store, lambda self, other: OPS[name](self, other), symbol)


def _copied_in_place(name: str, symbol: str) -> Callable[[Any, Any], Any]:
    """``x op= y`` as a copy of ``x op y``, for ops that cannot overlap."""
    def store(self: Any, other: Any) -> None:
        apply(COPY, (getattr(self, name)(other),), out=(self,), names=("x",))

    return _storing(store, lambda self, other: getattr(self, name)(other), symbol)


def _storing(store: Callable[[Any, Any], None], compute: Callable[[Any, Any], Any],
             symbol: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        other = operand_beside(self, other)
        if other is NotImplemented:
            return other
        if is_element(self):
            return compute(self, other)
        check_whole(self, symbol)
        if is_recorded(self, other):
            # The tape may save a copy of what is then written to.
            before = self if self.requires_grad else self.copy()
            replace(self, compute(before, other), symbol)
        else:
            store(self, other)
        return self

    return method


class ArrayMethods(TableMethods):
    """NumPy's array methods and operators; parameters as of the op or NumPy.

    In place (``x += y``): stored into the array where nothing is recorded, else `x`
    becomes the Variable of a new one.  ``==`` compares elements, so that Variables hash
    by identity.
    """

    __slots__ = ()

    __nbfused_op__: Callable[..., Any]
    __setitem__: Callable[[Any, Any], None]
    dtype: Any
    shape: Any
    ndim: Any
    item: Any

    __neg__: Any = _unary("negative")
    __pos__: Any = _unary("positive")
    __abs__: Any = _unary("absolute")

    __add__: Any = _binary("add")
    __radd__: Any = _reflected("add")
    __sub__: Any = _binary("subtract")
    __rsub__: Any = _reflected("subtract")
    __mul__: Any = _binary("multiply")
    __rmul__: Any = _reflected("multiply")
    __truediv__: Any = _binary("divide")
    __rtruediv__: Any = _reflected("divide")
    __floordiv__: Any = _binary("floor_divide")
    __rfloordiv__: Any = _reflected("floor_divide")
    __mod__: Any = _binary("remainder")
    __rmod__: Any = _reflected("remainder")
    __pow__: Any = _power
    __rpow__: Any = _reflected("power")
    __matmul__: Any = _binary("matmul")
    __rmatmul__: Any = _reflected("matmul")

    __iadd__: Any = _in_place("add", "+")
    __isub__: Any = _in_place("subtract", "-")
    __imul__: Any = _in_place("multiply", "*")
    __itruediv__: Any = _in_place("divide", "/")
    __ifloordiv__: Any = _in_place("floor_divide", "//")
    __imod__: Any = _in_place("remainder", "%")
    __ipow__: Any = _in_place("power", "**")
    __imatmul__: Any = _copied_in_place("__matmul__", "@")

    __and__: Any = _vocabulary("and")
    __rand__: Any = _vocabulary_reflected("and")
    __or__: Any = _vocabulary("or")
    __ror__: Any = _vocabulary_reflected("or")
    __xor__: Any = _vocabulary("xor")
    __rxor__: Any = _vocabulary_reflected("xor")
    __lshift__: Any = _vocabulary("lshift")
    __rlshift__: Any = _vocabulary_reflected("lshift")
    __rshift__: Any = _vocabulary("rshift")
    __rrshift__: Any = _vocabulary_reflected("rshift")
    __invert__: Any = _vocabulary("invert")

    __iand__: Any = _copied_in_place("__and__", "&")
    __ior__: Any = _copied_in_place("__or__", "|")
    __ixor__: Any = _copied_in_place("__xor__", "^")
    __ilshift__: Any = _copied_in_place("__lshift__", "<<")
    __irshift__: Any = _copied_in_place("__rshift__", ">>")

    def __round__(self, ndigits: int | None = None) -> Any:
        """`round` of one element, as NumPy's numbers have it: an integer of Python."""
        if self.ndim:
            raise TypeError(f"round() takes one number, this has shape {self.shape}; "
                            "use numpy.round")
        return round(self.item()) if ndigits is None else self.round(ndigits)

    def __divmod__(self, other: Any) -> Any:
        other = operand_beside(self, other)
        return other if other is NotImplemented else (self // other, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        other = operand_beside(self, other)
        return other if other is NotImplemented else (other // self, other % self)

    __lt__: Any = _binary("less")
    __le__: Any = _binary("less_equal")
    __gt__: Any = _binary("greater")
    __ge__: Any = _binary("greater_equal")
    __eq__: Any = _binary("equal")
    __ne__: Any = _binary("not_equal")
    __hash__: Any = object.__hash__

    def __getitem__(self, key: Any) -> Any:
        """Index with slices, integers, ``...``, None, integer arrays and masks."""
        return choose(self, key) if has_mask(key) else OPS["getitem"](self, key)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None,
            keepdims: bool = False, **others: Any) -> Any:
        """The sum over `axis`."""
        return OPS["sum"](self, axis=axis, dtype=dtype, out=out, keepdims=keepdims,
                          **others)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None,
             keepdims: bool = False, **others: Any) -> Any:
        """The product over `axis`."""
        return OPS["prod"](self, axis=axis, dtype=dtype, out=out, keepdims=keepdims,
                           **others)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None,
             keepdims: bool = False, **others: Any) -> Any:
        """The mean over `axis`."""
        return OPS["mean"](self, axis=axis, dtype=dtype, out=out, keepdims=keepdims,
                           **others)

    def var(self, axis: Any = None, dtype: Any = None, out: Any = None,
            ddof: float = 0, keepdims: bool = False, **others: Any) -> Any:
        """The variance over `axis`."""
        return OPS["var"](self, axis=axis, dtype=dtype, out=out, ddof=ddof,
                          keepdims=keepdims, **others)

    def std(self, axis: Any = None, dtype: Any = None, out: Any = None,
            ddof: float = 0, keepdims: bool = False, **others: Any) -> Any:
        """The standard deviation over `axis`."""
        return OPS["std"](self, axis=axis, dtype=dtype, out=out, ddof=ddof,
                          keepdims=keepdims, **others)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False,
            **others: Any) -> Any:
        """The largest element along `axis`; ties share the gradient."""
        return OPS["max"](self, axis=axis, out=out, keepdims=keepdims, **others)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False,
            **others: Any) -> Any:
        """The smallest element along `axis`; ties share the gradient."""
        return OPS["min"](self, axis=axis, out=out, keepdims=keepdims, **others)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False,
            **others: Any) -> Any:
        """Whether all elements along `axis` are nonzero."""
        return OPS["all"](self, axis=axis, out=out, keepdims=keepdims, **others)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False,
            **others: Any) -> Any:
        """Whether an element along `axis` is nonzero."""
        return OPS["any"](self, axis=axis, out=out, keepdims=keepdims, **others)

    def argmax(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """The index of the first largest element along `axis`."""
        return OPS["argmax"](self, axis=axis, out=out, keepdims=keepdims)

    def argmin(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """The index of the first smallest element along `axis`."""
        return OPS["argmin"](self, axis=axis, out=out, keepdims=keepdims)

    def reshape(self, *shape: Any, **others: Any) -> Any:
        """The elements in C order in another shape; one extent may be -1."""
        return OPS["reshape"](self, _unpacked(shape), **others)

    def ravel(self, order: str = "C") -> Any:
        """The elements in C order in one dimension: a view, or else a copy.

        `nf.fuse` does not know how an array lies, and gives a view where it can.
        """
        if order != "C":
            return raveled(self, order)
        return flattened(self)

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Any:
        """Remove axes of extent 1: those given, or all of them."""
        if not isinstance(axis, tuple):
            return OPS["squeeze"](self, axis)
        found = self
        for k in sorted((k % max(self.ndim, 1) for k in axis), reverse=True):
            found = OPS["squeeze"](found, k)
        return found

    def transpose(self, *axes: Any) -> Any:
        """Permute the axes; by default reverse them."""
        return OPS["transpose"](self, _unpacked(axes) if axes else None)

    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return OPS["transpose"](self, None)

    @property
    def mT(self) -> Any:
        """The array with its last two axes exchanged."""
        if self.ndim < 2:
            raise ValueError(f"mT: shape {self.shape}, expected two dimensions or more")
        return OPS["transpose"](self, (*range(self.ndim - 2), self.ndim - 1,
                                       self.ndim - 2))

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe",
               subok: bool = True, copy: bool = True) -> Any:
        """Convert the elements; a conversion to integers stops the gradient."""
        made = self if not copy and dtype_of(self) == check_dtype(dtype) else \
            OPS["astype"](_castable(self, dtype, casting), dtype)
        return in_layout("astype", made, order, self)

    def copy(self, order: str = "C") -> Any:
        """A copy, by default in C's layout, of which a reshape is a view."""
        return ordered_copy(self, order)

    def fill(self, value: Any) -> None:
        """Assign one number to all elements."""
        self[...] = value

    def clip(self, min: Any = None, max: Any = None, out: Any = None,
             **others: Any) -> Any:
        """Limit the elements to `min` … `max`; None leaves a side open."""
        options = {"out": out, "dtype": others.pop("dtype", None)}
        refuse_options("clip", others)
        return OPS["clip"](self, min, max, **options)

    def take(self, indices: Any, axis: int | None = None, out: Any = None,
             mode: str = "raise") -> Any:
        """The elements at `indices` along `axis`, or of the flattened array."""
        if mode != "raise":
            return NUMPY["numpy.take"](self, indices, axis, out, mode)
        if isinstance(indices, (int, list, tuple)):
            indices = np.asarray(indices, None if indices != [] else np.int64)
        flat = self.ravel() if axis is None else self
        return OPS["take"](flat, indices, axis=axis or 0, out=out)


def _castable(x: Any, dtype: Any, casting: str) -> Any:
    if not can_cast(dtype_of(x), check_dtype(dtype), casting):
        raise KernelTypeError(f"astype: {dtype_of(x)} does not cast to {dtype} under "
                              f"casting='{casting}'; leave it out")
    return x


def _unpacked(args: tuple[Any, ...]) -> Any:
    """Accept ``f(1, 2)`` and ``f((1, 2))`` alike."""
    return args[0] if len(args) == 1 else args
