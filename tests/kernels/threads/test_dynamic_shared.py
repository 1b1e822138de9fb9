"""Shared arrays of the bytes that a launch gives, and extents of all shared arrays."""

from functools import partial

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, RangeError
from tests.refusal import refused

RANDOM = np.random.default_rng(31)


@nf.rawkernel(differentiable=True)
def turned(x, y):
    """The block's squares, one place on, and the number of them."""
    t, i = nf.threadIdx.x, nf.grid(1)
    tile = nf.shared.array(0, "float64")
    tile[t] = x[i] * x[i]
    nf.syncthreads()
    y[i] = tile[(t + 1) % len(tile)] * tile[t] + tile.size


def reference(x, block):
    squares = x.reshape(-1, block) ** 2
    return (squares * np.roll(squares, -1, axis=1) + block).reshape(-1)


@pytest.mark.parametrize("style", ["cupy", "numba", "slang"])
def test_each_launch_gives_its_own_bytes(style, device):
    x = RANDOM.standard_normal(12)
    for block in (4, 6, 4):
        grid, size = len(x) // block, 8 * block
        y = nf.zeros(len(x), device=device)
        given = nf.array(x, device=device)
        if style == "cupy":
            turned((grid,), (block,), (given, y), shared_mem=size)
        elif style == "numba":
            turned[grid, block, None, size](given, y)
        else:
            turned(x=given, y=y).launch(grid=grid, block=block, shared_mem=size)
        assert np.allclose(nf.to_numpy(y), reference(x, block))


def test_derivatives_equal_differences(device):
    on = partial(nf.array, device=device)
    x, g, h = RANDOM.standard_normal(8), RANDOM.standard_normal(8), 1e-6
    wanted = [(reference(x + h * e, 4) - reference(x - h * e, 4)) @ g / (2 * h)
              for e in np.eye(8)]
    dx, dy = on(np.zeros(8)), on(np.zeros(8))
    turned.bwd[2, 4, None, 32]((on(x), dx), (on(np.zeros(8)), on(g)))
    assert nf.to_numpy(dx) == pytest.approx(wanted, rel=1e-6)
    turned.fwd[2, 4, None, 32]((on(x), on(g)), (on(np.zeros(8)), dy))
    assert nf.to_numpy(dy) @ g == pytest.approx(np.array(wanted) @ g, rel=1e-6)

    op = turned.as_op(outputs={"y": "x"}, grid=2, block=4,
                      shared_mem=lambda x, y: 4 * x.nbytes // len(x))
    v, y = (nf.Variable(on(a), requires_grad=True) for a in (x, 0 * x))
    op(v).backward(on(g))
    assert nf.to_numpy(v.grad) == pytest.approx(wanted, rel=1e-6)
    w, y = nf.Variable(on(x), requires_grad=True), nf.Variable(on(0 * x))
    turned[2, 4, None, 32](w, y)
    y.backward(on(g))
    assert nf.to_numpy(w.grad) == pytest.approx(wanted, rel=1e-6)


def test_extents_of_shared_arrays_are_numbers(device):
    @nf.rawkernel
    def measured(y):
        fixed = nf.shared.array((3, 5), "float32")
        given = nf.shared.array(0, "int16")
        fixed[0, 0] = 0.0
        given[0] = 0
        y[0], y[1], y[2] = fixed.shape[0], fixed.shape[1], len(fixed)
        y[3], y[4] = fixed.strides[0], fixed.strides[1]
        y[5], y[6], y[7] = given.shape[0], given.strides[0], fixed.size

    y = nf.zeros(8, "int64", device=device)
    measured((1,), (1,), (y,), shared_mem=13)
    assert nf.to_numpy(y).tolist() == [3, 5, 3, 20, 4, 6, 2, 15]


def test_what_a_launch_must_give(device):
    @nf.rawkernel
    def twice(x):
        one = nf.shared.array(0, "float32")
        two = nf.shared.array(0, "int32")
        one[0], two[0] = 1.0, 2
        x[0] = one[0] + two[0]

    x, y = (nf.zeros(8, device=device) for _ in range(2))
    line = turned.pyfunc.__code__.co_firstlineno + 4
    for size in (0, 7):
        with refused(RangeError, f"{line}: turned: shared.array(0, 'float64')",
                     f"shared_mem={size} bytes", "expected 8 for each"):
            turned((1,), (8,), (x, y), shared_mem=size)
    with refused(RangeError, "shared_mem=50000 bytes, at most", "launch_config"):
        turned((1,), (8,), (x, y), shared_mem=50_000)
    line = twice.pyfunc.__code__.co_firstlineno + 3
    with refused(KernelTypeError, f"{line}: twice: a second array",
                 f"of line {line - 1}", "fixed size"):
        twice((1,), (1,), (x,), shared_mem=64)
