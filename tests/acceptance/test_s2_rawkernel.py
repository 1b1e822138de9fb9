"""Slang's kernels: launched in its way, on structs and views.

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
from nbfused.errors import KernelTypeError, ScalarSyntaxError


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
    column, other = arrays(device, np.zeros((3, 4)), [0, 0, 0, 0])
    with pytest.raises(ValueError, match="'y'"):
        double((1, 1), (8, 8), (y, wide))
    target = nf.ops.broadcast_to(other, (3, 4))
    with pytest.raises(ValueError, match=r"'x\[1\]'"):
        double.bwd((1, 1), (8, 8), ((wide, target), (y, column)))


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


def test_l01_what_is_not_of_the_language_is_named(device):
    @nf.rawkernel
    def wrong(x):
        with x:
            pass

    with pytest.raises(ScalarSyntaxError):
        wrong((1,), (1,), (nf.zeros(1, device=device),))
