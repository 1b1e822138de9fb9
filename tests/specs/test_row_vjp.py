"""Derivatives of rows whose elements are broadcast: the shape of what was given."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf

pytestmark = pytest.mark.interpreted

X = np.linspace(-1, 2, 28).reshape(4, 7) ** 2
SHAPES = [((4, 7), (7,)), ((7,), (4, 7)), ((4, 7), (4, 1)), ((4, 1), (7,)),
          ((4, 7), ())]


@nf.row
def weighted(x, w):
    @nf.stage("sum")
    def s(x, w):
        return x * w

    return s, x * s + w


def loss(x, w):
    s, y = weighted(x, w)
    return (s * s).sum() + (y * np.cos(X)).sum()


def reference(x, w):
    s = (x * w).sum(-1, keepdims=True)
    return (s * s).sum() + ((x * s + w) * np.cos(X)).sum()


@pytest.mark.parametrize("shapes", SHAPES)
def test_the_gradient_of_broadcast_elements(shapes, device):
    given = [X.flat[:np.prod(s, dtype=int)].reshape(s) for s in shapes]
    variables = [nf.Variable(nf.array(a, device=device), requires_grad=True)
                 for a in given]
    s, y = weighted(*variables)
    cosine = nf.array(np.cos(X), device=device)
    ((s * s).sum() + (y * cosine).sum()).backward()
    for k, (a, v) in enumerate(zip(given, variables, strict=True)):
        assert v.grad.shape == a.shape
        slopes = np.zeros(a.shape)
        for at in np.ndindex(a.shape):
            step = np.zeros(a.shape)
            step[at] = 1e-6
            ends = [reference(*(b + d if j == k else b for j, b in enumerate(given)))
                    for d in (step, -step)]
            slopes[at] = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(nf.to_numpy(v.grad), slopes, rtol=1e-6, atol=1e-6)


def test_the_second_derivative_of_a_broadcast_weight():
    def gradient(w):
        return nf.grad(loss, 1)(nf.array(X), w)

    w = np.linspace(0.5, 1, 7)
    found = nf.grad(lambda w: (gradient(w) ** 2).sum())(w)
    slopes = [((gradient(w + d) ** 2).sum() - (gradient(w - d) ** 2).sum()) / 2e-5
              for d in 1e-5 * np.eye(7)]
    np.testing.assert_allclose(found, slopes, rtol=1e-5)
