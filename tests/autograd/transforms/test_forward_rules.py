"""custom_jvp in both modes, stop_gradient, and checkpoints with a policy."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NotDifferentiableError, ShapeError
from nbfused.testing import gradcheck

pytestmark = pytest.mark.interpreted

X, Y = np.array([0.3, 0.4]), np.array([2.0, 3.0])


def made(factor):
    """``sin(x) * y``, whose derivative by x is `factor` times the true one."""
    @nf.custom_jvp
    def f(x, y):
        return np.sin(x) * y

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), factor * np.cos(x) * y * dx + np.sin(x) * dy

    return f


def test_forward_and_reverse_use_the_rule():
    f = made(3.0)
    by_x, by_y = nf.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1))(X, Y)
    np.testing.assert_allclose(by_x, 3 * np.cos(X) * Y)
    np.testing.assert_allclose(by_y, np.sin(X))
    _, pushed = nf.jvp(f, (X, Y), (np.ones(2), np.full(2, 2.0)))
    np.testing.assert_allclose(pushed, 3 * np.cos(X) * Y + 2 * np.sin(X))
    x = nf.Variable(X, requires_grad=True)
    f(x, Y).sum().backward()
    np.testing.assert_allclose(x.grad, 3 * np.cos(X) * Y)
    np.testing.assert_allclose(f(X, Y), np.sin(X) * Y)


def test_second_order():
    f = made(3.0)
    found = nf.hessian(lambda x: f(x, Y).sum())(X)
    np.testing.assert_allclose(found, np.diag(-3 * np.sin(X) * Y))
    gradcheck(made(1.0), (X, Y), order=2)


def test_over_samples():
    f = made(3.0)
    rows = np.stack([X, 2 * X])
    found = nf.vmap(nf.grad(lambda x: f(x, Y).sum()))(rows)
    np.testing.assert_allclose(found, 3 * np.cos(rows) * Y)
    outside = nf.grad(lambda x: nf.vmap(lambda v: f(v, Y).sum())(x).sum())(rows)
    np.testing.assert_allclose(outside, 3 * np.cos(rows) * Y)


def test_several_results_and_arguments_without_tangents():
    @nf.custom_jvp
    def f(x, n, k):
        return x * n, x + k

    @f.defjvp
    def rule(primals, tangents):
        (x, n, k), (dx, dn, dk) = primals, tangents
        assert (dn, dk) == (0.0, 0.0)
        return f(x, n, k), (5.0 * dx, dx)

    k = np.array([1, 2])
    found = nf.grad(lambda x: sum(y.sum() for y in f(x, 2.0, k)))(X)
    np.testing.assert_allclose(found, [6.0, 6.0])


def test_a_rule_that_is_missing_or_wrong():
    f = nf.custom_jvp(lambda x: x * 2.0)
    with pytest.raises(NotDifferentiableError, match=r"call .*\.defjvp\(rule\)"):
        nf.grad(lambda x: f(x).sum())(X)
    f.defjvp(lambda primals, tangents: tangents[0])
    with pytest.raises(ShapeError, match=r"expected .results, tangents."):
        nf.grad(lambda x: f(x).sum())(X)


def test_stop_gradient():
    tree = {"a": X, "b": [Y, "text", 3]}
    found = nf.stop_gradient(tree)
    assert found["b"][1:] == ["text", 3]
    assert found["a"] is X
    g = nf.grad(lambda x: (x * nf.stop_gradient({"x": [x]})["x"][0]).sum())
    np.testing.assert_allclose(g(X), X)
    np.testing.assert_allclose(nf.grad(lambda x: g(x).sum())(X), np.zeros(2))
    fused = nf.fuse(nf.grad(lambda x: (x * nf.stop_gradient(x)).sum()))
    np.testing.assert_allclose(fused(X), X)


W = np.random.default_rng(0).normal(size=(3, 3))


def block(x):
    return np.tanh(np.sin(nf.ops.matmul(x, W)) @ W)


def backward(policy):
    x = nf.Variable(W + 1.0, requires_grad=True)
    f = block if policy == "all" else nf.checkpoint(block, policy=policy)
    loss = (f(x) ** 2).sum()
    with nf.trace_launches() as launches:
        loss.backward()
    return x.grad, [launch.name for launch in launches]


def test_what_a_policy_saves_is_not_computed_again():
    """A full recomputation has two products more; their saved results none."""
    want, plain = backward("all")
    whole, again = backward(None)
    kept, fewer = backward(["contract"])
    names, same = backward(lambda kind, name: kind == "contract")
    products = [sum("contract" in n for n in launches)
                for launches in (plain, again, fewer, same)]
    assert products[1:] == [products[0] + 2, products[0], products[0]]
    assert sum("sin" in n for n in fewer) == sum("sin" in n for n in again)
    for found in (whole, kept, names):
        np.testing.assert_array_equal(found, want)


def test_a_policy_at_second_order():
    f = nf.checkpoint(block, policy=["contract"])
    point = W[0]
    found = nf.hessian(lambda x: f(x).sum())(point)
    np.testing.assert_allclose(found, nf.hessian(lambda x: block(x).sum())(point))


def test_a_policy_as_decorator_and_wrong_ones():
    @nf.checkpoint(policy=["sin"])
    def f(x):
        return np.sin(x) * x

    np.testing.assert_allclose(nf.grad(lambda x: f(x).sum())(X),
                               np.cos(X) * X + np.sin(X))
    for policy in ("contract", 3, [3]):
        with pytest.raises(KernelTypeError, match=r"policy=.'contract'."):
            nf.checkpoint(block, policy=policy)


def test_saved_results_are_watched():
    kept = []

    def f(x):
        y = np.sin(x)
        kept.append(y)
        return y * x

    x = nf.Variable(X, requires_grad=True)
    loss = nf.checkpoint(f, policy=["sin"])(x).sum()
    nf.ops.fill(kept[0].detach(), 0.0)
    with pytest.raises(nf.errors.InplaceModificationError, match="result of sin"):
        loss.backward()
