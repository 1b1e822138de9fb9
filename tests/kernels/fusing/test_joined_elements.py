"""Sums of all elements and elements of the same arrays in one launch."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def kinds(function, *args):
    return [one.kind for one in nf.fuse(function).explain(*args)]


def both(x, y):
    product, total = x * y, x + y
    return product, product.sum(), total, (x * x).mean(), nf.ops.max(total)


def square(x):
    return nf.value_and_grad(lambda x: nf.ops.mean(x * x))(x)


@pytest.mark.parametrize("x", [
    normal(7), normal(5, 6), normal(5, 12)[:, ::2], normal(6, 5).T, normal(4, 5)[::-1],
    normal(3, 1, 4)], ids=lambda x: "x".join(map(str, x.shape)))
def test_elements_and_sums_are_one_launch(x):
    y = normal(x.shape[-1], seed=1)
    assert kinds(both, x, y) == ["Reduce"]
    found = nf.fuse(both)(x, y)
    whole = np.broadcast_to(y, x.shape).ravel()
    expected = (x * y, np.dot(x.ravel(), whole), x + y, np.vdot(x, x) / x.size,
                np.sort(x.ravel() + whole)[-1])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_a_loss_and_its_derivative():
    x = normal(9, 4)
    assert kinds(square, x) == ["Reduce"]
    value, slope = nf.fuse(square)(x)
    np.testing.assert_allclose(value, np.vdot(x, x) / x.size, rtol=1e-12)
    np.testing.assert_allclose(slope, 2 * x / x.size, rtol=1e-12)


@pytest.mark.parametrize(("x", "y", "joined"), [
    (np.ones((3000, 3)), np.ones(3), False), (np.ones((3000, 3)), 2.0, True),
    (np.ones((3000, 3)), np.ones((3000, 1)), False),
    (np.ones((300, 30)), np.ones(30), True), (np.ones((30, 3)), np.ones(3), True),
    (np.ones((50, 2, 50)), np.ones((2, 50)), True),
    (np.ones((50, 2, 50)), np.ones((2, 1)), True)])
def test_short_rows_of_many_elements_stay_apart(x, y, joined):
    """A Map and a sum each find other loops than along these."""
    found = kinds(lambda x, y: (x * y, (x * y).sum()), x, y)
    assert found == ["Reduce"] if joined else sorted(found) == ["Map", "Reduce"]


@pytest.mark.parametrize("count", [4096, 4097])
def test_places_of_many_elements_stay_apart(count):
    x = normal(count)
    fused = nf.fuse(lambda x: (x + 1, nf.ops.argmax(x)))
    assert len(fused.explain(x)) == 1 + (count > 4096)
    total, place = fused(x)
    np.testing.assert_array_equal(total, x + 1)
    assert place == max(range(count), key=x.__getitem__)


def test_what_reads_the_sum_is_another_launch():
    assert kinds(lambda x: (x.sum(), x / x.sum()), normal(8)) == ["Reduce", "Map"]


def test_an_array_that_is_changed_and_summed():
    def step(x):
        x *= 2.0
        return x.sum(), (x * x).sum()

    x, before = normal(50), normal(50)
    for _ in range(3):
        found = nf.fuse(step)(x)
        before = before + before
        np.testing.assert_allclose(x, before, rtol=1e-12)
        np.testing.assert_allclose(found, (before.sum(), np.vdot(before, before)),
                                   rtol=1e-10)


def test_nothing_is_stored_in_a_number_that_others_read():
    def step(x, s):
        y = x * s
        s[...] = y.sum()
        return y

    x, s = normal(40), np.array(3.0)
    np.testing.assert_allclose(nf.fuse(step)(x, s), 3 * x, rtol=1e-12)
    np.testing.assert_allclose(s, 3 * x.sum(), rtol=1e-10)


def test_derivatives_of_what_is_fused():
    x = nf.Variable(normal(6, 3), requires_grad=True)
    y, total = nf.fuse(lambda x: (np.sin(x), np.sin(x).sum()))(x)
    (y.sum() * 2 + total).backward()
    np.testing.assert_allclose(x.grad, 3 * np.cos(normal(6, 3)), rtol=1e-12)
