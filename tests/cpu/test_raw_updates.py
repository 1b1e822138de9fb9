"""Updates that need no atomics, and rows of blocks that run as one loop."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.cpu.raw import launcher
from nbfused.cpu.raw.alone import find_lonely
from nbfused.cpu.raw.joined import is_joined
from nbfused.specs import Raw


@pytest.fixture(params=[0, 1], ids=["as launched", "a block a piece"])
def pieces(request, monkeypatch):
    """Launches of any size are divided among the threads of the pool."""
    if request.param:
        monkeypatch.setattr(launcher, "_step", lambda blocks, threads: 1)


@nf.rawkernel(differentiable=True)
def heat(u, v, c):
    j, i = nf.grid(2)
    n, m = u.shape
    if i > 0 and j > 0 and i < n - 1 and j < m - 1:
        v[i, j] = u[i, j] + c * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1]
                                 + u[i, j + 1] - 4 * u[i, j])


@nf.rawkernel(differentiable=True)
def spread(x, y):
    i = nf.grid(1)
    if i < x.shape[0] - 6:
        for k in nf.unroll(range(7)):
            nf.atomic.add(y, i + k, (k + 1) * x[i])


@nf.rawkernel(differentiable=True)
def summed(x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        x[i] += y[i]


@nf.rawkernel
def counted(x, counts):
    i = nf.grid(1)
    if i < x.shape[0]:
        nf.atomic.add(counts, x[i] % 8, 1)


@nf.rawkernel
def transposed(x, y):
    j, i = nf.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        nf.atomic.add(y, (j, i), x[i, j])


@nf.rawkernel
def by_blocks(x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = x[i] + nf.blockIdx.x


def typed(kernel, *arrays):
    """What the last launch of a kernel or derivative was compiled from."""
    kernel((1,), (1,), arrays)
    compiled = list(kernel._compiled.values())[-1]
    assert isinstance(compiled.spec, Raw)
    return compiled.launcher._text.typed


def pair(*shape):
    return np.zeros(shape), np.zeros(shape)


def test_what_needs_no_atomics():
    found = find_lonely(typed(heat.bwd, pair(3, 3), pair(3, 3), 0.1))
    assert found.arrays == {"u_bar", "v_bar"}
    assert found.spreads == {0: 2, 1: 2}
    assert find_lonely(typed(summed.bwd, pair(3), pair(3))).spreads == {0: 0}
    assert find_lonely(typed(spread, *pair(9))).spreads == {0: 6}
    assert find_lonely(typed(spread.bwd, pair(9), pair(9))).arrays == {"x_bar"}
    assert find_lonely(typed(counted, np.zeros(9, int), np.zeros(8, int))) is None
    assert find_lonely(typed(transposed, *pair(3, 3))).spreads == {0: 0, 1: 0}


def test_what_is_joined():
    assert is_joined(typed(heat, np.zeros((3, 3)), np.zeros((3, 3)), 0.1))
    assert is_joined(typed(summed, *pair(3)))
    assert not is_joined(typed(transposed, *pair(3, 3)))
    assert not is_joined(typed(by_blocks, *pair(3)))


@pytest.mark.parametrize(("block", "shape"), [
    ((4, 1), (9, 23)), ((3, 2), (24, 7)), ((32, 8), (40, 70)), ((1, 1), (5, 6))])
def test_scattered_gradients(block, shape, pieces):
    """Whole numbers, of which no sum is rounded."""
    rng, c = np.random.default_rng(0), 2.0
    g = rng.integers(-9, 9, shape).astype(float)
    u_bar, v_bar = np.zeros(shape), g.copy()
    grid = tuple(-(-n // b) for n, b in zip(shape[::-1], block, strict=True))
    u = rng.standard_normal(shape)
    heat.bwd(grid, block, ((u, u_bar), (np.zeros(shape), v_bar), c))
    inside, expected = g.copy(), np.zeros(shape)
    inside[[0, -1]] = inside[:, [0, -1]] = 0
    expected += (1 - 4*c) * inside
    for axis in (0, 1):
        for step in (1, -1):
            expected += c * np.roll(inside, step, axis)
    np.testing.assert_array_equal(u_bar, expected)
    np.testing.assert_array_equal(v_bar, g - inside)
    v = np.zeros(shape)
    heat(grid, block, (u, v, c))
    where = np.s_[1:-1, 1:-1]
    near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    np.testing.assert_allclose(v[where], (u[where] + c * (near - 4 * u[where])))


@pytest.mark.parametrize("block", [1, 4, 256])
def test_many_threads_at_each_element(block, pieces):
    n = 20_000
    x, y = np.arange(n) % 11.0, np.zeros(n)
    spread((-(-n // block),), (block,), (x, y))
    expected = np.zeros(n)
    for k in range(7):
        expected[k:n - 6 + k] += (k + 1) * x[:n - 6]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", ["float16", "int64", "uint8", "complex64"])
def test_other_dtypes(dtype, pieces):
    n = 500
    x, y = (np.arange(n) % 5).astype(dtype), np.zeros(n, dtype)
    spread((n // 4,), (4,), (x, y))
    expected = np.zeros(n, dtype)
    for k in range(7):
        expected[k:n - 6 + k] += ((k + 1) * x[:n - 6]).astype(dtype)
    np.testing.assert_array_equal(y, expected)


def test_memory_under_two_names_takes_atomics(pieces):
    @nf.rawkernel
    def both(x, y, z):
        i = nf.grid(1)
        if i < x.shape[0]:
            nf.atomic.add(y, i, x[i])
            nf.atomic.add(z, i, x[i])

    n = 30_000
    memory, x = np.zeros(2*n), np.ones(n)
    both((n // 4,), (4,), (x, memory[:n], memory[5:n + 5]), check=False)
    expected = np.zeros(2*n)
    expected[:n] += 1
    expected[5:n + 5] += 1
    np.testing.assert_array_equal(memory, expected)
    folded = np.lib.stride_tricks.as_strided(memory, (n,), (0,))
    memory[0] = 0
    both((n // 4,), (4,), (x, folded, memory[n:]), check=False)
    assert memory[0] == n


def test_several_axes(pieces):
    @nf.rawkernel
    def places(x):
        k, j, i = nf.grid(3)
        if i < x.shape[0] and j < x.shape[1] and k < x.shape[2]:
            nf.atomic.add(x, (i, j, k), 100 * i + 10 * j + k)

    x = np.zeros((5, 4, 9))
    places((5, 2, 3), (2, 3, 2), (x,))
    np.testing.assert_array_equal(x, np.add.outer(np.add.outer(
        100 * np.arange(5), 10 * np.arange(4)), np.arange(9)))
