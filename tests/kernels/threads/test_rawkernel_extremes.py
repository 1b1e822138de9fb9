"""Derivatives of atomic minimum and maximum, against differences."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NotDifferentiableError
from tests.refusal import refused

thread_kernel = nf.rawkernel(differentiable=True)


@thread_kernel
def extremes(x, w, low, high):
    """Each thread offers several values; some elements keep what they were."""
    i = nf.grid(1)
    if i < x.shape[0]:
        for k in range(1, 3):
            nf.atomic.max(high, i % 3, x[i] * w[0] * k)
        if i % 2:
            nf.atomic.min(low, i % 3, nf.sin(x[i]))


def arrays():
    rng = np.random.default_rng(5)
    high = np.array([-9.0, -9.0, 50.0])  # the last wins over all
    return [rng.standard_normal(40), np.array([1.5]), np.full(3, 9.0), high]


def reference(x, w, low, high):
    low, high = low.copy(), high.copy()
    for i in range(len(x)):
        high[i % 3] = max(high[i % 3], x[i] * w[0], x[i] * w[0] * 2)
        if i % 2:
            low[i % 3] = min(low[i % 3], np.sin(x[i]))
    return low, high


def test_both_modes_against_differences(device):
    given, rng, h = arrays(), np.random.default_rng(6), 1e-6
    tangents, bars = ([rng.standard_normal(a.shape) for a in given] for _ in "xy")
    up, down = (reference(*(a + s*t for a, t in zip(given, tangents, strict=True)))
                for s in (h, -h))
    slopes = [(a - b) / (2*h) for a, b in zip(up, down, strict=True)]

    def pairs(others):
        return [(nf.array(a, device=device), nf.array(o, device=device))
                for a, o in zip(given, others, strict=True)]

    forth = pairs(tangents)
    extremes.fwd[2, 32](*forth)
    for (a, d), expected, slope in zip(forth[2:], reference(*given), slopes,
                                       strict=True):
        np.testing.assert_allclose(nf.to_numpy(a), expected, rtol=1e-14)
        np.testing.assert_allclose(nf.to_numpy(d), slope, rtol=1e-7, atol=1e-8)
    back = pairs([np.zeros(40), np.zeros(1), *bars[2:]])
    extremes.bwd[2, 32](*back)
    found = sum((nf.to_numpy(g) * t).sum()
                for (_, g), t in zip(back, tangents, strict=True))
    expected = sum((b * s).sum() for b, s in zip(bars[2:], slopes, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    for (a, _), was in zip(back, given, strict=True):
        np.testing.assert_array_equal(nf.to_numpy(a), was)


def test_after_the_launch_the_gradient_is_the_same(device):
    """The largest of all is also what is left."""
    x, w, low, high = (nf.array(a, device=device) for a in arrays())
    extremes[2, 32](x, w, low, high)
    dx, dhigh = nf.zeros(40, device=device), nf.array([1.0, 1.0, 1.0], device=device)
    extremes.bwd[2, 32]((x, dx), w, low, (high, dhigh))
    expected = np.zeros(40)
    for r in range(2):
        k = r + 3 * int(np.argmax(arrays()[0][r::3]))
        expected[k] = 2 * 1.5
    np.testing.assert_allclose(nf.to_numpy(dx), expected)
    np.testing.assert_array_equal(nf.to_numpy(dhigh), [0, 0, 1])


def test_one_of_equal_values_takes_all(device):
    @thread_kernel
    def largest(x, y):
        nf.atomic.max(y, 0, x[nf.grid(1)] * 3.0)

    pairs = [(nf.array(np.full(n, 2.0), device=device), nf.array(b, device=device))
             for n, b in ((8, np.zeros(8)), (1, np.ones(1)))]
    largest.bwd[1, 8](*pairs)
    dx = nf.to_numpy(pairs[0][1])
    assert sorted(dx) == [0.0]*7 + [3.0]


def test_operations_on_variables(device):
    op = extremes.as_op(outputs={"low": ((3,), "float64"), "high": ((3,), "float64")},
                        grid=2, block=32)
    x, w, *_ = arrays()
    nf.testing.gradcheck(op, (x[:12], w), order=3, samples=3,
                         place=lambda a: nf.array(a, device=device))


def mixed(x, y):
    i = nf.grid(1)
    nf.atomic.max(y, 0, x[i])
    y[i] = x[i]


def old(x, y):
    i = nf.grid(1)
    x[i] = nf.atomic.max(y, 0, x[i]) * 2.0


@pytest.mark.parametrize(("kernel", "words"), [
    (mixed, ("an atomic max has no derivative", "accesses the array otherwise")),
    (old, ("the old value of an atomic",))])
def test_refused(kernel, words):
    pairs = [(np.ones(4), np.ones(4)) for _ in range(2)]
    with refused(NotDifferentiableError, "test_rawkernel_extremes.py:", *words):
        thread_kernel(kernel).bwd[1, 4](*pairs)
