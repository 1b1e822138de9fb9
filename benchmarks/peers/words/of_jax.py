"""The workloads in JAX, with jit."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU is shared

import jax
import jax.numpy as jnp
import numpy as np

from ..inputs import cotangent_of
from ..workload import Workload

__all__ = ["prepare"]


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
    return (centred*scale*weight + bias).astype(x.dtype)


def _rms_norm(x: Any, weight: Any) -> Any:
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6)
    return (wide*scale*weight).astype(x.dtype)


def _cross_entropy(x: Any, labels: Any) -> Any:
    logged = jax.nn.log_softmax(x.astype(jnp.float32))
    return -jnp.take_along_axis(logged, labels[:, None], 1).mean()


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu, "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": jax.nn.gelu, "swish": jax.nn.silu,
}


def _adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    m, v = 0.9*m + 0.1*g, 0.999*v + 0.001*g*g
    scale = 1e-3/(1 - 0.9**10)
    return p - scale*m/(jnp.sqrt(v/(1 - 0.999**10)) + 1e-8), m, v


_MAPS: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu, "gelu": partial(jax.nn.gelu, approximate=False),
    "swish": jax.nn.silu, "sigmoid": jax.nn.sigmoid, "erf": jax.scipy.special.erf}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "logsumexp": jax.nn.logsumexp, "norm": lambda x, axis: jnp.sqrt(
        jnp.square(x).sum(axis))}

_FAMILIES: dict[str, Callable[..., Any]] = {
    "swish": lambda x, into=False: jax.nn.silu(x),
    "swish_sum": lambda x: jax.nn.silu(x).sum(),
    "squared_diff": lambda x, y: jnp.square(x - y),
    "squared_distance": lambda x, y, axis: jnp.square(x - y).sum(axis),
    "l2norm": lambda x, axis: jnp.sqrt(jnp.square(x).sum(axis)),
    "sum": jnp.sum,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "softmax": lambda x, axis=-1: jax.nn.softmax(x, axis),
    "log_softmax": lambda x, axis=-1: jax.nn.log_softmax(x, axis),
    "add_rms_norm": lambda x, r, w: _rms_norm(x + r, w),
    "swiglu": lambda x, gate: x*jax.nn.silu(gate),
    "cross_entropy": _cross_entropy,
    "linear": lambda x, w, b, activation: _ACTIVATIONS[activation](x @ w + b),
    "matmul": jnp.matmul,
    "batched_permuted": lambda a, b, bias, scale: jnp.transpose(
        (a @ b + bias)*scale, (1, 0, 2)),
    "adam_step": _adam,
    "map": lambda x, function: (_MAPS.get(function) or getattr(jnp, function))(x),
    "map2": lambda x, y, function: getattr(jnp, function)(x, y),
    "ratio": lambda x, y: x/(1 + y*y),
    "reduce": lambda x, function, axis: (
        _REDUCTIONS.get(function) or getattr(jnp, function))(x, axis=axis),
    "take": lambda x, rows: x[rows],
}


def prepare(work: Workload, arrays: Sequence[Any], device: str,
            ) -> Callable[[], Any] | None:
    """Prepare a call that waits for its results.

    On a GPU relu stands for all activations of layers: XLA tries kernels of a product
    for seconds.  Nothing with elements or steps that JAX has not: float64, strides.
    """
    if work.dtype == "float64" or any(x.layout for x in work.inputs):
        return None
    if device != "cpu" and work.options.get("activation", "relu") != "relu":
        return None
    turned = [given.transposed for given in work.inputs]

    def function(*xs: Any) -> Any:
        xs = tuple(x.mT if t else x for x, t in zip(xs, turned, strict=True))
        return _FAMILIES[work.family](*xs, **work.options)

    given = [_array(a.mT if t else a) for a, t in zip(arrays, turned, strict=True)]
    if work.both:
        result = jax.eval_shape(function, *given)
        cotangent = _array(cotangent_of(result.shape, work.storage, device))
        given.append(cotangent.astype(result.dtype))
        function = _gradients(function, work)
    precision = "tensorfloat32" if work.dtype == "tfloat32" else "float32"
    with jax.default_matmul_precision(precision):
        run = jax.jit(function).lower(*given).compile()
    return partial(_waited, run, given, work.both)


def _waited(run: Callable[..., Any], given: list[Any], both: bool) -> Any:
    """Wait for the results, or the gradients beside them."""
    found = jax.block_until_ready(run(*given))
    return found[1] if both else found


def _gradients(function: Callable[..., Any], work: Workload) -> Callable[..., Any]:
    """Transform to the result and the gradients in all but integer arguments."""
    floating = sum(not given.classes for given in work.inputs)

    def run(*given: Any) -> Any:
        *xs, cotangent = given
        result, pull = jax.vjp(lambda *fs: function(*fs, *xs[floating:]),
                               *xs[:floating])
        return result, pull(cotangent)

    return run


def _array(x: Any) -> Any:
    """Convert to JAX on the same device; 64-bit integers become 32-bit."""
    if isinstance(x, np.ndarray):
        return jnp.asarray(x)
    return jax.dlpack.from_dlpack(x if x.is_floating_point() else x.int())
