"""Kernels of threads on ROCm: what they compile to, what is launched, what it does."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.backend import Call
from nbfused.errors import BarrierError, RangeError
from nbfused.gpu.raw_kernel import RawLauncher
from nbfused.rocm import raw
from nbfused.support.dtypes import DTYPES
from tests.raw_specs import spec_of

DEVICE = "rocm:0"
ALL = 0xffffffff


def put(x):
    return nf.array(x, device=DEVICE)


def text_of(kernel, *args, code="c"):
    """What would be compiled for arguments of these types."""
    spec, signature = spec_of(kernel, *args, code=code)
    return raw.RawText(spec.typed(signature.inputs), signature)


@nf.rawkernel
def blocks(x, y):
    shared = nf.shared.array((64, 2), "float32")
    flags = nf.shared.array(3, "bool")
    i = nf.grid(1)
    v = x[i]
    v = nf.shfl_xor_sync(ALL, v, 1)
    v = nf.shfl_down_sync(ALL, v, 1)
    v = nf.shfl_up_sync(ALL, v, 1)
    v = nf.shfl_sync(ALL, v, nf.laneid)
    shared[nf.threadIdx.x, 1] = 1.0
    flags[0] = v > 0
    nf.syncthreads()
    nf.syncwarp()
    nf.atomic.add(shared, (nf.warpsize, 0), shared[i % 64, 1])
    if i < x.shape[0] and flags[0]:
        y[i] = v


# --- texts and launches


def test_shared_arrays_begin_at_multiples_of_16_bytes():
    x = np.zeros(4, np.float32)
    text = text_of(blocks, x, x)
    assert text.layout.shared == 512 + 16
    assert "nbf::shared_array<uint8_t>(512)" in text.kernel(256).text


class Device:
    label, shared_limit = "rocm:0", 1000


class Program:
    launched: list[tuple[object, ...]] = []  # noqa: RUF012

    def __init__(self, kernel):
        self.kernel = kernel

    def launch(self, *arguments):
        self.launched.append((self.kernel.threads, *arguments))


def test_launch_is_what_the_user_asks_for():
    """The user's grid and block; fewer threads may have more registers."""
    x = np.zeros(4, np.float32)
    launcher = RawLauncher(text_of(blocks, x, x), "blocks", lambda number: Device,
                           Program)
    call = Call((), (1, 2), ((1,), (1,)), (), 0, 7, ((4,), (4,)), grid=(3, 2, 1),
                block=(300, 1, 1))
    launcher(call)
    threads, _, stream, grid, values, shared, block = Program.launched.pop()
    assert (threads, stream, grid, block) == (512, 7, (3, 2, 1), (300, 1, 1))
    assert values == (1, 2, 4)
    assert shared == 528
    call.shared = 500
    with pytest.raises(RangeError, match="528 bytes of shared arrays and 500"):
        launcher(call)
    assert not Program.launched


# --- what they do


def test_every_word_that_says_where_a_thread_is():
    @nf.rawkernel
    def places(x):
        i = nf.threadIdx.x + nf.blockIdx.x*nf.blockDim.x
        j = nf.threadIdx.y + nf.blockIdx.y*nf.blockDim.y
        k = nf.threadIdx.z + nf.blockIdx.z*nf.blockDim.z
        width = nf.gridDim.x*nf.blockDim.x
        height = nf.gridDim.y*nf.blockDim.y
        at = (k*height + j)*width + i
        if at < x.shape[0]:
            x[at] = at*100 + nf.laneid

    x = nf.zeros(720, "int64", device=DEVICE)
    places((2, 2, 2), (15, 2, 3), (x,))
    thread = np.arange(90).reshape(3, 2, 15)
    lane = np.tile(thread % 32, (2, 2, 2)).reshape(-1)
    assert np.array_equal(nf.to_numpy(x), np.arange(lane.size)*100 + lane)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_shuffled_and_shared(dtype):
    @nf.rawkernel
    def turn(x, y):
        tile = nf.shared.array(64, dtype)
        t = nf.threadIdx.x
        tile[63 - t] = x[t]
        nf.syncthreads()
        y[t] = nf.shfl_xor_sync(ALL, tile[t], 5)

    x = (np.arange(64) % 2 if dtype == "bool" else np.arange(64)).astype(DTYPES[dtype])
    y = nf.zeros(64, DTYPES[dtype], device=DEVICE)
    turn((1,), (64,), (put(x), y))
    assert np.array_equal(nf.to_numpy(y), x[::-1][np.arange(64) ^ 5])


def test_strided_and_reversed_arrays():
    @nf.rawkernel
    def scaled(x, y, c):
        i, j = nf.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            y[j, i] = x[i, j]*c

    x = np.arange(60.0).reshape(10, 6)
    y = nf.zeros((8, 10), device=DEVICE)
    scaled((2, 1), (8, 8), (put(x)[::-2, ::3], y[1::3, ::2], 2.5))
    found = nf.to_numpy(y)
    assert np.array_equal(found[1::3, ::2][:2, :5], (x[::-2, ::3]*2.5).T)
    assert np.count_nonzero(found) == np.count_nonzero(x[::-2, ::3])


def test_dynamic_and_static_shared_memory_within_the_limit():
    @nf.rawkernel
    def large(x):
        tile = nf.shared.array(60000, "float32")
        tile[nf.threadIdx.x] = x[nf.threadIdx.x]
        nf.syncthreads()
        x[nf.threadIdx.x] = tile[31 - nf.threadIdx.x]

    with pytest.raises(RangeError, match="240000 bytes of shared arrays"):
        large((1,), (32,), (nf.zeros(32, "float32", device=DEVICE),))


def test_more_threads_than_hip_counts():
    @nf.rawkernel
    def one(x):
        x[0] = 1.0

    with pytest.raises(RangeError, match="fewer than 2\\*\\*32 threads"):
        one((2**31 - 1,), (4,), (nf.zeros(1, device=DEVICE),))


def test_a_barrier_in_a_branch_is_named():
    @nf.rawkernel
    def some(x):
        if nf.threadIdx.x < 3:
            nf.syncthreads()
        x[nf.threadIdx.x] = 1.0

    if nf.config.rocm_emulate != "1":
        pytest.skip("GPUs do not say that a barrier is not reached")
    with pytest.raises(BarrierError, match=r"line \d+: nf.syncthreads\(\)"):
        some((1,), (8,), (nf.zeros(8, device=DEVICE),))
