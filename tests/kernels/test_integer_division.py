"""Division of integers: by zero and by -1 too, as NumPy and C have it."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.kernels import ElementwiseKernel

DTYPES = [f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)]


def operands(dtype):
    """Pairs of corners and of numbers in between."""
    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    corners = np.array([info.min, info.max, 0, 1, 5, 7, info.max // 2], dtype)
    if info.min < 0:
        corners = np.append(corners, np.array([-1, -2, -7], dtype))
    a, b = (v.ravel() for v in np.meshgrid(corners, corners))
    return (np.append(a, rng.integers(info.min, info.max, 500, dtype, endpoint=True)),
            np.append(b, rng.integers(max(info.min, -9), 9, 500, dtype)))


def quotients(a, b):
    """Rounded to zero by Python's integers, and wrapped around."""
    found = [0 if y == 0 else abs(x)//abs(y)*(1 if (x < 0) == (y < 0) else -1)
             for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    bits = 8*a.itemsize
    return np.array([q % 2**bits for q in found], f"uint{bits}").view(a.dtype)


@nf.elementwise
def divided(x, y):
    return x//y, x % y, nf.fmod(x, y), nf.truncdiv(x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_corner(dtype, device):
    a, b = operands(dtype)
    arrays = [nf.array(v, device=device) for v in (a, b)]
    got = [nf.to_numpy(v) for v in divided(*arrays)]
    with np.errstate(all="ignore"):
        want = a//b, a % b, np.fmod(a, b), quotients(a, b)
    for x, y in zip(got, want, strict=True):
        assert x.dtype == a.dtype
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_of_c(dtype, device):
    a, b = operands(dtype)
    kernel = ElementwiseKernel("T a, T b", "T q, T r", "q = a / b; r = a % b")
    arrays = [nf.array(v, device=device) for v in (a, b)]
    q, r = (nf.to_numpy(v) for v in kernel(*arrays))
    np.testing.assert_array_equal(q, quotients(a, b))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(r, np.fmod(a, b))


def test_of_numbers():
    assert [nf.truncdiv(*v) for v in ((-7, 2), (7, -2), (-7.5, 2.0))] == [-3, -3, -3.0]


def beside_multiples(dtype, count=2000):
    """Dividends next to multiples of divisors of every length, hard to round."""
    rng, info = np.random.default_rng(1), np.iinfo(dtype)

    def numbers():
        wide = rng.integers(info.min, info.max, count, dtype, endpoint=True)
        return wide >> rng.integers(0, info.bits, count).astype(dtype)

    y = numbers()
    y[y == 0] = 1
    x = numbers()
    x = x - x % y
    return np.concatenate([x - x.dtype.type(1), x, x + x.dtype.type(1)]), np.tile(y, 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_beside_multiples(dtype, device):
    a, b = beside_multiples(dtype)
    got = divided(*(nf.array(v, device=device) for v in (a, b)))
    with np.errstate(all="ignore"):
        want = a//b, a % b, np.fmod(a, b), quotients(a, b)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_array_equal(nf.to_numpy(x), y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_by_a_number(dtype, device):
    a, b = operands(dtype)
    for by in np.unique(b[-40:].tolist() + b[:7].tolist()):
        by = np.array(by, dtype)
        got = divided(nf.array(a, device=device), nf.array(by, device=device))
        with np.errstate(all="ignore"):
            want = a//by, a % by, np.fmod(a, by), quotients(a, np.full_like(a, by))
        for x, y in zip(got, want, strict=True):
            np.testing.assert_array_equal(nf.to_numpy(x), y)
