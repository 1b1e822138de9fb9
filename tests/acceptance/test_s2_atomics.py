"""Slang's atomic operations.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf


def arrays(device, *values, dtype="float32"):
    return [nf.array(np.asarray(v, dtype), device=device) for v in values]


def host(*found):
    return [nf.to_numpy(f).tolist() for f in found]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_l24_atomic_add_gives_the_old_value(device, dtype):
    @nf.rawkernel
    def tickets(counter, old):
        i = nf.grid(1)
        old[i] = nf.atomic.add(counter, 0, 1)

    counter, old = (nf.zeros(n, dtype, device=device) for n in (1, 10_000))
    tickets((100,), (100,), (counter, old))
    assert host(counter) == [[10_000]]
    np.testing.assert_array_equal(np.sort(nf.to_numpy(old)), np.arange(10_000))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint16"])
def test_l24_narrow_types(device, dtype):
    @nf.rawkernel
    def bump(cells):
        nf.atomic.add(cells, nf.grid(1) % cells.shape[0], 1)

    cells = nf.zeros(64, dtype, device=device)
    bump((32,), (128,), (cells,))
    assert set(nf.to_numpy(cells).astype(int)) == {64}


@pytest.mark.parametrize("dtype", ["int32", "uint64", "int8", "float32", "float64",
                                   "float16"])
def test_l25_atomic_min_and_max(device, dtype):
    @nf.rawkernel
    def extremes(x, low, high):
        i = nf.grid(1)
        if i < x.shape[0]:
            nf.atomic.min(low, 0, x[i])
            nf.atomic.max(high, 0, x[i])

    rng = np.random.default_rng(1)
    values = rng.integers(0, 100, 5000).astype(dtype)
    x = nf.array(values, device=device)
    low, high = (nf.array(values[:1], device=device) for _ in range(2))
    extremes((20,), (256,), (x, low, high))
    assert host(low, high) == [[values.min()], [values.max()]]


def test_l25_nan_as_in_numpy(device):
    @nf.rawkernel
    def extremes(x, low, high):
        i = nf.grid(1)
        nf.atomic.min(low, 0, x[i])
        nf.atomic.max(high, 0, x[i])

    x, low, high = arrays(device, [1, np.nan, 3, 2], [9], [-9])
    extremes((1,), (4,), (x, low, high))
    assert np.isnan(nf.to_numpy(low))
    assert np.isnan(nf.to_numpy(high))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint8"])
def test_l26_atomic_bits(device, dtype):
    @nf.rawkernel
    def bits(x, out):
        i = nf.grid(1)
        if i < x.shape[0]:
            nf.atomic.and_(out, 0, x[i])
            nf.atomic.or_(out, 1, x[i])
            nf.atomic.xor(out, 2, x[i])

    values = np.random.default_rng(2).integers(64, 127, 777).astype(dtype) | 8
    start = np.array([np.iinfo(dtype).max, 0, 0], dtype)
    out = nf.array(start, device=device)
    bits((7,), (128,), (nf.array(values, device=device), out))
    expected = [np.bitwise_and.reduce(values), np.bitwise_or.reduce(values),
                np.bitwise_xor.reduce(values)]
    assert host(out) == [[int(e) for e in expected]]


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float16", "uint8"])
def test_l27_one_winner(device, dtype):
    @nf.rawkernel
    def race(cell, won):
        i = nf.grid(1)
        if nf.atomic.cas(cell, 0, 0, 1) == 0:
            nf.atomic.add(won, 0, 1)
        nf.atomic.exch(cell, 1, i % 100)

    cell = nf.zeros(2, dtype, device=device)
    won = nf.zeros(1, "int32", device=device)
    race((40,), (64,), (cell, won))
    assert host(won) == [[1]]
    assert nf.to_numpy(cell)[0] == 1
    assert 0 <= nf.to_numpy(cell)[1] < 100
