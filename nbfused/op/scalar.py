"""Conversion of an object, function or name to a scalar function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from types import BuiltinFunctionType
from typing import Any, TypeAlias

from ..errors import KernelTypeError
from ..registry.operations import OPS
from ..scalar.ir.nodes import Function, literal
from ..scalar.language.vocabulary import OPS as VOCABULARY
from ..scalar.parse.functions import parse
from ..scalar.source.resolve import operation, python_function
from ..specs.vjp.functions import compose
from .numbers import brief

__all__ = ["ScalarFunction", "scalar_function"]

#: Anything that stands for a scalar function: a callable, or the name of an op.
ScalarFunction: TypeAlias = Callable[..., Any] | str


def scalar_function(given: ScalarFunction | Function, what: str = "function",
                    takes: int | None = None) -> Function:
    """Parse a scalar function to IR.

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
    target = _named(given, what, takes) if isinstance(given, str) else given
    target = getattr(target, "scalar", target)
    if isinstance(target, BuiltinFunctionType) and operation(target) is None and \
            python_function(target) is None:
        way_out = f"pass {target.__name__!r}" if target.__name__ in OPS else \
            "use functions of math, numpy and nbfused, or pass a function of numbers"
        raise KernelTypeError(f"'{what}' is {brief(target)}, which is not part of the "
                              f"scalar language; {way_out}")
    if operation(target) is None and not (
            hasattr(target, "__name__") or hasattr(target, "function")):
        raise KernelTypeError(f"'{what}' is the object {brief(target)}; expected a "
                              "function of numbers, or the name of one, such as 'relu'")
    function = parse(target)
    if takes is None:
        return function
    found = _with_defaults(function, takes, _defaults(target))
    if isinstance(given, str) and len(found.params) != takes:
        raise KernelTypeError(
            f"'{what}' is {given!r}, which takes {', '.join(function.params)}; "
            f"expected a function of {takes} value{'s'[:takes > 1]}; known: "
            f"{_known(takes)}; or pass a scalar function, such as lambda acc: "
            f"nf.ops.{given}(acc, ...)")
    return found


def _named(name: str, what: str, takes: int | None) -> Any:
    """Look up an op or a function of the vocabulary by name."""
    found = OPS.get(name)
    if isinstance(getattr(getattr(found, "scalar", found), "function", None), Function):
        return found
    if name in VOCABULARY:
        return VOCABULARY[name]
    from difflib import get_close_matches  # late: for errors only

    near = get_close_matches(name.lower(), OPS, 1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise KernelTypeError(f"unknown {what} {name!r}{meant}; known: {_known(takes)}; or "
                          "pass a scalar function")


def _known(takes: int | None) -> str:
    """The names of ops that are scalar functions, of so many values if that is given.

    Further parameters need defaults.
    """
    found = []
    for name, op in OPS.items():
        target = getattr(op, "scalar", op)
        if not hasattr(target, "nin"):
            continue
        needed = target.nin - len(_defaults(target))
        if takes is None or needed <= takes <= target.nin:
            found.append(name)
    return ", ".join(sorted(found))


def _defaults(target: Any) -> dict[str, Any]:
    """Numeric defaults of the parameters, options of calls apart."""
    try:
        found = inspect.signature(target).parameters
    except (TypeError, ValueError):  # an operation written in C
        return {}
    return {n: p.default for n, p in found.items()
            if isinstance(p.default, (bool, int, float))
            and p.kind is not p.KEYWORD_ONLY}


def _with_defaults(function: Function, takes: int,
                   defaults: dict[str, Any]) -> Function:
    """A function of the first parameters, with defaults for the others."""
    head, rest = function.params[:takes], function.params[takes:]
    if not rest or not defaults.keys() >= set(rest):
        return function
    numbers = [literal(defaults[p]) for p in rest]
    return compose(function.name, head, lambda b: b.call(function, *head, *numbers))
