"""Numbers of several components: their operators, and what functions of them take."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from ..threads import _Form
from ..vocabulary import OPS

__all__ = ["COMPOSITES", "FUNCTIONS", "Composite", "function", "named", "sqrt", "where"]

#: The classes by their names.
COMPOSITES: dict[str, Any] = {}
#: The functions of them by their names; each checks its arguments.
FUNCTIONS: dict[str, Callable[..., Any]] = {}

sqrt, where = OPS["sqrt"], OPS["select"]
_OPERATORS = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
              "divide": operator.truediv, "negative": operator.neg}


def named(value: Any) -> str:
    """The name of an operand in messages."""
    return type(value).__name__ if isinstance(value, Composite) else \
        f"a tuple of {len(value)}" if isinstance(value, tuple) else "a number"


class Composite(tuple[Any, ...]):
    """A number of several components.

    ``+`` and ``-`` are componentwise, and so are ``*`` and ``/`` by a number.
    """

    __slots__ = ()
    __nbfused_vector__ = True
    _fields: Any  # which a named tuple gives, as it does `_make`
    _make: Any
    #: What the last axes of an array are whose elements are such numbers.
    shape: ClassVar[tuple[int, ...]]

    def __init_subclass__(cls) -> None:
        """Register a class that has components."""
        if "shape" in vars(cls):
            COMPOSITES[cls.__name__] = cls

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """The components one by one, or together in one argument; zeros of none."""
        if not args and not kwargs:
            return cls._make([0.0] * len(cls._fields))
        fields, rest = cls._fields, dict(kwargs)
        given = cls._taken_apart(args)
        named_ones = [n for n in fields[len(given):] if n in rest]
        values = [*given, *(rest.pop(n) for n in named_ones)]
        if rest or len(values) != len(fields) or any(
                isinstance(v, tuple) for v in values):
            got = ", ".join([*map(named, args), *(f"{n}=" for n in kwargs)])
            raise TypeError(f"{cls.__name__}() takes {len(fields)} numbers"
                            f"{cls._alternative()}; got {got or 'nothing'}")
        return cls._make(values)

    @classmethod
    def _taken_apart(cls, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The components that positional arguments give."""
        if len(args) != 1 or (isinstance(args[0], Composite) and \
                not isinstance(args[0], cls)):
            return args
        parts = args[0].ravel() if hasattr(args[0], "ravel") else args[0]
        return tuple(parts) if hasattr(parts, "__len__") else args

    @classmethod
    def _alternative(cls) -> str:
        """Other arguments that the class takes, for messages."""
        return f", or {len(cls._fields)} elements of an array"

    def _same(self, other: Any, sign: str) -> None:
        """`TypeError` unless the other operand is of this class."""
        if type(other) is not type(self):
            self._refuse(sign, self, other)

    def _each(self, other: Any, act: Callable[[Any, Any], Any], sign: str) -> Any:
        self._same(other, sign)
        return self._make(map(act, self, other))

    def _scaled(self, act: Callable[[Any], Any]) -> Any:
        return self._make(map(act, self))

    def _refuse(self, sign: str, left: Any, right: Any) -> NoReturn:
        raise TypeError(f"{named(left)} {sign} {named(right)} is not defined"
                        f"{self._hint(sign)}")

    def _hint(self, sign: str) -> str:
        """The way out, where an operator is not defined."""
        return "; other operators take its components" if sign not in "+-*/" else ""

    def __add__(self, other: Any) -> Any:
        return self._each(other, operator.add, "+")

    def __radd__(self, other: Any) -> Any:
        return self._each(other, lambda a, b: b + a, "+")

    def __sub__(self, other: Any) -> Any:
        return self._each(other, operator.sub, "-")

    def __rsub__(self, other: Any) -> Any:
        return self._each(other, lambda a, b: b - a, "-")

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, tuple):
            self._refuse("*", self, other)
        return self._scaled(lambda a: a * other)

    def __rmul__(self, other: Any) -> Any:
        if isinstance(other, tuple):
            self._refuse("*", other, self)
        return self._scaled(lambda a: other * a)

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, tuple):
            self._refuse("/", self, other)
        return self._scaled(lambda a: a / other)

    def __rtruediv__(self, other: Any) -> Any:
        self._refuse("/", other, self)

    def __neg__(self) -> Any:
        return self._scaled(operator.neg)

    def __pos__(self) -> Any:
        return self

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Composite):  # a matrix on the right may know
            return NotImplemented
        self._refuse("@", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        self._refuse("@", other, self)

    def __pow__(self, other: Any) -> Any:
        self._refuse("**", self, other)

    def __lt__(self, other: Any) -> Any:
        """Refuse an order, which tuples would have."""
        raise TypeError(f"{named(self)} has no order; compare its components")

    __le__ = __gt__ = __ge__ = __lt__

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any,
                        **keywords: Any) -> Any:
        """An operator with a NumPy scalar; with arrays it is an array."""
        act: Any = _OPERATORS.get(ufunc.__name__)
        if act is None or any(np.ndim(x) for x in inputs if not isinstance(x, tuple)):
            return getattr(ufunc, method)(*map(np.asarray, inputs), **keywords)
        return act(*(x if isinstance(x, tuple) else x.item() for x in inputs))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """The components, in the shape that they have in an array."""
        return np.array(tuple(self), dtype).reshape(self.shape)


def function(*kinds: tuple[str, ...], doc: str, name: str = "",
             many: bool = False) -> Callable[..., Any]:
    """Make a function of composite numbers a word of the language.

    Parameters
    ----------
    kinds
        For each argument the classes that it may have; ``"number"`` for a number.
    doc
        Its docstring.
    name
        If not that of the decorated function.
    many
        Whether it takes as many arguments as it likes, and checks them itself.
    """

    def decorate(act: Callable[..., Any]) -> Any:
        label = name or act.__name__

        def checked(*args: Any) -> Any:
            fits = len(args) == len(kinds) and all(
                _kind(a) in k for a, k in zip(args, kinds, strict=True))
            if not fits:
                expected = ", ".join(" or ".join(k) for k in kinds)
                raise TypeError(f"{label}() takes {expected or 'nothing'}; got "
                                f"{', '.join(map(named, args)) or 'nothing'}")
            return act(*args)

        FUNCTIONS[label] = act if many else checked
        return _Form("composite", label, doc, label, host=FUNCTIONS[label])

    return decorate


def _kind(value: Any) -> str:
    if isinstance(value, Composite):
        return type(value).__name__
    return "tuple" if isinstance(value, (tuple, list)) else "number"
