"""Launches of so many threads, which guard the kernel themselves."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import KernelTypeError, RangeError
from tests.refusal import refused


@nf.rawkernel(differentiable=True)
def fourth(x, y):
    i = nf.grid(1)
    y[i] = x[i] * x[i]
    x[i] = y[i] * y[i]


@nf.rawkernel
def table(x, y):
    i, j = nf.grid(2)
    y[i, j] = 10.0 * x[i] + x[j]


@pytest.mark.parametrize("debug", [False, True])
def test_threads_beyond_do_nothing(debug, device):
    """In 32 elements of an array of 40, whose rest is left as it was."""
    x, start = np.linspace(0.5, 1.5, 32), np.full(40, 7.0)
    start[:32] = x
    given, y = nf.array(start, device=device), nf.zeros(40, device=device)
    dx, dy = (nf.array(np.ones(40), device=device) for _ in "xy")
    with config.override(debug=debug):
        fourth.bwd.launch((given, dx), (y, dy), dim=32)
        fourth.launch(given, y, dim=32, block=48)
    np.testing.assert_allclose(nf.to_numpy(given)[:32], x**4)
    assert set(nf.to_numpy(given)[32:]) == {7.0}
    assert set(nf.to_numpy(y)[32:]) == {0.0}
    np.testing.assert_allclose(nf.to_numpy(dx)[:32], 2*x + 4*x**3)
    assert set(nf.to_numpy(dx)[32:]) == {1.0}


def test_axes_are_those_of_the_grid(device):
    x, y = nf.array(np.arange(9.0), device=device), nf.zeros((5, 9), device=device)
    table(x=x, y=y).launch(dim=(5, 9))
    table.launch(x, y, dim=(0, 9))  # nothing to do
    np.testing.assert_array_equal(
        nf.to_numpy(y), 10*np.arange(5)[:, None] + np.arange(9))


@nf.rawkernel
def waiting(x):
    nf.syncthreads()
    x[nf.grid(1)] = 1.0


@pytest.mark.parametrize(("kernel", "options", "error", "words"), [
    (table, {"dim": (-1, 3)}, RangeError, ("(-1, 3)", "0 or more")),
    (table, {"dim": "n"}, KernelTypeError, ("'n'", "one to three integers")),
    (table, {"dim": (1, 2, 3, 4)}, KernelTypeError, ("(1, 2, 3, 4)", "nf.grid")),
    (table, {"dim": 3}, KernelTypeError, ("along y", "1 integer", "dim=x.shape")),
    (table, {"dim": 3, "grid": 1}, KernelTypeError, ("grid=1", "or dim")),
    (table, {"grid": 1}, KernelTypeError, ("block=None", "or dim")),
    (waiting, {"dim": 3}, KernelTypeError, ("test_rawkernel_dim.py:", "a barrier",
                                            "grid and block"))])
def test_refused(kernel, options, error, words):
    arrays = [np.zeros(3), np.zeros((3, 3))][:len(kernel.signature.parameters)]
    with refused(error, *words):
        kernel.bind(*arrays).launch(**options)
