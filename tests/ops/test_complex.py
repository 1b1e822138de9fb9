"""Complex numbers where NumPy gives infinities and NaN."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops

DTYPES = ["complex64", "complex128"]


@nf.elementwise
def inverse(x):
    return x**-1


@nf.elementwise
def inverse_cube(x):
    return x**-3


@pytest.mark.parametrize("size", [7, 70_001])
@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients_by_zero_are_numpys(dtype, size, device):
    """What raises inside a kernel stores nothing."""
    b = ((np.arange(size) % 5) * (1 + 0.5j)).astype(dtype)
    a = ((np.arange(size) % 3 - 1) * (2 - 1j)).astype(dtype)
    x, y = nf.array(a, device=device), nf.array(b, device=device)
    with np.errstate(all="ignore"):
        calls = [(ops.divide(x, y), a / b), (ops.divide(1.0, y), 1.0 / b),
                 (ops.divide(x, 0.0), a / np.zeros_like(a))]
    for got, want in calls:
        np.testing.assert_allclose(nf.to_numpy(got), want, rtol=1e-5)
    for power, n in ((inverse, 1), (inverse_cube, 3)):
        got = nf.to_numpy(power(y))
        np.testing.assert_array_equal(np.isfinite(got), b != 0)
        np.testing.assert_allclose(got[b != 0], 1 / b[b != 0]**n, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_zero_and_of_imaginary_numbers_are_numpys(dtype, device):
    values = np.array([0, 1, -1, 2j, -0.5j, 0.5 - 1.5j, 2 + 3j, -2 - 1j, 2], dtype)
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = np.power(a, b)
    got = nf.to_numpy(ops.power(*(nf.array(x, device=device) for x in (a, b))))
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    finite = np.isfinite(want)
    np.testing.assert_allclose(got[finite], want[finite], rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_mean_of_nothing(dtype, device):
    x = nf.array(np.empty((0, 3), dtype), device=device)
    assert np.isnan(nf.to_numpy(ops.mean(x, axis=0))).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_overflow_on_the_real_axis_stays_there(dtype, device):
    real = np.array([1e3, -1e3, np.inf, -np.inf, 2.0, -0.0])
    x = np.concatenate([real + 0j, np.conj(real + 0j)]).astype(dtype)
    calls = ((ops.exp, np.exp), (ops.sinh, np.sinh), (ops.cosh, np.cosh))
    with np.errstate(all="ignore"):
        for ours, theirs in calls:
            got, want = nf.to_numpy(ours(nf.array(x, device=device))), theirs(x)
            np.testing.assert_allclose(got, want, rtol=1e-5)
            np.testing.assert_array_equal(np.signbit(got.imag), np.signbit(want.imag))


@pytest.mark.parametrize("dtype", DTYPES)
def test_everything_to_the_power_of_0_is_1(dtype, device):
    parts = [np.inf, -np.inf, np.nan, 0.0, -2.0]
    x = np.array([complex(a, b) for a in parts for b in parts], dtype)
    zero = nf.array(np.zeros_like(x), device=device)
    got = nf.to_numpy(ops.power(nf.array(x, device=device), zero))
    np.testing.assert_array_equal(got, np.ones_like(x))
