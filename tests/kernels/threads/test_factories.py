"""Functions that a kernel has others make: factories called in its body."""

from functools import partial

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import ScalarSyntaxError
from tests.refusal import refused


def scaled_by(n):
    k = n + 1

    def scaled(x):
        return x * k

    return scaled


def power(n):
    return lambda x: x**n


@nf.func
def after(n):
    """A factory that calls another, and hands on what that makes."""
    return power(n + 1)


def both(n):
    return scaled_by(n), power(2)


@nf.rawkernel(differentiable=True)
def made(x, n, y):
    i = nf.grid(1)
    f = scaled_by(10)
    g, h = both(n)
    v = f(x[i]) + power(3)(x[i])
    if i > 0:
        v += g(h(x[i])) * after(1)(v)
    y[i] = v


def reference(x, n):
    v = 11 * x + x**3
    return np.where(np.arange(len(x)) > 0, v + (n + 1) * x**2 * v**2, v)


def test_functions_that_a_kernel_makes(device):
    on, x, h = partial(nf.array, device=device), np.array([0.7, -0.4, 1.1]), 1e-6
    y, dx = on(np.zeros(3)), on(np.zeros(3))
    made[1, 3](on(x), 4, y)
    np.testing.assert_allclose(nf.to_numpy(y), reference(x, 4), rtol=1e-12)
    made.bwd[1, 3]((on(x), dx), 4, (y, on(np.ones(3))))
    slope = (reference(x + h, 4) - reference(x - h, 4)) / (2 * h)
    np.testing.assert_allclose(nf.to_numpy(dx), slope, rtol=1e-7)


def chosen(x, y):
    f = power(2) if x[0] > 0 else scaled_by(3)
    y[0] = f(x[0])


def stored(x, y):
    y[0] = power(2)


@pytest.mark.parametrize(("kernel", "words"), [
    (chosen, ("function",)), (stored, ("expected a number here, got a function",))])
def test_functions_are_no_numbers(kernel, words):
    with refused(ScalarSyntaxError, *words):
        nf.rawkernel(kernel)[1, 1](np.ones(1), np.ones(1))
