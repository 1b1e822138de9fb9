"""Scalar functions given in any of the ways a user may: object, function, name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from types import BuiltinFunctionType
from typing import Any, TypeAlias

from ..errors import KernelTypeError
from ..scalar.ir import Function, literal
from ..scalar.parse import parse
from ..scalar.resolve import operation
from ..scalar.vocabulary import OPS as VOCABULARY
from ..specs.functions import compose
from ..table import OPS

__all__ = ["ScalarFunction", "scalar_function"]

#: Anything that stands for a scalar function: a callable, or the name of an op.
ScalarFunction: TypeAlias = Callable[..., Any] | str


def scalar_function(given: ScalarFunction | Function, what: str = "function",
                    takes: int | None = None) -> Function:
    """The IR of a scalar function.

    Parameters
    ----------
    given
        A function, an ``@nf.func`` or ``@nf.elementwise`` object, an operation of the
        vocabulary, a function of `math`, or the name of an op.
    what : str
        How a message calls it.
    takes : int, optional
        How many values it will be given; parameters after those keep their defaults.

    Raises
    ------
    KernelTypeError
        It is none of these.
    """
    if isinstance(given, Function):
        return given
    if isinstance(given, str) or callable(given):
        return _found(given, what, takes)
    raise KernelTypeError(f"'{what}' must be a scalar function or the name of one, got "
                          f"{type(given).__name__}")


@lru_cache(maxsize=1024)
def _found(given: ScalarFunction, what: str, takes: int | None) -> Function:
    target = _named(given, what) if isinstance(given, str) else given
    target = getattr(target, "scalar", target)
    if isinstance(target, BuiltinFunctionType) and operation(target) is None:
        raise KernelTypeError(
            f"'{what}' is {target!r}, which is not part of the scalar language; use "
            "functions of math, numpy and nbfused, or pass a function of numbers")
    function = parse(target)
    return function if takes is None else _first(function, takes, _defaults(target))


def _named(name: str, what: str) -> Any:
    """The op, or the operation of the vocabulary, of that name."""
    found = OPS.get(name)
    if isinstance(getattr(getattr(found, "scalar", found), "function", None), Function):
        return found
    if name in VOCABULARY:
        return VOCABULARY[name]
    known = sorted(n for n, o in OPS.items() if hasattr(o, "nin")
                   or hasattr(o, "scalar"))
    raise KernelTypeError(f"unknown {what} {name!r}; known: {', '.join(known)}; or "
                          "pass a scalar function")


def _defaults(target: Any) -> dict[str, Any]:
    """The numbers that parameters have by default."""
    try:
        found = inspect.signature(target).parameters
    except (TypeError, ValueError):  # an operation written in C
        return {}
    return {n: p.default for n, p in found.items()
            if isinstance(p.default, (bool, int, float))}


def _first(function: Function, takes: int, defaults: dict[str, Any]) -> Function:
    """A function of its first parameters, where the others have a default."""
    head, rest = function.params[:takes], function.params[takes:]
    if not rest or not defaults.keys() >= set(rest):
        return function
    numbers = [literal(defaults[p]) for p in rest]
    return compose(function.name, head, lambda b: b.call(function, *head, *numbers))
