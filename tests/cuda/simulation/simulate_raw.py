"""Kernels of threads under Numba's CUDA simulator; a line for each failure.

A program of its own, as `simulate` is:
``python -m tests.cuda.simulation.simulate_raw``.
"""

from __future__ import annotations

import warnings

import numpy as np

import nbfused as nf
from nbfused.config import config
from nbfused.errors import RangeError
from tests.cuda.simulation import simulated

ALL = 0xffffffff


@nf.rawkernel(differentiable=True)
def square(x, y):
    for i in range(nf.grid(1), x.shape[0], nf.gridsize(1)):
        y[i] = x[i] * x[i]


@nf.rawkernel
def block_sums(x, sums):
    shared = nf.shared.array(64, "float32")
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


@nf.rawkernel
def shuffles(out):
    t = nf.threadIdx.x
    out[0, t] = nf.shfl_sync(ALL, t, 5)
    out[1, t] = nf.shfl_up_sync(ALL, t, 3)
    out[2, t] = nf.shfl_down_sync(ALL, t, 3)
    out[3, t] = nf.shfl_xor_sync(ALL, t, 9)


@nf.rawkernel
def atomics(cells, old):
    i = nf.grid(1)
    old[i] = nf.atomic.add(cells, 0, 1)
    nf.atomic.max(cells, 1, i)
    nf.atomic.min(cells, 2, -i)
    nf.atomic.exch(cells, 3, 7)
    nf.atomic.cas(cells, 4, 0, i + 1)
    nf.atomic.add(cells, 5, 2)


@nf.rawkernel
def transpose(x, y):
    tile = nf.shared.array((8, 9), "float64")
    column, row = nf.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        tile[nf.threadIdx.y, nf.threadIdx.x] = x[row, column]
    nf.syncthreads()
    column = nf.blockIdx.y * 8 + nf.threadIdx.x
    row = nf.blockIdx.x * 8 + nf.threadIdx.y
    if row < y.shape[0] and column < y.shape[1]:
        y[row, column] = tile[nf.threadIdx.x, nf.threadIdx.y]


@nf.rawkernel
def shifted(x, y, shift):
    i = nf.grid(1)
    if i + shift < x.shape[0]:
        y[i] = x[i + shift]


def checks():
    """Name, what was found, what was expected."""
    for dtype in ("float32", "float16", "float64", "int8", "complex64"):
        x, y = np.arange(100).astype(dtype), np.zeros(100, dtype)
        square((2,), (32,), (x, y))
        with np.errstate(all="ignore"):
            yield f"square of {dtype}", y, x*x
    x, y, dx, dy = (np.arange(100.0), np.zeros(100), np.ones(100), np.full(100, 3.0))
    square.bwd((2,), (32,), ((x, dx), (y, dy)))
    yield "gradient", np.stack([dx, dy]), np.stack([1 + 6*x, 0*x])
    square.fwd((2,), (32,), ((x, dx), (y, dy)))
    yield "tangent", np.stack([y, dy]), np.stack([x*x, 2*x*dx])
    x, sums = np.arange(192, dtype=np.float32)[::-1], np.zeros(3, np.float32)
    block_sums((3,), (64,), (x, sums))
    yield "sums of blocks", sums, x.reshape(3, 64).sum(1)
    out, t = np.zeros((4, 64), np.int64), np.arange(64)
    shuffles((1,), (64,), (out,))
    lane = t % 32
    yield "shuffles", out, np.stack([t - lane + 5, np.where(lane < 3, t, t - 3),
                                     np.where(lane > 28, t, t + 3), t ^ 9])
    for dtype in ("int32", "float32", "float16"):
        cells, old = np.zeros(6, dtype), np.zeros(96, dtype)
        atomics((3,), (32,), (cells, old))
        yield f"atomics of {dtype}", cells[[0, 1, 2, 3, 5]], [96, 95, -95, 7, 192]
        yield f"winner of {dtype}", 1 <= cells[4] <= 96, True
        yield f"old values of {dtype}", np.sort(old), np.arange(96)
    x = np.arange(13.0*21).reshape(13, 21)
    y = np.zeros((21, 13))
    transpose((3, 2), (8, 8), (x, y))
    yield "transpose", y, x.T
    y = np.zeros((13, 21))
    transpose((2, 3), (8, 8), (x.T, y.T.T))
    yield "transpose of any strides", y, x
    with config.override(debug=True):
        y = np.zeros((21, 12))
        transpose((3, 2), (8, 8), (x, np.zeros((21, 13))))
        try:
            shifted((1,), (32,), (x[0], y[0], 3))
            yield "an index outside", "not found", ""
        except RangeError as error:
            yield "an index outside", "'y' is out of bounds for axis 0" in str(error), \
                True
        yield "what lies inside", y[0], np.arange(12) + 3


def main() -> None:
    warnings.simplefilter("ignore")
    failures = done = 0
    with nf.use_backend(simulated.simulate()):
        for name, found, expected in checks():
            done += 1
            if not np.array_equal(found, expected):
                failures += 1
                print(f"{name}: {found} is not {expected}")
    print(f"{done} checks, {failures} failures")


if __name__ == "__main__":
    main()
