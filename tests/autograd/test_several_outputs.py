"""Whichever of several outputs a gradient comes through."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import nbfused as nf

pytestmark = pytest.mark.interpreted

A = np.random.default_rng(0).uniform(0.5, 2.0, (3, 4))


@nf.elementwise
def mixed(x, y):
    return x * y, x / y, nf.exp(x), x > y


@nf.reduction(combine="welford")
def moments(x):
    return x


@nf.row
def scaled(x):
    @nf.stage("sum")
    def total(x):
        return x * x
    return x / total, nf.exp(x) * total


@pytest.mark.parametrize("chosen", [c for n in (1, 2, 3)
                                    for c in combinations(range(3), n)])
def test_of_a_map(chosen, device):
    def some(x, y):
        results = mixed(x, y)
        return tuple(results[k] for k in chosen)

    nf.testing.gradcheck(some, [A, A + 1], modes=("reverse", "forward"),
                         place=lambda a: nf.array(a, device=device))


@pytest.mark.parametrize("k", [0, 1])
def test_of_a_reduction(k, device):
    nf.testing.gradcheck(lambda x: moments(x, axis=1)[k], [A],
                         place=lambda a: nf.array(a, device=device))


@pytest.mark.parametrize("k", [0, 1])
def test_of_rows(k, device):
    nf.testing.gradcheck(lambda x: scaled(x)[k], [A],
                         place=lambda a: nf.array(a, device=device))


@nf.row
def shifted(x, y):
    @nf.stage("sum")
    def total(x):
        return x
    return total, y + total


@pytest.mark.parametrize("chosen", [(0,), (1,), (0, 1)])
def test_what_is_saved_for_all_of_them_is_enough_for_some(chosen, device):
    """The derivative of the sum alone has the extents of `x`, which is not saved."""
    def some(x, y):
        results = shifted(x, y)
        return tuple(results[k] for k in chosen)

    nf.testing.gradcheck(some, [A, A + 1], modes=("reverse", "forward"),
                         place=lambda a: nf.array(a, device=device))


def test_a_gradient_through_one_of_them_is_differentiated(device):
    x, y = (nf.array(a, device=device) for a in (A, A + 1))

    def penalty(x, y):
        square = nf.ops.square(x)
        return (nf.grad(lambda s: nf.ops.sum(shifted(s * s, y)[0]))(square)**2).sum()

    # The derivative of the sum of x⁴ by x² is 2x², and that of (2x²)² is 16x³.
    np.testing.assert_allclose(nf.to_numpy(nf.grad(penalty)(x, y)), 16*A**3)


def test_a_result_alone_reaches_its_own_table(device):
    """Of two results that are read from two tables, each by its index."""
    x, y = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])
    i, j = np.array([2, 0, 1]), np.array([1, 1, 0])

    def both(a, b):
        return np.take_along_axis(a, i, 0), np.take_along_axis(b, j, 0)

    if device != "cpu":
        i, j = (nf.array(v, device=device) for v in (i, j))
    fused, g = nf.fuse(both), np.array([1.0, 10.0, 100.0])
    want = [10.0, 100.0, 1.0], [100.0, 11.0, 0.0]
    for used in range(2):
        leaves = [nf.Variable(nf.array(v, device=device), requires_grad=True)
                  for v in (x, y)]
        fused(*leaves)[used].backward(nf.array(g, device=device))
        np.testing.assert_array_equal(nf.to_numpy(leaves[used].grad), want[used])
        other = leaves[1 - used].grad
        assert other is None or not nf.to_numpy(other).any()
