"""Threads of a block that work together, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import BarrierError, RangeError
from tests.variants import sampled

ALL = 0xffffffff


def values(size, device, dtype="float64"):
    x = np.random.default_rng(size).integers(0, 100, size).astype(dtype)
    return x, nf.array(x, device=device)


@nf.rawkernel
def block_sums(x, sums):
    shared = nf.shared.array(256, "float64")
    t = nf.threadIdx.x
    shared[t] = x[nf.grid(1)]
    nf.syncthreads()
    step = nf.blockDim.x // 2
    while step > 0:
        if t < step:
            shared[t] += shared[t + step]
        nf.syncthreads()
        step //= 2
    if t == 0:
        sums[nf.blockIdx.x] = shared[0]


@pytest.mark.parametrize("block", [1, 2, 32, 256])
def test_reduction_with_a_barrier_in_a_loop(block, device):
    x, given = values(block*13, device)
    sums = nf.zeros(13, device=device)
    block_sums((13,), (block,), (given, sums))
    np.testing.assert_array_equal(nf.to_numpy(sums), x.reshape(13, block).sum(1))


@pytest.mark.parametrize("dtype", sampled(
    ["float32", "int32", "int8", "float16", "complex64", "uint64"],
    "float16", "complex64"))
def test_warp_sum_by_shuffles(dtype, device):
    @nf.rawkernel
    def warp_sums(x, sums):
        v = x[nf.grid(1)]
        for k in range(5):
            v += nf.shfl_down_sync(ALL, v, 16 >> k)
        if nf.laneid == 0:
            sums[nf.grid(1) // 32] = v

    x = np.random.default_rng(0).integers(0, 3, 256).astype(dtype)
    sums = nf.zeros(8, dtype, device=device)
    warp_sums((2,), (128,), (nf.array(x, device=device), sums))
    np.testing.assert_array_equal(nf.to_numpy(sums), x.reshape(8, 32).sum(1))


def test_block_sum_where_one_warp_finishes(device):
    """The shuffles of the first warp stand in a branch that other warps do not take."""
    @nf.rawkernel
    def block_sum(x, sums):
        partial = nf.shared.array(32, "float64")
        t = nf.threadIdx.x
        v = x[nf.grid(1)]
        for k in range(5):
            v += nf.shfl_xor_sync(ALL, v, 1 << k)
        if nf.laneid == 0:
            partial[t // nf.warpsize] = v
        nf.syncthreads()
        if t < 32:
            w = 0.0
            if t < nf.blockDim.x // nf.warpsize:
                w = partial[t]
            for k in range(5):
                w += nf.shfl_xor_sync(ALL, w, 1 << k)
            if t == 0:
                sums[nf.blockIdx.x] = w

    x, given = values(256*5, device)
    sums = nf.zeros(5, device=device)
    block_sum((5,), (256,), (given, sums))
    np.testing.assert_array_equal(nf.to_numpy(sums), x.reshape(5, 256).sum(1))


def test_every_shuffle(device):
    @nf.rawkernel
    def shuffles(out):
        t = nf.threadIdx.x
        out[0, t] = nf.shfl_sync(ALL, t, 5)
        out[1, t] = nf.shfl_sync(ALL, t, (t + 1) % 32)
        out[2, t] = nf.shfl_up_sync(ALL, t, 3)
        out[3, t] = nf.shfl_down_sync(ALL, t, 3)
        out[4, t] = nf.shfl_xor_sync(ALL, t, 9)

    out = nf.zeros((5, 64), "int64", device=device)
    shuffles((1,), (64,), (out,))
    t = np.arange(64)
    lane, base = t % 32, t//32*32
    expected = [base + 5, base + (lane + 1) % 32, np.where(lane < 3, t, t - 3),
                np.where(lane > 28, t, t + 3), t ^ 9]
    np.testing.assert_array_equal(nf.to_numpy(out), expected)


def test_histogram_with_shared_atomics(device):
    @nf.rawkernel
    def histogram(x, counts):
        local = nf.shared.array(16, "int32")
        t = nf.threadIdx.x
        if t < 16:
            local[t] = 0
        nf.syncthreads()
        for i in range(nf.grid(1), x.shape[0], nf.gridsize(1)):
            nf.atomic.add(local, x[i], 1)
        nf.syncthreads()
        if t < 16:
            nf.atomic.add(counts, t, local[t])

    x = np.random.default_rng(4).integers(0, 16, 20_000)
    counts = nf.zeros(16, "int32", device=device)
    histogram((8,), (64,), (nf.array(x, device=device), counts))
    np.testing.assert_array_equal(nf.to_numpy(counts), np.bincount(x, minlength=16))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "bool", "int8"])
@pytest.mark.parametrize("shape", [(64, 64), (33, 70), (1, 5)])
def test_transpose_through_shared_memory(shape, dtype, device):
    @nf.rawkernel
    def transpose(x, y):
        tile = nf.shared.array((16, 17), "float32")
        column, row = nf.grid(2)
        if row < x.shape[0] and column < x.shape[1]:
            tile[nf.threadIdx.y, nf.threadIdx.x] = x[row, column]
        nf.syncthreads()
        column = nf.blockIdx.y * 16 + nf.threadIdx.x
        row = nf.blockIdx.x * 16 + nf.threadIdx.y
        if row < y.shape[0] and column < y.shape[1]:
            y[row, column] = tile[nf.threadIdx.x, nf.threadIdx.y]

    x = np.random.default_rng(3).integers(0, 2, shape)
    y = nf.zeros(shape[::-1], dtype, device=device)
    grid = (-(-shape[1] // 16), -(-shape[0] // 16))
    given = nf.ops.astype(nf.array(x, device=device), dtype) \
        if hasattr(nf.ops, "astype") else nf.array(x.astype(nf.to_numpy(y).dtype),
                                                   device=device)
    transpose(grid, (16, 16), (given, y))
    np.testing.assert_array_equal(nf.to_numpy(y).astype(int), x.T)


def test_matrix_product_in_tiles(device):
    """Barriers in a loop whose length is an argument, uniform values beside others."""
    @nf.rawkernel
    def matmul(a, b, c):
        left = nf.shared.array((8, 8), "float64")
        right = nf.shared.array((8, 8), "float64")
        tx, ty = nf.threadIdx.x, nf.threadIdx.y
        column, row = nf.grid(2)
        total = 0.0
        for k in range((a.shape[1] + 7) // 8):
            left[ty, tx] = right[ty, tx] = 0.0
            if row < a.shape[0] and k*8 + tx < a.shape[1]:
                left[ty, tx] = a[row, k*8 + tx]
            if k*8 + ty < b.shape[0] and column < b.shape[1]:
                right[ty, tx] = b[k*8 + ty, column]
            nf.syncthreads()
            for j in range(8):
                total += left[ty, j] * right[j, tx]
            nf.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = total

    a, b = (np.random.default_rng(k).integers(-5, 5, s).astype(float)
            for k, s in enumerate([(20, 13), (13, 9)]))
    c = nf.zeros((20, 9), device=device)
    matmul((2, 3), (8, 8), (nf.array(a, device=device), nf.array(b, device=device), c))
    np.testing.assert_array_equal(nf.to_numpy(c), a @ b)


def test_threads_that_return_do_not_hold_up_the_others(device):
    @nf.rawkernel
    def reversed_(x, y, n):
        t = nf.threadIdx.x
        if t >= n:
            return
        shared = nf.shared.array(64, "float64")
        shared[t] = x[t]
        nf.syncthreads()
        if t == 0:
            y[n] = -1.0
        y[t] = shared[n - 1 - t]

    x, given = values(64, device)
    y = nf.zeros(65, device=device)
    reversed_((1,), (64,), (given, y, 50))
    np.testing.assert_array_equal(nf.to_numpy(y)[:51], [*x[:50][::-1], -1])
    assert not nf.to_numpy(y)[51:].any()


def test_values_that_live_across_barriers(device):
    """Scan by doubling: a value of each thread is carried through a loop."""
    @nf.rawkernel
    def scan(x, y):
        shared = nf.shared.array(128, "int64")
        t = nf.threadIdx.x
        mine = x[t]
        step = 1
        while step < nf.blockDim.x:
            shared[t] = mine
            nf.syncthreads()
            other = 0
            if t >= step:
                other = shared[t - step]
            nf.syncthreads()
            mine += other
            step *= 2
        y[t] = mine

    x, given = values(100, device, "int64")
    y = nf.zeros(100, "int64", device=device)
    scan((1,), (100,), (given, y))
    np.testing.assert_array_equal(nf.to_numpy(y), np.cumsum(x))


def test_a_condition_that_is_loaded_but_the_same_for_all(device):
    @nf.rawkernel
    def until(x, rounds, y):
        shared = nf.shared.array(32, "int64")
        t = nf.threadIdx.x
        shared[t] = t
        k = 0
        while k < rounds[0]:
            nf.syncthreads()
            v = shared[(t + 1) % 32]
            nf.syncthreads()
            shared[t] = v
            k += 1
        if x[0] > 0:
            nf.syncthreads()
            y[t] = shared[t]
        else:
            y[t] = -1

    y = nf.zeros(32, "int64", device=device)
    rounds = nf.array(np.array([5]), device=device)
    for sign, expected in ((1.0, (np.arange(32) + 5) % 32), (-1.0, np.full(32, -1))):
        until((1,), (32,), (nf.array([sign], device=device), rounds, y))
        np.testing.assert_array_equal(nf.to_numpy(y), expected)


def test_shuffles_where_lanes_loop_differently(device):
    """Pairs of lanes loop equally often; other pairs are done before."""
    @nf.rawkernel
    def pairs(x, y):
        t = nf.threadIdx.x
        v = x[t]
        for _ in range(t // 8 % 3):
            v += nf.shfl_xor_sync(ALL, v, 1)
        y[t] = v

    x, given = values(64, device)
    y = nf.zeros(64, device=device)
    expected = x.copy()
    times = np.arange(64) // 8 % 3
    for k in range(2):
        expected = np.where(times > k, expected + expected[np.arange(64) ^ 1], expected)
    if device == "cpu":  # on a GPU the mask has to name the lanes that take part
        pairs((1,), (64,), (given, y))
        np.testing.assert_array_equal(nf.to_numpy(y), expected)


def divergent():
    @nf.rawkernel
    def in_a_branch(y):
        t = nf.threadIdx.x
        if t < 16:
            nf.syncthreads()
        y[t] = t

    @nf.rawkernel
    def in_a_loop(y):
        t = nf.threadIdx.x
        for _ in range(t):
            nf.syncthreads()
        y[t] = t

    @nf.rawkernel
    def in_both_branches(y):
        t = nf.threadIdx.x
        if t < 16:
            nf.syncthreads()
            y[t] = 1
        else:
            nf.syncthreads()
            y[t] = 2

    @nf.rawkernel
    def before_a_return(y):
        t = nf.threadIdx.x
        while True:
            if t >= 39:
                return
            nf.syncthreads()
            t += 1

    return [in_a_branch, in_a_loop, in_both_branches, before_a_return]


@pytest.mark.parametrize("kernel", divergent(), ids=lambda k: k.__name__)
@pytest.mark.parametrize("blocks", [1, 300])
def test_a_barrier_that_some_threads_never_reach(kernel, blocks):
    """On the CPU an error, where a GPU computes anything or hangs."""
    line = kernel.pyfunc.__code__.co_firstlineno
    with pytest.raises(BarrierError, match=f"{kernel.__name__}: .*in line") as raised:
        kernel((blocks,), (40,), (nf.zeros(64),))
    assert line < int(str(raised.value).split("line ")[1].split(";")[0]) < line + 12
    with pytest.raises(BarrierError):
        kernel((1,), (40,), (nf.zeros(64),))


def test_one_thread_diverges_from_nobody(device):
    y = nf.zeros(1, device=device)
    divergent()[0]((1,), (1,), (y,))
    assert nf.to_numpy(y) == [0]


def test_too_much_shared_memory(device):
    @nf.rawkernel
    def large(y):
        shared = nf.shared.array(300_000, "float32")
        shared[nf.threadIdx.x] = 1.0
        y[0] = shared[0]

    y = nf.full(1, 7, "float32", device=device)
    with pytest.raises(RangeError, match="1200000 bytes"):
        large((1,), (1,), (y,))
    assert nf.to_numpy(y) == [7]
