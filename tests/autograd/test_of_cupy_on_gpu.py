"""CuPy's functions in what is traced or differentiated, beside CuPy and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf

pytestmark = pytest.mark.cuda
cp = pytest.importorskip("cupy")
special = pytest.importorskip("cupyx.scipy.special")

#: Calls of `cp` and `special` on an array of shape (2, 3) of numbers in (0, 1).
CALLS = """
cp.exp(x); cp.add(x, 2.); cp.add(2., x); cp.where(x > 0.5, x, 0.); cp.sum(x)
cp.sum(x, axis=1, keepdims=True); cp.mean(x, axis=0); cp.var(x); cp.std(x, axis=1)
cp.max(x, axis=1); cp.prod(x); cp.dot(x, x.T); cp.matmul(x, x.T); cp.log1p(x)
cp.tensordot(x, x, axes=2); cp.einsum('ij,kj->ik', x, x); cp.concatenate([x, 2*x])
cp.stack([x, x*x], axis=1); cp.transpose(x); cp.reshape(x, (3, 2)); cp.power(x, 3)
cp.clip(x, 0.2, 0.5); cp.maximum(x, 0.5); cp.cumsum(x, axis=1); cp.linalg.norm(x)
cp.linalg.norm(x, axis=1); cp.linalg.inv(x[:, :2]); cp.linalg.solve(x[:, :2], x)
cp.squeeze(x[None]); cp.expand_dims(x, 0)*x; cp.zeros_like(x) + x; cp.roll(x, 1, axis=0)
cp.pad(x, 1); cp.diff(x, axis=1); cp.sort(x, axis=1); cp.take(x, cp.array([0]), axis=0)
cp.outer(x[0], x[1]); cp.inner(x[0], x[1]); cp.trace(x); cp.diag(x[0]); cp.tril(x)
cp.flip(x, 0)*x; cp.abs(x - 0.5); cp.square(x); special.erf(x); special.gammaln(x)
cp.broadcast_to(x, (4, 2, 3)); cp.repeat(x, 2, axis=0); cp.tile(x, 2); cp.nansum(x)
cp.arctan2(x, 1 - x); cp.moveaxis(x, 0, 1)@x; cp.swapaxes(x, 0, 1)@x; cp.average(x)
cp.median(x); cp.logaddexp(x, x*x); cp.vstack([x, x]); cp.split(x, 3, axis=1)[1]
cp.ravel(x); cp.asarray(x)*2; cp.array([x[0], x[1]*x[0]]); cp.ones((2, 3))*x
cp.eye(2)@x; cp.arange(3)*x; cp.linspace(0., 1., 3)*x; cp.full((2, 3), 2.)*x
special.logsumexp(x, axis=1)
"""
NAMES = [c.strip() for c in CALLS.replace("\n", ";").split(";") if c.strip()]


def function(name, cp, special):
    return eval("lambda x: " + name, {"cp": cp, "special": special})


@pytest.fixture
def x():
    return np.array([[0.15, 0.82, 0.33], [0.61, 0.27, 0.94]])


@pytest.mark.filterwarnings("ignore:fuse. <lambda> is decorated again")
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name, x):
    f, there = function(name, cp, special), cp.asarray(x)
    expected = cp.asnumpy(f(there))
    weights = np.cos(np.arange(expected.size)).reshape(expected.shape)
    given = cp.asarray(weights)
    fused = nf.fuse(f)
    for found in (nf.vjp(f, there)[0], fused(there), fused(there)):
        assert type(found) is cp.ndarray
        np.testing.assert_allclose(cp.asnumpy(found), expected, rtol=1e-12, atol=1e-14)
    (slopes,) = nf.vjp(f, there)[1](given)
    steps = [differences(f, x, weights, k) for k in range(x.size)]
    np.testing.assert_allclose(cp.asnumpy(slopes).ravel(), steps, rtol=1e-6, atol=1e-7)
    both = nf.fuse(nf.grad(lambda x: (f(x)*given).sum()))(there)
    np.testing.assert_allclose(cp.asnumpy(both), cp.asnumpy(slopes), rtol=1e-10,
                               atol=1e-12)


def differences(f, x, weights, k):
    """The slope along one element, by central differences of CuPy's own results."""
    step = np.zeros_like(x)
    step.flat[k] = 1e-6
    high, low = (cp.asnumpy(f(cp.asarray(x + way*step))) for way in (1, -1))
    return ((high - low)*weights).sum()/2e-6


def test_eager_variables_go_through_ufuncs_and_kernels(x):
    square = cp.ElementwiseKernel("T x, raw T w", "T y", "y = x*x*w[i % 3]", "square")
    w = cp.array([1., 2., 3.])
    v = nf.Variable(cp.asarray(x), requires_grad=True)
    y = cp.tanh(square(v, w)) + cp.sum(v)
    cp.add(y, cp.asarray(x)).sum().backward()
    assert type(y.data) is type(v.grad) is cp.ndarray
    slope = 2*x*[1, 2, 3]/np.cosh(x*x*[1, 2, 3])**2 + 6
    np.testing.assert_allclose(cp.asnumpy(v.grad), slope, rtol=1e-12)


def test_a_variable_is_not_taken_for_an_array(x):
    v = nf.Variable(cp.asarray(x), requires_grad=True)
    with pytest.raises((TypeError, ValueError)):
        cp.asarray(v)


@pytest.mark.filterwarnings("ignore:fuse. <lambda> is decorated again")
def test_a_step_of_training_in_cupys_words():
    rng = np.random.default_rng(0)
    data, labels = rng.standard_normal((64, 8)), rng.integers(0, 3, 64)
    start = {"w": rng.standard_normal((8, 3))*0.1, "b": np.zeros(3)}

    def loss(p, xp, x, y):
        z = xp.matmul(x, p["w"]) + p["b"]
        z = z - xp.max(z, axis=1, keepdims=True)
        log = z - xp.log(xp.sum(xp.exp(z), axis=1, keepdims=True))
        return -xp.mean(log[xp.arange(64), y])

    def train(xp):
        x, y = xp.asarray(data), xp.asarray(labels)
        p = {k: xp.asarray(v) for k, v in start.items()}
        step = nf.fuse(lambda p, x, y: nf.value_and_grad(loss)(p, xp, x, y))
        found = []
        for _ in range(5):
            value, slopes = step(p, x, y)
            p = {k: p[k] - 0.5*slopes[k] for k in p}
            found.append(float(value))
        return found

    found = train(cp)
    np.testing.assert_allclose(found, train(np), rtol=1e-10)
    assert found[-1] < found[0]
