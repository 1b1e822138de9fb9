"""Symbols for numbers that are passed by value while `fuse` traces a function."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays import is_array
from ....arrays.traced import Traced, TracedNumber
from ....autograd import Variable
from ....errors import KernelTypeError
from ....registry.operations import OPS
from ....scalar.source.resolve import operation
from ....scalar.typing.python_numbers import plain_number
from ....scalar.typing.types import Type, Weak
from ....specs.fusion.graph import Value
from ....support.trees import leaves_of, map_tree
from .arrays import Symbol
from .unknown import Unknown

if TYPE_CHECKING:
    from ..trace import Trace

__all__ = ["Number"]


#: Constants beside numbers in the arguments of a function.
_PLAIN = (bool, int, float, complex, np.generic, str, type(None))


def _refuse_hash(self: Number) -> int:
    self.ask()
    self.tracer.refuse(f"{self.name}: a dictionary, a set or a cache needs its value, "
                      "which is not known while nf.fuse traces a function; look it up "
                      "outside, or make it constant: in a tuple, or as a default")


class Number(Unknown, TracedNumber):
    """A number that is an argument, or computed from such on the host at each call.

    `example` is its value in the call that is traced, which gives its type.
    """

    __slots__ = ("example", "tracer", "value")

    def __init__(self, trace: Trace, value: Value, example: Any) -> None:
        self.tracer, self.value, self.example = trace, value, example

    @property
    def dtype(self) -> np.dtype:
        """The dtype of an array of this number."""
        return np.result_type(self.example)

    @property
    def python(self) -> type | None:
        """The number's Python type; None if it has a dtype."""
        return type(plain_number(self.example)) if isinstance(self.value.type, Weak) \
            else None

    def computed(self, function: Callable[[Any], Any]) -> Number:
        """A number that is computed from this one at each call."""
        return self.tracer.host(function, (self,))

    def ask(self) -> None:
        """Note that the function needs it, and those it is computed from."""
        asked, trace = [self.value], self.tracer
        while asked:
            value = asked.pop()
            trace.asked_numbers.add(value.name)
            asked += [x for call in trace.numbers if call.value is value
                      for x in call.args if isinstance(x, Value)]

    @property
    def number_type(self) -> Type:
        """The type that an operation sees."""
        return self.value.type

    def plain(self) -> Number:
        """The number itself."""
        return self

    shape: tuple[int, ...] = ()
    ndim = 0
    size = 1

    def __getattr__(self, name: str) -> Any:
        """An attribute of its type: methods of NumPy's numbers are run at each call."""
        if name.startswith("__"):  # protocols are asked for by libraries
            raise AttributeError(name)
        if callable(getattr(self.example, name)):
            return lambda *args, **kwargs: self._computed(
                lambda x, *rest: getattr(x, name)(*rest, **kwargs), name, args)
        return self._computed(attrgetter(name), name)

    def __getitem__(self, key: Any) -> Any:
        return self._computed(lambda x: x[key], "x[...]")

    def _computed(self, function: Callable[..., Any], what: str,
                  args: Sequence[Any] = ()) -> Any:
        """A number that is computed from this one."""
        if not any(isinstance(a, Symbol) for a in args):
            found = function(*(a.example if isinstance(a, Number) else a
                               for a in (self, *args)))
            if isinstance(found, (bool, int, float, complex, np.generic)):
                return self.tracer.host(function, (self, *args))
        raise KernelTypeError(f"{self.name}: {what} of a number is an array here, "
                              "which nf.fuse does not make of numbers; pass an array "
                              "without dimensions, as np.asarray(x) is")

    def __nbfused_op__(self, name: str, args: tuple[Any, ...]) -> Any:
        """A function of the scalar vocabulary."""
        return Variable.__nbfused_op__(self, name, args)

    def __array_function__(self, function: Callable[..., Any], types: Any,
                           args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A function of numbers alone that gives one is computed at each call."""
        given = [*leaves_of((tuple(args), dict(kwargs)))]
        if all(isinstance(x, (Number, *_PLAIN)) for x in given) and not any(
                isinstance(x, Number) for x in leaves_of(dict(kwargs))):
            call = partial(function, **kwargs) if kwargs else function
            found = call(*map_tree(tuple(args), lambda x: x.example if isinstance(
                x, Number) else x))
            if isinstance(found, (bool, int, float, complex, np.generic)) and all(
                    isinstance(x, (Number, *_PLAIN)) for x in args):
                return self.tracer.host(call, args)
        return super().__array_function__(function, types, args, kwargs)

    __hash__ = _refuse_hash

    def __round__(self, *digits: Any) -> Number:
        return self.tracer.host(round, (self, *digits))

    def __trunc__(self) -> Number:
        return self.tracer.host(math.trunc, (self,))

    def __floor__(self) -> Number:
        return self.tracer.host(math.floor, (self,))

    def __ceil__(self) -> Number:
        return self.tracer.host(math.ceil, (self,))

    def astype(self, dtype: Any) -> Any:
        """The number converted to a dtype."""
        return self.tracer.host(np.dtype(dtype).type, (self,))

    @property
    def name(self) -> str:
        """A text for messages."""
        kind = self.value.type
        return f"<traced number {self.value.name!r}, {kind}>"


def _on_host(function: Callable[..., Any], name: str) -> tuple[Callable[..., Any], ...]:
    """An operator of `Number`: Python's own, or the op where an array is involved."""
    def forward(self: Number, *other: Any) -> Any:
        return _call(self, function, name, (self, *other))

    def reflected(self: Number, other: Any) -> Any:
        return _call(self, function, name, (other, self))

    return forward, reflected


def _call(number: Number, function: Callable[..., Any], name: str,
          args: tuple[Any, ...]) -> Any:
    if all(isinstance(a, (bool, int, float, complex, np.generic, Number))
           for a in args):
        return number.tracer.host(function, args)
    if not all(isinstance(a, (Traced, Variable, bool, int, float, complex))
               or is_array(a) for a in args):
        return NotImplemented
    if any(isinstance(a, Symbol) and a.decides for a in args):
        return NotImplemented
    op = OPS.get(name)
    if op is not None:
        return op(*args)
    found = operation(getattr(np, name))
    assert found is not None
    return number.__nbfused_op__(found.op, args)


def _define_operators() -> None:
    binary = {"add": "add", "sub": "subtract", "mul": "multiply",
              "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder",
              "pow": "power", "and": "bitwise_and", "or": "bitwise_or",
              "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift"}
    for short, name in binary.items():
        function = getattr(operator, f"__{short}__")
        forward, reflected = _on_host(function, name)
        setattr(Number, f"__{short}__", forward)
        setattr(Number, f"__r{short}__", reflected)
    unary = {"neg": "negative", "pos": "positive", "abs": "absolute",
             "invert": "bitwise_not"}
    compare = {"lt": "less", "le": "less_equal", "gt": "greater",
               "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
    for short, name in {**unary, **compare}.items():
        function = getattr(operator, f"__{short}__")
        setattr(Number, f"__{short}__", _on_host(function, name)[0])


_define_operators()
numbers.Number.register(Number)
