"""NumPy's functions of one sample on many: `vmap` beside a loop."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf

from .agreement import normal

pytestmark = pytest.mark.interpreted

X = normal(5, 4)
M = X[:, :, None] * X[:, None] + 4 * np.eye(4)

FUNCTIONS = {
    "sort": (lambda x: np.sort(x) * np.arange(4.0), X),
    "argsort": (lambda x: np.argsort(-x), X), "median": (np.median, X),
    "cumsum": (lambda x: np.cumsum(x), X), "cumprod": (np.cumprod, X),
    "columns": (lambda m: np.cumsum(m, axis=0), M), "inv": (np.linalg.inv, M),
    "solve": (np.linalg.solve, M, X), "det": (np.linalg.det, M),
    "eigh": (lambda m: np.linalg.eigh(m)[0], M),
    "qr": (lambda m: np.linalg.qr(m)[1], M),
    "norm": (np.linalg.norm, M), "nuclear": (lambda m: np.linalg.norm(m, "nuc"), M),
    "einsum": (lambda m, x: np.einsum("ij,j->i", m, x), M, X), "tril": (np.tril, M),
    "pad": (lambda x: np.pad(x, 1, mode="edge"), X), "trace": (np.trace, M),
    "roll": (lambda x: np.roll(x, 1), X), "list": (lambda x: x[[0, 2, 1]], X),
    "take": (lambda x: np.take(x, [1, 0]), X), "diag": (np.diag, X),
    "repeat": (lambda x: np.repeat(x, [1, 0, 2, 1]), X),
    "searchsorted": (lambda x: np.searchsorted(np.sort(x), X[0], "right"), X),
    "points of each": (lambda x, y: np.interp(X[0], np.sort(x), y), X, X[::-1]),
    "interp": (lambda x: np.interp(x, X[0].cumsum() ** 2, X[1]), X),
}


def _loop(function, arrays):
    return np.stack([np.asarray(function(*(a[k] for a in arrays)))
                     for k in range(len(arrays[0]))])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_samples_at_once(name):
    function, *arrays = FUNCTIONS[name]
    if name == "interp":  # whose points are in order
        points = np.sort(X[0])
        function = lambda x: np.interp(x, points, X[1])  # noqa: E731
    np.testing.assert_allclose(nf.vmap(function)(*arrays), _loop(function, arrays),
                               1e-10, 1e-12)


@pytest.mark.parametrize("name", ["sort", "cumsum", "cumprod", "inv", "solve", "det",
                                  "eigh", "median", "norm", "list", "pad",
                                  "points of each"])
def test_gradients_of_samples(name):
    """Inside of `vmap`, and of the sum over all samples outside."""
    function, *arrays = FUNCTIONS[name]

    def loss(*x):
        made = function(*x)
        return (made * made * made).sum()

    one = nf.grad(loss)
    expected = np.stack([one(*(a[k] for a in arrays)) for k in range(5)])
    np.testing.assert_allclose(nf.vmap(one)(*arrays), expected, 1e-9, 1e-10)
    whole = nf.grad(lambda *x: nf.vmap(loss)(*x).sum())
    np.testing.assert_allclose(whole(*arrays), expected, 1e-9, 1e-10)
