"""Reverse mode through shared arrays, barriers and shuffles."""

from functools import partial

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import GradientRaceError, NotDifferentiableError
from tests.kernels.threads.shared_kernels import (
    CASES,
    RANDOM,
    WARP,
    across,
    gathered,
    in_place,
)
from tests.refusal import refused
from tests.variants import sampled


def slope(kernel, grid, block, given, seed, device):
    """What ``bwd`` adds to the cotangents of the arrays in `given`."""
    on = partial(nf.array, device=device)
    pairs = [(on(g), on(0 * g)) if np.ndim(g) else g for g in given]
    end = on(seed)
    kernel.bwd[grid, block](*pairs, (on(np.zeros_like(seed)), end))
    assert not nf.to_numpy(end).any()
    return [nf.to_numpy(p[1]) if isinstance(p, tuple) else None for p in pairs]


def check(kernel, grid, block, given, result, device, step=1e-6):
    """Compare it with central differences of the kernel itself."""
    seed = RANDOM.standard_normal(result)

    def total(k, at, h):
        moved = [np.array(g) if np.ndim(g) else g for g in given]
        moved[k][at] += h
        made = nf.array(np.zeros(result), device=device)
        kernel[grid, block](*(nf.array(m, device=device) if np.ndim(m) else m
                              for m in moved), made)
        return (nf.to_numpy(made) * seed).sum()

    for k, found in enumerate(slope(kernel, grid, block, given, seed, device)):
        for at in np.ndindex(np.shape(given[k])) if found is not None else ():
            wanted = (total(k, at, step) - total(k, at, -step)) / (2 * step)
            assert found[at] == pytest.approx(wanted, rel=1e-6, abs=1e-7), (k, at)


@pytest.mark.parametrize("name", sampled(
    CASES, "matmul", "counted", "left early", "the last warp", "a warp's norm"))
def test_equal_differences(name, device):
    check(*CASES[name], device)


@pytest.mark.variants
@pytest.mark.parametrize("lanes", [64, 41])
def test_lanes_that_differ(lanes, device):
    """On the cpu a lane that is not there gives nothing; CUDA leaves it open."""
    if lanes != 64 and device != "cpu":
        pytest.skip("lanes that are not there")
    places, seed = RANDOM.integers(0, 20, 32), RANDOM.standard_normal(lanes)
    on, found = partial(nf.array, device=device), []
    x, zero = WARP[:lanes], np.zeros(lanes)
    dx = on(zero)
    gathered.bwd[1, lanes]((on(x), dx), on(places), (on(zero), on(seed)))
    for along in np.eye(lanes):
        change = on(zero)
        gathered.fwd[1, lanes]((on(x), on(along)), on(places), (on(zero), change))
        found.append(nf.to_numpy(change) @ seed)
    assert nf.to_numpy(dx) == pytest.approx(found, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", sampled(
    ["stencil", "product", "left early", "counted", "a warp's norm"],
    "left early"))
def test_second_derivatives(name, device):
    """Products of the Hessian with a direction, by operations and by launches."""
    kernel, grid, block, (x, *more), result = CASES[name]
    weight = nf.array(RANDOM.standard_normal(result), device=device)
    along = RANDOM.standard_normal(x.shape)
    op = kernel.as_op(outputs={"y": ((result,), "float64")}, grid=grid, block=block)

    def loss(x):
        return (op(x, *more) * weight).sum()

    def launched(x):
        y = nf.Variable(nf.array(np.zeros(result), device=device))
        kernel[grid, block](x, *more, y)
        return (y * weight).sum()

    on = partial(nf.array, device=device)
    ends = [nf.to_numpy(nf.grad(loss)(on(x + s * along))) for s in (1e-5, -1e-5)]
    wanted = (ends[0] - ends[1]) / 2e-5
    for function in (loss, launched):
        found = nf.hvp(function, (on(x),), (on(along),))
        np.testing.assert_allclose(nf.to_numpy(found), wanted, rtol=1e-6, atol=1e-6)


def test_arrays_that_a_block_reads_and_writes(device):
    """Under debug too, which says so where another block touches an element."""
    on = partial(nf.array, device=device)
    x, start, seed = RANDOM.standard_normal((3, 8))
    results = []
    for debug in (False, True):
        dx, dy = on(np.zeros(8)), on(seed)
        with config.override(debug=debug):
            in_place.bwd[2, 4]((on(x), dx), (on(start), dy))
        results.append([nf.to_numpy(dx), nf.to_numpy(dy)])
    found = []
    for direction in np.eye(16).reshape(16, 2, 8):
        change = on(direction[1])
        in_place.fwd[2, 4]((on(x), on(direction[0])), (on(start), change))
        found.append(nf.to_numpy(change) @ seed)
    for result in results:
        np.testing.assert_allclose(np.ravel(result), found, rtol=1e-12)
    with config.override(debug=True), refused(GradientRaceError, "by one block and"):
        across.bwd[2, 4]((on(x), on(seed)), (on(start), on(seed)))


def test_a_16_bit_array_has_cotangents_in_float32(device):
    @nf.rawkernel(differentiable=True)
    def summed(x, y):
        t = nf.threadIdx.x
        tile = nf.shared.array(256, "float16")
        tile[t] = x[t]
        nf.syncthreads()
        total = 0.0
        for k in range(256):
            total += tile[k]
        y[t] = total

    on = partial(nf.array, device=device)
    x = RANDOM.standard_normal(256).astype(np.float16)
    dx = on(np.zeros(256, np.float32))
    summed.bwd[1, 256]((on(x), dx), (on(np.zeros(256, np.float32)),
                                     on(np.full(256, 1 + 2**-10, np.float32))))
    assert (nf.to_numpy(dx) == 256 + 0.25).all()


def test_a_loop_of_barriers_that_some_threads_left_is_refused(device):
    @nf.rawkernel(differentiable=True)
    def left(x, n, y):
        t = nf.threadIdx.x
        if t >= n:
            return
        tile = nf.shared.array(8, "float64")
        for _ in range(3):
            tile[t] = x[t]
            nf.syncthreads()
            y[t] = tile[(t + 1) % 3]

    x, y = (nf.array(np.ones(8), device=device) for _ in range(2))
    with refused(NotDifferentiableError, "a barrier in a loop that not all threads"):
        left.bwd[1, 8]((x, nf.zeros_like(x)), 5, (y, nf.zeros_like(y)))


def test_many_values_that_a_block_has_in_common(device):
    """The ninth of them had the name of a cast on the cpu."""
    @nf.rawkernel
    def common(x, a, y):
        t, b = nf.threadIdx.x, a + 1
        c = b * a + 2
        d = c * b + 3
        e = d * c + 4
        f = e * d + 5
        g = f * e + 6
        h = g * f + 7
        k = h * g + 8
        tile = nf.shared.array(8, "float64")
        tile[t] = x[t]
        nf.syncthreads()
        high = tile[(t + c + d + e + f + g + h) % 8] > 0.5
        nf.syncthreads()
        y[t] = k if high else 1.0 * h

    x, y = RANDOM.uniform(size=8), nf.array(np.zeros(8), device=device)
    common[1, 8](nf.array(x, device=device), 1, y)
    c = [1, 2]
    for n in range(2, 9):
        c.append(c[-1] * c[-2] + n)
    high = [x[(t + sum(c[2:8])) % 8] > 0.5 for t in range(8)]
    assert nf.to_numpy(y).tolist() == [float(c[8] if h else c[7]) for h in high]
