"""Slang's kernels: launched in its way, differentiated in its way.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import (
    GradientRaceError,
    KernelTypeError,
    NotDifferentiableError,
    ScalarSyntaxError,
)


@nf.rawkernel(differentiable=True)
def square(input, output):
    i = nf.grid(1)
    if i >= input.shape[0]:
        return
    output[i] = input[i] * input[i]


def arrays(device, *values, dtype="float32"):
    return [nf.array(np.asarray(v, dtype), device=device) for v in values]


def host(*found):
    return [nf.to_numpy(f).tolist() for f in found]


def test_l01_early_return(device):
    """2048 threads on 1024 items."""
    (x,) = arrays(device, np.arange(1024))
    y = nf.full(1024, -1, "float32", device=device)
    square((64,), (32,), (x, y))
    np.testing.assert_array_equal(nf.to_numpy(y), np.arange(1024.0)**2)


SECOND = """
import sys, numpy as np, nbfused as nf
sys.path.insert(0, {folder!r})
from own_kernel import k
x = np.zeros(4)
k((1,), (4,), (x,))
print(x.tolist(), nf.cache.stats().compilations)
"""


def test_l02_l37_compiled_once_without_any_toolchain(tmp_path):
    """No compilation in a second process, one where the function has changed."""
    (tmp_path / "own_kernel.py").write_text(
        "import nbfused as nf\nSTEP = 2\n@nf.rawkernel\ndef k(x):\n"
        "    i = nf.grid(1)\n    x[i] = STEP * i\n")

    def run():
        done = subprocess.run(
            [sys.executable, "-c", SECOND.format(folder=str(tmp_path))], text=True,
            capture_output=True, check=True, env={
                "PYTHONPATH": ":".join(p for p in sys.path if p),
                "NBFUSED_CACHE_DIR": str(tmp_path / "cache"), "PATH": str(tmp_path),
                "NBFUSED_BACKEND": "cpu", "PYTHONDONTWRITEBYTECODE": "1"})
        return done.stdout.split("]")

    assert run() == ["[0.0, 2.0, 4.0, 6.0", " 1\n"]
    assert run() == ["[0.0, 2.0, 4.0, 6.0", " 0\n"]
    text = (tmp_path / "own_kernel.py").read_text().replace("STEP = 2", "STEP = 3")
    (tmp_path / "own_kernel.py").write_text(text)
    assert run() == ["[0.0, 3.0, 6.0, 9.0", " 1\n"]


def test_l03_arguments_by_position_and_name(device):
    x, y = arrays(device, [1, 2, 3], [0, 0, 0])
    square[1, 32](x, output=y)
    assert host(y) == [[1, 4, 9]]
    square((1,), (32,), (), output=y, input=y)
    assert host(y) == [[1, 16, 81]]


def test_l04_bind_first_launch_later(device):
    x, y = arrays(device, [1, 2, 3], [0, 0, 0])
    bound = square(input=x, output=y)
    assert host(y) == [[0, 0, 0]]
    bound.launchRaw(blockSize=(32, 1, 1), gridSize=(64, 1, 1))
    assert host(y) == [[1, 4, 9]]
    nf.ops.multiply(y, 0.0, out=y)
    bound.launch(grid=1, block=32)
    assert host(y) == [[1, 4, 9]]
    square.bind(x, y).launch(grid=1, block=32)
    assert host(y) == [[1, 4, 9]]


def test_l05_threads_are_blocks_times_grid(device):
    x, y = arrays(device, np.arange(1024), np.zeros(1024))
    square(input=x, output=y).launchRaw(blockSize=32, gridSize=64)
    np.testing.assert_array_equal(nf.to_numpy(y), np.arange(1024.0)**2)


def test_l06_derivatives_beside_the_kernel(device):
    x, y, dx, dy = arrays(device, range(6), [0]*6, [0]*6, [1]*6)
    square(input=x, output=y).launch(grid=1, block=32)
    assert host(y) == [[0, 1, 4, 9, 16, 25]]
    square.bwd(input=(x, dx), output=(y, dy)).launch(grid=1, block=32)
    assert host(dx) == [[0, 2, 4, 6, 8, 10]]


@pytest.mark.parametrize("pair", [tuple, nf.Dual._make])
def test_l07_pairs(device, pair):
    x, dx, y, dy = arrays(device, [1, 2, 3, 4], [0]*4, [0]*4, [1, 0, 1, 0])
    square.bwd((1,), (32,), (pair((x, dx)), pair((y, dy))))
    assert host(dx) == [[2, 0, 6, 0]]


def test_l08_forward_mode(device):
    x, dx, y, dy = arrays(device, [1, 2, 3, 4], [1, 0, 0, 1], [0]*4, [5]*4)
    square.fwd[1, 32]((x, dx), (y, dy))
    assert host(y, dy) == [[1, 4, 9, 16], [2, 0, 0, 8]]


def test_l09_the_output_gradient_is_consumed(device):
    x, dx, y, dy = arrays(device, [1, 2, 3, 4], [0]*4, [0]*4, [1]*4)
    square.bwd[1, 32]((x, dx), (y, dy))
    assert host(dy) == [[0, 0, 0, 0]]


def test_l09_not_by_operations_on_variables(device):
    op = square.as_op(outputs={"output": "input"}, grid=1, block=32)
    x = nf.Variable(arrays(device, [3, 4])[0], requires_grad=True)
    (seed,) = arrays(device, [1, 10])
    op(x).backward(seed)
    assert host(x.grad, seed) == [[6, 80], [1, 10]]


def test_l10_gradients_accumulate(device):
    x, dx, y, dy = arrays(device, [1, 2], [100, 0], [0]*2, [1]*2)
    for times in (1, 2):
        square.bwd[1, 32]((x, dx), (y, nf.array(dy)))
        assert host(dx) == [[100 + 2*times, 4*times]]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_l11_views(device, dtype):
    @nf.rawkernel
    def scaled(x: nf.DiffView, w: nf.View, y: nf.DiffView):
        i = nf.grid(1)
        if i < x.shape[0]:
            y[i] = w[i] * x[i] * x[i]

    from ml_dtypes import bfloat16
    kind = bfloat16 if dtype == "bfloat16" else dtype
    x, dx, w, y, dy = arrays(device, [1, 2, 3], [0]*3, [1, 10, 0.5], [0]*3, [1]*3,
                             dtype=kind)
    scaled.bwd[1, 32]((x, dx), w, (y, dy))
    assert host(dx) == [[2, 40, 3]]
    with pytest.raises(NotDifferentiableError, match="'w' is a View"):
        scaled.bwd[1, 32]((x, dx), (w, dx), (y, dy))


def test_l11_a_plain_array_gets_no_gradient(device):
    @nf.rawkernel(differentiable=True)
    def product(a, b, y):
        i = nf.grid(1)
        y[i] = a[i] * b[i]

    a, b, da, y, dy = arrays(device, [1, 2], [3, 4], [0]*2, [0]*2, [1]*2,
                             dtype="float64")
    product.bwd[1, 2]((a, da), b, (y, dy))
    assert host(da, b) == [[3, 4], [3, 4]]


def test_l11_float64_against_differences(device):
    @nf.rawkernel(differentiable=True)
    def wave(x, y):
        i = nf.grid(1)
        y[i] = nf.sin(x[i]) * nf.exp(x[i]) + x[i]**3

    op = wave.as_op(outputs={"y": "x"}, grid=1, block=5)
    x = nf.array(np.linspace(-1, 1, 5), device=device)
    nf.testing.gradcheck(op, (x,))


def test_l12_a_function_on_the_tape(device):
    class Square(nf.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            y = nf.zeros(2, "float32", device=device)
            square[1, 32](x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            dx = nf.zeros(2, "float32", device=device)
            square.bwd[1, 32]((x, dx), (x, nf.array(g.data)))
            return dx

    x = nf.Variable(arrays(device, [3, 4])[0], requires_grad=True)
    Square.apply(x).sum().backward()
    assert host(x.grad) == [[6, 8]]


def test_l12_as_op(device):
    op = square.as_op(outputs={"output": "input"}, block=32,
                      grid=lambda input, output: len(input) // 32 + 1)
    x = nf.Variable(arrays(device, [3, 4])[0], requires_grad=True)
    op(x).sum().backward()
    assert host(x.grad) == [[6, 8]]


def test_l13_gradients_are_not_shared(device):
    """Two uses of one operation that consumes its cotangent."""
    op = square.as_op(outputs={"output": "input"}, grid=1, block=32)
    x = nf.Variable(arrays(device, [1, 2])[0], requires_grad=True)
    y = op(x)
    (op(y) + op(x)*y).sum().backward()  # 2 x⁴
    assert host(x.grad) == [[8, 64]]


@nf.rawkernel(differentiable=True)
def box(x, y):
    i, j = nf.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        total, count = 0.0, 0.0
        for di in range(-1, 2):
            for dj in range(-1, 2):
                p, q = i + di, j + dj
                if p >= 0 and p < x.shape[0] and q >= 0 and q < x.shape[1]:
                    total += x.load(p, q)
                    count += 1.0
        y.store(i, j, total / count)


BOX = np.array([[2, 2.5, 3], [3.5, 4, 4.5], [5, 5.5, 6]])
BOX_GRADIENT = np.array([[25, 40, 25], [40, 64, 40], [25, 40, 25]]) / 36


def boxed(kernel, device):
    x, y, dx, dy = arrays(device, np.arange(9).reshape(3, 3), np.zeros((3, 3)),
                          np.zeros((3, 3)), np.ones((3, 3)), dtype="float64")
    kernel[(1, 1), (4, 4)](x, y)
    kernel.bwd[(1, 1), (4, 4)]((x, dx), (y, dy))
    return nf.to_numpy(y), nf.to_numpy(dx)


def test_l16_box_filter(device):
    y, dx = boxed(box, device)
    np.testing.assert_allclose(y, BOX, rtol=1e-15)
    np.testing.assert_allclose(dx, BOX_GRADIENT, rtol=1e-15)


def test_l17_box_filter_with_a_rule(device):
    kernel = nf.rawkernel(differentiable=True)(box.pyfunc)

    @kernel.defvjp
    def rule(x, y):
        i, j = nf.grid(2)
        if i < x.primal.shape[0] and j < x.primal.shape[1]:
            rows = min(i + 1, x.primal.shape[0] - 1) - max(i - 1, 0) + 1
            columns = min(j + 1, x.primal.shape[1] - 1) - max(j - 1, 0) + 1
            g = y.derivative[i, j] / (rows * columns)
            for p in range(max(i - 1, 0), max(i - 1, 0) + rows):
                for q in range(max(j - 1, 0), max(j - 1, 0) + columns):
                    nf.atomic.add(x.derivative, (p, q), g)

    _, dx = boxed(kernel, device)
    np.testing.assert_allclose(dx, BOX_GRADIENT, rtol=1e-15)


def test_l19_host_entry_point(device):
    def run(values):
        (x,) = arrays(device, values)
        y = nf.zeros(x.shape, "float32", device=device)

        @nf.rawkernel
        def squares(x, y):
            i, j = nf.grid(2)
            if i < x.shape[0] and j < x.shape[1]:
                y[i, j] = x[i, j] * x[i, j]

        squares((1, 1), (8, 8), (x, y))
        return nf.to_numpy(y)

    found = run([[0.1407, 0.6594], [-0.8978, -1.7230]])
    np.testing.assert_allclose(found, [[0.0198, 0.4348], [0.8060, 2.9687]], atol=1e-4)


def test_l20_extents_in_a_kernel(device):
    @nf.rawkernel
    def shapes(a, out):
        out[0], out[1], out[2] = a.shape[0], a.shape[1], a.shape[2]
        out[3], out[4] = a.size, a.ndim

    out = nf.zeros(5, "int64", device=device)
    shapes((1,), (1,), (nf.zeros((4, 5, 3), "float32", device=device), out))
    assert host(out) == [[4, 5, 3, 60, 3]]


def test_l21_indexing_by_a_tuple(device):
    @nf.rawkernel
    def read(t, out):
        place = (1, 2, 3)
        out[0] = t[1, 2, 3]
        out[1] = t[place]
        out[2] = t[(1, 2, 3)]

    t = np.arange(120.0).reshape(2, 4, 15)
    (out,) = arrays(device, [0, 0, 0], dtype="float64")
    read((1,), (1,), (nf.array(t, device=device), out))
    assert host(out) == [[t[1, 2, 3]]*3]


def test_l22_filled_by_a_kernel(device):
    @nf.rawkernel
    def fill(a, value):
        i = nf.grid(1)
        if i < a.shape[0]:
            a[i] = value

    a = nf.empty(100, "float32", device=device)
    fill((1,), (128,), (a, 2.5))
    assert set(host(a)[0]) == {2.5}


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


def test_l28_a_load_becomes_an_atomic_addition(device):
    @nf.rawkernel(differentiable=True)
    def gather(x, index, y):
        i = nf.grid(1)
        y[i] = x.load(index[i])

    x, dx, y, dy = arrays(device, [1, 2], [0, 0], [0]*4, [1, 1, 1, 5])
    index = nf.array(np.array([0, 0, 0, 1]), device=device)
    gather.bwd[1, 4]((x, dx), index, (y, dy))
    assert host(dx) == [[3, 5]]


def once(device):
    @nf.rawkernel(differentiable=True)
    def gather(x, index, y):
        i = nf.grid(1)
        if i < y.shape[0]:
            y.store_once(i, 2 * x.load_once(index[i]))

    x, dx, y, dy = arrays(device, [1, 2, 3, 4], [0]*4, [0]*4, [1, 10, 100, 1000])
    return gather, (x, dx), (y, dy)


def test_l29_once(device):
    gather, x, y = once(device)
    index = nf.array(np.array([3, 2, 1, 0]), device=device)
    gather[1, 32](x[0], index, y[0])
    assert host(y[0]) == [[8, 6, 4, 2]]
    with config.override(debug=True):
        gather.bwd[1, 32](x, index, y)
    assert host(x[1]) == [[2000, 200, 20, 2]]


def test_l29_repeats_are_found_under_debug(device):
    gather, x, y = once(device)
    index = nf.array(np.array([3, 2, 2, 0]), device=device)
    with config.override(debug=True), \
            pytest.raises(GradientRaceError, match=r"element \(2,\) of 'x'.*2 times"):
        gather.bwd[1, 32](x, index, y)


def test_l30_where_a_thread_is(device):
    @nf.rawkernel
    def places(out):
        x, y, z = nf.grid(3)
        w, h, _d = nf.gridsize(3)
        flat = (z*h + y)*w + x
        out[flat, 0] = nf.threadIdx.x + 10*nf.blockIdx.x
        out[flat, 1] = nf.threadIdx.y + 10*nf.blockIdx.y
        out[flat, 2] = nf.threadIdx.z + 10*nf.blockIdx.z
        out[flat, 3] = nf.blockDim.x*100 + nf.blockDim.y*10 + nf.blockDim.z
        out[flat, 4] = nf.gridDim.x*100 + nf.gridDim.y*10 + nf.gridDim.z

    grid, block = (3, 2, 4), (5, 3, 2)
    size = tuple(g*b for g, b in zip(grid, block, strict=True))
    out = nf.zeros((np.prod(size), 5), "int32", device=device)
    places(grid, block, (out,))
    nf.synchronize()
    expected = [[x % 5 + 10*(x//5), y % 3 + 10*(y//3), z % 2 + 10*(z//2), 532, 324]
                for z in range(size[2]) for y in range(size[1]) for x in range(size[0])]
    np.testing.assert_array_equal(nf.to_numpy(out), expected)


@nf.func
def cubed(x):
    return x * x * x


def test_l31_a_function_called_from_two_kernels(device):
    @nf.rawkernel
    def one(x, y):
        i = nf.grid(1)
        y[i] = cubed(x[i])

    @nf.rawkernel
    def two(x, y):
        i = nf.grid(1)
        y[i] = cubed(x[i]) + 1

    x, y = arrays(device, [1, 2], [0, 0])
    one((1,), (2,), (x, y))
    assert host(y) == [[1, 8]]
    two((1,), (2,), (x, y))
    assert host(y) == [[2, 9]]


class Pair(NamedTuple):
    A: nf.View[np.float32, 2]
    B: nf.View[np.float32, 2]


@dataclass
class Record:
    A: Any
    B: Any


@nf.rawkernel
def multiply(p: Pair, out):
    i, j = nf.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = p.A[i, j] * p.B[i, j]


@pytest.mark.parametrize("form", [
    Pair, lambda A, B: {"A": A, "B": B}, lambda A, B: {"B": B, "A": A},
    lambda A, B: (A, B), Record])
def test_l32_structs(device, form):
    a, b, out = arrays(device, [[1, 2], [3, 4]], [[10, 20], [30, 40]], np.zeros((2, 2)))
    multiply((1, 1), (8, 8), (form(a, b), out))
    assert host(out) == [[[10, 40], [90, 160]]]


def test_l32_structs_without_an_annotation(device):
    @nf.rawkernel
    def scale(p, out):
        i = nf.grid(1)
        out[i] = p.factor * p.inner.x[i] + p.inner.shift[1]

    x, out = arrays(device, [1, 2], [0, 0])
    scale((1,), (2,), ({"factor": 3.0, "inner": {"x": x, "shift": (7.0, 1.0)}}, out))
    assert host(out) == [[4, 7]]


@pytest.mark.parametrize("wrong", [
    lambda a: {"A": a}, lambda a: {"A": a, "B": a, "C": a}, lambda a: {"A": a, "b": a},
    lambda a: (a,), lambda a: (a, a, a), lambda a: a, lambda a: 3.0])
def test_l32_wrong_fields(device, wrong):
    (a,) = arrays(device, [[1, 2], [3, 4]])
    with pytest.raises(TypeError, match="'p' must have the fields A, B"):
        multiply((1, 1), (8, 8), (wrong(a), a))


def test_l34_broadcast_arrays(device):
    @nf.rawkernel(differentiable=True)
    def double(x, y):
        i, j = nf.grid(2)
        if i < y.shape[0] and j < y.shape[1]:
            y[i, j] = 2 * x[i, j]

    (row,) = arrays(device, [[1, 2, 3, 4]])
    wide = nf.ops.broadcast_to(row, (3, 4))
    y = nf.zeros((3, 4), "float32", device=device)
    double((1, 1), (8, 8), (wide, y))
    assert host(y) == [[[2, 4, 6, 8]]*3]
    (column,) = arrays(device, np.zeros((3, 4)))
    with pytest.raises(ValueError, match="'y'"):
        double((1, 1), (8, 8), (y, wide))
    with pytest.raises(ValueError, match=r"'x\[1\]'"):
        double.bwd((1, 1), (8, 8), ((wide, wide), (y, column)))


def test_l35_empty_arrays(device):
    x, y, dx, dy = (nf.zeros(0, "float32", device=device) for _ in range(4))
    square((1,), (32,), (x, y))
    square.bwd((1,), (32,), ((x, dx), (y, dy)))
    assert nf.to_numpy(dx).shape == (0,)
    op = square.as_op(outputs={"output": "input"}, grid=1, block=32)
    v = nf.Variable(x, requires_grad=True)
    op(v).sum().backward()
    assert nf.to_numpy(v.grad).shape == (0,)


def test_l36_half_precision(device):
    x, y = arrays(device, [1, 2, 3, 4], [0]*4, dtype="float16")
    square((1,), (32,), (x, y))
    assert nf.to_numpy(y).dtype == np.float16
    assert host(y) == [[1, 4, 9, 16]]


def test_l36_derivatives_in_float32_of_half_arrays(device):
    """A buffer that does not round at every addition."""
    @nf.rawkernel(differentiable=True)
    def spread(x, y):
        i = nf.grid(1)
        y[i] = x[0]

    (x,), (dx,) = arrays(device, [1], dtype="float16"), arrays(device, [0])
    y, dy = arrays(device, np.zeros(4096), np.ones(4096), dtype="float16")
    spread.bwd[4, 1024]((x, dx), (y, dy))
    assert host(dx) == [[4096]]
    op = spread.as_op(outputs={"y": ((4096,), "float16")}, grid=4, block=1024)
    v = nf.Variable(x, requires_grad=True)
    op(v).backward(nf.array(np.ones(4096, np.float16), device=device))
    assert nf.to_numpy(v.grad).dtype == np.float16
    assert host(v.grad) == [[4096]]


def test_l39_dynamic_loops(device):
    """A branch in a loop of 32, as Warp tests it: 2, 4, 6, 8 in blocks of 8."""
    @nf.rawkernel(differentiable=True)
    def pieces(x, n, y):
        total = 0.0
        for i in range(n):
            if i < 16:
                if i < 8:
                    total += x[i] * 2.0
                else:
                    total += x[i] * 4.0
            elif i < 24:
                total += x[i] * 6.0
            else:
                total += x[i] * 8.0
        y[0] = total

    x, dx, y, dy = arrays(device, np.ones(32), np.zeros(32), [0], [1])
    pieces.bwd[1, 1]((x, dx), 32, (y, dy))
    np.testing.assert_array_equal(nf.to_numpy(dx), np.repeat([2, 4, 6, 8], 8))


def test_l39_while(device):
    @nf.rawkernel(differentiable=True)
    def powers(x, y):
        i = nf.grid(1)
        value, n = 1.0, 0
        while n < i:
            value *= x[0]
            n += 1
        y[i] = value

    x, dx, y, dy = arrays(device, [2], [0], [0]*5, [1]*5, dtype="float64")
    powers.bwd[1, 5]((x, dx), (y, dy))
    assert host(dx) == [[0 + 1 + 2*2 + 3*4 + 4*8]]


def refusals():
    @nf.rawkernel(differentiable=True)
    def in_place(x, y):
        i = nf.grid(1)
        x[i] = x[i] * x[i]
        y[i] = x[i]

    @nf.rawkernel(differentiable=True)
    def through_shared(x, y):
        i = nf.threadIdx.x
        s = nf.shared.array(32, "float32")
        s[i] = x[i]
        nf.syncthreads()
        y[i] = s[31 - i]

    @nf.rawkernel(differentiable=True)
    def through_a_shuffle(x, y):
        i = nf.threadIdx.x
        y[i] = nf.shfl_xor_sync(0xffffffff, x[i], 1)

    return [in_place, through_shared, through_a_shuffle]


@pytest.mark.parametrize("kernel", refusals(), ids=lambda k: k.__name__)
def test_l39_what_has_no_derivative_is_refused(device, kernel):
    x, dx, y, dy = (nf.zeros(32, "float32", device=device) for _ in range(4))
    kernel((1,), (32,), (x, y))
    with pytest.raises(NotDifferentiableError, match=rf"\.py:\d+: {kernel.__name__}"):
        kernel.bwd((1,), (32,), ((x, dx), (y, dy)))


def test_l40_no_cast_behind_the_scenes(device):
    @nf.rawkernel
    def typed(x: nf.DiffView, y: nf.View[np.float32]):
        i = nf.grid(1)
        y[i] = x[i]

    y = nf.zeros(3, "float32", device=device)
    x = nf.array(np.arange(3), device=device)
    with pytest.raises(KernelTypeError, match=r"x.*int64.*x\.astype\('float32'\)"):
        typed((1,), (3,), (x, y))
    with pytest.raises(KernelTypeError, match=r"got int64.*y\.astype\('float32'\)"):
        typed((1,), (3,), (y, x))


def test_unknown_syntax_has_a_name(device):
    @nf.rawkernel
    def wrong(x):
        with x:
            pass

    with pytest.raises(ScalarSyntaxError):
        wrong((1,), (1,), (nf.zeros(1, device=device),))
