"""Derivatives of derivatives: ``backward(create_graph=True)``."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf

pytestmark = pytest.mark.interpreted

A = np.array([1.0, 2.0, 3.0])


def leaf(x=A):
    return nf.Variable(np.array(x), requires_grad=True)


class TestCreateGraph:
    """Second order."""

    def test_second_derivative(self):
        x = leaf()
        (x * x * x).sum().backward(create_graph=True)
        first = x.grad
        assert isinstance(first, nf.Variable)
        np.testing.assert_allclose(first.data, 3 * A * A)
        x.zero_grad()
        first.sum().backward()
        np.testing.assert_allclose(x.grad, 6 * A)
        assert isinstance(x.grad, np.ndarray)

    def test_gradients_of_both_kinds_accumulate(self):
        x = leaf()
        y = (x * x * x).sum()
        y.backward(create_graph=True)
        y.backward()
        assert isinstance(x.grad, np.ndarray)
        np.testing.assert_allclose(x.grad, 6 * A * A)
        (x * x).sum().backward(create_graph=True)
        assert isinstance(x.grad, nf.Variable)

    @pytest.mark.parametrize("name", ["logsumexp", "prod", "var", "max", "norm"])
    def test_through_the_state_of_a_reduction(self, name):
        zero = 0.0 if name == "prod" else 2.0
        x = leaf([[0.5, zero, 1.0], [1.5, -0.7, 0.3]])
        weights = np.array([0.3, -1.1])

        def value(v):
            return (getattr(nf.ops, name)(v, axis=1) * weights).sum()

        def slope(data):
            v = leaf(data)
            value(v).backward()
            return np.array(v.grad)

        value(x).backward(create_graph=True)
        g = x.grad
        direction = np.array([[1.0, -2.0, 0.5], [0.1, 0.7, -1.0]])
        x.zero_grad()
        (g * direction).sum().backward()
        step = 1e-6
        expected = (slope(x.data + step * direction)
                    - slope(x.data - step * direction)) / (2 * step)
        found = np.zeros((2, 3)) if x.grad is None else x.grad
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)

    def test_implies_retain_graph(self):
        x = leaf()
        y = (x * x).sum()
        y.backward(create_graph=True)
        y.backward()
        np.testing.assert_array_equal(x.grad, 4 * A)

    def test_works_inside_no_grad(self):
        x = leaf()
        y = (x * x * x).sum()
        with nf.no_grad():
            y.backward(create_graph=True)
        assert x.grad.requires_grad

    def test_numbers_are_kept_by_value(self):
        x = leaf()
        (x ** 3).sum().backward(create_graph=True)
        (g, x.grad) = (x.grad, None)
        g.sum().backward()
        np.testing.assert_allclose(x.grad, 6 * A)
