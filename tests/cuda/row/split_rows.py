"""Rows along any axis both ways, beside NumPy in float64: see `rows`."""

from __future__ import annotations

from functools import partial

import numpy as np

import nbfused as nf
from nbfused import ops
from nbfused.ops.losses import _cross_entropy
from nbfused.ops.normalization import _layer_norm
from tests.cuda.row.long_rows import logsumexp, special

__all__ = ["EPS", "rows"]

EPS = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52}

#: Numbers below which a dtype rounds by more, where results may be as small.
SMALLEST = {"float16": 2**-14}


def softmax(x, g, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    p = e/e.sum(axis, keepdims=True)
    return p, p*(g - (p*g).sum(axis, keepdims=True))


def log_softmax(x, g, axis):
    top = x.max(axis, keepdims=True)
    total = np.exp(x - top).sum(axis, keepdims=True)
    y = x - top - np.log(total)
    return y, g - np.exp(y)*g.sum(axis, keepdims=True)


def layer_norm(x, g, w, axis):
    """The result, gradients of x and weight, and the scale of the rounding of each.

    Of numbers that hardly differ the mean takes most; what is left is as wrong as they
    are, and is divided by their deviation.
    """
    n = x.shape[axis]
    wide = w.reshape([n if k == axis % x.ndim else 1 for k in range(x.ndim)])
    others = tuple(k for k in range(x.ndim) if k != axis % x.ndim)
    r = 1/np.sqrt(x.var(axis, keepdims=True) + 1e-5)
    h = (x - x.mean(axis, keepdims=True))*r
    s = g*wide
    dx = r*(s - s.mean(axis, keepdims=True) - h*(s*h).mean(axis, keepdims=True))
    large, steep = (np.abs(a).max(axis, keepdims=True) for a in (x*r, s*r))
    scales = large*np.abs(wide), steep*(1 + large), np.abs(g).sum()/n
    return (h*wide, dx, (g*h).sum(others)), scales


def cross_entropy(x, labels, axis):
    """Losses along an axis, and the gradient of their sum."""
    y, _ = log_softmax(x, np.zeros_like(x), axis)
    at = np.expand_dims(labels, axis)
    hot = np.zeros_like(x)
    np.put_along_axis(hot, at, 1.0, axis)
    return -np.take_along_axis(y, at, axis).squeeze(axis), np.exp(y) - hot


def pulled(function, arrays, cotangent, put):
    """The result, then the gradients, as float64."""
    v = [nf.Variable(put(a), requires_grad=True) for a in arrays]
    y = function(*v)
    y.backward(put(cotangent))
    return [nf.to_numpy(a).astype(np.float64) for a in (y.data, *(x.grad for x in v))]


def rows(check, shape, axis, dtype, put=lambda x: x):
    """``check(name, found, expected, scale)`` of rows both ways and special values.

    `scale` is that of the rounding: sums are as wrong as their largest terms.
    """
    rng = np.random.default_rng(sum(shape))

    def drawn(*extents):
        return rng.standard_normal(extents).astype(np.float32).astype(dtype)

    x, g, w = drawn(*shape), drawn(*shape), drawn(shape[axis])
    X, G, W = (a.astype(np.float64) for a in (x, g, w))
    where = f"{shape} along {axis}"
    for name, op in (("softmax", softmax), ("log_softmax", log_softmax)):
        found = pulled(partial(getattr(ops, name), axis=axis), [x], g, put)
        for what, a, b in zip(("", " derivative"), found, op(X, G, axis), strict=True):
            check(f"{name}{what} {where}", a, b, np.abs(b).max())
    found = pulled(lambda *v: _layer_norm(*v, 0.0, 1e-5, axis=axis), [x, w], g, put)
    for what, a, b, scale in zip(("", " dx", " dw"), found,
                                 *layer_norm(X, G, W, axis), strict=True):
        scale = np.maximum(scale, SMALLEST.get(np.dtype(dtype).name, 0))
        check(f"layer_norm{what} {where}", a/scale, b/scale, 1)
    labels = rng.integers(0, shape[axis], np.delete(shape, axis)).astype(np.int32)
    v = nf.Variable(put(x), requires_grad=True)
    y = _cross_entropy(v, put(labels), -1, axis=axis)
    ones = np.ones(labels.shape, nf.to_numpy(y.data).dtype)
    y.backward(put(ones))
    for what, a, b in zip(("", " derivative"), (y.data, v.grad),
                          cross_entropy(X, labels, axis), strict=True):
        check(f"cross_entropy{what} {where}", nf.to_numpy(a).astype(np.float64), b,
              np.abs(b).max())
    if axis == len(shape) - 1 and dtype != np.float16:
        y = special(x.reshape(-1, shape[-1]).astype(np.float32)).astype(dtype)
        top = y.astype("f8").max(1, keepdims=True)
        with np.errstate(all="ignore"):
            total = top[:, 0] + np.log(np.exp(y.astype("f8") - top).sum(1))
        check(f"special values {where}", nf.to_numpy(logsumexp(put(y))).astype("f8"),
              total, 1)
