"""Operators and NumPy's methods for `Variable`: each calls the op of that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..arrays import is_array
from ..errors import TapeError
from ..table import OPS
from .recording import recording
from .traced import Traced

if TYPE_CHECKING:
    from .variable import Variable

__all__ = ["ArrayMethods", "takes"]

#: Ops refuse these by name; Python would repeat a list, and find it unequal.
_REFUSED = (list, tuple)


def takes(x: Any) -> bool:
    """Whether `x` can stand beside a Variable in an operation."""
    return isinstance(x, (bool, int, float, complex, ArrayMethods, Traced)) \
        or is_array(x)


def _unary(name: str) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return OPS[name](self)

    return method


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return OPS[name](self, other) if takes(other) or isinstance(
            other, _REFUSED) else NotImplemented

    return method


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return OPS[name](other, self) if takes(other) or isinstance(
            other, _REFUSED) else NotImplemented

    return method


def _in_place(name: str, symbol: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not takes(other):
            return NotImplemented
        tracked = self.requires_grad or getattr(other, "requires_grad", False)
        if recording() and tracked:
            raise TapeError(
                f"x {symbol}= y: x or y requires grad, and what the tape knows of x "
                f"would no longer be true; write x = x {symbol} y, or update inside "
                "no_grad()")
        OPS[name](self, other, out=self)
        return self

    return method


class ArrayMethods:
    """What arrays can do; arguments are those of the op or of NumPy's method.

    In place (``x += y``) only where nothing is recorded: inside `no_grad`, or if
    neither side requires grad.  ``==`` compares elements, so that Variables hash by
    identity.
    """

    __slots__ = ()

    shape: Any
    ndim: Any

    __neg__ = _unary("negative")
    __pos__ = _unary("positive")
    __abs__ = _unary("absolute")

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _reflected("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _binary("remainder"), _reflected("remainder")
    __pow__, __rpow__ = _binary("power"), _reflected("power")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")

    __iadd__ = _in_place("add", "+")
    __isub__ = _in_place("subtract", "-")
    __imul__ = _in_place("multiply", "*")
    __itruediv__ = _in_place("divide", "/")
    __ifloordiv__ = _in_place("floor_divide", "//")
    __imod__ = _in_place("remainder", "%")
    __ipow__ = _in_place("power", "**")

    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __eq__ = _binary("equal")
    __ne__ = _binary("not_equal")
    __hash__ = object.__hash__

    def __getitem__(self, key: Any) -> Variable:
        """Slices, integers, ``...`` and ``None``, or one array of integers."""
        return OPS["getitem"](self, key)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None,
            keepdims: bool = False) -> Any:
        """The sum over `axis`."""
        return OPS["sum"](self, axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None,
             keepdims: bool = False) -> Any:
        """The product over `axis`."""
        return OPS["prod"](self, axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None,
             keepdims: bool = False) -> Any:
        """The mean over `axis`."""
        return OPS["mean"](self, axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def var(self, axis: Any = None, **kwargs: Any) -> Any:
        """The variance over `axis`."""
        return OPS["var"](self, axis=axis, **kwargs)

    def std(self, axis: Any = None, **kwargs: Any) -> Any:
        """The standard deviation over `axis`."""
        return OPS["std"](self, axis=axis, **kwargs)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """The largest element along `axis`; ties share the gradient."""
        return OPS["max"](self, axis=axis, out=out, keepdims=keepdims)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """The smallest element along `axis`; ties share the gradient."""
        return OPS["min"](self, axis=axis, out=out, keepdims=keepdims)

    def argmax(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Where the first largest element is."""
        return OPS["argmax"](self, axis=axis, out=out, keepdims=keepdims)

    def argmin(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Where the first smallest element is."""
        return OPS["argmin"](self, axis=axis, out=out, keepdims=keepdims)

    def reshape(self, *shape: Any) -> Any:
        """The elements in C order in another shape; one extent may be -1."""
        return OPS["reshape"](self, _one(shape))

    def ravel(self) -> Any:
        """All elements in one dimension."""
        return OPS["reshape"](self, (-1,))

    def squeeze(self, axis: int | None = None) -> Any:
        """Without one axis of extent 1, or without all of them."""
        return OPS["squeeze"](self, axis)

    def transpose(self, *axes: Any) -> Any:
        """The axes in another order; by default reversed."""
        return OPS["transpose"](self, _one(axes) if axes else None)

    @property
    def T(self) -> Any:
        """The axes reversed."""
        return OPS["transpose"](self, None)

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise ValueError(f"mT: shape {self.shape}, expected two dimensions or more")
        return OPS["transpose"](self, (*range(self.ndim - 2), self.ndim - 1,
                                       self.ndim - 2))

    def astype(self, dtype: Any) -> Any:
        """The elements converted; to integers, the gradient stops."""
        return OPS["astype"](self, dtype)

    def clip(self, low: Any = None, high: Any = None) -> Any:
        """The elements kept between `low` and `high`; None leaves a side open."""
        if low is None:
            return self if high is None else OPS["minimum"](self, high)
        if high is None:
            return OPS["maximum"](self, low)
        return OPS["clip"](self, low, high)

    def take(self, indices: Any, axis: int | None = None) -> Any:
        """The elements at `indices` along `axis`, or of all elements in one row."""
        flat = self.ravel() if axis is None else self
        return OPS["take"](flat, indices, axis=axis or 0)


def _one(args: tuple[Any, ...]) -> Any:
    """``f(1, 2)`` and ``f((1, 2))`` mean the same."""
    return args[0] if len(args) == 1 else args
