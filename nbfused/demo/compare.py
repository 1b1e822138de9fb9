"""Comparison of fused ops with unfused NumPy: time and error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import nbfused as nf

from ..support.records import record
from . import unfused

__all__ = ["Case", "Timing", "cases", "compare"]

Arrays = tuple[Any, ...]
SECONDS = 0.6


@record(frozen=True)
class Case:
    """An op with its inputs, and functions for its fused and unfused form."""

    name: str
    inputs: Arrays
    fused: Callable[..., Any]
    unfused: Callable[..., Any]


@record(frozen=True)
class Timing:
    """Best times in seconds, and the largest error relative to the largest value."""

    name: str
    fused: float
    unfused: float
    error: float

    @property
    def speedup(self) -> float:
        """The unfused time over the fused one."""
        return self.unfused / self.fused


def swish_gradient(x: Any, g: Any) -> Arrays:
    """Forward and backward of swish."""
    variable = nf.Variable(x, requires_grad=True)
    result = nf.ops.swish(variable)
    result.backward(g)
    return result.data, variable.grad


def linear_gelu(x: Any, weight: Any, bias: Any) -> Any:
    """A matrix product with its epilogue."""
    return nf.ops.linear(x, weight, bias, activation="gelu")


def layer_norm_gradient(x: Any, weight: Any, bias: Any, g: Any) -> Arrays:
    """Forward and backward of layer norm."""
    x, weight, bias = inputs = [
        nf.Variable(each, requires_grad=True) for each in (x, weight, bias)]
    result = nf.ops.layer_norm(x, weight, bias)
    result.backward(g)
    return result.data, *(each.grad for each in inputs)


def cross_entropy_gradient(logits: Any, labels: Any) -> Arrays:
    """Forward and backward of the mean cross entropy."""
    variable = nf.Variable(logits, requires_grad=True)
    loss = nf.ops.cross_entropy(variable, labels)
    loss.backward()
    return loss.data, variable.grad


def fused_adam(param: Any, grad: Any, m: Any, v: Any) -> Arrays:
    """One step of Adam in one launch."""
    nf.ops.adam_step(
        param, grad, m, v, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, step=10
    )
    return param, m, v


def unfused_adam(param: Any, grad: Any, m: Any, v: Any) -> Arrays:
    """One step of Adam in NumPy."""
    return unfused.adam_step(param, grad, m, v, lr=1e-3, step=10)


def cases(rows: int, columns: int) -> Iterator[Case]:
    """The cases of the demo on ``rows × columns`` float32 elements."""
    rng = np.random.default_rng(7)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    x, g = normal(rows, columns), normal(rows, columns)
    gain, shift = normal(columns), normal(columns)
    weight = normal(columns, columns) / np.float32(np.sqrt(columns))
    labels = rng.integers(columns, size=rows)
    yield Case("swish", (x,), nf.ops.swish, unfused.swish)
    yield Case(
        "swish, forward + backward", (x, g), swish_gradient, unfused.swish_gradient
    )
    yield Case("layer_norm", (x, gain, shift), nf.ops.layer_norm, unfused.layer_norm)
    yield Case(
        "layer_norm, forward + backward", (x, gain, shift, g),
        layer_norm_gradient, unfused.layer_norm_gradient,
    )
    yield Case(
        "cross_entropy, forward + backward", (x, labels),
        cross_entropy_gradient, unfused.cross_entropy_gradient,
    )
    yield Case("linear + gelu", (x, weight, gain), linear_gelu, unfused.linear_gelu)
    yield Case("adam_step", (x, g, gain * x, g * g), fused_adam, unfused_adam)


def best_time(call: Callable[[], Any], seconds: float) -> float:
    """The shortest time of one call, from calls for `seconds` in all."""
    best = float("inf")
    end = time.perf_counter() + seconds
    while True:
        begin = time.perf_counter()
        call()
        nf.synchronize()
        now = time.perf_counter()
        best = min(best, now - begin)
        if now > end:
            return best


def relative_error(got: Any, expected: Any) -> float:
    """The largest difference relative to the largest value, over all results."""
    if not isinstance(got, tuple):
        got, expected = (got,), (expected,)
    return max(
        float(np.abs(nf.to_numpy(a) - b).max() / np.abs(b).max())
        for a, b in zip(got, expected, strict=True)
    )


def compare(case: Case, device: str, seconds: float = SECONDS) -> Timing:
    """Time both sides of `case`, the fused one on `device`.

    The error is that of the fused result against NumPy in float64; the times are the
    best of the calls that fit into `seconds`.
    """
    host = [np.copy(each) for each in case.inputs]
    arrays = [nf.array(each, device=device) for each in case.inputs]
    exact = case.unfused(*(wide(each) for each in case.inputs))
    error = relative_error(case.fused(*arrays), exact)
    fused = best_time(lambda: case.fused(*arrays), seconds)
    plain = best_time(lambda: case.unfused(*host), seconds)
    return Timing(case.name, fused, plain, error)


def wide(array: np.ndarray) -> np.ndarray:
    """Copy an array, to float64 if it is floating."""
    return array.astype(np.float64 if array.dtype.kind == "f" else array.dtype)
