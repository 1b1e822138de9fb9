"""``x.view(dtype)`` and ``x.astype(dtype)`` of numbers in scalar functions."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NotDifferentiableError
from tests.refusal import refused

X = np.array([1.0, 0.37, 1e-3, 4e9, 12.5], np.float32)


@nf.elementwise
def inverse_root(x):
    """Lomont's first guess, and a step of Newton's method."""
    y = (np.int32(0x5F375A86) - (x.view(np.int32) >> 1)).view(np.float32)
    return y * (np.float32(1.5) - np.float32(0.5) * x * y * y)


@nf.elementwise
def next_above(x):
    return (x.view(np.int64) + 1).view(np.float64)


@nf.elementwise
def exponent(x):
    return ((np.float64(x).view(np.uint64) >> 52) & 2047).astype(np.int32) - 1023


@nf.elementwise
def half_bits(x):
    return x.astype(np.float16).view(np.uint16)


@nf.elementwise
def same(x):
    return x.view(np.uint32).view(np.int32)


@nf.elementwise
def rounded(x):
    return x * x.astype(np.float64)


def on(device, function, x):
    return nf.to_numpy(function(nf.array(x, device=device)))


def test_bits_are_those_of_numpy(device):
    with np.errstate(over="ignore"):
        halves = X.astype(np.float16).view(np.uint16)
    y = (np.int32(0x5F375A86) - (X.view(np.int32) >> 1)).view(np.float32)
    expected = y * (np.float32(1.5) - np.float32(0.5) * X * y * y)
    np.testing.assert_allclose(on(device, inverse_root, X), expected, rtol=1e-6)
    wide = X.astype(np.float64)
    assert (on(device, next_above, wide) == np.nextafter(wide, np.inf)).all()
    assert (on(device, exponent, X) == np.frexp(X)[1] - 1).all()
    found = on(device, half_bits, X)
    assert found.dtype == np.uint16
    assert (found == halves).all()
    assert (on(device, same, -X) == (-X).view(np.int32)).all()
    assert on(device, same, np.arange(-2, 2, dtype=np.int32)).tolist() == [-2, -1, 0, 1]


def test_in_kernels_of_threads(device):
    @nf.rawkernel
    def hashed(x, y):
        i = nf.grid(1)
        y[i] = x[i].view(np.uint32) * np.uint32(2654435761) >> np.uint32(7)

    y = nf.zeros(5, "uint32", device=device)
    hashed.launch(nf.array(X, device=device), y, dim=5)
    assert (nf.to_numpy(y) == X.view(np.uint32) * np.uint32(2654435761) >> 7).all()


def test_derivatives():
    assert nf.grad(lambda x: rounded(x).sum())(np.array([3.0]))[0] == 6.0
    with refused(NotDifferentiableError, "inverse_root", "made of the bits of another",
                 "give the function a derivative"):
        nf.grad(lambda x: inverse_root(x).sum())(X)


@pytest.mark.parametrize("x", [X.astype(np.float64), np.arange(3), 3.0,
                               np.array([1j], np.complex64)])
def test_numbers_of_another_size_are_refused(x):
    with refused(KernelTypeError, "inverse_root: the bits of", "are not those of int32",
                 "cast it first, as in np.float32(x)"):
        inverse_root(x)
