"""The workloads in array libraries without gradients: NumPy, numexpr, CuPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nbfused.demo import unfused

__all__ = ["families", "views"]


def views(name: str, arrays: Sequence[Any]) -> list[Any]:
    """View arrays as the library's own, without a copy."""
    if name != "cupy":
        return list(arrays)
    import cupy

    return [cupy.from_dlpack(a) for a in arrays]


def families(name: str) -> dict[str, Callable[..., Any]]:
    """Implementations of the workloads by the library `name`."""
    return {"numpy": _numpy, "numexpr": _numexpr, "cupy": _cupy}[name]()


def _numpy() -> dict[str, Callable[..., Any]]:
    return {
        "swish": lambda x, into=False: unfused.swish(x),
        "squared_diff": lambda x, y: np.square(x - y),
        "squared_distance": lambda x, y, axis: np.square(x - y).sum(axis),
        "l2norm": lambda x, axis: np.linalg.norm(x, axis=axis),
        "sum": np.sum,
        "layer_norm": _layer_norm,
        "softmax": _softmax,
        "matmul": np.matmul,
        "linear": _linear,
        "adam_step": lambda p, g, m, v: unfused.adam_step(p, g, m, v, lr=1e-3, step=10),
        "map": lambda x, function: _named(function)(x),
        "map2": lambda x, y, function: _named(function)(x, y),
        "ratio": lambda x, y: x/(1 + y*y),
        "reduce": lambda x, function, axis: _reduction(function)(x, axis=axis),
        "take": lambda x, rows: np.take(x, rows, 0),
    }


def _named(function: str) -> Any:
    if not hasattr(np, function):
        raise NotImplementedError(f"NumPy has no {function}")
    return getattr(np, function)


def _reduction(function: str) -> Any:
    return np.linalg.norm if function == "norm" else _named(function)


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = np.square(centred).mean(-1, keepdims=True)
    return centred/np.sqrt(variance + np.float32(1e-5))*weight + bias


def _softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    e /= e.sum(axis, keepdims=True)
    return e


def _linear(x: Any, weight: Any, bias: Any, activation: str) -> Any:
    if activation not in ("relu", "swish"):
        raise NotImplementedError(f"NumPy has no {activation}")
    result = x @ weight
    result += bias
    return np.maximum(result, 0, out=result) if activation == "relu" \
        else unfused.swish(result)


def _numexpr() -> dict[str, Callable[..., Any]]:
    from numexpr import evaluate

    kept: dict[Any, np.ndarray] = {}

    def swish(x: Any, into: bool = False) -> Any:
        if into and x.shape not in kept:
            kept[x.shape] = np.empty_like(x)
        return evaluate("x/(1 + exp(-x))", {"x": x},
                        out=kept[x.shape] if into else None)

    return {"swish": swish,
            "squared_diff": lambda x, y: evaluate("(x - y)**2", {"x": x, "y": y})}


def _cupy() -> dict[str, Callable[..., Any]]:
    import cupy

    swish = cupy.ElementwiseKernel("T x", "T y", "y = x/(1 + exp(-x))", "swish")
    squared = cupy.ElementwiseKernel("T x, T y", "T z", "z = (x - y)*(x - y)",
                                     "squared")
    norm = cupy.ReductionKernel("T x", "T y", "x*x", "a + b", "y = sqrt(a)", "0",
                                "l2norm")
    distance = cupy.ReductionKernel("T x, T y", "T z", "(x - y)*(x - y)", "a + b",
                                    "z = a", "0", "squared_distance")
    return {"swish": swish, "squared_diff": squared, "l2norm": norm,
            "squared_distance": distance, "sum": cupy.sum, "matmul": cupy.matmul}
