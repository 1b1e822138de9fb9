"""Reverse mode through shared arrays, barriers and shuffles."""

import numpy as np
import pytest

import nbfused as nf

RANDOM = np.random.default_rng(24)


def check(kernel, grid, block, given, results, step=1e-6):
    """Compare what ``bwd`` adds with central differences of the kernel itself."""
    given = [np.array(g, np.float64) if np.ndim(g) else g for g in given]
    seeds = [RANDOM.standard_normal(r) for r in results]

    def total(arrays):
        made = [np.zeros(r) for r in results]
        kernel[grid, block](*arrays, *made)
        return sum(float((m * g).sum()) for m, g in zip(made, seeds, strict=True))

    slopes = [np.zeros_like(g) if np.ndim(g) else None for g in given]
    ends = [(np.zeros(r), g.copy()) for r, g in zip(results, seeds, strict=True)]
    kernel.bwd[grid, block](*(g if s is None else (g, s) for g, s in zip(
        given, slopes, strict=True)), *ends)
    assert all(not g.any() for _, g in ends)
    for k, (array, slope) in enumerate(zip(given, slopes, strict=True)):
        if slope is None:
            continue
        for at in np.ndindex(array.shape):
            sides = []
            for h in (step, -step):
                moved = [g.copy() if np.ndim(g) else g for g in given]
                moved[k][at] += h
                sides.append(total(moved))
            wanted = (sides[0] - sides[1]) / (2 * step)
            assert slope[at] == pytest.approx(wanted, rel=1e-6, abs=1e-7), (k, at)


@nf.rawkernel(differentiable=True)
def stencil(x, y):
    t, i = nf.threadIdx.x, nf.grid(1)
    tile = nf.shared.array(10, "float64")
    tile[t + 1] = x[i]
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else 0.0
    if t == 7:
        tile[9] = x[i + 1] if i + 1 < x.shape[0] else 0.0
    nf.syncthreads()
    y[i] = tile[t] * tile[t + 1] + nf.sin(tile[t + 2])


@nf.rawkernel(differentiable=True)
def transposed(x, y):
    a, b = nf.threadIdx.x, nf.threadIdx.y
    tile = nf.shared.array((3, 4), "float64")
    tile[b, a] = x[b, a] ** 2
    nf.syncthreads()
    y[a, b] = tile[b, a] * tile[(b + 1) % 3, a]


@nf.rawkernel(differentiable=True)
def product(x, y):
    """A tree, in place: what it overwrites is needed."""
    t, i = nf.threadIdx.x, nf.grid(1)
    part = nf.shared.array(8, "float64")
    part[t] = x[i]
    nf.syncthreads()
    half = 4
    while half > 0:
        if t < half:
            part[t] *= part[t + half]
        nf.syncthreads()
        half //= 2
    if t == 0:
        y[nf.blockIdx.x] = part[0]


@nf.rawkernel(differentiable=True)
def softmax(x, y):
    t, i = nf.threadIdx.x, nf.grid(1)
    part = nf.shared.array(8, "float64")
    part[t] = x[i]
    nf.syncthreads()
    most = part[0]
    for k in range(1, 8):
        most = max(most, part[k])
    nf.syncthreads()
    part[t] = nf.exp(x[i] - most)
    nf.syncthreads()
    total = 0.0
    for k in range(8):
        total += part[k]
    y[i] = part[t] / total


@nf.rawkernel(differentiable=True)
def matmul(a, b, n, c):
    tx, ty = nf.threadIdx.x, nf.threadIdx.y
    left = nf.shared.array((2, 2), "float64")
    right = nf.shared.array((2, 2), "float64")
    row, column = 2 * nf.blockIdx.y + ty, 2 * nf.blockIdx.x + tx
    total = 0.0
    for k in range((n + 1) // 2):
        inside = 2 * k + tx < n
        left[ty, tx] = a[row, 2 * k + tx] if inside else 0.0
        right[ty, tx] = b[2 * k + ty, column] if 2 * k + ty < n else 0.0
        nf.syncthreads()
        for j in range(2):
            total += left[ty, j] * right[j, tx]
        nf.syncthreads()
    c[row, column] = nf.tanh(total)


@nf.rawkernel(differentiable=True)
def counted(x, y):
    """Sums by atomic operations of a block, which then are read by all."""
    t, i = nf.threadIdx.x, nf.grid(1)
    sums = nf.shared.array(2, "float64")
    if t < 2:
        sums[t] = 0.0
    nf.syncthreads()
    nf.atomic.add(sums, t % 2, x[i] * x[i])
    nf.syncthreads()
    y[i] = x[i] * nf.sqrt(sums[t % 2] + 1.0)


@nf.rawkernel(differentiable=True)
def sorted_places(x, y):
    """Places pass through shared memory; they have no derivative, values do."""
    t = nf.threadIdx.x
    places = nf.shared.array(8, "int32")
    places[7 - t] = t
    nf.syncthreads()
    y[t] = x[places[t]] ** 3


@nf.rawkernel(differentiable=True)
def left_early(x, n, y):
    t, i = nf.threadIdx.x, nf.grid(1)
    tile = nf.shared.array(8, "float64")
    tile[t] = 1.0
    nf.syncthreads()
    if i >= n:
        return
    tile[t] = x[i] * 2.0
    nf.syncthreads()
    y[i] = tile[t] * tile[(t + 1) % 3]


@nf.rawkernel(differentiable=True)
def handed_on(x, n, y):
    """Steps in shared memory, more of them than a loop records."""
    t = nf.threadIdx.x
    now = nf.shared.array(4, "float64")
    now[t] = x[t]
    nf.syncthreads()
    for _ in range(n):
        v = nf.sin(now[(t + 1) % 4]) + 0.5 * now[t]
        nf.syncthreads()
        now[t] = v
        nf.syncthreads()
    y[t] = now[t]


@nf.rawkernel(differentiable=True)
def warp_sum(x, y):
    i = nf.grid(1)
    v = x[i] * x[i]
    step = 16
    while step > 0:
        v += nf.shfl_down_sync(0xffffffff, v, step)
        step //= 2
    total = nf.shfl_sync(0xffffffff, v, 0)
    y[i] = x[i] / total


@nf.rawkernel(differentiable=True)
def warp_norm(x, y):
    i = nf.grid(1)
    v = x[i] ** 2
    for k in range(5):
        v += nf.shfl_xor_sync(0xffffffff, v, 1 << k)
    y[i] = x[i] * nf.sqrt(v)


@nf.rawkernel(differentiable=True)
def running(x, y):
    """A scan, whose lanes read beyond the warp's lower end and choose not to."""
    i, lane = nf.grid(1), nf.laneid
    v = nf.exp(x[i])
    for k in range(5):
        below = nf.shfl_up_sync(0xffffffff, v, 1 << k)
        if lane >= 1 << k:
            v += below
    y[i] = nf.log(v)


@nf.rawkernel(differentiable=True)
def gathered(x, places, y):
    """Lanes that differ, of segments too."""
    i, lane = nf.grid(1), nf.laneid
    v = x[i] ** 2
    a = nf.shfl_sync(0xffffffff, v, places[lane])
    b = nf.shfl_down_sync(0xffffffff, v, 1, width=4)
    c = nf.shfl_up_sync(0xffffffff, a * b, lane % 3)
    d = nf.shfl_xor_sync(0xffffffff, v, 2, width=8)
    y[i] = a * b + c * d


ROW, WARP = RANDOM.standard_normal(16), RANDOM.standard_normal(64)
CASES = {
    "stencil": (stencil, 2, 8, [ROW], [(16,)]),
    "transposed": (transposed, 1, (4, 3), [ROW[:12].reshape(3, 4)], [(4, 3)]),
    "product": (product, 2, 8, [ROW], [(2,)]),
    "softmax": (softmax, 2, 8, [ROW], [(16,)]),
    "matmul": (matmul, (2, 2), (2, 2), [WARP[:20].reshape(4, 5), WARP[20:40].reshape(
        5, 4), 5], [(4, 4)]),
    "counted": (counted, 2, 8, [ROW], [(16,)]),
    "places": (sorted_places, 1, 8, [ROW[:8]], [(8,)]),
    "left early": (left_early, 2, 8, [ROW[:11], 11], [(11,)]),
    "handed on": (handed_on, 1, 4, [ROW[:4], 300], [(4,)]),
    "a warp's sum": (warp_sum, 1, 64, [WARP], [(64,)]),
    "a warp's norm": (warp_norm, 1, 64, [WARP], [(64,)]),
    "running": (running, 1, 64, [WARP], [(64,)]),
}


@pytest.mark.parametrize("name", CASES)
def test_equal_differences(name):
    check(*CASES[name])


@pytest.mark.parametrize("lanes", [32, 41])
def test_lanes_that_differ(lanes):
    places = RANDOM.integers(0, 9, 32)
    x, y, dx = WARP[:lanes], np.zeros(lanes), np.zeros(lanes)
    g = RANDOM.standard_normal(lanes)
    gathered.bwd[1, lanes]((x, dx), places, (y, g.copy()))
    for k in range(lanes):
        along, moved, change = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
        along[k] = 1.0
        gathered.fwd[1, lanes]((x, along), places, (moved, change))
        assert dx[k] == pytest.approx(change @ g, rel=1e-12), k
