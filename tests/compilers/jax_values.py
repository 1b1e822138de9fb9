"""Arrays of JAX, and results compared by their dtypes and elements."""

from __future__ import annotations

import sys

import numpy as np

X = np.random.default_rng(5).standard_normal((6, 4))
W = np.linspace(0.5, 1.5, 4)


def arrays(dtype=np.float64):
    jnp = sys.modules["jax"].numpy
    return jnp.asarray(X, dtype), jnp.asarray(W, dtype)


def close(found, expected, rtol=1e-10):
    leaves = sys.modules["jax"].tree.leaves
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)
