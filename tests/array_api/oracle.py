"""Calls of the namespace beside `array_api_strict`, the standard's own implementation.

It computes with NumPy and checks dtypes as the standard has them, so that it knows
nothing of nbfused.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import nbfused as nf

strict = pytest.importorskip("array_api_strict")
strict.set_array_api_strict_flags(api_version="2024.12")
xp = nf.array_api

__all__ = ["Case", "as_ours", "as_theirs", "compare", "strict",
           "xp"]


class Case(NamedTuple):
    """A call: ``function(*arrays, **options)`` of arrays by position.

    Attributes
    ----------
    name
        ``"linalg.inv"``.
    arrays
        NumPy arrays; other things are passed as they are.
    options
        Keywords.
    """

    name: str
    arrays: tuple[Any, ...]
    options: dict[str, Any]


def function(namespace: Any, name: str) -> Callable[..., Any]:
    """A function of the namespace or of one of its extensions."""
    for part in name.split("."):
        namespace = getattr(namespace, part)
    found: Callable[..., Any] = namespace
    return found


def as_ours(x: Any) -> Any:
    """NumPy arrays as arrays of our namespace, in lists also."""
    if isinstance(x, list):
        return [as_ours(y) for y in x]
    return xp.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else \
        getattr(xp, x.name) if isinstance(x, np.dtype) else x


def as_theirs(x: Any) -> Any:
    """NumPy arrays as arrays of the oracle."""
    if isinstance(x, list):
        return [as_theirs(y) for y in x]
    return strict.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else \
        getattr(strict, x.name) if isinstance(x, np.dtype) else x


def leaves(made: Any) -> Iterator[Any]:
    """The arrays and numbers of a result."""
    if isinstance(made, (list, tuple)):
        for x in made:
            yield from leaves(x)
    else:
        yield made


def host(x: Any) -> np.ndarray:
    """An array of either namespace for NumPy."""
    return x.to_numpy() if isinstance(x, nf.Variable) else np.asarray(
        x._array if hasattr(x, "_array") else x)


def compare(case: Case, tolerance: float = 1e-5, *, zeros: bool = False) -> None:
    """Compare kinds of results, shapes, dtypes and values with the oracle's.

    Signs of zeros count where `zeros` is true.
    """
    ours = function(xp, case.name)(*map(as_ours, case.arrays), **{
        k: as_ours(v) for k, v in case.options.items()})
    with np.errstate(all="ignore"):  # NumPy's warnings are no part of the standard
        theirs = function(strict, case.name)(*map(as_theirs, case.arrays), **{
            k: as_theirs(v) for k, v in case.options.items()})
    assert getattr(ours, "_fields", ()) == getattr(theirs, "_fields", ())
    found, expected = list(leaves(ours)), list(leaves(theirs))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert isinstance(a, nf.Variable) == isinstance(b, type(strict.asarray(0)))
        value, wanted = host(a), host(b)
        assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(value, wanted, tolerance, tolerance)
        if zeros and wanted.dtype.kind == "f":
            at = wanted == 0
            np.testing.assert_array_equal(np.signbit(value[at]), np.signbit(wanted[at]))


def parameters(call: Callable[..., Any]) -> list[tuple[Any, ...]]:
    """Names, kinds and defaults of parameters."""
    return [(p.name, p.kind, p.default) for p in
            inspect.signature(call).parameters.values()]


def names() -> Iterator[str]:
    """All functions of the oracle and its extensions."""
    for prefix in ("", "linalg.", "fft."):
        module = function(strict, prefix[:-1]) if prefix else strict
        for name in module.__all__:
            if isinstance(getattr(module, name), types.FunctionType) and not \
                    name.endswith("_flags"):
                yield prefix + name
