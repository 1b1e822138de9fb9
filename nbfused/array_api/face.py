"""Functions of the standard, made of their rows and NumPy's functions of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature
from typing import Any

import numpy as np

from ..arrays.traced import Traced
from ..numpy_functions.library import native, without_gradient
from ..numpy_functions.on_arrays import on_arrays
from .dtypes import check_category, is_number, promoted

__all__ = ["binary", "by_library", "by_rows", "unary"]


@cache
def by_library(name: str) -> Callable[..., Any]:
    """A function without a rule, computed by the array's own library.

    Arguments that require grad go to the table, which refuses them and says why.
    """
    known = on_arrays(name)
    def forward(x: Any, **options: Any) -> Any:
        with np.errstate(all="ignore"):  # as kernels, which warn of nothing
            made = native(name, x)(x, **options)
        return tuple(made) if isinstance(made, tuple) else made

    compute = without_gradient(name, forward)

    def call(x: Any, **options: Any) -> Any:
        wanted = isinstance(x, Traced) or getattr(x, "requires_grad", False)
        return (known if wanted else compute)(x, **options)

    return call


def unary(name: str, category: str, source: Callable[..., Any]) -> Callable[..., Any]:
    """An elementwise function of one array."""
    def call(x: Any, /) -> Any:
        check_category(name, category, x)
        return source(x)

    return _named(call, name)


def binary(name: str, category: str, source: Callable[..., Any]) -> Callable[..., Any]:
    """An elementwise function of two arrays, or an array and a Python number."""
    def call(x1: Any, x2: Any, /) -> Any:
        for x in (x1, x2):
            if not is_number(x):
                check_category(name, category, x)
        promoted(name, x1, x2)
        return source(x1, x2)

    return _named(call, name)


def by_rows(rows: Mapping[str, Mapping[str, str]], adapted: Mapping[str, Any],
            prefix: str = "") -> dict[str, Callable[..., Any]]:
    """Functions with the parameters of rows.

    Parameters
    ----------
    rows
        Parameters by name, by the category of dtypes.
    adapted
        Functions that are not NumPy's of the same name with these parameters.
    prefix
        Of NumPy's names: ``"linalg."``.
    """
    return {name: _with_parameters(name, category, parameters, adapted.get(name)
                                   or on_arrays(prefix + name))
            for category, functions in rows.items()
            for name, parameters in functions.items()}


def _with_parameters(name: str, category: str, parameters: str,
                     source: Callable[..., Any]) -> Callable[..., Any]:
    """A function written for its parameters, so that Python checks and shows them."""
    space: dict[str, Any] = {}
    exec(f"def probe({parameters}): pass", space)
    given = signature(space["probe"]).parameters.values()
    arrays = [p.name for p in given if p.name in _ARRAYS and category != "unchecked"]
    space = {"_source": source,
             "_check": lambda *found: check_category(name, category, *found)}
    exec(f"def call({parameters}):\n"
         f"    _check({', '.join(arrays)})\n"
         f"    return _source({', '.join(map(_passed, given))})", space)
    return _named(space["call"], name)


#: Parameters that are arrays of the dtypes of a row.
_ARRAYS = ("x", "x1", "x2")


def _passed(p: Parameter) -> str:
    """An argument of the call inside: by position where it has no other way in."""
    if p.kind is p.VAR_POSITIONAL:
        return f"*{p.name}"
    return p.name if p.kind is p.POSITIONAL_ONLY else f"{p.name}={p.name}"


def _named(call: Any, name: str) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = name
    call.__module__ = "nbfused.array_api"
    call.__doc__ = f"``{name}`` of the array API standard 2024.12."
    made: Callable[..., Any] = call
    return made
