"""``np.r_`` and ``np.c_`` of traced arrays, and where NumPy does not ask."""

from __future__ import annotations

import numpy as np
import pytest
from numpy import r_

import nbfused as nf
from nbfused.errors import KernelTypeError

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

RNG = np.random.default_rng(9)
A, B, M = RNG.normal(size=3), RNG.normal(size=3), RNG.normal(size=(3, 2))
JOINED = {
    "rows": lambda a, b, m: np.r_[a, b], "columns": lambda a, b, m: np.c_[a, b],
    "by another name": lambda a, b, m: r_[a, b],
    "columns beside a matrix": lambda a, b, m: np.c_[a, m, b * 2],
    "numbers and lists": lambda a, b, m: np.r_[a, 0, [1, 2], b],
    "a slice": lambda a, b, m: np.r_[1:4, a], "a step": lambda a, b, m: np.r_[
        :1:0.25, a], "a grid": lambda a, b, m: np.r_[0:1:5j, a, 2.5],
    "slices in columns": lambda a, b, m: np.c_[m, 1:4],
    "columns by text": lambda a, b, m: np.r_["-1,2,0", a, b],
    "more dimensions": lambda a, b, m: np.r_["0,2", a, b],
    "two places": lambda a, b, m: np.r_["0,3,-2", a, b],
    "an axis": lambda a, b, m: np.r_["-1", m, m],
    "elements": lambda a, b, m: np.r_[a[0], b[1:], a.sum()],
    "stacks": lambda a, b, m: np.c_[a[None], b[None]], "one": lambda a, b, m: np.c_[a],
    "a weak number": lambda a, b, m: np.r_[a.astype("f4"), 1.5],
    "a strong number": lambda a, b, m: np.r_[a.astype("f4"), np.float64(1.5)],
    "integers": lambda a, b, m: np.r_[a.astype(int), np.float32(2)],
    "complex numbers": lambda a, b, m: np.r_[a.astype("f4"), 1j],
    "nothing traced": lambda a, b, m: np.r_[1:4, [2]] * np.r_[a, 1],
}


@pytest.mark.parametrize("name", JOINED)
def test_joined(name):
    wanted = JOINED[name](A, B, M)
    found = nf.fuse(JOINED[name])(A, B, M)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(found, wanted)


def test_numbers_that_are_arguments():
    joined = nf.fuse(lambda x, n: np.r_[x, n])
    for n in (2, 3.5, -1):
        np.testing.assert_array_equal(joined(A, n), np.r_[A, n])


def test_derivatives():
    def loss(a):
        return (np.c_[a, a**2, 1:4]**2).sum()

    np.testing.assert_allclose(nf.fuse(nf.grad(loss))(A), 2*A + 4*A**3)
    np.testing.assert_allclose(nf.fuse(nf.hessian(loss))(A), np.diag(2 + 12*A**2))


@pytest.mark.parametrize(("function", "error", "text"), [
    (lambda a: np.r_["r", a], KernelTypeError, "numpy.matrix"),
    (lambda a: np.r_["x", a], ValueError, "'x', expected one to three integers"),
    (lambda a: np.r_["1,2,3,4", a], ValueError, "expected one to three integers"),
    (lambda a: np.r_[a, "0"], ValueError, "'0' is between items"),
    (lambda a: np.r_[a, a[None]], ValueError, "does not fit"),
])
def test_refusals(function, error, text):
    with pytest.raises(error, match=text):
        nf.fuse(function)(A)


def test_outside_numpy_does_not_ask():
    """NumPy makes an array of each item itself, by no protocol."""
    with pytest.raises(TypeError, match="does not become a NumPy array"):
        np.r_[nf.Variable(A), 1.0]
