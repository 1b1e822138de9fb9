"""What a fused function reads of an argument before it changes it, views included."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf

pytestmark = pytest.mark.interpreted

X, Y = np.arange(9.0).reshape(3, 3), np.eye(3) + 1


def product(x, y):
    t = y @ x.T
    x += 2
    return t


def product_of_some(x, y):
    t = (x[:1] @ y).sum()
    x *= 3.0
    return t


def elementwise(x, y):
    t = np.exp(x.T) + x[::-1]
    x *= 2
    return t


def reduced(x, y):
    t = x.T.sum(axis=0) * x.T
    x *= 2
    return t


def stored(x, y):
    y[...] = x.T
    x += 1
    return x


def exchanged(x, y):
    t = x.T.copy()
    x[...] = y.T
    y[...] = t
    x += y
    return x * 1


def read_after(x, y):
    x[...] = x + 1
    return y @ x[::-1]


@pytest.mark.parametrize("function", [product, product_of_some, elementwise, reduced,
                                      stored, exchanged, read_after])
def test_results_and_arguments_are_numpys(function, device):
    expected, given = [X.copy(), Y.copy()], [nf.array(a, device=device)
                                             for a in (X, Y)]
    expected.append(function(*expected))
    given.append(nf.fuse(function)(*given))
    for found, e in zip(given, expected, strict=True):
        np.testing.assert_allclose(nf.to_numpy(found), e, rtol=1e-12)
