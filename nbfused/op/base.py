"""Common parts of public operations: test cases, parameters, argument checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np

from ..arrays import check_dtype, dtype_of, is_array
from ..arrays.detect import way_out
from ..arrays.traced import Traced, TracedNumber, find_traced
from ..autograd import Variable
from ..autograd.numpy_api.integers import check_integers, fit
from ..errors import KernelTypeError, ScalarSyntaxError
from ..registry.operations import OPS
from ..scalar.source.resolve import operation, python_function
from ..scalar.typing.python_numbers import is_symbol, plain_number
from ..support.dtypes import number_kind
from ..support.records import record
from .keywords import suggestion
from .numbers import (
    boolean,
    brief,
    fraction,
    non_negative,
    real_number,
    whole_number,
)

__all__ = [
    "AnyArray",
    "Case",
    "Operand",
    "Parameters",
    "boolean",
    "check_array",
    "check_floating",
    "check_inexact",
    "check_integers",
    "check_operand",
    "check_pyfunc",
    "check_spread_dtype",
    "fraction",
    "is_complex",
    "is_number",
    "kind_of",
    "non_negative",
    "op",
    "output_tuple",
    "quantity",
    "raise_named",
    "real_number",
    "strong_dtype",
    "unpack_single",
    "whole_number",
]

_BUILT_IN = (BuiltinFunctionType, MethodDescriptorType)

T = TypeVar("T", bound=Callable[..., Any])

#: An array of any library, or a `Variable`: what ops take and give.  No static type
#: has them all.
AnyArray: TypeAlias = Any

#: Such an array, or a number.
Operand: TypeAlias = Any


@record(frozen=True)
class Case:
    """Arguments on which an op is tested.

    Attributes
    ----------
    shapes
        The shape of each array argument, None for an argument left out; empty for an
        elementwise op: the suite chooses shapes that broadcast.
    kwargs
        Keyword arguments.
    domains
        For each array, the interval its values are drawn from; ``(0, n, int)`` draws
        integers below n whatever the tested dtype.
    dtypes
        Kinds of dtypes that the op takes: characters of ``"biufc"``.
    smooth
        Whether finite differences can check the gradient on this domain.
    """

    shapes: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    domains: tuple[Any, ...] = ((-3.0, 3.0),)
    dtypes: str = "f"
    smooth: bool = True

    def domain(self, position: int) -> Any:
        """The domain of an argument; the last one given applies to the rest."""
        return self.domains[min(position, len(self.domains) - 1)]


def op(reference: Callable[..., Any], *cases: Case, name: str | None = None,
       tolerance: float = 16.0, scalar: Any = None) -> Callable[[T], T]:
    """Register a callable in the table of ops.

    Parameters
    ----------
    reference : callable
        The same on float64 NumPy arrays, written differently.
    *cases : Case
        What the conformance suite runs it on.
    name : str, optional
        Its name in the table; default: the callable's own.
    tolerance : float
        Units of the dtype's eps, on the scale of the result, that the suite allows.
    scalar : Elementwise, optional
        For a function that chooses between elementwise ops: the one that it stands for
        as an epilogue.
    """

    def enter(function: T) -> T:
        target: Any = function
        target.reference, target.cases = reference, cases
        target.tolerance = tolerance
        if reference is getattr(np, target.__name__, None):
            take = getattr(target, "take_keywords", None)
            if take is not None:
                take(reference)
        if scalar is not None:
            target.scalar = scalar
        if isinstance(reference, np.ufunc) and hasattr(target, "parameters"):
            target.parameters.loop = reference
        OPS[name or target.__name__] = target
        return function

    return enter


def is_number(x: Any) -> bool:
    """Whether `x` is passed by value: a Python number or a NumPy scalar."""
    return isinstance(x, (bool, int, float, complex, np.generic, TracedNumber)) or \
        is_symbol(x)


def strong_dtype(x: Any) -> np.dtype | None:
    """The dtype of an array or NumPy scalar; None for a weak Python number."""
    if isinstance(x, TracedNumber):
        return None if x.python is not None else dtype_of(x)
    if is_symbol(x) or (isinstance(x, (bool, int, float, complex))
                        and not isinstance(x, np.generic)):
        return None
    return dtype_of(x)


def is_complex(x: Any) -> bool:
    """Whether an array or a number is complex."""
    dtype = strong_dtype(x)
    return isinstance(x, complex) if dtype is None else dtype.kind == "c"


def raise_named(error: KernelTypeError, name: str, names: Sequence[str],
                values: Sequence[Any]) -> NoReturn:
    """Raise the error of `apply`; with the operation and its argument if that is it.

    It is where a function of the spec takes real numbers only and one is complex.
    """
    reason = getattr(error, "refuses_complex", "")
    given = next((k for k, v in enumerate(values) if is_complex(v)), None)
    if not reason or given is None:
        raise error
    raise KernelTypeError(
        f"{name.lstrip('_')}: '{names[given]}' must be real, as {reason}; got "
        f"{strong_dtype(values[given]) or 'a complex number'}; take .real, .imag or "
        "abs()") from error


def check_inexact(name: str, dtype: Any) -> None:
    """Check that a mean is not asked for in integers, which would cut it off.

    Raises
    ------
    KernelTypeError
        It is; `name` is the function's.
    """
    if dtype is not None and number_kind(check_dtype(dtype)) not in "fc":
        raise KernelTypeError(f"{name}: 'dtype' is {check_dtype(dtype)}; expected a "
                              "floating or complex one; convert the result")


def check_spread_dtype(name: str, x: Any, dtype: Any) -> None:
    """Check the `dtype` of a variance of `x`, which is complex if `x` is.

    Raises
    ------
    KernelTypeError
        It would leave out imaginary parts.
    """
    check_inexact(name, dtype)
    if dtype is not None and is_complex(x) and check_dtype(dtype).kind != "c":
        raise KernelTypeError(f"{name}: 'dtype' is {check_dtype(dtype)}; expected a "
                              "complex one, as 'x' is; convert 'x', or the result")


def kind_of(x: Any) -> str:
    """The parameter kind of an argument: ``"scalar"`` or ``"element"``."""
    return "scalar" if is_number(x) else "element"


def check_operand(x: Any, op_name: str, name: str) -> None:
    """Raise `KernelTypeError` unless `x` is a number, array or Variable."""
    if type(x) is np.ndarray or is_number(x) or isinstance(
            x, (Variable, Traced)) or is_array(x):
        return
    way = way_out(x, name, f"nf.ops.{op_name}" if op_name in OPS else op_name) or \
        "convert it first, for example with numpy.asarray or nf.array"
    raise KernelTypeError(
        f"{op_name}: '{name}' must be an array or a number, got "
        f"{type(x).__module__}.{type(x).__qualname__}; {way}")


def check_array(x: Any, op_name: str, name: str) -> None:
    """Raise `KernelTypeError` unless `x` is an array, Variable or NumPy scalar."""
    check_operand(x, op_name, name)
    if type(x) in (bool, int, float, complex):
        raise KernelTypeError(f"{op_name}: '{name}' must be an array, got {x!r}; make "
                              "one with nf.array")


def check_floating(x: Any, op_name: str, name: str) -> None:
    """Raise `KernelTypeError` unless an array's dtype is real and floating.

    Where elements are subtracted or squared first, integers would wrap around.
    """
    check_operand(x, op_name, name)
    dtype = strong_dtype(x)
    if dtype is not None and number_kind(check_dtype(dtype, name)) != "f":
        way_out = "take .real, .imag or abs()" if dtype.kind == "c" else \
            "convert with astype"
        raise KernelTypeError(f"{op_name}: '{name}' must be real and floating, got "
                              f"dtype {dtype}; {way_out}")


def check_pyfunc(pyfunc: Any, what: str) -> None:
    """Raise `KernelTypeError` unless `pyfunc` is a function with source."""
    way_out = "write a def, or a lambda, that takes and returns numbers"
    if isinstance(pyfunc, partial):
        way_out = ("define a function that closes over the values that are fixed, as "
                   "in lambda x: f(2.0, x)")
    elif isinstance(pyfunc, (type, np.ufunc)):
        if operation(pyfunc) is not None:
            way_out = f"call it in a function, as in lambda x: {_dotted(pyfunc)}(x)"
    elif isinstance(pyfunc, _BUILT_IN) and operation(pyfunc) is None and \
            python_function(pyfunc) is None:
        way_out = ("that is not part of the scalar language; use functions of math, "
                   "numpy and nbfused, or write a def")
    elif callable(pyfunc) and hasattr(pyfunc, "__name__"):
        try:
            inspect.signature(pyfunc, follow_wrapped=False)
        except ValueError:  # written in C, and says nothing of its parameters
            way_out = ("decorate what it wraps" if hasattr(pyfunc, "__wrapped__") else
                       "call it in a function of your own")
        else:
            return
    raise KernelTypeError(f"nf.{what} must decorate a Python function of numbers, got "
                          f"{brief(pyfunc)}; {way_out}")


def _dotted(target: Any) -> str:
    """The dotted name by which programs call a class or library function."""
    name: str = getattr(target, "__qualname__", target.__name__)
    module = "numpy" if isinstance(target, np.ufunc) else target.__module__
    return name if module in (None, "builtins") else f"{module}.{name}"


class Parameters:
    """The parameters of an op, bound to arguments without `inspect`.

    Positional arguments of types seen before take 1.3 µs, `Signature.bind` 14:
    benchmarks/notes/host.md#what-a-launch-costs.

    `options` are keywords that the op takes itself, for messages.
    """

    def __init__(self, name: str, signature: inspect.Signature,
                 options: Sequence[str] = ()) -> None:
        self.options: tuple[str, ...] = tuple(options)
        self.compares = False  # whether numbers are only compared with
        self.loop: np.ufunc | None = None  # that says in which dtype it computes
        self.note: str = ""  # on the parameters, for messages
        self.name: str = name.lstrip("_")
        self.signature: inspect.Signature = signature
        self.names: tuple[str, ...] = tuple(signature.parameters)
        self.defaults: tuple[Any, ...] = tuple(
            p.default for p in signature.parameters.values())
        #: By types of positional arguments that were right: where Python integers
        #: stand, which have to fit.
        self._accepted: dict[tuple[type, ...], tuple[int, ...]] = {}

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters, with defaults."""
        types = tuple(map(type, args))
        places = self._accepted.get(types)
        if places is not None and not kwargs and fit(args, places):
            return [*args, *self.defaults[len(args):]]
        values = self._bind(args, kwargs)
        added = values[len(args):]
        if not kwargs and int not in map(type, added) and not any(
                isinstance(v, Traced) or is_symbol(v) for v in (*args, *added)) and \
                types == tuple(map(type, values[:len(args)])):
            self._accepted[types] = tuple(
                [k for k, kind in enumerate(types) if kind is int])
        return values

    def accepts(self, types: tuple[type, ...]) -> bool:
        """Whether positional arguments of these types need no checks."""
        return self._accepted.get(types) == ()

    def integers(self, types: tuple[type, ...]) -> tuple[int, ...] | None:
        """The places of Python integers, all that has to be checked: see `fit`.

        None where other arguments of these types need checks, too.
        """
        return self._accepted.get(types)

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        values = [*map(plain_number, args), *self.defaults[len(args):]]
        for name, value in kwargs.items():
            if name not in self.names[len(args):]:
                self._refuse(args, kwargs)
            values[self.names.index(name)] = plain_number(value)
        missing = any(v is inspect.Parameter.empty for v in values)
        if missing or len(values) != len(self.names):
            self._refuse(args, kwargs)
        for name, value in zip(self.names, values, strict=True):
            check_operand(value, self.name, name)
        if any(map(is_symbol, values)) and not all(
                strong_dtype(x) is None or dtype_of(x).kind in "fc" for x in values):
            values = [int(x) if is_symbol(x) else x for x in values]  # it has to fit
        if int in map(type, values) or find_traced(values) is not None:
            values = check_integers(values, self.name, self.names, self.compares,
                                    self.loop)
        return values

    def _refuse(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NoReturn:
        unknown = [name for name in kwargs if name not in self.names]
        try:
            if unknown:
                raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise KernelTypeError(
                f"{self.name}{self.signature}: {error}; it takes "
                f"{quantity(len(self.names), 'argument')}{self.note}"
                f"{self._hint(args, unknown)}") from None
        raise ScalarSyntaxError(f"{self.name}{self.signature}: *args and **kwargs are "
                                "not part of the scalar language; name the parameters")

    def _hint(self, args: Sequence[Any], unknown: Sequence[str]) -> str:
        """The options, and how those are spelled that were meant."""
        if len(args) > len(self.names) and "axis" in self.options:
            return f", then options by name: axis={brief(args[len(self.names)])}"
        if not unknown:
            return ""
        options = f", by name also {', '.join(self.options)}" if self.options else ""
        return options + suggestion(unknown, (*self.names, *self.options))


def quantity(count: int, noun: str) -> str:
    """A count with its noun: ``1 argument``, ``2 arguments``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def output_tuple(out: Any, count: int, op_name: str) -> tuple[Any, ...] | None:
    """Normalise `out` to a tuple of `count` arrays, or None."""
    if out is None:
        return None
    outs = out if isinstance(out, tuple) else (out,)
    if len(outs) != count:
        raise KernelTypeError(
            f"{op_name} has {quantity(count, 'output')}, got 'out' of length "
            f"{len(outs)}; pass one array for each, several as a tuple")
    return outs


def unpack_single(results: tuple[Any, ...]) -> Any:
    """Unpack a single result from its tuple."""
    return results[0] if len(results) == 1 else results
