"""Kernels that are made in a loop are warned of, once for each line."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NbFusedPerformanceWarning
from nbfused.op.kernel_counts import MOST


def plain(x):
    return x + 1


def kernel(x, y):
    y[0] = x[0]


WAYS = {
    "elementwise": lambda: nf.elementwise(plain),
    "elementwise()": lambda: nf.elementwise(prefer="recompute")(plain),
    "func": lambda: nf.func(plain),
    "reduction": lambda: nf.reduction(combine="max")(plain),
    "row": lambda: nf.row(plain),
    "contraction": lambda: nf.contraction("mk,kn->mn")(plain),
    "rawkernel": lambda: nf.rawkernel(kernel),
    "rawkernel()": lambda: nf.rawkernel(differentiable=True)(kernel),
    "ElementwiseKernel": lambda: nf.ElementwiseKernel("T x", "T y", "y = x", "plain"),
    "ReductionKernel": lambda: nf.ReductionKernel("T x", "T y", "x", "a + b", "y = a",
                                                  "0", "plain"),
}


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_a_line_that_makes_many_is_warned_of_once(make):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(MOST - 1):
            make()
        assert not caught
        for _ in range(2 * MOST):
            make()
    (warning,) = caught
    assert warning.category is NbFusedPerformanceWarning
    assert (warning.filename, warning.lineno) == (__file__,
                                                  make.__code__.co_firstlineno)
    assert f"{MOST} kernels were made by this line" in str(warning.message)
    assert "the last one" in str(warning.message)


def test_calls_make_none():
    """Neither new literals nor a check of each gradient is a loop of the program's."""
    @nf.elementwise(gradcheck=True)
    def power(x, n: nf.literal = 1):
        y = 1.0
        for _ in nf.unroll(range(n)):
            y *= x
        return y

    power.defvjp(lambda x, n, g: n * g * x**(n - 1))
    power.defjvp(lambda x, n, dx: n * dx * x**(n - 1))
    x = nf.Variable(np.ones(2), requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(MOST + 1):
            power(x)
        for n in range(3):
            assert power(x, n).shape == (2,)
