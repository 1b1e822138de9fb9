"""Losses and sums of powers of rows of any length, with special values in them."""

from __future__ import annotations

import warnings

import numpy as np

from nbfused import ops
from nbfused.op import row, stage
from nbfused.scalar.language import names as nb

__all__ = ["losses", "rows"]


@row
def logsumexp(x):
    @stage("max", detach=True)
    def top(x):
        return x

    @stage("sum", post=nb.log)
    def total(x, top):
        return nb.exp(x - top)

    return top + total


def losses(x, labels, ignored):
    """By NumPy, in float64."""
    x = x.astype(np.float64)
    top = x.max(1)
    log_total = top + np.log(np.exp(x - top[:, None]).sum(1))
    inside = (labels >= 0) & (labels < x.shape[1])
    picked = x[np.arange(len(x)), np.where(inside, labels, 0)]
    loss = np.where(inside, log_total - picked, np.nan)
    return np.where(labels == ignored, 0, loss)


def special(x):
    """Rows of a float32 array with what is no plain number in some columns."""
    columns = x.shape[1]
    values = {"nothing special": (0, 0.0), "only -inf": (slice(None), -np.inf),
              "mostly -inf": (slice(9, None), -np.inf),
              "-inf first": (slice(0, columns//2), -np.inf),
              "+inf": (columns - 1, np.inf), "NaN": (columns//2, np.nan),
              "the largest numbers": (slice(3, 5), 3e38),
              "the smallest numbers": (slice(None), -3e38)}
    y = x[:1].repeat(len(values), 0)
    for k, (where, value) in enumerate(values.values()):
        y[k, where] = value
    return y


def rows(check, lengths, dtype, put=lambda x: x):
    """``check(name, found, expected)`` of rows of several lengths."""
    rng = np.random.default_rng(1)
    warnings.simplefilter("ignore")
    for columns in lengths:
        x = rng.standard_normal((4, columns)).astype(np.float32).astype(dtype)
        labels = np.array([0, columns - 1, 3, columns//2], np.int32)
        check(f"losses of rows of {columns}",
              ops.cross_entropy(put(x), put(labels), reduction="none", ignore_index=3),
              losses(x, labels, 3))
        y = special(x.astype(np.float32)).astype(dtype)
        top = y.astype("f8").max(1, keepdims=True)
        total = np.exp(y.astype("f8") - top).sum(1)  # NaN of a row of -inf only
        check(f"special values in rows of {columns}", logsumexp(put(y)),
              top[:, 0] + np.log(total))
