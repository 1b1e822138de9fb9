"""Derivatives of kernels against differences, and what they refuse."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import (
    GradientRaceError,
    KernelTypeError,
    NotDifferentiableError,
    ScalarSyntaxError,
    ShapeError,
)


@nf.rawkernel(differentiable=True)
def smooth(x, w, y, n):
    """Neighbours by a weight each; a loop, a branch, several outputs of a thread."""
    i = nf.grid(1)
    if i >= x.shape[0]:
        return
    total = 0.0
    for k in range(-n, n + 1):
        if 0 <= i + k < x.shape[0]:
            total += nf.sin(x[i + k]) * w[k + n]
    y[i, 0] = total
    y[i, 1] = total * x[i]


def data(device, n=2, size=11):
    rng = np.random.default_rng(0)
    return [nf.array(rng.standard_normal(s), device=device)
            for s in (size, 2*n + 1, (size, 2))]


def reference(x, w, n=2):
    padded = np.concatenate([np.zeros(n), np.sin(x), np.zeros(n)])
    total = np.array([padded[i:i + 2*n + 1] @ w for i in range(len(x))])
    return np.stack([total, total*x], axis=1)


def test_both_modes_against_differences(device):
    x, w, y = data(device)
    rng = np.random.default_rng(1)
    tx, tw, g = (rng.standard_normal(nf.to_numpy(a).shape) for a in (x, w, y))
    hx, hw, h = nf.to_numpy(x), nf.to_numpy(w), 1e-6
    slope = (reference(hx + h*tx, hw + h*tw) - reference(hx - h*tx, hw - h*tw)) / (2*h)
    dy = nf.zeros(y.shape, device=device)
    smooth.fwd[2, 8]((x, nf.array(tx, device=device)), (w, nf.array(tw, device=device)),
                     (y, dy), 2)
    np.testing.assert_allclose(nf.to_numpy(y), reference(hx, hw), rtol=1e-13)
    np.testing.assert_allclose(nf.to_numpy(dy), slope, rtol=1e-7, atol=1e-8)
    dx, dw = nf.zeros(x.shape, device=device), nf.zeros(w.shape, device=device)
    cotangent = nf.array(g, device=device)
    smooth.bwd[2, 8]((x, dx), (w, dw), (y, cotangent), 2)
    pulled = nf.to_numpy(dx) @ tx + nf.to_numpy(dw) @ tw
    np.testing.assert_allclose(pulled, (g*slope).sum(), rtol=1e-7)
    assert not nf.to_numpy(cotangent).any()


def test_as_op_passes_gradcheck(device):
    x, w, _ = data(device)
    op = smooth.as_op(outputs={"y": lambda x, w, n: ((x.shape[0], 2), x.dtype)},
                      grid=lambda x, **rest: -(-x.shape[0] // 8), block=8)
    np.testing.assert_allclose(
        nf.to_numpy(op(x, w, 2)), reference(nf.to_numpy(x), nf.to_numpy(w)), rtol=1e-13)
    nf.testing.gradcheck(lambda x, w: op(x, w, n=2), (nf.to_numpy(x), nf.to_numpy(w)),
                         place=lambda a: nf.array(a, device=device))


def test_only_what_is_wanted(device):
    x, w, y = data(device)
    dx = nf.zeros(x.shape, device=device)
    g = nf.full(y.shape, 1.0, device=device)
    smooth.bwd[2, 8]((x, dx), w, (y, g), 2)
    assert nf.to_numpy(dx).any()
    assert smooth.bwd.cached_signatures[-1].count("float64[1]") == 3


@nf.rawkernel(differentiable=True)
def two(x, y, z):
    i = nf.grid(1)
    y[i] = x[i] * x[i]
    z[i] = 3 * x[i]


def test_several_outputs_on_the_tape(device):
    op = two.as_op(outputs={"y": "x", "z": "x"}, grid=1, block=3)
    x = nf.Variable(nf.array([1.0, 2.0, 3.0], device=device), requires_grad=True)
    y, z = op(x)
    (y*z).sum().backward()  # 3 x³
    np.testing.assert_allclose(nf.to_numpy(x.grad), [9, 36, 81])
    x.zero_grad()
    op(x)[1].sum().backward()
    np.testing.assert_allclose(nf.to_numpy(x.grad), [3, 3, 3])


@pytest.mark.parametrize(("call", "message"), [
    (lambda op, x: op(), "takes x; got 0"), (lambda op, x: op(x, x), "takes x; got 2"),
    (lambda op, x: op(w=x), "takes x"), (lambda op, x: op(x, x=x), "takes x; got 1"),
    (lambda op, x: op(3.0), "no argument is an")])
def test_arguments_of_an_op(call, message):
    op = two.as_op(outputs={"y": "x", "z": "x"}, grid=1, block=3)
    with pytest.raises(KernelTypeError, match=message):
        call(op, np.zeros(3))


def test_rules_of_an_op():
    with pytest.raises(KernelTypeError, match="must name parameters"):
        two.as_op(outputs={"w": "x"}, grid=1, block=1)
    with pytest.raises(KernelTypeError, match=r"expected .*shape, dtype"):
        two.as_op(outputs={"y": "w", "z": "x"}, grid=1, block=1)(np.zeros(3))


class Layer(NamedTuple):
    weight: nf.DiffView
    bias: nf.DiffView
    index: nf.View


@nf.rawkernel
def affine(layer: Layer, x: nf.DiffView, y: nf.DiffView):
    i = nf.grid(1)
    if i < y.shape[0]:
        k = layer.index[i]
        y[i] = layer.weight[k] * x[i] + layer.bias[k]


@pytest.mark.parametrize("form", [Layer, lambda w, b, i: (w, b, i), lambda w, b, i: {
    "weight": w, "bias": b, "index": i}])
def test_pairs_inside_structs(device, form):
    w, b, dw, db = (nf.array(np.array(v, float), device=device)
                    for v in ([2, 3], [10, 20], [0, 0], [0, 0]))
    x, dx, y, g = (nf.array(np.array(v, float), device=device)
                   for v in ([1, 2, 3], [0, 0, 0], [0, 0, 0], [1, 10, 100]))
    index = nf.array(np.array([0, 1, 0]), device=device)
    affine((1,), (4,), (form(w, b, index), x, y))
    np.testing.assert_array_equal(nf.to_numpy(y), [12, 26, 16])
    affine.bwd((1,), (4,), (form((w, dw), nf.Dual(b, db), index), (x, dx), (y, g)))
    np.testing.assert_array_equal(nf.to_numpy(dw), [301, 20])
    np.testing.assert_array_equal(nf.to_numpy(db), [101, 10])
    np.testing.assert_array_equal(nf.to_numpy(dx), [2, 30, 200])


def test_rules_by_hand(device):
    @nf.rawkernel(differentiable=True)
    def square(x, y):
        i = nf.grid(1)
        y[i] = x[i] * x[i]

    @square.defvjp
    def pull(x, y):
        i = nf.grid(1)
        x.derivative[i] += 100 * y.derivative[i]

    @square.defjvp
    def push(x, y):
        i = nf.grid(1)
        y.primal[i] = x.primal[i] * x.primal[i]
        y.derivative[i] = -x.derivative[i]

    x, dx, y, dy = (nf.array(np.array(v, float), device=device)
                    for v in ([3, 4], [0, 0], [0, 0], [1, 2]))
    square.bwd[1, 2]((x, dx), (y, dy))
    np.testing.assert_array_equal(nf.to_numpy(dx), [100, 200])
    square.fwd[1, 2]((x, dx), (y, dy))
    np.testing.assert_array_equal(nf.to_numpy(dy), [-100, -200])
    op = square.as_op(outputs={"y": "x"}, grid=1, block=2)
    v = nf.Variable(x, requires_grad=True)
    op(v).sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(v.grad), [100, 100])
    with pytest.raises(KernelTypeError, match="must have its parameters, x, y"):
        square.defvjp(lambda a, b: None)


@pytest.mark.parametrize(("args", "error", "message"), [
    (lambda x, y: (x, y), KernelTypeError, "no argument is a pair"),
    (lambda x, y: ((x, y[:2]), (y, y)), ShapeError, r"'x' has shape \(3,\)"),
    (lambda x, y: ((x, y.astype(int)), (y, y)), KernelTypeError, "must be floating"),
    (lambda x, y: ((x.astype(int), y), (y, y)), NotDifferentiableError, "no floating"),
    (lambda x, y: (x, (y, y), (x, y, x)), ScalarSyntaxError, "a tuple"),
    (lambda x, y: ((x, y), (y, y), 3, 4), KernelTypeError, "too many")])
def test_wrong_pairs(args, error, message):
    x, y = np.zeros(3), np.zeros(3)
    given = args(x, y)
    given = (*given, x) if len(given) == 2 else given
    with pytest.raises(error, match=message):
        two.bwd((1,), (3,), given)


def test_kernels_that_are_not_declared_differentiable():
    kernel = nf.rawkernel(two.pyfunc)
    x = np.zeros(3)
    with pytest.raises(NotDifferentiableError, match="not declared differentiable"):
        kernel.bwd((1,), (3,), ((x, x.copy()), x, x))


def test_nothing_was_written_where_a_derivative_is_refused():
    @nf.rawkernel(differentiable=True)
    def counted(x, y):
        i = nf.grid(1)
        x[i] = x[i] * 2
        y[i] = nf.atomic.add(x, i, 1.0) * x[i]

    x, dx, y, dy = (np.full(3, float(k)) for k in range(1, 5))
    with pytest.raises(NotDifferentiableError):
        counted.bwd((1,), (3,), ((x, dx), (y, dy)))
    assert [a[0] for a in (x, dx, y, dy)] == [1, 2, 3, 4]


@pytest.mark.parametrize("debug", [False, True])
def test_races_cost_nothing_but_under_debug(device, debug):
    @nf.rawkernel(differentiable=True)
    def shift(x, y):
        i = nf.grid(1)
        if i < y.shape[0]:
            y.store_once(i, x.load_once(i + 1) * x.load(0))

    x, dx, y, dy = (nf.array(np.ones(n), device=device) for n in (6, 6, 5, 5))
    with config.override(debug=debug), nf.trace_launches() as launches:
        shift.bwd((1,), (8,), ((x, dx), (y, dy)))
    raw = [launch.name for launch in launches if launch.kind == "Raw"]
    assert raw == (["shift_count"] if debug else []) + ["shift_vjp"]
    np.testing.assert_array_equal(nf.to_numpy(dx), [1 + 5, 2, 2, 2, 2, 2])


def test_elements_that_are_also_loaded_without_a_promise_are_found(device):
    @nf.rawkernel(differentiable=True)
    def scaled(x, y):
        i = nf.grid(1)
        y[i] = x.load_once(i) * x[0]

    x, dx, y, dy = (nf.zeros(4, device=device) for _ in range(4))
    with config.override(debug=True), \
            pytest.raises(GradientRaceError, match=r"element \(0,\) of 'x'.* 5 times"):
        scaled.bwd((1,), (4,), ((x, dx), (y, dy)))


def test_stores_that_repeat_are_found(device):
    @nf.rawkernel(differentiable=True)
    def clash(x, y):
        i = nf.grid(1)
        y.store_once(i // 2, x[i])

    x, dx, y, dy = (nf.zeros(4, device=device) for _ in range(4))
    with config.override(debug=True), \
            pytest.raises(GradientRaceError, match=r"element \(0,\) of 'y'"):
        clash.bwd((1,), (4,), ((x, dx), (y, dy)))


def test_forward_mode_goes_through_shared_memory_shuffles_and_in_place(device):
    @nf.rawkernel(differentiable=True)
    def tangled(x, y):
        t = nf.threadIdx.x
        shared = nf.shared.array(8, "float64")
        x[t] = x[t] * x[t]
        shared[t] = 3 * x[t]
        nf.syncthreads()
        v = shared[7 - t]
        if nf.warpsize == 32:
            v += nf.shfl_xor_sync(0xffffffff, x[t], 1)
        y[t] = v

    x, tangent = np.arange(8.0), np.random.default_rng(0).standard_normal(8)
    given, dx, y, dy = (nf.array(a, device=device)
                        for a in (x, tangent, np.zeros(8), np.zeros(8)))
    tangled.fwd((1,), (8,), ((given, dx), (y, dy)))
    other = np.arange(8) ^ 1
    np.testing.assert_array_equal(nf.to_numpy(y), 3*(x*x)[::-1] + (x*x)[other])
    slope = 2*x*tangent
    np.testing.assert_allclose(nf.to_numpy(dy), 3*slope[::-1] + slope[other],
                               rtol=1e-14)


def test_what_was_added_to_keeps_its_cotangent(device):
    """An addition is undone by reading; only a store consumes."""
    @nf.rawkernel(differentiable=True)
    def scatter(x, index, y):
        i = nf.grid(1)
        nf.atomic.add(y, index[i], x[i] * x[i])

    x, dx, y, dy = (nf.array(np.array(v, float), device=device)
                    for v in ([0, 1, 2, 3], [0]*4, [0]*3, [1, 10, 100]))
    index = nf.array(np.array([0, 2, 2, 1]), device=device)
    scatter((1,), (4,), (x, index, y))
    np.testing.assert_array_equal(nf.to_numpy(y), [0, 9, 5])
    scatter.bwd((1,), (4,), ((x, dx), index, (y, dy)))
    np.testing.assert_array_equal(nf.to_numpy(dx), [0, 200, 400, 60])
    np.testing.assert_array_equal(nf.to_numpy(dy), [1, 10, 100])
