"""What every public operation has: a name, a reference, cases to be tested on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np

from ..arrays import dtype_of, is_array
from ..autograd import Variable
from ..autograd.traced import Traced, TracedNumber
from ..errors import KernelTypeError, RangeError
from ..table import OPS

__all__ = [
    "AnyArray", "Case", "Operand", "Parameters", "check_operand", "is_number",
    "kind_of", "only", "op", "real_number", "whole_number",
]

T = TypeVar("T", bound=Callable[..., Any])

#: An array of any library, or a `Variable`: what ops take and give.  No static type
#: has them all.
AnyArray: TypeAlias = Any

#: Such an array, or a number.
Operand: TypeAlias = Any


@dataclass(frozen=True)
class Case:
    """Arguments that an op is tested on.

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
        """The domain of an argument; the last one given serves the rest."""
        return self.domains[min(position, len(self.domains) - 1)]


def op(reference: Callable[..., Any], *cases: Case, name: str | None = None,
       tolerance: float = 16.0, scalar: Any = None) -> Callable[[T], T]:
    """Enter a callable into the table of ops.

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
        if scalar is not None:
            target.scalar = scalar
        OPS[name or target.__name__] = target
        return function

    return enter


def is_number(x: Any) -> bool:
    """Whether `x` is passed to a kernel by value: a Python number, a NumPy scalar."""
    return isinstance(x, (bool, int, float, complex, np.generic, TracedNumber))


def kind_of(x: Any) -> str:
    """The kind of parameter that an argument is."""
    return "scalar" if is_number(x) else "element"


def check_operand(x: Any, op_name: str, name: str) -> None:
    """`KernelTypeError` unless `x` is a number, an array or a Variable."""
    if is_number(x) or isinstance(x, (Variable, Traced)) or is_array(x):
        return
    raise KernelTypeError(
        f"{op_name}: '{name}' must be an array or a number, got "
        f"{type(x).__module__}.{type(x).__qualname__}; convert it first, for example "
        "with numpy.asarray or nf.array")


def check_integers(values: Sequence[Any], op_name: str, names: Sequence[str]) -> None:
    """`RangeError` for a Python integer that the dtype of the arrays does not hold.

    As NumPy, which raises too (NEP 50).  Beside floats an integer becomes one.
    """
    strong = [dtype_of(v) for v in values if type(v) not in (bool, int, float, complex)]
    whole = [d for d in strong if d.kind in "iu"]
    narrow = len(whole) == len(strong) and bool(whole)
    dtype = np.result_type(*whole) if narrow else np.dtype(np.int64)
    info = np.iinfo(dtype)
    for name, value in zip(names, values, strict=True):
        if type(value) is int and not info.min <= value <= info.max:
            raise RangeError(
                f"{op_name}: '{name}' is the Python integer {_short(value)}, out of "
                f"range for {dtype} ({info.min} to {info.max}); convert the arrays "
                "with astype, or pass a float")


def whole_number(value: Any, op_name: str, name: str) -> int:
    """An integer option; `KernelTypeError` for anything that would be cut off."""
    try:
        return index(value)
    except KernelTypeError:
        raise  # a number that is traced says why
    except TypeError:
        raise KernelTypeError(f"{op_name}: '{name}' must be an integer, got "
                              f"{value!r}; round it first") from None


def real_number(value: Any, op_name: str, name: str) -> float:
    """An option that is a number; `KernelTypeError` for anything else."""
    if isinstance(value, (bool, int, float, np.integer, np.floating)):
        return float(value)
    raise KernelTypeError(f"{op_name}: '{name}' must be a number, got {value!r}")


def _short(value: int) -> str:
    """Its digits, or how many there are."""
    bits = value.bit_length()
    return str(value) if bits < 80 else f"of {bits} bits"


class Parameters:
    """The parameters of an op: binds arguments without `inspect` on the way."""

    def __init__(self, name: str, signature: inspect.Signature) -> None:
        self.name, self.signature = name.lstrip("_"), signature
        self.names = tuple(signature.parameters)
        self.defaults = tuple(p.default for p in signature.parameters.values())

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters, defaults filled in."""
        values = [*args, *self.defaults[len(args):]]
        for name, value in kwargs.items():
            if name not in self.names[len(args):]:
                self._refuse(args, kwargs)
            values[self.names.index(name)] = value
        missing = any(v is inspect.Parameter.empty for v in values)
        if missing or len(values) != len(self.names):
            self._refuse(args, kwargs)
        for name, value in zip(self.names, values, strict=True):
            check_operand(value, self.name, name)
        if int in map(type, values):
            check_integers(values, self.name, self.names)
        return values

    def _refuse(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NoReturn:
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}{self.signature}: {error}") from None
        raise AssertionError("bind: the signature accepts what was refused")


def only(results: tuple[Any, ...]) -> Any:
    """A single result by itself, several as a tuple."""
    return results[0] if len(results) == 1 else results
