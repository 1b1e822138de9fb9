"""Rules of functions on arrays: what they add to is a gradient, never the data."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NotDifferentiableError
from nbfused.scalar.autodiff.differentiate import vjp
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.source.structure import Array
from tests.refusal import refused

X = np.array([1.0, 2.0, 3.0, 4.0])
INDEX = np.array([0, 2, 2, 1])


@nf.func
def get(x, i):
    return x[i]


@get.defvjp
def get_vjp(x, i, g):
    nf.atomic_add(x, i, 10 * x[i] * g)  # reads the data, adds to the gradient


@get.defjvp
def get_jvp(x, i, dx, di):
    return 10 * x[i] * dx[i]


@nf.func
def put(y, i, value):
    y[i] = 2 * value


@put.defvjp
def put_vjp(y, i, value):
    g = 7 * y[i]  # of what the function writes, its cotangent
    y[i] = 0.0
    return 0.0, g * value


@nf.rawkernel(differentiable=True)
def gathered(x, index, y):
    i = nf.grid(1)
    if i < y.shape[0]:
        y[i] = 2 * get(x, index[i])


@nf.rawkernel(differentiable=True)
def stored(x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        put(y, i, x[i])


def expected(g):
    """Ten times what is read, for each time that it is."""
    found = np.zeros(4)
    np.add.at(found, INDEX, 2 * 10 * X[INDEX] * g)
    return found


def on(device, *arrays):
    return [nf.array(a, device=device) for a in arrays]


G = np.array([1.0, 10.0, 100.0, 1000.0])


def test_what_a_rule_adds_to_is_the_derivative(device):
    x, index, dx, y, dy = on(device, X, INDEX, 0 * X, 0 * X, G)
    gathered[1, 4](x, index, y)
    np.testing.assert_array_equal(nf.to_numpy(y), 2 * X[INDEX])
    gathered.bwd[1, 4]((x, dx), index, (y, dy))
    np.testing.assert_array_equal(nf.to_numpy(dx), expected(G))
    np.testing.assert_array_equal(nf.to_numpy(x), X)


def test_nothing_is_added_where_no_derivative_is_wanted(device):
    @nf.rawkernel(differentiable=True)
    def product(x, w, y):
        i = nf.grid(1)
        y[i] = get(x, i) * w[i]

    x, w, dw, y, dy = on(device, X, X, 0 * X, 0 * X, G)
    product.bwd[1, 4](x, (w, dw), (y, dy))
    np.testing.assert_array_equal(nf.to_numpy(dw), X * G)
    np.testing.assert_array_equal(nf.to_numpy(x), X)


def test_as_an_operation(device):
    op = gathered.as_op(outputs={"y": "x"}, grid=1, block=4)
    x, index, g = on(device, X, INDEX, G)
    found = nf.grad(lambda x: (op(x, index) * g).sum())(x)
    np.testing.assert_array_equal(nf.to_numpy(found), expected(G))


def test_in_the_derivative_of_a_function():
    """The arrays of cotangents are parameters, as without a rule."""
    def twice(x, i):
        return 2 * get(x, i)

    function = parse(twice, parameters={"x": Array(1), "i": None})
    backward = vjp(function, (True, False), (True,), False, ("x",))
    x, dx = X.copy(), np.zeros(4)
    evaluate(backward, x, INDEX, G, dx)
    np.testing.assert_array_equal(dx, expected(G))
    np.testing.assert_array_equal(x, X)


def test_elementwise_kernels(device):
    kernel = nf.ElementwiseKernel("raw T x, int64 k", "T y", lambda x, k: 2 * get(x, k))
    x, index, g = on(device, X, INDEX, G)
    found = nf.grad(lambda x: (kernel(x, index) * g).sum())(x)
    np.testing.assert_array_equal(nf.to_numpy(found), expected(G))


def test_the_cotangent_of_a_raw_output_stays_as_it_was(device):
    """The rule takes away what it has read; the array is the caller's."""
    kernel = nf.ElementwiseKernel("raw T x", "raw T y",
                                  lambda x, y, i: put(y, i, x.load(i)))
    x, g = on(device, X, G)
    v = nf.Variable(x, requires_grad=True)
    kernel(v, size=4).backward(g)
    np.testing.assert_array_equal(nf.to_numpy(v.grad), 7 * G * X)
    np.testing.assert_array_equal(nf.to_numpy(g), G)


def test_tangents_of_arrays(device):
    x, index, dx, y, dy = on(device, X, INDEX, G, 0 * X, 0 * X)
    gathered.fwd[1, 4]((x, dx), index, (y, dy))
    np.testing.assert_array_equal(nf.to_numpy(dy), 20 * (X * G)[INDEX])
    gathered.fwd[1, 4](x, index, (y, dy))  # x without one
    np.testing.assert_array_equal(nf.to_numpy(dy), 0)


def test_tangents_of_arrays_that_a_rule_does_not_take():
    @nf.func
    def read(x, i):
        return x[i]

    @read.defjvp
    def rule(x, i, di):
        return 0.0 * di

    @nf.rawkernel(differentiable=True)
    def kernel(x, y):
        i = nf.grid(1)
        y[i] = read(x, i)

    with refused(NotDifferentiableError, "jvp rule of read", "'x'",
                 "arrays of tangents"):
        kernel.fwd[1, 4]((X, X), (0 * X, 0 * X))
    with refused(NotDifferentiableError, "read", "takes arrays", "vjp rule as well"):
        kernel.bwd[1, 4]((X, 0 * X), (0 * X, G))


def test_a_function_that_returns_nothing_has_a_rule(device):
    x, dx, y, dy = on(device, X, 0 * X, 0 * X, G)
    stored[1, 4](x, y)
    np.testing.assert_array_equal(nf.to_numpy(y), 2 * X)
    stored.bwd[1, 4]((x, dx), (y, dy))
    np.testing.assert_array_equal(nf.to_numpy(dx), 7 * G * X)
    np.testing.assert_array_equal(nf.to_numpy(dy), 0)
    np.testing.assert_array_equal(nf.to_numpy(y), 2 * X)
    with refused(NotDifferentiableError, "put", "vjp rule only", "jvp rule as well"):
        stored.fwd[1, 4]((x, dx), (y, dy))


def test_cotangents_that_are_not_given_are_zero(device):
    @nf.rawkernel(differentiable=True)
    def both(x, y, z):
        i = nf.grid(1)
        put(y, i, x[i])
        z[i] = x[i]

    x, dx, y, z, dz = on(device, X, 0 * X, 0 * X, 0 * X, G)
    both.bwd[1, 4]((x, dx), y, (z, dz))
    np.testing.assert_array_equal(nf.to_numpy(dx), G)
    np.testing.assert_array_equal(nf.to_numpy(y), 0)


def test_an_array_that_a_function_reads_and_writes():
    @nf.func
    def add_to(y, i, value):
        y[i] = y[i] + value

    @add_to.defvjp
    def rule(y, i, value):
        return 0.0, y[i]

    @nf.rawkernel(differentiable=True)
    def kernel(x, y):
        i = nf.grid(1)
        add_to(y, i, x[i])

    with refused(NotDifferentiableError, "add_to reads and writes 'y'",
                 "whole kernel a rule"):
        kernel.bwd[1, 4]((X, 0 * X), (X.copy(), X.copy()))


def test_shared_memory_behind_a_rule(device):
    """A rule adds to its cotangents and takes them; its values are gone by then."""
    @nf.rawkernel(differentiable=True)
    def reversed_(x, y):
        t = nf.threadIdx.x
        values = nf.shared.array(4, "float64")
        put(values, t, x[t])
        nf.syncthreads()
        y[t] = values[3 - t]

    @nf.rawkernel(differentiable=True)
    def read(x, y):
        t = nf.threadIdx.x
        values = nf.shared.array(4, "float64")
        values[t] = x[t]
        nf.syncthreads()
        y[t] = get(values, 3 - t)

    x, dx, y, dy = on(device, X, 0 * X, 0 * X, G)
    reversed_.bwd[1, 4]((x, dx), (y, dy))
    assert nf.to_numpy(dx).tolist() == (7 * G[::-1] * X).tolist()
    with refused(NotDifferentiableError, "an element of 'values"):
        read.bwd[1, 4]((x, dx), (y, dy))


# What a kernel takes, its derivatives and its operation take ------------------------

@nf.rawkernel(differentiable=True)
def weighed(ws, y):
    i = nf.grid(1)
    if i < y.shape[0]:
        y[i] = ws[0][i] * ws[1][i] + ws[2] * ws[0][i]


@pytest.mark.parametrize("form", [
    lambda a, da, b, db: ((a, da), (b, db), 3.0),
    lambda a, da, b, db: (nf.Dual(a, da), [b, db], 3.0),
    lambda a, da, b, db: nf.Dual((a, b, 3.0), (da, db, None))])
def test_tuples_of_arrays(form, device):
    a, da, b, db, y, dy = on(device, X, 0 * X, X[::-1].copy(), 0 * X, 0 * X, G)
    weighed[1, 4]((a, b, 3.0), y)
    np.testing.assert_array_equal(nf.to_numpy(y), X * X[::-1] + 3 * X)
    weighed.bwd[1, 4](form(a, da, b, db), (y, dy))
    np.testing.assert_array_equal(nf.to_numpy(da), (X[::-1] + 3) * G)
    np.testing.assert_array_equal(nf.to_numpy(db), X * G)


def test_tuples_that_do_not_fit():
    for wrong in ((X.copy(),), X.copy(), {"a": X}):
        with refused(KernelTypeError, "'ws' is a pair of tuples", "length 3"):
            weighed.bwd[1, 4](nf.Dual((X, X, 3.0), wrong), (X, X))


def test_pairs_inside_structs_reach_a_rule(device):
    @nf.rawkernel(differentiable=True)
    def scaled(p, y):
        i = nf.grid(1)
        y[i] = p.x[i] * p.w[1][i]

    @scaled.defvjp
    def rule(p, y):
        i = nf.grid(1)
        p.x.derivative[i] += 10 * p.w[1].primal[i] * y.derivative[i]
        p.w[1].derivative[i] += 30 * p.x.primal[i] * y.derivative[i]

    x, dx, w, dw, y, dy = on(device, X, 0 * X, 2 * X, 0 * X, 0 * X, G)
    scaled.bwd[1, 4]({"x": (x, dx), "w": (2.0, (w, dw))}, (y, dy))
    np.testing.assert_array_equal(nf.to_numpy(dx), 20 * X * G)
    np.testing.assert_array_equal(nf.to_numpy(dw), 30 * X * G)
    x, dx, w = on(device, X, 0 * X, 2 * X)
    scaled.bwd[1, 4]({"x": (x, dx), "w": (2.0, w)}, (y, nf.array(G, device=device)))
    np.testing.assert_array_equal(nf.to_numpy(dx), 20 * X * G)


def test_a_rule_uses_an_array_that_came_alone():
    """Its size, by a function, and by other methods than an index."""
    @nf.func
    def add(target, i, value):
        nf.atomic_add(target, i, value)

    @nf.rawkernel(differentiable=True)
    def scaled(x, w, y):
        i = nf.grid(1)
        y[i] = x[i] * w[i]

    @scaled.defvjp
    def rule(x, w, y):
        i = nf.grid(1)
        if i < w.derivative.shape[0]:
            add(w.derivative, i, x.primal[i] * y.derivative[i])
            nf.atomic.add(w.derivative, i, w.derivative.load(i))
            w.derivative.store_once(i, 0.0)
            x.derivative[i] += w.primal.load(i) * y.derivative[i] + w.derivative[i]

    x, dx, w, y, dy = X.copy(), 0 * X, 2 * X, 0 * X, G.copy()
    scaled.bwd[1, 4]((x, dx), w, (y, dy))
    np.testing.assert_array_equal(dx, 2 * X * G)
    np.testing.assert_array_equal(w, 2 * X)
