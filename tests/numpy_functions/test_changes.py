"""Functions that change their first argument, and assignment by masks."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NbFusedError

from .agreement import normal

pytestmark = pytest.mark.interpreted

X, V, CUBE, LONG = normal(3, 4), normal(5), normal(3, 3, 3), normal(7, 3)
MASK, NUMBERS = X > 0, np.arange(12).reshape(3, 4)

CALLS = {
    "copyto": (np.copyto, X, 2), "copyto row": (np.copyto, X, X[0]),
    "copyto cast": (np.copyto, NUMBERS, X, "unsafe"),
    "copyto where": (lambda x: np.copyto(x, -x, where=x > 0), X),
    "putmask": (np.putmask, X, MASK, 0), "putmask repeats": (np.putmask, X, MASK, V),
    "putmask traced": (lambda x: np.putmask(x, x > 0, x[0]), X),
    "place": (np.place, X, MASK, [7]), "place in order": (np.place, X, MASK, V[:2]),
    "place traced": (lambda x: np.place(x, x > 0, x[0]), X),
    "put": (np.put, X, [0, 5, -1], V), "put twice": (np.put, X, [1, 1], [5.0, 6.0]),
    "put wrap": (np.put, X, [13, -14], [1.0, 2.0], "wrap"),
    "put clip": (np.put, X, [13, -14], [1.0, 2.0], "clip"),
    "put_along_axis": (np.put_along_axis, X, np.array([[0], [1], [2]]), 9.0, -1),
    "fill_diagonal": (np.fill_diagonal, X, V[:3]),
    "fill_diagonal cube": (np.fill_diagonal, CUBE, 0),
    "fill_diagonal wrap": (np.fill_diagonal, LONG, [1.0, 2.0], True),
    "rows": (lambda x: x.__setitem__(x[:, 0, 0] > 0, x[0]), CUBE),
    "numbers": (lambda x: x.__setitem__(x[:, :, 0] > 0, 2.0), CUBE),
}


def changed(name):
    """A function that returns what the call makes of a copy, and the argument."""
    function, x, *rest = CALLS[name]

    def run(x):
        made = x * 1
        function(made, *rest)
        return made

    return run, x


@pytest.mark.parametrize("name", CALLS)
def test_as_numpy(name):
    run, x = changed(name)
    expected = run(x)
    on_variable = run(nf.Variable(x)).to_numpy()
    in_vmap = nf.vmap(run)(np.stack([x + 1, x]))[1]
    for found in (on_variable, in_vmap):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", [n for n in CALLS if CALLS[n][1].dtype.kind == "f"])
def test_gradients(name):
    run, x = changed(name)
    weights, direction = normal(*x.shape, seed=1), normal(*x.shape, seed=2)
    ends = [(run(x + s * direction) * weights).sum() for s in (1e-6, -1e-6)]
    gradient = nf.grad(lambda x: (run(x) * weights).sum())(x)
    np.testing.assert_allclose((gradient * direction).sum(), (ends[0] - ends[1]) / 2e-6,
                               1e-6, 1e-7)


@pytest.mark.filterwarnings("ignore:fuse.*decorated again")
@pytest.mark.parametrize("name", ["putmask traced", "place traced", "rows", "put"])
def test_in_fuse(name):
    run, x = changed(name)
    fused = nf.fuse(run)
    for given in (x, x[::-1].copy()):
        np.testing.assert_array_equal(fused(given), run(given))
    weights = normal(*x.shape, seed=1)

    def loss(x):
        return (run(x) * weights).sum()

    np.testing.assert_allclose(nf.fuse(nf.grad(loss))(x), nf.grad(loss)(x), 1e-12)


def test_the_array_itself_is_changed():
    x = X.copy()
    nf.ops.putmask(x, MASK, 0.0)
    np.testing.assert_array_equal(x, np.where(MASK, 0.0, X))


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: np.putmask(x, MASK[:2], 0.0), "as many elements"),
    (lambda x: np.place(x, MASK, []), "one value at least"),
    (lambda x: np.put(x, [99], 1.0), "out of range"),
    (lambda x: np.fill_diagonal(x[0], 1.0), "two dimensions"),
    (lambda x: np.copyto(x, 1j), "do not cast"),
    (lambda x: np.copyto(X.copy(), x), "make it a Variable"),
], ids=["size", "empty", "range", "vector", "cast", "array"])
def test_refusals_say_why(call, words):
    with pytest.raises(NbFusedError, match=words):
        call(nf.Variable(X, requires_grad=True) * 1)
