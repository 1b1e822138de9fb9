"""A reduction called again finds what it found out, and only where it may."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ShapeError

pytestmark = pytest.mark.interpreted

X = np.arange(6, dtype="float32").reshape(2, 3)


@nf.reduction(combine="sum")
def scaled(x, y, factor=2.0):
    return x * y * factor


def test_calls_without_options():
    for _ in range(3):
        assert nf.ops.sum(X) == 15
        assert nf.ops.sum(X[:, 0]) == 3  # other shapes, the same types
        assert nf.ops.sum(np.zeros((0, 3))) == 0
        assert scaled(X, X) == 110
        assert scaled(X, 1.0) == 30
        assert scaled(X, X, 1.0) == 55
        assert scaled(1.0, X, factor=1.0) == 15


def test_options_are_looked_at_each_time():
    for _ in range(2):
        assert nf.ops.sum(X).shape == ()
        assert nf.ops.sum(X, axis=0).tolist() == [3, 5, 7]
        assert nf.ops.sum(X, keepdims=True).shape == (1, 1)
        assert nf.ops.sum(X, dtype="float64").dtype == np.float64
        with pytest.raises(KernelTypeError, match="keepdims"):
            nf.ops.sum(X, keepdims="no")


def test_outputs():
    out = np.zeros((), "float32")
    for _ in range(2):
        out[()] = 7
        assert nf.ops.sum(X, out=out) is out
        assert out == 15
        with pytest.raises(KernelTypeError, match="1 output, got 'out' of length 2"):
            nf.ops.sum(X, out=(out, out))


def test_what_needs_elements_is_refused_each_time():
    for _ in range(3):
        assert nf.ops.max(X) == 5
        with pytest.raises(ShapeError, match="nothing to reduce"):
            nf.ops.max(np.zeros((0, 3), "float32"))
        assert nf.ops.logsumexp(np.zeros((0,), "float32")) == -np.inf


def test_results_that_are_tracked_or_not():
    x = nf.Variable(X, requires_grad=True)
    for _ in range(2):
        x.grad = None
        scaled(x, X).backward()
        assert np.array_equal(x.grad, 2*X)
        with nf.no_grad():
            assert not scaled(x, X).requires_grad
        assert scaled(x.detach(), X).data == 110


def test_an_axis_is_looked_at_each_time():
    cube = np.ones((2, 3, 4), np.float32)
    for _ in range(3):
        assert nf.ops.sum(X, axis=1).tolist() == [3, 12]
        assert nf.ops.sum(X, axis=0).tolist() == [3, 5, 7]
        assert nf.ops.sum(X, axis=-1).tolist() == [3, 12]
        assert nf.ops.sum(cube, axis=-1).shape == (2, 3)
        assert nf.ops.sum(cube, axis=1).shape == (2, 4)
        assert nf.ops.sum(X, axis=1, keepdims=True).shape == (2, 1)
        assert nf.ops.sum(X.astype("float64"), axis=1).dtype == np.float64
        assert scaled(X, X[0], axis=0).tolist() == [0, 10, 28]
        with pytest.raises(np.exceptions.AxisError):
            nf.ops.sum(X[0], axis=1)
        with pytest.raises(ShapeError):
            nf.ops.max(np.zeros((3, 0)), axis=1)


@nf.reduction(combine="sum", post=lambda total: total * total)
def squared_sum(x):
    return x


def test_a_derivative_that_reads_nothing_but_the_state():
    x = np.arange(6.0).reshape(2, 3)
    found = nf.grad(lambda v: squared_sum(v, axis=1).sum())(x)
    np.testing.assert_array_equal(found, [[6.0] * 3, [24.0] * 3])


def test_the_variance_of_what_has_no_square():
    x = np.array([[3e20, 3e20], [2e19, 2e19 + 4e12], [2e20, -2e20]], np.float32)
    with np.errstate(over="ignore"):
        want = x.var(axis=1, dtype=np.float64).astype(np.float32)
    np.testing.assert_allclose(nf.ops.var(x, axis=1), want, rtol=1e-6)
    np.testing.assert_allclose(nf.ops.var(x.T.copy(), axis=0), want, rtol=1e-6)
    assert nf.ops.std(x[0]) == 0
