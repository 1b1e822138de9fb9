"""Functions with rules of their own, and `backward`, inside of fused functions."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

RNG = np.random.default_rng(0)


@nf.custom_vjp
def clipped(x):
    return x * 1.0


clipped.defvjp(lambda x: (clipped(x), (x,)),
               lambda kept, g: (g.clip(-1.0, 1.0) * kept[0],))


@nf.custom_vjp
def hosted(x):
    return nf.Variable(np.tanh(x.to_numpy()))


hosted.defvjp(lambda x: (hosted(x), float(x.to_numpy().max())),
              lambda top, g: (g * top,))


class Product(nf.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return 2 * x * y * g + h, x * x * g + h


class Sorted(nf.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return nf.Variable(np.sort(x.to_numpy()))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        found = np.empty(x.shape)
        found[np.argsort(x.to_numpy())] = g.to_numpy()
        return nf.Variable(found)


PROGRAMS = {
    "custom_vjp": lambda x, w: nf.grad(lambda t: (clipped(t * 2) * w).sum())(x),
    "a number of the residuals": lambda x, w: nf.grad(
        lambda t: (hosted(nf.ops.multiply(t, 2)) * w).sum())(x),
    "Function": lambda x, w: nf.grad(
        lambda t: sum((r * w).sum() for r in Product.apply(t, t * 2)))(x),
    "Function on the host": lambda x, w: nf.grad(
        lambda t: (Sorted.apply(t * 2) * w * t).sum())(x),
    "not differentiated": lambda x, w: clipped(x) * 2 + Sorted.apply(x) * w,
    "a second derivative": lambda x, w: nf.grad(lambda u: nf.grad(
        lambda t: (Product.apply(t * 2, t)[0] * w).sum())(u).sum())(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rules_are_as_without_fuse(name):
    function = PROGRAMS[name]
    fused = nf.fuse(function)
    for _ in range(5):
        x, w = RNG.normal(size=(2, 6))
        on_variables = [nf.Variable(v) for v in (x, w)]
        np.testing.assert_allclose(
            fused(x, w), function(*on_variables).to_numpy(), rtol=1e-12)
    assert fused.cache_info().misses == 1


def test_rules_that_can_be_traced_are_no_calls():
    for name, calls in (("custom_vjp", 0), ("Function", 0), ("a second derivative", 0),
                        ("Function on the host", 2)):
        found = nf.fuse(PROGRAMS[name]).explain(*RNG.normal(size=(2, 6)))
        assert sum(one.kind == "call" for one in found) == calls, name


def test_what_a_rule_reads_is_not_forgotten(monkeypatch):
    """A number that the rule reads is part of the key."""
    monkeypatch.setitem(globals(), "FACTOR", 2.0)

    @nf.custom_vjp
    def scaled(x):
        return x * FACTOR  # noqa: F821

    scaled.defvjp(lambda x: (scaled(x), ()),
                  lambda _, g: (g * FACTOR * 10,))  # noqa: F821
    fused = nf.fuse(lambda x: nf.value_and_grad(lambda t: scaled(t).sum())(x))
    for factor in (2.0, 3.0, 3.0, 4.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        value, gradient = fused(np.ones(3))
        assert (float(value), gradient.tolist()) == (3 * factor, [factor * 10] * 3)


def test_a_second_derivative_of_a_call_is_refused():
    def twice(x):
        return nf.grad(lambda u: nf.grad(lambda t: (Sorted.apply(t * 2) * t).sum())(
            u).sum())(x)

    with pytest.raises(KernelTypeError, match="Sorted: a second derivative"):
        nf.fuse(twice)(RNG.normal(size=4))


X, Y = RNG.normal(size=(8, 4)), RNG.normal(size=(8, 3))


def _loss(x, y, ws):
    return ((np.tanh(x @ ws[0]) @ ws[1] - y) ** 2).mean()


def descent(ws, rate):
    leaves = [nf.Variable(w, requires_grad=True) for w in ws]
    loss = _loss(X, Y, leaves)
    loss.backward()
    for w, leaf in zip(ws, leaves, strict=True):
        w -= rate * leaf.grad
    return loss.detach()


def through_the_variable(ws, rate):
    leaves = [nf.Variable(w, requires_grad=True) for w in ws]
    _loss(X, Y, leaves).backward()
    with nf.no_grad():
        for leaf in leaves:
            leaf -= rate * leaf.grad
            leaf.zero_grad()
    _loss(X, Y, leaves).backward()
    return [leaf.grad for leaf in leaves]


def accumulated(ws, rate):
    leaves = [nf.Variable(w, requires_grad=True) for w in ws]
    for _ in range(3):
        (_loss(X, Y, leaves) * rate).backward()
    return [leaf.grad for leaf in leaves]


def twice(ws, rate):
    leaf = nf.Variable(ws[0], requires_grad=True)
    (leaf * leaf * leaf).sum().backward(create_graph=True)
    first = leaf.grad
    leaf.zero_grad()
    (first * first * rate).sum().backward()
    return leaf.grad


def by_the_optimizer(ws, rate):
    leaf = nf.Variable(ws[0], requires_grad=True)
    (leaf * leaf).sum().backward()
    nf.ops.adam_step(leaf.data, leaf.grad, ws[0] * 0, ws[0] * 0, lr=rate, step=1)
    return leaf.grad


def _plain(tree):
    tree = tree if isinstance(tree, list) else [tree]
    return [x.data if isinstance(x, nf.Variable) else x for x in tree]


@pytest.mark.parametrize("function", [
    descent, through_the_variable, accumulated, twice, by_the_optimizer],
    ids=lambda f: f.__name__)
def test_backward_inside(function):
    mine = [RNG.normal(size=(4, 5)), RNG.normal(size=(5, 3))]
    theirs = [w.copy() for w in mine]
    fused = nf.fuse(function)
    for rate in (0.1, 0.2, 0.3, 0.1, 0.2):
        if function is by_the_optimizer:
            expected = [2 * mine[0]]
            found = fused(mine, rate)
            gradient = 2 * theirs[0]  # and Adam's first step
            theirs[0] = theirs[0] - rate * gradient / (np.abs(gradient) + 1e-8)
        else:
            found, expected = fused(mine, rate), function(theirs, rate)
        for f, e in zip(_plain(found), _plain(expected), strict=True):
            np.testing.assert_allclose(f, e, rtol=1e-9)
        for f, e in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(f, e, rtol=1e-6)
    assert fused.cache_info().misses == 1


def test_a_graph_outside_is_refused():
    def outer(w):
        ((w * 2) ** 2).sum().backward()
        return w.grad

    w = nf.Variable(np.ones(3), requires_grad=True)
    with pytest.raises(KernelTypeError, match=r"sum\(\)\.backward\(\)"):
        nf.fuse(outer)(w)
    with pytest.raises(KernelTypeError, match=r"\.grad of an argument"):
        nf.fuse(lambda w: w.data * 2 if w.grad is None else w.data)(w)


def _moving_average(x):
    total = np.cumsum(x * x)
    total[2:] = total[2:] - total[:-2]
    return total[1:] / 2


def _part_of_a_result(x):
    found = np.sort(x)
    part = found[1:3]
    part *= 3.0
    found += 1.0
    return found * part[0]


@pytest.mark.parametrize("function", [
    _moving_average, _part_of_a_result,
    lambda x: operator.imul(np.linalg.solve(np.eye(4) * 2, x), np.arange(4.0)).cumsum(),
    lambda x: abs(operator.imul(np.fft.fft(x), np.arange(4.0))) ** 2])
def test_results_of_what_is_called_are_changed_in_place(function):
    """In a derivative inside of the function, too: they are nobody else's."""
    def loss(x):
        return (function(x) ** 2).sum()

    x = np.array([0.3, -0.5, 1.0, 2.0])
    wanted = [(loss(x + d) - loss(x - d)) / 2e-6 for d in np.eye(4) * 1e-6]
    for slope in (nf.grad(loss), nf.fuse(nf.grad(loss))):
        np.testing.assert_allclose(slope(x), wanted, 1e-5, 1e-6)
