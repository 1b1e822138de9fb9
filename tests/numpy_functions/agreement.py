"""Calls of NumPy's functions on Variables beside NumPy itself, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nbfused as nf

__all__ = ["check", "normal", "positive"]

STEP = 1e-6


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers."""
    return np.random.default_rng((seed, *shape)).normal(size=shape)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers between 0.3 and 2."""
    return np.random.default_rng((seed, *shape)).uniform(0.3, 2.0, shape)


def flat(result: Any) -> list[Any]:
    """The arrays of nested tuples and lists."""
    if isinstance(result, (tuple, list)):
        return [x for part in result for x in flat(part)]
    return [result]


def check(function: Callable[..., Any], *args: Any) -> None:
    """Compare values, dtypes and shapes with NumPy's, gradients with differences.

    The gradient is that of random weights on the results, along a random direction.
    """
    expected = flat(function(*args))
    leaves = [nf.Variable(a, requires_grad=a.dtype.kind == "f") for a in args]
    found = flat(function(*leaves))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        value = ours.to_numpy() if isinstance(ours, nf.Variable) else np.asarray(ours)
        assert (value.dtype, value.shape) == (np.asarray(theirs).dtype,
                                              np.shape(theirs))
        np.testing.assert_allclose(value, theirs, 1e-9, 1e-11)
    _check_gradients(function, args, leaves, found)


def _check_gradients(function: Callable[..., Any], args: tuple[Any, ...],
                     leaves: list[Any], found: list[Any]) -> None:
    rng = np.random.default_rng(7)
    weights = {k: rng.normal(size=y.shape) for k, y in enumerate(found)
               if isinstance(y, nf.Variable) and y.requires_grad}
    if not weights:
        return
    sum((found[k] * w).sum() for k, w in weights.items()).backward()
    directions = [rng.normal(size=a.shape) if x.requires_grad else np.zeros(
        a.shape, a.dtype) for a, x in zip(args, leaves, strict=True)]

    def along(step: float) -> float:
        moved = [a + step * d if a.dtype.kind == "f" else a
                 for a, d in zip(args, directions, strict=True)]
        results = flat(function(*moved))
        return sum(float(np.sum(results[k] * w)) for k, w in weights.items())

    numeric = (along(STEP) - along(-STEP)) / (2 * STEP)
    exact = sum(float(np.sum(x.grad * d)) for x, d in zip(
        leaves, directions, strict=True) if x.requires_grad and x.grad is not None)
    np.testing.assert_allclose(exact, numeric, 2e-5, 2e-6)
