"""Derivatives of scalar functions as functions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ScalarSyntaxError
from nbfused.op.derivative import derivative, tangent
from nbfused.op.specialize import specialize


@nf.func
def square(x):
    return x * x


@nf.func
def polar(r, angle):
    return r * nf.cos(angle), r * nf.sin(angle)


@nf.func
def marked(x):
    return x


@marked.defvjp
def marked_vjp(x, g):
    return 100.0 * g


POLAR_BACK = derivative(polar)


@nf.elementwise
def newton(x, steps):
    for _ in range(steps):
        x -= (square(x) - 2.0) / derivative(square)(x, 1.0)
    return x


@nf.elementwise
def by_name(x):
    slope = derivative(square)
    gr, ga = POLAR_BACK(x, 0.5, 1.0, 0.0)
    return slope(x, 3.0) + gr * 1000 + ga, tangent(polar)(x, 0.5, 1.0, 0.0)[1]


def test_on_numbers():
    assert derivative(square)(3.0, 1.0) == 6.0
    assert derivative(marked)(3.0, 1.0) == 100.0
    assert tangent(square)(3.0, 0.5) == 3.0
    assert derivative(polar)(2.0, 0.0, 1.0, 0.0) == (1.0, 0.0)
    assert tangent(polar)(2.0, 0.0, 0.0, 1.0) == (0.0, 2.0)
    assert derivative("exp")(0.0, 2.0) == 2.0
    assert derivative(lambda x: x**3)(2.0, 1.0) == 12.0


def test_of_a_derivative():
    second = derivative(derivative(square))
    assert second(3.0, 1.0, 1.0) == (2.0, 6.0)


def test_inside_functions(device):
    x = nf.array([1.0, 3.0], device=device)
    np.testing.assert_allclose(nf.to_numpy(newton(x, 6)), math.sqrt(2), rtol=1e-12)
    found, second = by_name(x)
    c, s = math.cos(0.5), math.sin(0.5)
    np.testing.assert_allclose(nf.to_numpy(found), [6 + 1000*c - s, 18 + 1000*c - 3*s])
    np.testing.assert_allclose(nf.to_numpy(second), [s, s])


def test_on_arrays(device):
    x = nf.array([1.0, 2.0], device=device)
    np.testing.assert_array_equal(nf.to_numpy(derivative(square)(x, 1.0)), [2.0, 4.0])
    v = nf.Variable(x, requires_grad=True)
    derivative(square)(v, 1.0).sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(v.grad), [2.0, 2.0])


def test_in_kernels(device):
    @nf.rawkernel
    def slopes(x, y):
        i = nf.grid(1)
        if i < x.size:
            y[i] = derivative(square)(x[i], 1.0)

    x, y = (nf.array(v, device=device) for v in ([1.0, 2.0], [0.0, 0.0]))
    slopes((1,), (32,), (x, y))
    np.testing.assert_array_equal(nf.to_numpy(y), [2.0, 4.0])


def test_what_is_no_function():
    with pytest.raises(KernelTypeError, match="scalar function"):
        derivative(3)

    @nf.elementwise
    def of_a_number(x):
        return derivative(x)(x, 1.0)

    with pytest.raises(ScalarSyntaxError, match="a function of the module"):
        of_a_number(1.0)
    with pytest.raises(KernelTypeError, match="function of yours"):
        specialize(derivative(square), x=1)
