"""Tensors that a function makes of numbers: constants of a fused function's program."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NbFusedPerformanceWarning

torch = pytest.importorskip("torch")

HIDDEN = SimpleNamespace(tensor=torch.arange(4.0))
X = torch.tensor([0.5, 1.0, 2.0, 3.5])


def check(function, *args):
    """As without `nf.fuse`, traced once, in tensors of its own each time."""
    fused = nf.fuse(function)
    for _ in range(3):
        for made, expected in zip(fused(*args), function(*args), strict=True):
            torch.testing.assert_close(made, expected)
            made.zero_()  # which no later call may see
    assert fused.cache_info().currsize == 1


def hidden():
    """A tensor that nobody knows of, and that changes."""
    return vars(HIDDEN)["tensor"]


def test_masks_and_grids_are_constants():
    def f(x):
        mask = torch.tril(torch.ones(4, 4)).bool()
        grid = torch.arange(4)[:, None]/4 + torch.linspace(0, 1, 4)
        return torch.where(mask, x*grid, -1.0), x + torch.eye(4)[0]

    check(f, X)


def test_functions_of_them_in_other_dtypes():
    check(lambda x: (torch.nn.functional.one_hot(torch.arange(4), 5)*x[:, None],
                     torch.arange(3)), X)


def test_a_constant_is_what_it_was_when_it_was_read():
    def f(x):
        k = torch.zeros(4)
        before = x + k
        k[0] = 5
        return before, x + k

    check(f, X)


def test_traced_values_are_stored_into_them():
    def f(x):
        out, total = torch.empty(4, 2), torch.full((4,), 2.0)
        out[:, 0] = x
        out[:, 1] = out[:, 0]**2
        total += x
        total.mul_(x)
        return out, total

    check(f, X)


def copied(k):
    return k.copy_(hidden())


def stored(k):
    k[:] = hidden()
    return k


def added(k):
    return torch.add(hidden(), 0, out=k)


def as_numpy(k):
    k.numpy()[:] = hidden().numpy()
    return k


def random(k):
    k.uniform_()
    k[:] = hidden() + 0*k
    return k


def test_what_is_not_known_stays_so():
    def f(x):
        return [x + stored_by(torch.zeros(4)) for stored_by in (
            copied, stored, added, as_numpy, random)]

    fused = nf.fuse(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NbFusedPerformanceWarning)
        for _ in range(3):
            HIDDEN.tensor = HIDDEN.tensor*2 + 1
            np.testing.assert_array_equal(fused(X), f(X))
    assert fused.cache_info().currsize == 0
