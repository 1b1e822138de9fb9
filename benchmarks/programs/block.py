"""The block layer_norm, linear with gelu, linear, residual: both ways, without Adam."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import nbfused as nf

from .program import Numbers, Program

__all__ = ["block"]


def block(name: str, rows: int, width: int, inner: int,
          dtype: str = "float32") -> Program:
    """A block; its input counts as a parameter."""
    return Program(name, partial(_numbers, rows, width, inner), _ours, _torch, _jax,
                   _torch, dtype, trains=False)


def _numbers(rows: int, width: int, inner: int) -> Numbers:
    rng = np.random.default_rng(1)
    return ([rng.normal(size=(rows, width)), np.ones(width), np.zeros(width),
             rng.normal(size=(width, inner)) / np.sqrt(width), np.zeros(inner),
             rng.normal(size=(inner, width)) / np.sqrt(inner), np.zeros(width)],
            [], rng.normal(size=(rows, width)))


def _ours(parameters: Any) -> Any:
    x, scale, shift, up, more, down, last = parameters
    inner = nf.ops.linear(nf.ops.layer_norm(x, scale, shift), up, more,
                          activation="gelu")
    return x + nf.ops.linear(inner, down, last)


def _torch(parameters: Any) -> Any:
    import torch.nn.functional as F

    x, scale, shift, up, more, down, last = parameters
    inner = F.gelu(F.layer_norm(x, scale.shape, scale, shift) @ up + more)
    return x + (inner @ down + last)


def _jax(parameters: Any) -> Any:
    import jax

    x, scale, shift, up, more, down, last = parameters
    inner = jax.nn.gelu(jax_norm(x, scale, shift) @ up + more, approximate=False)
    return x + (inner @ down + last)


def jax_norm(x: Any, scale: Any, shift: Any) -> Any:
    """Layer norm as JAX's libraries write it."""
    import jax
    import jax.numpy as jnp

    wide = x.astype(jnp.float32)
    mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    return ((wide - mean) * jax.lax.rsqrt(variance + 1e-5)).astype(x.dtype
                                                                   ) * scale + shift
