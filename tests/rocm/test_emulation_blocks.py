"""Threads that work together: sums, products, shuffles, atomics; in all ways to run."""

from __future__ import annotations

from ctypes import c_int64, c_size_t, c_uint

import numpy as np
import pytest

from tests.rocm.emulated import SANITIZED, WAYS, run, sanitized

RNG = np.random.default_rng(0)


@pytest.fixture(params=WAYS, ids=str, autouse=True)
def way(request, monkeypatch):
    """The size of a wave, and who runs first."""
    wave, schedule = request.param
    monkeypatch.setenv("NBFUSED_EMULATION_WAVE", str(wave))
    monkeypatch.setenv("NBFUSED_EMULATION_SCHEDULE", schedule)
    return request.param


def extents(*numbers):
    return (c_uint*3)(*numbers)


@pytest.mark.parametrize(("n", "blocks"), [(1, 1), (255, 1), (1000, 3), (100_000, 17)])
def test_sums_of_blocks(n, blocks):
    x, y = RNG.integers(-9, 9, n).astype(float), np.full(blocks, np.nan)
    run("blocks", "sums", x, y, c_int64(n), c_uint(blocks))
    padded = np.pad(x, (0, -n % (256*blocks)))
    assert np.array_equal(y, padded.reshape(-1, blocks, 256).sum((0, 2)))


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 16, 32, 16), (3, 37, 20, 45)])
def test_products_in_tiles(shape):
    batch, rows, columns, inner = shape
    a = RNG.integers(-5, 5, (batch, rows, inner)).astype(np.float32)
    b = RNG.integers(-5, 5, (batch, inner, columns)).astype(np.float32)
    c = np.full((batch, rows, columns), np.nan, np.float32)
    run("blocks", "product_of", a, b, c, rows, columns, inner, c_uint(batch))
    assert np.array_equal(c, np.einsum("bik,bkj->bij", a, b))


def test_histogram_by_atomics():
    x, counts = RNG.integers(0, 256, 5000, np.uint8), np.zeros(256, np.uint32)
    run("blocks", "histogram_of", x, counts, c_int64(x.size))
    assert np.array_equal(counts, np.bincount(x, minlength=256))


@pytest.mark.parametrize("n", [2**31 + 5, 2**33 + 12345, 2**62 + 1])
def test_indices_beyond_32_bits(n):
    y = np.zeros(7000, np.int64)
    run("blocks", "last_of", y, c_int64(n), c_int64(y.size))
    assert np.array_equal(y, np.arange(n - y.size, n))


@pytest.mark.parametrize(("blocks", "threads"), [
    ((1, 1, 1), (1, 1, 1)), ((2, 3, 4), (5, 6, 7)), ((1, 1, 3), (1, 1, 1024)),
    ((70, 1, 2), (33, 2, 1))])
def test_places_in_three_dimensions(blocks, threads):
    shape = (*blocks[::-1], *threads[::-1])
    y = np.full((*shape, 6), -1, np.int32)
    run("blocks", "places_of", y, extents(*blocks), extents(*threads), c_size_t(0))
    expected = np.moveaxis(np.indices(shape)[[2, 1, 0, 5, 4, 3]], 0, -1)
    assert np.array_equal(y, expected)


@pytest.mark.parametrize("width", [2, 8, 32])
@pytest.mark.parametrize("lane", [0, 1, 5, 16])
@pytest.mark.parametrize("kernel", ["shuffles_32", "shuffles_64"])
def test_shuffles(kernel, lane, width):
    n, t = 192, np.arange(192)
    x = RNG.integers(0, 10**6, n).astype({"2": np.int32, "4": float}[kernel[-1]])
    y = np.zeros((4, n), x.dtype)
    run("blocks", kernel, x, y, c_uint(n), lane, width)
    own = t % width
    assert np.array_equal(y[0], x[t - own + lane % width])
    assert np.array_equal(y[1], x[np.where(own < lane, t, t - lane)])
    assert np.array_equal(y[2], x[np.where(own + lane < width, t + lane, t)])
    if lane < width:  # else it is not a lane of the group
        assert np.array_equal(y[3], x[t ^ lane])


def test_what_an_absent_lane_offers_is_no_number():
    n, t = 40, np.arange(40)
    x, y = RNG.standard_normal(n), np.zeros((4, n))
    run("blocks", "shuffles_64", x, y, c_uint(n), 16, 32)
    assert np.array_equal(y[3], np.where((t ^ 16) < n, x[np.minimum(t ^ 16, n - 1)],
                                         np.nan), equal_nan=True)


def test_shuffles_where_lanes_loop_differently():
    x, y = RNG.standard_normal(96).astype(np.float32), np.zeros(96, np.float32)
    run("blocks", "shuffled_apart", x, y, c_uint(96))
    expected, times = x, np.arange(96) // 8 % 3
    for k in range(2):
        pairs = expected + expected.reshape(-1, 2)[:, ::-1].ravel()
        expected = np.where(times > k, pairs, expected)
    assert np.array_equal(y, expected)


@pytest.mark.parametrize("n", [32, 256])
def test_lanes_wait_for_each_other(n):
    x, y = RNG.standard_normal(n).astype(np.float32), np.zeros(n, np.float32)
    run("blocks", "neighbours", x, y, c_uint(n))
    assert np.array_equal(y.reshape(-1, 2)[:, ::-1].ravel(), x)


@pytest.mark.parametrize("n", [0, 1, 50, 200])
def test_threads_that_leave_hold_nobody_up(n):
    x, y = RNG.standard_normal(200).astype(np.float32), np.zeros(200, np.float32)
    run("blocks", "reversed_first", x, y, c_uint(200), n)
    assert np.array_equal(y, np.pad(x[:n][::-1], (0, 200 - n)))


@pytest.mark.parametrize(("kernel", "dtype"), [("atomics_32", np.int32),
                                               ("atomics_64", np.uint64)])
def test_atomics(kernel, dtype):
    n = 9*70
    y = np.zeros(n + 5, dtype)
    y[2] = y[-1] = 1000
    run("blocks", kernel, y)
    assert list(y[:3]) == [n, n - 1, 0]
    assert 1 <= y[3] <= n
    exchanged = sorted(y[4:])  # every value went in and came out, and the last is there
    assert exchanged == [*range(n), 1000]


@pytest.mark.parametrize(("kernel", "dtype"), [("bitwise_32", np.uint32),
                                               ("bitwise_64", np.uint64)])
def test_atomics_on_bits(kernel, dtype):
    ones = np.iinfo(dtype).max
    y = np.array([ones, 0, 5], dtype)
    run("blocks", kernel, y)
    assert list(y) == [0, ones, ones - 5]


def test_atomics_on_floats():
    x, y = np.ones(1, np.float32), np.ones(1)
    run("blocks", "added", x, y)
    assert (x[0], y[0]) == (2001, 1001)


def test_large_local_arrays():
    x, y = RNG.integers(0, 100, 64, np.int32), np.zeros(64, np.int32)
    run("blocks", "large_arrays", x, y)
    assert np.array_equal(y, np.full(64, x.sum()*256))


def test_deep_recursion():
    y = np.zeros(2, np.int32)
    run("blocks", "recursion", y, 100)
    assert list(y) == [100, 100]


@pytest.mark.skipif(SANITIZED is not None, reason="this is what starts them")
def test_sanitizers_find_nothing(way):
    if way == WAYS[0]:  # all ways in one process
        done = sanitized("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__)
        assert done.returncode == 0, done.stdout + done.stderr
