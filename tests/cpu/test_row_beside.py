"""Rows along an axis in the middle, of which few lie side by side."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import nbfused as nf
from nbfused import ops
from nbfused.cpu import row as rows
from tests.variants import sampled

RNG = np.random.default_rng(2)


def numbers(shape, dtype="float64"):
    return RNG.normal(scale=3, size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", sampled(["float32", "float64", "float16"], "float32"))
@pytest.mark.parametrize("shape", [(70, 41, 13), (90, 16, 8), (5, 30, 20, 9),
                                   (300, 17, 5), (2, 600, 15)])
def test_softmax_and_its_derivative(dtype, shape):
    x, g = numbers(shape, dtype), numbers(shape, dtype)
    v = nf.Variable(x, requires_grad=True)
    out = ops.softmax(v, axis=-2)
    out.backward(g)
    y = special.softmax(x.astype(float), axis=-2)
    by_x = y*(g - (g*y).sum(-2, keepdims=True))
    eps = {2: 4e-3, 4: 2e-6, 8: 1e-14}[x.dtype.itemsize]
    np.testing.assert_allclose(out.data, y, rtol=eps, atol=eps)
    np.testing.assert_allclose(v.grad, by_x, rtol=eps, atol=10*eps)


@pytest.mark.parametrize("shape", [(70, 41, 13), (90, 16, 8), (300, 17, 5)])
def test_places(shape):
    x = RNG.integers(-9, 9, shape).astype(np.float32)
    x[3, 5, 2] = x[3, 9, 2] = np.nan
    np.testing.assert_array_equal(ops.argmax(x, axis=1), x.argmax(1))
    np.testing.assert_array_equal(ops.argmin(x, axis=1), x.argmin(1))


@pytest.mark.parametrize(("shape", "dtype", "stays"), [
    ((90, 41, 13), "float32", True), ((90, 41, 13), "float16", False),
    ((90, 41, 7), "float32", False), ((90, 9, 13), "float32", False)])
def test_the_lanes_are_neighbours(monkeypatch, shape, dtype, stays):
    lanes = []
    across = rows.RowLauncher._across

    def recorded(self, call):
        lanes.append(call.shape[-2])
        return across(self, call)

    monkeypatch.setattr(rows.RowLauncher, "_across", recorded)
    x = numbers((shape[0] + 1, *shape[1:]), dtype)[1:]
    np.testing.assert_allclose(ops.softmax(x, axis=1).astype(float),
                               special.softmax(x.astype(float), axis=1), rtol=4e-3,
                               atol=4e-3)
    assert (lanes[:1] == [shape[2]]) == stays
