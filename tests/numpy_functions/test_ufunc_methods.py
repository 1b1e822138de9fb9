"""Methods of ufuncs, lists beside arrays, sums of weights: beside NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NbFusedPerformanceWarning, ShapeError
from nbfused.testing import gradcheck

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(3)
X = RNG.normal(size=(5, 3))
WHOLE = RNG.integers(1, 9, size=(5, 3))
FLOATS = ("maximum", "minimum", "fmax", "logaddexp", "hypot", "add", "multiply")
INTEGERS = ("bitwise_and", "bitwise_xor", "gcd")
LOGICAL = ("logical_and", "logical_or", "logical_xor")


def ways(f, *args):
    """What a function gives of Variables, fused and on samples of one."""
    yield nf.to_numpy(f(*map(nf.Variable, args)))
    with warnings.catch_warnings():  # a new function for each case
        warnings.simplefilter("ignore", NbFusedPerformanceWarning)
        yield nf.to_numpy(nf.fuse(f)(*args))
    yield nf.to_numpy(nf.vmap(f)(*[x[None] for x in args]))[0]


@pytest.mark.parametrize("method", ["accumulate", "reduce"])
@pytest.mark.parametrize("name", FLOATS + INTEGERS)
def test_methods_are_those_of_numpy(name, method):
    x = X if name in FLOATS else WHOLE

    def f(x):
        return getattr(getattr(np, name), method)(x, axis=0)

    for found in ways(f, x):
        assert found.dtype == f(x).dtype
        np.testing.assert_allclose(found, f(x), rtol=1e-13)


@pytest.mark.parametrize("method", ["accumulate", "reduce"])
@pytest.mark.parametrize("name", FLOATS + INTEGERS + LOGICAL)
@pytest.mark.parametrize("dtype", ["f8", "i4"])
@pytest.mark.parametrize("rows", [1, 4])
def test_dtypes_and_one_element(name, method, dtype, rows):
    """Results have a dtype, and memory, of their own; sizes are positive."""
    if name in INTEGERS and dtype == "f8":
        pytest.skip("of integers")
    x = np.random.default_rng(rows).integers(-2, 3, (rows, 3)).astype(dtype)
    expected = getattr(getattr(np, name), method)(x)
    found = getattr(getattr(np, name), method)(nf.Variable(x)).to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert found.dtype == expected.dtype
    assert not np.shares_memory(found, x)


def test_axes_and_dtypes():
    v = nf.Variable(X.astype(np.float32))
    np.testing.assert_allclose(
        nf.to_numpy(np.logaddexp.reduce(v, axis=None, keepdims=True)),
        np.logaddexp.reduce(X, axis=None, keepdims=True), rtol=1e-6)
    assert np.maximum.accumulate(v, axis=-1, dtype=np.float64).dtype == np.float64
    made = np.subtract.outer(nf.Variable(X), X[0])
    np.testing.assert_array_equal(nf.to_numpy(made), np.subtract.outer(X, X[0]))
    np.testing.assert_array_equal(
        nf.to_numpy(np.add.outer(2.0, nf.Variable(X))), np.add.outer(2.0, X))
    with pytest.raises(ShapeError, match="axis 0 has no elements"):
        np.logaddexp.reduce(nf.Variable(X[:0]))


@pytest.mark.parametrize("name", ["maximum", "logaddexp"])
def test_gradients(name):
    ufunc = getattr(np, name)
    gradcheck(lambda x: ufunc.accumulate(x, axis=0), [X], order=2)
    gradcheck(lambda x: ufunc.reduce(x, axis=1), [X], order=2)


LIST = [0.25, 0.5, 0.25]
WITH_LISTS = {
    "convolve": lambda x: np.convolve(x, LIST), "dot": lambda x: np.dot(LIST, x),
    "correlate": lambda x: np.correlate(LIST, x, "full"),
    "cross": lambda x: np.cross(x, (1.0, 2.0, 3.0)),
    "einsum": lambda x: np.einsum("i,i->", x, LIST),
    "where": lambda x: np.where([True, False, True], x, LIST),
    "add": lambda x: np.add(LIST, x), "power": lambda x: np.power(x, [1, 2, 3]),
    "matmul": lambda x: np.matmul([[1, 2, 3], [4, 5, 6]], x),
    "solve": lambda x: np.linalg.solve([[2, 0, 1], [0, 1, 0], [1, 0, 3]], x),
    "multi_dot": lambda x: np.linalg.multi_dot([[[1, 2, 3], [4, 5, 6]], x]),
    "average": lambda x: np.average(x, weights=[1, 2, 3]),
    "meshgrid": lambda x: np.meshgrid(x, [1, 2])[0],
    "clip": lambda x: np.clip(x, [0, 0, 0], [1, 1, 0.5]),
    "isclose": lambda x: np.isclose(x, LIST), "kron": lambda x: np.kron([1, 2], x),
}


@pytest.mark.parametrize("name", WITH_LISTS)
def test_lists_are_arrays_beside_arrays(name):
    f, x = WITH_LISTS[name], np.array([0.3, 0.7, 1.2])
    for found in ways(f, x):
        assert found.dtype == f(x).dtype
        np.testing.assert_allclose(found, f(x), rtol=1e-13)


PLACES = np.array([0, 2, 1, 2, 5, 0])
WEIGHTS = RNG.normal(size=6)
SUMS = {
    "bincount": lambda w: np.bincount(PLACES, w),
    "bincount of a list": lambda w: np.bincount([0, 1, 1, 0, 2, 0], weights=w,
                                                minlength=5),
    "histogram": lambda w: np.histogram(PLACES, 3, weights=w)[0],
    "edges": lambda w: np.histogram(PLACES, [1, 2, 5], weights=w)[0],
    "range": lambda w: np.histogram(PLACES, 2, (1, 3), weights=w)[0],
    "density": lambda w: np.histogram(PLACES, 3, density=True, weights=w)[0],
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_weights(name):
    f = SUMS[name]
    for found in ways(f, WEIGHTS):
        np.testing.assert_allclose(found, f(WEIGHTS), rtol=1e-13)
    gradcheck(f, [WEIGHTS])


def test_weights_that_would_lose_their_gradient_are_refused():
    with pytest.raises(KernelTypeError, match="histogram2d: 'weights' requires grad"):
        nf.grad(lambda w: np.histogram2d(PLACES, PLACES, weights=w)[0].sum())(WEIGHTS)


@pytest.mark.parametrize("trim", ["fb", "f", "b"])
def test_trimmed_zeros_keep_the_gradient(trim):
    x = np.array([0.0, 0.0, 1.0, 0.0, 2.0, 0.0])
    v = nf.Variable(x, requires_grad=True)
    made = np.trim_zeros(v, trim)
    np.testing.assert_array_equal(made.to_numpy(), np.trim_zeros(x, trim))
    (made * made).sum().backward()
    np.testing.assert_array_equal(v.grad, 2 * x)
