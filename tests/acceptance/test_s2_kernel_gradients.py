"""Slang's kernels, differentiated in its way: pairs, accumulation, atomics.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import GradientRaceError, NotDifferentiableError


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
    nf.testing.gradcheck(op, (nf.to_numpy(x),),
                         place=lambda a: nf.array(a, device=device))


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
    def left_before_a_loop(x, y):
        i = nf.threadIdx.x
        if i > 15:
            return
        s = nf.shared.array(32, "float32")
        for _ in range(2):
            s[i] = x[i]
            nf.syncthreads()
            y[i] = s[15 - i]

    @nf.rawkernel(differentiable=True)
    def an_old_value(x, y):
        i = nf.threadIdx.x
        y[i] = nf.atomic.add(x, i, 1.0) * x[i]

    @nf.rawkernel(differentiable=True)
    def a_maximum_that_is_read(x, y):
        i = nf.threadIdx.x
        nf.atomic.max(y, i, x[i])
        x[i] = y[i]

    return [left_before_a_loop, an_old_value, a_maximum_that_is_read]


@pytest.mark.parametrize("kernel", refusals(), ids=lambda k: k.__name__)
def test_l39_what_has_no_derivative_is_refused(device, kernel):
    x, dx, y, dy = (nf.zeros(32, "float32", device=device) for _ in range(4))
    kernel((1,), (32,), (x, y))
    with pytest.raises(NotDifferentiableError, match=rf"\.py:\d+: {kernel.__name__}"):
        kernel.bwd((1,), (32,), ((x, dx), (y, dy)))
