"""The families by JAX, jitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .workloads import Workload, cotangent_of

__all__ = ["prepare"]


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
    return centred*scale*weight + bias


def _rms_norm(x: Any, weight: Any) -> Any:
    return x*jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)*weight


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu, "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": jax.nn.gelu, "swish": jax.nn.silu,
}


def _adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    m, v = 0.9*m + 0.1*g, 0.999*v + 0.001*g*g
    scale = 1e-3/(1 - 0.9**10)
    return p - scale*m/(jnp.sqrt(v/(1 - 0.999**10)) + 1e-8), m, v


_FAMILIES: dict[str, Callable[..., Any]] = {
    "swish": lambda x, into=False: jax.nn.silu(x),
    "swish_sum": lambda x: jax.nn.silu(x).sum(),
    "squared_diff": lambda x, y: jnp.square(x - y),
    "squared_distance": lambda x, y, axis: jnp.square(x - y).sum(axis),
    "l2norm": lambda x, axis: jnp.sqrt(jnp.square(x).sum(axis)),
    "sum": jnp.sum,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "add_rms_norm": lambda x, r, w: _rms_norm(x + r, w),
    "swiglu": lambda x, gate: x*jax.nn.silu(gate),
    "linear": lambda x, w, b, activation: _ACTIVATIONS[activation](x @ w + b),
    "matmul": jnp.matmul,
    "adam_step": _adam,
}


def prepare(work: Workload, arrays: Sequence[np.ndarray]) -> Callable[[], Any] | None:
    """A call that waits for its results; None if the family is not there."""
    if work.family not in _FAMILIES:
        return None
    function = partial(_FAMILIES[work.family], **work.options)
    given = [jnp.asarray(a, work.dtype) for a in arrays]
    if work.both:
        result = jax.eval_shape(function, *given)
        cotangent = jnp.asarray(cotangent_of(result.shape), result.dtype)
        run = jax.jit(lambda *xs: jax.vjp(function, *xs)[1](cotangent))
    else:
        run = jax.jit(function)
    return lambda: jax.block_until_ready(run(*given))
