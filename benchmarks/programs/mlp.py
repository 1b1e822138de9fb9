"""A multilayer perceptron (gelu, cross entropy) with Adam."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import nbfused as nf

from .program import Numbers, Program

__all__ = ["mlp"]


def mlp(name: str, rows: int, *widths: int, dtype: str = "float32") -> Program:
    """A perceptron of these widths."""
    return Program(name, partial(_numbers, rows, widths), _ours, _torch, _jax, _torch,
                   dtype)


def _numbers(rows: int, widths: tuple[int, ...]) -> Numbers:
    rng = np.random.default_rng(0)
    parameters = []
    for fan_in, width in pairwise(widths):
        parameters += [rng.normal(size=(fan_in, width)) / np.sqrt(fan_in),
                       np.zeros(width)]
    return (parameters, [rng.normal(size=(rows, widths[0])),
                         rng.integers(widths[-1], size=rows)], None)


def _ours(parameters: Any, x: Any, labels: Any) -> Any:
    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        x = nf.ops.linear(x, weight, bias, activation="gelu")
    return nf.ops.cross_entropy(nf.ops.linear(x, *parameters[-2:]), labels)


def _torch(parameters: Any, x: Any, labels: Any) -> Any:
    import torch.nn.functional as F

    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        x = F.gelu(x @ weight + bias)
    return F.cross_entropy(x @ parameters[-2] + parameters[-1], labels)


def _jax(parameters: Any, x: Any, labels: Any) -> Any:
    import jax
    import jax.numpy as jnp

    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        x = jax.nn.gelu(x @ weight + bias, approximate=False)
    scores = jax.nn.log_softmax(
        (x @ parameters[-2] + parameters[-1]).astype(jnp.float32))
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()
