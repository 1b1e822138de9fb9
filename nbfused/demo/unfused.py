"""The ops of the demo in plain, unfused NumPy.

Each line makes an array of its own: that is what fusion saves.  The functions follow
the dtype of their arguments, so that float64 gives a reference for float32.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "adam_step",
    "cross_entropy_gradient",
    "gelu",
    "layer_norm",
    "layer_norm_gradient",
    "linear_gelu",
    "swish",
    "swish_gradient",
]

Array = np.ndarray


def swish(x: Array) -> Array:
    """``x·sigmoid(x)``."""
    return x / (1 + np.exp(-x))


def swish_gradient(x: Array, g: Array) -> tuple[Array, Array]:
    """``swish(x)`` and the cotangent of `x`; `g` is that of the result."""
    s = 1 / (1 + np.exp(-x))
    y = x * s
    return y, g * (s + y * (1 - s))


def gelu(x: Array) -> Array:
    """``x·Φ(x)`` with Φ the distribution function of the normal distribution."""
    from scipy.special import erf

    return 0.5 * x * (1 + erf(x * x.dtype.type(math.sqrt(0.5))))


def linear_gelu(x: Array, weight: Array, bias: Array) -> Array:
    """``gelu(x @ weight + bias)``."""
    return gelu(x @ weight + bias)


def standardise(x: Array) -> tuple[Array, Array]:
    """Rows scaled to mean 0 and variance 1, and their scale factors."""
    centred = x - x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + 1e-5)
    return centred * scale, scale


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    """Layer normalisation of rows: standardised, scaled and shifted."""
    return standardise(x)[0] * weight + bias


def layer_norm_gradient(
    x: Array, weight: Array, bias: Array, g: Array
) -> tuple[Array, ...]:
    """``layer_norm(x, weight, bias)`` and the cotangents of its three arguments."""
    unit, scale = standardise(x)
    h = g * weight
    mean, slope = (t.mean(axis=1, keepdims=True) for t in (h, h * unit))
    gradient = scale * (h - mean - unit * slope)
    return unit * weight + bias, gradient, (g * unit).sum(axis=0), g.sum(axis=0)


def cross_entropy_gradient(logits: Array, labels: Array) -> tuple[Array, Array]:
    """The mean cross entropy and the cotangent of `logits`."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    total = exponentials.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = (np.log(total[:, 0]) - shifted[rows, labels]).mean()
    gradient = exponentials / total
    gradient[rows, labels] -= 1
    return loss, gradient / len(labels)


def adam_step(
    param: Array, grad: Array, m: Array, v: Array, *, lr: float, step: int
) -> tuple[Array, Array, Array]:
    """Take a step of Adam, in place."""
    m *= 0.9
    m += 0.1 * grad
    v *= 0.999
    v += 0.001 * np.square(grad)
    corrected = np.sqrt(v / (1 - 0.999**step)) + 1e-8
    param -= lr * (m / (1 - 0.9**step)) / corrected
    return param, m, v
