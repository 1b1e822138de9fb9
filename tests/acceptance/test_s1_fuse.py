"""CuPy's kernel fusion: a function of arrays in one launch.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NbFusedPerformanceWarning

SQUARES = [81, 49, 25, 9, 1, 1, 9, 25, 49, 81]


def kinds(launches):
    return [launch.kind for launch in launches]


@pytest.fixture
def x(device):
    return nf.array(np.arange(10), device=device)


@pytest.fixture
def y(device):
    return nf.array(np.arange(10)[::-1].copy(), device=device)


def squared_diff(x, y):
    return (x - y) * (x - y)


@pytest.mark.filterwarnings("ignore:fuse.*decorated again")
def test_c40_with_and_without_parentheses(x, y):
    for decorate in (nf.fuse, nf.fuse()):
        fused = decorate(squared_diff)
        with nf.trace_launches() as launches:
            found = fused(x, y)
        assert nf.to_numpy(found).tolist() == SQUARES
        assert kinds(launches) == ["Map"]
        assert type(found) is type(x)


@pytest.mark.filterwarnings("ignore:fuse.*decorated again")
def test_c41_numpy_arrays_and_numbers():
    fused = nf.fuse(squared_diff)
    found = fused(np.arange(10), np.arange(10)[::-1])
    assert type(found) is np.ndarray
    assert found.tolist() == SQUARES
    assert fused(np.arange(3), 1).tolist() == [1, 0, 1]
    assert fused(np.arange(3, dtype="f4"), 1.0).dtype == np.float32
    assert fused(5, 3) == 4  # without an array: the function itself


@pytest.mark.filterwarnings("ignore:fuse.*decorated again")
def test_c41_a_new_number_traces_nothing(x):
    fused = nf.fuse(squared_diff)
    for number in (1, 2, 3):
        found = nf.to_numpy(fused(x, number))
        np.testing.assert_array_equal(found, (np.arange(10) - number) ** 2)
    assert fused.cache_info()[:2] == (2, 1)


def test_c42_cache(x, y, device):
    @nf.fuse
    def f(x, y):
        return x + 2 * y

    f(x, y)
    assert f.cache_info() == (0, 1, 256, 1)
    f(x, y)
    assert f.cache_info() == (1, 1, 256, 1)
    short = nf.array(np.arange(4), device=device)
    f(short, short)  # other extents
    assert f.cache_info() == (2, 1, 256, 1)
    real = nf.array(np.arange(4.0), device=device)
    f(short, real)  # another dtype
    f(nf.array(np.ones((2, 4), int), device=device), short)  # another rank
    assert f.cache_info() == (2, 3, 256, 3)
    f.clear_cache()
    assert f.cache_info() == (0, 0, 256, 0)


def test_c42_decorating_again_warns_once(x):
    def scaled(x):
        @nf.fuse
        def f(x):
            return x * 2 + 1
        return f(x)

    scaled(x)
    with pytest.warns(NbFusedPerformanceWarning, match="decorated again") as caught:
        found = [scaled(x) for _ in range(3)]
    assert len(caught) == 1
    np.testing.assert_array_equal(nf.to_numpy(found[-1]), np.arange(10) * 2 + 1)


@pytest.mark.parametrize("function", [
    lambda x, y: np.sum(x * y, axis=-1), lambda x, y: (x * y).sum(-1),
    lambda x, y: nf.ops.sum(x * y, axis=-1)])
@pytest.mark.filterwarnings("ignore:fuse.*decorated again")
def test_c43_a_reduction_is_one_launch(function, device):
    rng = np.random.default_rng(3)
    a, b = rng.integers(-4, 5, (2, 5, 7)).astype("float32")
    with nf.trace_launches() as launches:
        found = nf.fuse(function)(nf.array(a, device=device),
                                  nf.array(b, device=device))
    assert kinds(launches) == ["Reduce"]
    np.testing.assert_array_equal(nf.to_numpy(found), (a * b).sum(-1))


def test_c43_with_its_gradient(device):
    @nf.fuse
    def f(x, y):
        return np.sqrt(np.sum(x * y, axis=-1))

    a, b = np.random.default_rng(4).uniform(0.5, 2.0, (2, 3, 5))
    x, y = (nf.Variable(nf.array(v, device=device), requires_grad=True)
            for v in (a, b))
    f(x, y).sum().backward()
    root = np.sqrt((a * b).sum(-1, keepdims=True))
    np.testing.assert_allclose(nf.to_numpy(x.grad), b / (2 * root))
    np.testing.assert_allclose(nf.to_numpy(y.grad), a / (2 * root))


def test_c44_kernel_name(x, y):
    @nf.fuse(kernel_name="my_kernel")
    def f(x, y):
        return x * y, (x + y).sum(), np.exp(x[..., ::2])

    with nf.trace_launches() as launches:
        f(x, y)
    assert sorted(launch.name for launch in launches) == ["my_kernel", "sum_my_kernel"]
    assert "def my_kernel(x, y):" in f.source()


class Cube(nf.Function):
    """An op with a derivative of its own, told apart from the generated one."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return nf.Variable(nf.array(x.to_numpy() ** 3, device=x.device))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 300.0 * x * x * g


def test_b15_a_custom_op_does_not_break_the_fusion_around_it(device):
    @nf.fuse
    def f(x, y):
        inside = Cube.apply(x * 2 + 1)
        return (inside - y) * y + 1

    a, b = np.random.default_rng(5).uniform(0.5, 2.0, (2, 4, 3))
    x, y = (nf.Variable(nf.array(v, device=device), requires_grad=True)
            for v in (a, b))
    f(x, y)
    with nf.trace_launches() as launches:
        found = f(x, y)
    assert kinds(launches) == ["Map", "Map"]
    assert f.cache_info().hits == 1
    inside = 2 * a + 1
    np.testing.assert_allclose(found.to_numpy(), (inside ** 3 - b) * b + 1)
    found.sum().backward()
    np.testing.assert_allclose(nf.to_numpy(x.grad), 600 * inside ** 2 * b)
    np.testing.assert_allclose(nf.to_numpy(y.grad), inside ** 3 - 2 * b)


def test_c45_a_product_takes_what_follows_it(device):
    @nf.fuse
    def f(a, b, c):
        return nf.ops.maximum(a @ b + c, 0)

    rng = np.random.default_rng(6)
    a, b, c = (rng.integers(-3, 4, s).astype("float32")
               for s in ((4, 5), (5, 3), (3,)))
    with nf.trace_launches() as launches:
        found = f(*(nf.array(v, device=device) for v in (a, b, c)))
    assert kinds(launches) == ["Contract"]
    np.testing.assert_array_equal(nf.to_numpy(found), np.maximum(a @ b + c, 0))
