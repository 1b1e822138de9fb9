"""Changes in place beside views, copies and operands in the same memory."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import nbfused as nf

#: The target and what is added to it, in the same memory.
OVERLAPS = {
    "shifted": lambda x: (x[1:], x[:-1]), "reversed": lambda x: (x, x[::-1]),
    "columns": lambda x: (x[:, 1:], x[:, :-1]), "transposed": lambda x: (x, x.T),
}


@pytest.mark.parametrize("name", OVERLAPS)
@pytest.mark.parametrize("op", ["iadd", "isub", "imul", "itruediv"])
def test_what_is_added_may_be_in_the_same_memory(op, name, device):
    """As NumPy does it: of what was there before."""
    host = np.arange(1.0, 17.0).reshape(4, 4)
    array, v = nf.array(host, device=device), nf.Variable(nf.array(host, device=device))
    expected = host.copy()
    getattr(operator, op)(*OVERLAPS[name](expected))
    getattr(operator, op)(*OVERLAPS[name](v))
    np.testing.assert_allclose(nf.to_numpy(v.data), expected, rtol=1e-15)
    getattr(operator, op)(*OVERLAPS[name](array))
    np.testing.assert_allclose(nf.to_numpy(array), expected, rtol=1e-15)


def test_a_copy_lies_in_order_as_numpys_does(device):
    """So that a reshape of it is a view, and what is stored there is seen."""
    def f(x):
        y = x.T.copy()
        y.reshape(-1)[0] = 9.0
        return y

    x = np.arange(6.0).reshape(2, 3)
    v = nf.Variable(nf.array(x, device=device))
    w = nf.Variable(nf.array(x, device=device), requires_grad=True)
    for found in (f(v), f(w * 1)):
        np.testing.assert_array_equal(nf.to_numpy(found.data), f(x))
    assert v.T.copy("K").data.strides == v.T.data.strides


@pytest.mark.parametrize("make", [
    lambda x: np.kron(x, x), lambda x: np.roll(x, 1), lambda x: x.T.copy(),
    lambda x: np.take(x, [[0, 1], [1, 0]], axis=0)],
    ids=["kron", "roll", "copy", "take"])
def test_views_of_what_is_changed_follow_where_that_is_a_view_of_nobodys(make):
    """Results that end in a reshape of an array which is gone."""
    def f(x):
        y = make(x)
        first, rest = y[:1], y[1:]
        y[0] = y[-1] * 2
        rest *= 3
        return (first * first).sum() + (y**3).sum()

    x = np.arange(1.0, 7.0).reshape(2, 3)**1.3
    step = 1e-6
    expected = [(f(x + step * e) - f(x - step * e)) / (2 * step)
                for e in np.eye(6).reshape(6, 2, 3)]
    np.testing.assert_allclose(nf.grad(f)(x).ravel(), expected, rtol=1e-6)
