"""What every public operation has: a name, a reference, cases to be tested on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..arrays import is_array
from ..errors import KernelTypeError
from ..table import OPS
from ..variable import Variable

__all__ = ["Case", "bind", "check_operand", "is_number", "kind_of", "only", "op"]

T = TypeVar("T", bound=Callable[..., Any])


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


def op(reference: Callable[..., Any], *cases: Case,
       name: str | None = None, tolerance: float = 16.0) -> Callable[[T], T]:
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
    """

    def enter(function: T) -> T:
        target: Any = function
        target.reference, target.cases = reference, cases
        target.tolerance = tolerance
        OPS[name or target.__name__] = target
        return function

    return enter


def is_number(x: Any) -> bool:
    """Whether `x` is passed to a kernel by value: a Python number, a NumPy scalar."""
    return isinstance(x, (bool, int, float, complex, np.generic))


def kind_of(x: Any) -> str:
    """The kind of parameter that an argument is."""
    return "scalar" if is_number(x) else "element"


def check_operand(x: Any, op_name: str, name: str) -> None:
    """`KernelTypeError` unless `x` is a number, an array or a Variable."""
    if is_number(x) or isinstance(x, Variable) or is_array(x):
        return
    raise KernelTypeError(
        f"{op_name}: '{name}' must be an array or a number, got "
        f"{type(x).__module__}.{type(x).__qualname__}; convert it first, for example "
        "with numpy.asarray or nf.array")


def bind(signature: inspect.Signature, op_name: str, args: Sequence[Any],
         kwargs: dict[str, Any]) -> list[Any]:
    """The arguments in the order of the parameters, defaults filled in."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{op_name}{signature}: {error}") from None
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        check_operand(value, op_name, name)
    return list(bound.arguments.values())


def only(results: tuple[Any, ...]) -> Any:
    """A single result by itself, several as a tuple."""
    return results[0] if len(results) == 1 else results
