"""`set_at` and `add_at` beside what NumPy's assignment leaves."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, RangeError, ShapeError
from nbfused.ops import add_at, set_at
from nbfused.testing import gradcheck

pytestmark = pytest.mark.interpreted

X = np.arange(6.0)
REPEATED = np.array([0, 2, 2])


def random_index(rng, shape):
    """One that NumPy takes."""
    if rng.random() < 0.2:
        return (rng.random(shape) < 0.5,)
    index = []
    for n in shape[:rng.integers(1, len(shape) + 1)]:
        index.append([slice(None), int(rng.integers(-n, n)), slice(0, n, 2),
                      rng.integers(-n, n, size=3), slice(None, None, -1)][
                          rng.integers(0, 5)])
    if rng.random() < 0.2:
        index.insert(rng.integers(0, len(index) + 1), None)
    return (*index, ...) if rng.random() < 0.2 else tuple(index)


@pytest.mark.parametrize("seed", range(40))
def test_as_numpy(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=tuple(rng.integers(1, 5, size=rng.integers(1, 4))))
    index = random_index(rng, x.shape)
    shape = x[index].shape
    value = [rng.normal(size=shape), 2.5, rng.normal(size=shape[-1:])][seed % 3]
    stored, added = x.copy(), x.copy()
    stored[index] = value
    np.add.at(added, index, value)
    before = x.copy()
    np.testing.assert_array_equal(set_at(x, value, index), stored)
    np.testing.assert_allclose(add_at(x, value, index), added, rtol=1e-14)
    np.testing.assert_array_equal(x, before)


def test_the_last_of_many_values_counts():
    rng = np.random.default_rng(3)
    index, value = rng.integers(0, 1000, size=200_000), rng.normal(size=200_000)
    expected = np.zeros(1000)
    expected[index] = value
    np.testing.assert_array_equal(set_at(np.zeros(1000), value, index), expected)


def test_gradients_of_both_orders():
    value = np.array([10.0, 20.0, 30.0])
    modes = "reverse", "forward"
    gradcheck(lambda x, v: set_at(x, v, REPEATED)**3, (X, value), order=2, modes=modes)
    gradcheck(lambda x, v: add_at(x, v, REPEATED)**3, (X, value), order=2, modes=modes)


def test_in_a_fused_function():
    def f(x, value, index):
        y = x.copy()
        y[index] = value
        y[[1, -1]] += 1
        np.add.at(y, index, value)
        y[np.array([True, False, False, True, False, False])] = 7
        return y, x.reshape(2, 3)[index % 2, index]

    args = X, np.array([10.0, 20.0, 30.0]), REPEATED
    fused = nf.fuse(f)
    for _ in range(3):
        for ours, theirs in zip(fused(*args), f(*args), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert fused.cache_info().currsize == 1

    def loss(x, value, index):
        return (f(x, value, index)[0]*np.arange(6.0)).sum()

    dx, dvalue = nf.fuse(nf.grad(loss, argnums=(0, 1)))(*args)
    np.testing.assert_array_equal(dx, [0, 1, 0, 0, 4, 5])
    np.testing.assert_array_equal(dvalue, [0, 2, 4])


@pytest.mark.parametrize("index", [
    range(2), (slice(None), range(1, 4, 2)), ((0, 1), (1, 2)), (range(2), [3, 0]),
    (1, (0, -1)), range(0), [True, False, True], ([True, False, True], slice(1, 3)),
    [[True, False, True, False]] * 3, ([True, False, True], (1, 2))])
def test_sequences_in_an_index_are_arrays(index):
    x = np.arange(12.0).reshape(3, 4)

    def doubled(x):
        y = x * 1.0
        y[index] *= 2.0
        return y, x[index]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nf.errors.NbFusedPerformanceWarning)
        found = [nf.fuse(doubled)(x), [y[0] for y in nf.vmap(doubled)(x[None])],
                 [v.data for v in doubled(nf.Variable(x))]]
    for made in found:
        for a, b in zip(made, doubled(x), strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(set_at(x, 7.0, index), _placed(x, index))


def _placed(x, index):
    made = x.copy()
    made[index] = 7.0
    return made


@pytest.mark.parametrize("index", [..., slice(None), (slice(None), ...), slice(3, 3),
                                   [], slice(2, 4)])
def test_what_is_made_has_memory_of_its_own(index):
    """Also where it is all of the value, or all of the array."""
    value = np.full(np.shape(X[index]), 2.0)
    for made in (set_at(X, value, index), set_at(X, 2.0, index),
                 add_at(X, value, index)):
        before = made.copy()
        made += 1.0  # of every element once
        np.testing.assert_array_equal(made, before + 1.0)
        assert not np.shares_memory(made, X)
        assert not np.shares_memory(made, value)




@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: set_at(X, 1j, [0]), KernelTypeError, "'value' has dtype complex128"),
    (lambda: set_at(np.arange(3), 2.5, 0), KernelTypeError, "cast to int64"),
    (lambda: set_at(X, X[:3], [0, 1]), ShapeError, r"'value' of shape \(3,\)"),
    (lambda: add_at(X, 1.0, [0, 9]), RangeError, "got 9"),
    (lambda: set_at(X, "a", 0), KernelTypeError, "'value' must be"),
    (lambda: set_at(X, 1.0, 0.5), KernelTypeError, "index"),
])
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()
