"""Kernels whose threads hand on numbers by shared arrays, barriers and shuffles."""

import numpy as np

import nbfused as nf

RANDOM = np.random.default_rng(24)


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
    low = x[i] < 0.0
    v = x[i] * tile[(t + 2) % 3]
    nf.syncthreads()
    tile[t] = 2.0 * v if low else v * v
    nf.syncthreads()
    if low:
        v += 1.0
    y[i] = tile[t] * tile[(t + 1) % 3] + v


@nf.rawkernel(differentiable=True)
def last_warp(x, y):
    """A tree whose last steps one warp takes, behind barriers of its own."""
    t, i = nf.threadIdx.x, nf.grid(1)
    part = nf.shared.array(64, "float64")
    part[t] = nf.sin(x[i]) + 1.5
    nf.syncthreads()
    if t < 32:
        next_ = t + 32
        step = 16
        v = part[t] * part[next_]
        nf.syncwarp()
        while step > 0:
            part[t] = v
            nf.syncwarp()
            v *= part[t ^ step]
            nf.syncwarp()
            step //= 2
        if t == 0:
            y[nf.blockIdx.x] = v


@nf.rawkernel(differentiable=True)
def left_early_with_places(x, n, y):
    t = nf.threadIdx.x
    tile = nf.shared.array(8, "float64")
    if t >= n:
        return
    place = (t + 1) % 3
    tile[t] = x[t] ** 2
    nf.syncthreads()
    y[place] = tile[place] * x[place]


@nf.rawkernel(differentiable=True)
def by_block(x, n, y):
    """A branch that a block takes as a whole, with a loop of barriers in it."""
    t, b = nf.threadIdx.x, nf.blockIdx.x
    tile = nf.shared.array(4, "float64")
    tile[t] = x[4 * b + t]
    nf.syncthreads()
    if b > 0:
        for _ in range(n):
            v = tile[(t + 1) % 4]
            nf.syncthreads()
            tile[t] = v * v
            nf.syncthreads()
    y[4 * b + t] = tile[t]


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
def in_place(x, y):
    """What threads of a block hand on in an array of the launch."""
    t, i, b = nf.threadIdx.x, nf.grid(1), 4 * nf.blockIdx.x
    for _ in range(3):
        v = y[b + (t + 1) % 4] * x[i]
        nf.syncthreads()
        y[i] = nf.sin(v)
        nf.syncthreads()


@nf.rawkernel(differentiable=True)
def across(x, y):
    i = nf.grid(1)
    v = y[(i + 4) % 8] * x[i]
    nf.syncthreads()
    y[i] = v


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
    "stencil": (stencil, 2, 8, [ROW], 16),
    "transposed": (transposed, 1, (4, 3), [ROW[:12].reshape(3, 4)], (4, 3)),
    "product": (product, 2, 8, [ROW], 2),
    "softmax": (softmax, 2, 8, [ROW], 16),
    "matmul": (matmul, (2, 2), (2, 2), [WARP[:20].reshape(4, 5),
                                        WARP[20:40].reshape(5, 4), 5], (4, 4)),
    "counted": (counted, 2, 8, [ROW], 16),
    "places": (sorted_places, 1, 8, [ROW[:8]], 8),
    "left early": (left_early, 2, 8, [ROW[:11], 11], 11),
    "places that are handed on": (left_early_with_places, 1, 8, [ROW[:3], 3], 3),
    "the last warp": (last_warp, 1, 64, [WARP], 1),
    "by block": (by_block, 2, 4, [ROW[:8], 2], 8),
    "handed on": (handed_on, 1, 4, [ROW[:4], 300], 4),
    "a warp's sum": (warp_sum, 1, 64, [WARP], 64),
    "a warp's norm": (warp_norm, 1, 64, [WARP], 64),
    "running": (running, 1, 64, [WARP], 64),
}
