"""Derivatives of ops through the transforms: two orders, both directions.

At least one op for each skeleton and each way to combine; the oracle is finite
differences in float64.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.testing import gradcheck, gradients

pytestmark = pytest.mark.interpreted


def normal(*shape):
    return np.random.default_rng(len(shape) * 100 + sum(shape)).normal(size=shape)


def positive(*shape):
    return np.random.default_rng(sum(shape)).uniform(0.5, 1.5, size=shape)


LABELS = np.array([0, 3, 1])
CHOICE = np.array([True, False, True])

# A function and its arguments; integers and bools are not differentiated by.
FUNCTIONS = {
    "swish": (ops.swish, [normal(3, 4), positive(4)]),
    "gelu": (ops.gelu, [normal(5)]),
    "softplus": (ops.softplus, [normal(5)]),
    "where": (lambda c, x, y: ops.where(c, x * y, x / y),
              [CHOICE, positive(3), positive(3)]),
    "divide": (ops.divide, [normal(3, 1), positive(1, 4)]),
    "power": (ops.power, [positive(4), normal(4)]),
    "sum": (lambda x: ops.sum(x * x, axis=0), [normal(3, 4)]),
    "mean": (lambda x: ops.mean(ops.exp(x), axis=1, keepdims=True), [normal(3, 4)]),
    "logsumexp": (lambda x: ops.logsumexp(x, axis=1), [normal(3, 4)]),
    "prod": (lambda x: ops.prod(x, axis=1), [positive(3, 4)]),
    "var": (lambda x: ops.var(x, axis=1, ddof=1), [normal(3, 4)]),
    "std": (lambda x: ops.std(x, axis=0), [normal(3, 4)]),
    "norm": (lambda x: ops.norm(x, axis=1), [normal(3, 4)]),
    "max": (lambda x: ops.max(x, axis=1) * ops.min(x, axis=1), [normal(3, 4)]),
    "softmax": (ops.softmax, [normal(3, 4)]),
    "softmax-axis-0": (lambda x: ops.softmax(x, axis=0), [normal(3, 4)]),
    "log_softmax": (ops.log_softmax, [normal(3, 4)]),
    "layer_norm": (ops.layer_norm, [normal(3, 4), positive(4), normal(4)]),
    "rms_norm": (ops.rms_norm, [normal(3, 4), positive(4)]),
    "cross_entropy": (ops.cross_entropy, [normal(3, 4), LABELS]),
    "cross_entropy-smoothed": (
        lambda x, k: ops.cross_entropy(x, k, reduction="sum", label_smoothing=0.1),
        [normal(3, 4), LABELS]),
    "matmul": (ops.matmul, [normal(3, 4), normal(4, 2)]),
    "matmul-epilogue": (
        lambda a, b, c, e: ops.matmul(a, b, bias=c, extras=(e,),
                                      epilogue=lambda acc, e: nf.sigmoid(acc) * e),
        [normal(3, 4), normal(4, 2), normal(2), normal(3, 1)]),
    "matmul-batches": (
        lambda a, b: ops.batched_matmul(a, b, epilogue="tanh", permute=(1, 2, 0)),
        [normal(1, 3, 2), normal(2, 2, 3)]),
    "contract-prologues": (
        lambda a, b: ops.contract("gmk,kgn->gmn", a, b, prologue_a="swish",
                                  prologue_b=lambda x: x * x),
        [normal(2, 3, 2), normal(2, 2, 3)]),
    "take": (lambda x, k: ops.take(x * x, k), [normal(4, 2), LABELS]),
    "views": (lambda x: ops.concatenate(
        [ops.transpose(x)[1:, ::-1] ** 2, ops.reshape(x, (4, 3))[:1]]), [normal(3, 4)]),
    "stack": (lambda x, y: ops.stack([x * y, x], axis=1), [normal(3), positive(3)]),
}
#: Rows whose second derivatives the other rows' are much like.
SIMILAR = ("gelu", "softplus", "mean", "std", "norm", "softmax-axis-0", "log_softmax",
           "rms_norm", "cross_entropy-smoothed")
each_function = pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.variants) if name in SIMILAR else name
    for name in FUNCTIONS])


@pytest.fixture
def put(device):
    return lambda x: nf.array(x, device=device)


def leaf(x, put):
    return nf.Variable(put(x), requires_grad=True)


def of_floats(name, put):
    """The function of its floating arguments alone, and those."""
    function, args = FUNCTIONS[name]
    active = [k for k, a in enumerate(args) if a.dtype.kind == "f"]

    def partial(*chosen):
        given = [None if k in active else put(a) for k, a in enumerate(args)]
        for k, c in zip(active, chosen, strict=True):
            given[k] = c if isinstance(c, nf.Variable) else nf.Variable(c)
        return function(*given)

    return partial, [args[k] for k in active]


@each_function
def test_first_and_second_order(name, put):
    function, args = FUNCTIONS[name]
    gradcheck(function, args, order=2, place=put, tolerance=2e-6)


@each_function
def test_jvp_is_the_derivative_in_a_direction(name, put):
    function, args = of_floats(name, put)
    tangents = [normal(*a.shape, 7)[..., 0] for a in args]
    value, pushed = nf.jvp(function, list(map(put, args)), list(map(put, tangents)))
    np.testing.assert_allclose(
        nf.to_numpy(value), nf.to_numpy(function(*map(put, args))), rtol=1e-13)
    step = 1e-6
    ends = [nf.to_numpy(function(*(put(a + sign * step * t) for a, t in zip(
        args, tangents, strict=True)))) for sign in (1, -1)]
    np.testing.assert_allclose(nf.to_numpy(pushed), (ends[0] - ends[1]) / (2 * step),
                               rtol=1e-6, atol=1e-7)


@each_function
def test_jvp_and_vjp_are_transposed(name, put):
    """g · (J t) = (Jᵀ g) · t."""
    function, args = of_floats(name, put)
    tangents = [normal(*a.shape, 9)[..., 0] for a in args]
    value, pushed = nf.jvp(function, list(map(put, args)), list(map(put, tangents)))
    g = normal(*value.shape, 5)[..., 0]
    _, pull = nf.vjp(function, *map(put, args))
    pulled = pull(put(g))
    ahead = np.sum(g * nf.to_numpy(pushed))
    back = sum(np.sum(nf.to_numpy(p) * t)
               for p, t in zip(pulled, tangents, strict=True))
    np.testing.assert_allclose(ahead, back, rtol=1e-11, atol=1e-12)


@each_function
def test_create_graph(name, put):
    """Gradients are the same numbers, and Variables that can be differentiated."""
    function, args = of_floats(name, put)
    plain = gradients(function, args, place=put)
    leaves = [leaf(a, put) for a in args]
    y = function(*leaves)
    ones = put(np.ones(y.shape))
    y.backward(ones, create_graph=True)
    for x, want in zip(leaves, plain, strict=True):
        assert isinstance(x.grad, nf.Variable)
        np.testing.assert_allclose(x.grad.to_numpy(), want, rtol=1e-12, atol=1e-14)


def test_create_graph_twice(put):
    """x⁴: 4x³, 12x², 24x."""
    x = leaf(np.array([1.0, 2.0]), put)
    y, orders = x * x * x * x, []
    for _ in range(3):
        y.sum().backward(create_graph=True)
        y = x.grad
        orders.append(y.to_numpy().copy())
        x.grad = None
    np.testing.assert_allclose(orders, [[4, 32], [12, 48], [24, 48]], rtol=1e-13)


def test_hessian_of_a_network(put):
    """A column of the Hessian by reverse over reverse and by forward over reverse."""
    a, w = normal(3, 4), normal(4, 2)

    def loss(w):
        return ops.mean(ops.softmax(ops.linear(put(a), w, activation="gelu")) ** 2)

    v = normal(4, 2, 3)[..., 0]
    _, forward = nf.jvp(nf.grad(loss), (put(w),), (put(v),))
    reverse = nf.grad(lambda w: (nf.grad(loss)(w) * put(v)).sum())(put(w))
    step = 1e-5
    ends = [nf.to_numpy(nf.grad(loss)(put(w + sign * step * v))) for sign in (1, -1)]
    for found in (forward, reverse):
        np.testing.assert_allclose(nf.to_numpy(found), (ends[0] - ends[1]) / (2 * step),
                                   rtol=1e-6, atol=1e-9)


BLOCKS = ["swish", "logsumexp", "layer_norm", "matmul-epilogue", "cross_entropy"]


@pytest.mark.parametrize("name", BLOCKS)
def test_checkpoint_gives_the_same_gradients(name, put):
    function, args = of_floats(name, put)
    block = nf.checkpoint(function)
    plain, checkpointed = (gradients(f, args, place=put) for f in (function, block))
    for found, want in zip(checkpointed, plain, strict=True):
        np.testing.assert_array_equal(found, want)
    assert block.recomputed == 1


@pytest.mark.parametrize("name", BLOCKS)
def test_checkpoint_has_a_second_order(name, put):
    function, args = of_floats(name, put)
    gradcheck(nf.checkpoint(function), args, order=2, place=put, tolerance=2e-6)


def test_checkpoint_keeps_no_intermediate_array(put):
    """The chain of ten is run again, and only its input is kept."""

    def chain(x):
        for _ in range(10):
            x = ops.swish(x)
        return x

    launches = []
    for function in (chain, nf.checkpoint(chain)):
        x = leaf(normal(5), put)
        with nf.trace_launches() as found:
            function(x).sum().backward()
        launches.append(len(found))
    assert launches[1] == launches[0] + 10


@pytest.mark.parametrize("op", [ops.argmax, ops.floor, ops.isnan,
                                lambda x: ops.astype(x, "int32")])
def test_what_has_no_derivative_leaves_no_node(op, put):
    y = op(leaf(normal(5), put))
    assert y.grad_fn is None
    assert not y.requires_grad


def test_combines_of_users_have_a_derivative(put):
    @nf.reduction(combine=lambda a, b: a + b + a * b)
    def total(x):
        return x

    x = leaf(normal(5), put)
    total(x).backward()
    factors = 1 + x.to_numpy()  # 1 + total is their product
    np.testing.assert_allclose(nf.to_numpy(x.grad), factors.prod() / factors)
