"""The workloads in nbfused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nbfused as nf
from nbfused import ops
from nbfused.ops import activations

from ..workload import Workload

__all__ = ["FAMILIES", "SAMPLED", "options"]


def options(work: Workload) -> dict[str, Any]:
    """Keyword arguments of a family's function."""
    tf32 = {"precision": "tf32"} if work.dtype == "tfloat32" else {}
    return {**work.options, **tf32}


@nf.elementwise
def _squared_diff(x, y):  # type: ignore[no-untyped-def]
    return (x - y)*(x - y)


@nf.reduction(combine="sum")
def _squared_distance(x, y):  # type: ignore[no-untyped-def]
    return (x - y)*(x - y)


@nf.elementwise
def _ratio(x, y):  # type: ignore[no-untyped-def]
    return x/(1.0 + y*y)


_KEPT: dict[tuple[int, ...], np.ndarray] = {}


def swish(x: Any, into: bool = False) -> Any:
    """Swish, stored to the kept array `into` if given."""
    if not into:
        return ops.swish(x)
    if x.shape not in _KEPT:
        _KEPT[x.shape] = np.empty_like(x)
    return ops.swish(x, out=_KEPT[x.shape])


_ACTIVATIONS: dict[str, Any] = {
    "relu": ops.relu, "gelu": ops.gelu, "gelu_tanh": activations.gelu_tanh,
    "swish": ops.swish,
}


def linear(x: Any, weight: Any, bias: Any, activation: str) -> Any:
    """``activation(x @ weight + bias)``."""
    if weight.ndim == 2:
        return ops.linear(x, weight, bias, activation=_ACTIVATIONS[activation])
    return ops.matmul(x, weight, bias=bias, epilogue=_ACTIVATIONS[activation])


def batched_permuted(a: Any, b: Any, bias: Any, scale: Any) -> Any:
    """``(a @ b + bias)*scale``, stored with the rows first."""
    return ops.batched_matmul(a, b, bias, epilogue=lambda acc, s: acc*s,
                              extras=(scale,), permute=(1, 0, 2))


def adam_step(p: Any, g: Any, m: Any, v: Any) -> Any:
    """A step of Adam in place, as in training."""
    ops.adam_step(p, g, m, v, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, step=10)
    return p, m, v


FAMILIES: dict[str, Callable[..., Any]] = {
    "swish": swish,
    "swish_sum": lambda x: ops.sum(ops.swish(x)),
    "squared_diff": _squared_diff,
    "squared_distance": _squared_distance,
    "l2norm": lambda x, axis: ops.norm(x, axis=axis),
    "sum": ops.sum,
    "layer_norm": ops.layer_norm,
    "rms_norm": ops.rms_norm,
    "softmax": lambda x, axis=-1: ops.softmax(x, axis=axis),
    "log_softmax": lambda x, axis=-1: ops.log_softmax(x, axis=axis),
    "add_rms_norm": lambda x, r, w: ops.add_rms_norm(x, r, w)[0],
    "swiglu": ops.swiglu,
    "cross_entropy": ops.cross_entropy,
    "linear": linear,
    "matmul": ops.matmul,
    "batched_permuted": batched_permuted,
    "adam_step": adam_step,
    "map": lambda x, function: getattr(ops, function)(x),
    "map2": lambda x, y, function: getattr(ops, function)(x, y),
    "ratio": _ratio,
    "reduce": lambda x, function, axis: getattr(ops, function)(x, axis=axis),
    "take": ops.take,
}
#: The families that only `benchmarks.sample` draws.
SAMPLED = ("map", "map2", "ratio", "reduce", "take")
