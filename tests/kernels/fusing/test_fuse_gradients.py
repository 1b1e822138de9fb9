"""`fuse`: derivatives of what is fused, and what has none."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

X = np.random.default_rng(0).normal(size=(3, 4)).astype("f4")
Y = np.random.default_rng(1).normal(size=4).astype("f4")


def test_gradients_through_every_kind_of_launch():
    def f(x, w, s):
        hidden = np.tanh(x @ w * s)
        return ((hidden - hidden.mean(0)) ** 2).sum(1), nf.ops.softmax(hidden).T

    def gradients(call):
        x, w = (nf.Variable(v, requires_grad=True)
                for v in (X.astype("f8"), X.T.astype("f8").copy()))
        a, b = call(x, w, 0.5)
        (a.sum() + (b * b).sum()).backward()
        return x.grad, w.grad

    for found, expected in zip(gradients(nf.fuse(f)), gradients(f), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_joined_reductions_that_save_more_for_the_derivative():
    def reduce(x):
        return x.prod(0), x.max(0), x.sum(0)

    def run(call):
        x = nf.Variable(X.astype("f8"), requires_grad=True)
        results = call(x)
        sum((k + r * r).sum() for k, r in enumerate(results)).backward()
        return [*(r.data for r in results), x.grad]

    for found, expected in zip(run(nf.fuse(reduce)), run(reduce), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_second_derivatives():
    fused = nf.fuse(lambda x: np.sum(np.sin(x) * x, axis=-1))
    x = nf.Variable(Y.astype("f8"), requires_grad=True)
    fused(x).backward(create_graph=True)
    first, x.grad = x.grad, None
    first.sum().backward()
    np.testing.assert_allclose(x.grad, 2 * np.cos(Y.astype("f8"))
                               - Y * np.sin(Y.astype("f8")), rtol=1e-6)


def test_detach_and_custom_rules_stay():
    @nf.custom_vjp
    def clipped(x):
        return x * 1.0

    clipped.defvjp(lambda x: (x * 1.0, ()), lambda _, g: (g.clip(-1.0, 1.0),))
    fused = nf.fuse(lambda x: clipped(x * 2) * 10 + x * x.detach())
    x = nf.Variable(np.array([1.0, 3.0]), requires_grad=True)
    fused(x).sum().backward()
    np.testing.assert_allclose(x.grad, [2 + 1, 2 + 3])


@pytest.mark.parametrize("function", [
    lambda x, w: unrecorded(x) * x * w,
    lambda x, w: w - nf.no_grad()(nf.ops.softmax)(x).T * x])
def test_no_grad_inside(function):
    def gradients(call):
        x, w = (nf.Variable(v, requires_grad=True) for v in (Y.astype("f8"), Y[::-1]))
        call(x, w).sum().backward()
        return x.grad, w.grad

    for found, expected in zip(gradients(nf.fuse(function)), gradients(function),
                               strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def unrecorded(x):
    with nf.no_grad():
        return x * x.mean()


def test_no_grad_around_a_call_is_no_part_of_it():
    fused = nf.fuse(lambda x: unrecorded(x) * x)
    x = nf.Variable(np.array([1.0, 3.0]), requires_grad=True)
    with nf.no_grad():
        assert not fused(x).requires_grad
    fused(x).sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 6.0])
    assert fused.cache_info().hits == 1
