"""The derivative of an activation is stored by the product that computes it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nbfused as nf
from nbfused.kernels.fusing import program
from nbfused.support.dtypes import BFLOAT16

pytestmark = [pytest.mark.filterwarnings("ignore:fuse.*decorated again"),
              pytest.mark.interpreted]
ops = nf.ops
erf = np.vectorize(math.erf)


@pytest.fixture
def products(monkeypatch):
    """How many statements the epilogue of each product has, in their order."""
    found, partition = [], program.partition

    def recorded(*args, **kwargs):
        launches = partition(*args, **kwargs)
        found.extend(len(one.spec.epilogue.body.statements) for one in launches
                     if type(one.spec).__name__ == "Contract")
        return launches

    monkeypatch.setattr(program, "partition", recorded)
    return found


def normal(*shape, seed, dtype):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def gradients(x, w, b, v, g, activation):
    def loss(w, b):
        h = ops.linear(x, w, b, activation=activation)
        return ops.sum(ops.matmul(h, v)*g)

    return nf.grad(loss, argnums=(0, 1))(w, b)


def expected(x, w, b, v, g, slope):
    z = x @ w + b
    dz = (g @ v.T)*slope(z)
    return x.T @ dz, dz.sum(0)


SLOPES = {
    "gelu": lambda z: 0.5*(1 + erf(z/2**0.5)) + z*np.exp(-z*z/2)/(2*np.pi)**0.5,
    "silu": lambda z: (1 + z*(1 - 1/(1 + np.exp(-z))))/(1 + np.exp(-z)),
    "tanh": lambda z: 1/np.cosh(z)**2,
    "relu": lambda z: z > 0.0}


def arguments(dtype):
    return [normal(*s, seed=k, dtype=dtype) for k, s in enumerate(
        ((9, 6), (6, 8), (8,), (8, 5), (9, 5)))]


@pytest.mark.parametrize("activation", SLOPES)
@pytest.mark.parametrize("dtype", [np.dtype(np.float64), BFLOAT16,
                                   np.dtype(np.float16)], ids=str)
def test_gradients(activation, dtype):
    given = arguments(dtype)
    found = nf.fuse(gradients)(*given, activation)
    wanted = expected(*(a.astype("f8") for a in given), SLOPES[activation])
    tolerance = 1e-12 if dtype == np.float64 else 2e-2 if dtype == np.float16 else 8e-2
    for a, e in zip(found, wanted, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(nf.to_numpy(a).astype("f8"), e,
                                   atol=tolerance*np.abs(e).max(), rtol=0)


def apart(x, w, v, g):
    """The forward product's own elements are results too."""
    def loss(w):
        z = ops.matmul(x, w)
        return ops.sum(ops.matmul(ops.gelu(z), v)*g), z

    return nf.grad(loss, has_aux=True)(w)


def test_only_what_the_reverse_product_alone_reads_is_replaced(products):
    """Half is left too, and a choice between two numbers, which costs nothing."""
    moved = arguments(np.dtype(np.float64))
    nf.fuse(gradients)(*moved, "gelu")
    long, short = products[0], min(products[1:])
    assert long > 4 > short
    products.clear()
    nf.fuse(gradients)(*arguments(np.dtype(np.float16)), "gelu")
    assert max(products[1:]) > 4
    products.clear()
    x, w, _, v, g = moved
    found, z = nf.fuse(apart)(x, w, v, g)
    assert max(products[1:]) > 4
    np.testing.assert_allclose(z, x @ w, rtol=1e-12)
    (wanted, _) = expected(x, w, 0.0, v, g, SLOPES["gelu"])
    np.testing.assert_allclose(found, wanted, rtol=1e-11)
