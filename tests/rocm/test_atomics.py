"""Atomic updates of every dtype by threads of many blocks: none is lost or torn."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

import nbfused as nf
from nbfused.support.dtypes import DTYPES

pytestmark = pytest.mark.rocm

COUNT = 256  # the integers that bfloat16 has, and the values of int8
INTEGERS = [d for d in DTYPES if DTYPES[d].kind in "iu"]
REAL = [d for d in DTYPES if DTYPES[d].kind not in "bc"]


def launch(kernel, *arrays):
    """The arrays afterwards."""
    given = [nf.array(a, device="rocm:0") for a in arrays]
    kernel((8,), (32,), tuple(given))
    return [nf.to_numpy(a) for a in given]


def values(dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.random.default_rng(3).integers(-128, 128, COUNT).astype(DTYPES[dtype])


@pytest.mark.parametrize("dtype", REAL)
def test_each_addition_finds_what_another_left(dtype):
    @nf.rawkernel
    def count(y, old):
        old[nf.grid(1)] = nf.atomic.add(y, 1, 1)

    start = np.zeros(3, DTYPES[dtype])
    y, old = launch(count, start, np.zeros(COUNT, DTYPES[dtype]))
    expected = np.arange(COUNT).astype(DTYPES[dtype])
    np.testing.assert_array_equal(np.sort(old), np.sort(expected))
    np.testing.assert_array_equal(y, np.array([0, COUNT, 0]).astype(DTYPES[dtype]))


@pytest.mark.parametrize("dtype", REAL)
def test_the_least_and_the_largest_remain(dtype):
    @nf.rawkernel
    def bounds(x, y):
        i = nf.grid(1)
        nf.atomic.min(y, 1, x[i])
        nf.atomic.max(y, 2, x[i])

    x = values(dtype)
    start = np.full(4, x[0])
    _, y = launch(bounds, x, start)
    np.testing.assert_array_equal(y, [x[0], x.min(), x.max(), x[0]])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_wins(dtype):
    @nf.rawkernel
    def bounds(x, y):
        i = nf.grid(1)
        nf.atomic.min(y, 0, x[i])
        nf.atomic.max(y, 1, x[i])

    x = values(dtype)
    x[77] = np.nan
    _, y = launch(bounds, x, np.zeros(2, DTYPES[dtype]))
    assert np.isnan(y).all()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype):
    @nf.rawkernel
    def bits(x, y):
        i = nf.grid(1)
        nf.atomic.and_(y, 0, x[i])
        nf.atomic.or_(y, 1, x[i])
        nf.atomic.xor(y, 2, x[i])

    x = values(dtype)[:COUNT] | DTYPES[dtype].type(4)
    start = np.array([-1, 0, 0]).astype(dtype)
    _, y = launch(bits, x, start)
    np.testing.assert_array_equal(y, [reduce(f, x, s) for f, s in zip((
        np.bitwise_and, np.bitwise_or, np.bitwise_xor), start, strict=True)])


@pytest.mark.parametrize("dtype", REAL)
def test_exchanged_values_pass_from_thread_to_thread(dtype):
    @nf.rawkernel
    def pass_on(x, y, old):
        i = nf.grid(1)
        old[i] = nf.atomic.exch(y, 1, x[i])

    x = np.arange(COUNT).astype(DTYPES[dtype])
    start = np.full(3, 7, DTYPES[dtype])
    _, y, old = launch(pass_on, x, start, np.zeros(COUNT, DTYPES[dtype]))
    np.testing.assert_array_equal(np.sort([*old, y[1]]), np.sort([*x, start[0]]))
    assert y[0] == y[2] == 7


@pytest.mark.parametrize("dtype", REAL)
def test_one_thread_wins_a_comparison(dtype):
    @nf.rawkernel
    def claim(x, y, old):
        i = nf.grid(1)
        old[i] = nf.atomic.cas(y, 1, 0, x[i])

    x = (np.arange(COUNT) % 100 + 1).astype(DTYPES[dtype])
    _, y, old = launch(claim, x, np.zeros(3, DTYPES[dtype]),
                       np.full(COUNT, 1, DTYPES[dtype]))
    (winner,) = np.flatnonzero(old == 0)
    np.testing.assert_array_equal(y, np.array([0, x[winner], 0]))
    np.testing.assert_array_equal(np.delete(old, winner), x[winner])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_both_parts_are_added(dtype):
    @nf.rawkernel
    def total(x, y):
        nf.atomic.add(y, 0, x[nf.grid(1)])

    x = (values("int32") + 1j*values("int32")[::-1]).astype(dtype)
    _, y = launch(total, x, np.zeros(1, dtype))
    assert y[0] == x.sum()
