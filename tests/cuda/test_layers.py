"""A layer both ways on CUDA: which kernels, and gradients on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.cuda.contract.wgmma.kernel import WgmmaText
from tests.cuda.contract.products import integers
from tests.cuda.recorded import assembled, needs_compiler, recording, registers

SHAPES = [(512, 512, 512), (264, 136, 200), (1000, 72, 1032)]


@pytest.fixture
def stores(monkeypatch):
    """How the outputs of each product on Hopper's tensor cores leave."""
    found = []
    write = WgmmaText.__init__

    def noted(self, text, plan):
        found.append(plan.stores)
        write(self, text, plan)

    monkeypatch.setattr(WgmmaText, "__init__", noted)
    return found


def both(activation, *arrays):
    v = [nf.Variable(a, requires_grad=True) for a in arrays[:-1]]
    ops.linear(*v, activation=activation).backward(arrays[-1])
    return [a.grad for a in v]


def test_a_layer_both_ways_is_five_kernels(stores):
    """The product, its epilogue's derivative, the sum for the bias, two products."""
    needs_compiler()
    x = np.zeros((512, 512), bfloat16)
    with recording() as found:
        both("gelu", x, x, x[0], x)
    names = [kernel.name for kernel in found.values()]
    assert len(names) == 5
    assert len(stores) == 3
    assert sum(stores, ()) == ("tile",)*4
    first = next(iter(found.values()))
    _, said = assembled(first)
    if said is not None:
        assert registers(said)[1] == 0


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", "float32", bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_of_relu_are_exact(shape, dtype):
    m, n, k = shape
    x, w, b, g = (integers(0, m, k), integers(1, k, n), integers(2, n),
                  integers(3, m, n))
    got = both("relu", *(nf.array(a.astype(dtype), device="cuda")
                         for a in (x, w, b, g)))
    dz = g*(x @ w + b > 0)
    for a, want in zip(got, (dz @ w.T, x.T @ dz, dz.sum(0)), strict=True):
        np.testing.assert_array_equal(nf.to_numpy(a), want.astype(dtype))


@pytest.mark.cuda
@pytest.mark.parametrize("activation", ["gelu", "swish"])
@pytest.mark.parametrize(("dtype", "eps"), [("float16", 2**-11), (bfloat16, 2**-8)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_that_read_the_kept_product(shape, dtype, eps, activation):
    """Beside float64: a rounding of the product, one of dz, one of the result."""
    m, n, k = shape
    r = np.random.default_rng(0)
    arrays = [r.normal(size=s)*scale for s, scale in (
        ((m, k), 1), ((k, n), k**-0.5), ((n,), 1), ((m, n), 1))]
    arrays = [a.astype(dtype).astype(np.float64) for a in arrays]
    x, w, _, g = arrays
    got = both(activation, *(nf.array(a.astype(dtype), device="cuda") for a in arrays))
    with nf.use_backend("cpu"):
        want = both(activation, *arrays)
    size = np.abs(g)*1.2  # |gelu'| and |swish'| stay below
    scales = (size @ np.abs(w).T, np.abs(x).T @ size, size.sum(0))
    for a, b, scale in zip(got, want, scales, strict=True):
        found = nf.to_numpy(a).astype(np.float64)
        assert np.all(np.isfinite(found))
        assert np.max(np.abs(found - b)/scale) < 4*eps


@pytest.mark.cuda
def test_gradients_of_a_batch_with_a_bias_a_scale_and_a_permuted_store():
    """What is added to the product first is kept with it; the scale reads that."""
    x, w, b, s, g = (integers(k, *n) for k, n in enumerate(
        ((4, 200, 64), (4, 64, 136), (136,), (4, 200, 136), (200, 4, 136))))
    v = [nf.Variable(nf.array(a.astype("float16"), device="cuda"), requires_grad=True)
         for a in (x, w, b, s)]
    y = ops.batched_matmul(*v[:3], epilogue=lambda acc, s: acc*s, extras=v[3:],
                           permute=(1, 0, 2))
    y.backward(nf.array(g.astype("float16"), device="cuda"))
    g = np.transpose(g, (1, 0, 2))
    dz = g*s
    for a, want in zip(v, (
            np.einsum("bmn,bkn->bmk", dz, w), np.einsum("bmk,bmn->bkn", x, dz),
            dz.sum((0, 1)), g*(x @ w + b)), strict=True):
        np.testing.assert_array_equal(nf.to_numpy(a.grad), want.astype("float16"))
