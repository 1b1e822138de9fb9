"""`fuse` of whole training steps: derivatives inside of what is fused."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, TapeError

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]


def _loss(w1, b1, w2, b2, x, labels):
    hidden = nf.ops.linear(x, w1, b1, activation="gelu")
    return nf.ops.cross_entropy(nf.ops.linear(hidden, w2, b2), labels)


_both = nf.value_and_grad(_loss, argnums=(0, 1, 2, 3))


def _descend(w1, b1, w2, b2, x, labels, lr):
    loss, gradients = _both(w1, b1, w2, b2, x, labels)
    for parameter, gradient in zip((w1, b1, w2, b2), gradients, strict=True):
        parameter -= lr * gradient
    return loss


def _clip_and_adam(weights, moments, x, labels, lr, step):
    loss, gradients = _both(*weights, x, labels)
    norm = np.sqrt(sum((g * g).sum() for g in gradients))
    factor = np.minimum(1.0, 0.5 / norm)
    for w, g, (m, v) in zip(weights, gradients, moments, strict=True):
        nf.ops.adam_step(w, g * factor, m, v, lr=lr, step=step)
    return loss, norm


def _parameters(device, dtype="f4"):
    rng = np.random.default_rng(0)
    shapes = (32, 24), (24,), (24, 10), (10,)
    return [_on(device, rng.normal(size=s).astype(dtype) * 0.3) for s in shapes]


def _batch(device, rows, dtype="f4"):
    rng = np.random.default_rng(rows)
    return (_on(device, rng.normal(size=(rows, 32)).astype(dtype)),
            _on(device, rng.integers(10, size=rows)))


def _on(device, x):
    """An array of NumPy, or a Variable of one on a GPU: ours have no operators."""
    return x if device == "cpu" else nf.Variable(nf.array(x, device=device))


def _host(tree):
    if isinstance(tree, (tuple, list)):
        return [_host(x) for x in tree]
    return nf.to_numpy(tree)


def _assert_equal(found, expected, rtol):
    for a, b in zip(found, expected, strict=True):
        if isinstance(a, list):
            _assert_equal(a, b, rtol)
        else:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def test_a_step_of_descent(device):
    mine, theirs = _parameters(device), _parameters(device)
    fused = nf.fuse(_descend)
    for rows in (16, 16, 16, 16, 7, 7, 7, 16):
        loss = fused(*mine, *_batch(device, rows), 0.1)
        expected = _descend(*theirs, *_batch(device, rows), 0.1)
        _assert_equal(_host([loss, *mine]), _host([expected, *theirs]), 2e-5)


@pytest.mark.compiled
def test_clipping_and_adam_on_lists(device):
    fused = nf.fuse(_clip_and_adam)
    made = []
    for call in (fused, _clip_and_adam):
        weights = _parameters(device)
        moments = [(nf.zeros_like(w), nf.zeros_like(w)) for w in weights]
        rows = [call(weights, moments, *_batch(device, 16), 1e-2 / step, step)
                for step in range(1, 8)]
        made.append(_host([*rows, weights, moments]))
    _assert_equal(made[0], made[1], 2e-5)


def test_fewer_launches_than_eager(device):
    fused = nf.fuse(_clip_and_adam)
    weights = [nf.Variable(w) if device == "cpu" else w for w in _parameters(device)]
    moments = [(nf.zeros_like(w), nf.zeros_like(w)) for w in weights]
    counts = []
    for call in (_clip_and_adam, *[fused] * 4):
        with nf.trace_launches() as launches:
            call(weights, moments, *_batch(device, 16), 1e-3, 1)
        counts.append(len(launches))
    assert len(set(counts[1:])) == 1  # by its program and by its plan
    assert counts[1] < counts[0]


def test_a_product_stores_into_the_weight_that_it_updates(device):
    fused, weights = nf.fuse(_descend), _parameters(device)
    for _ in range(3):
        with nf.trace_launches() as launches:
            fused(*weights, *_batch(device, 16), 0.1)
        assert "copy" not in [launch.name for launch in launches]


def _energy(x, y):
    return (np.sin(x) * y).sum() + (x * x * y[0]).mean()


X, Y = (np.random.default_rng(k).normal(size=6) for k in (1, 2))
TRANSFORMS = {
    "grad": lambda x, y: nf.grad(_energy)(x, y),
    "of the second argument": lambda x, y: nf.grad(_energy, argnums=1)(x, y),
    "value and both": lambda x, y: nf.value_and_grad(_energy, argnums=(0, 1))(x, y),
    "elementwise": lambda x, y: nf.grad(lambda t: np.tanh(t) * y)(x),
    "second order": lambda x, y: nf.grad(
        lambda t: (nf.grad(_energy)(t, y) * y).sum())(x),
    "vjp": lambda x, y: nf.vjp(lambda t: np.exp(t) * y, x)[1](y)[0],
    "vjp of several": lambda x, y: nf.vjp(
        lambda a, b: (a * b, np.cos(a)), x, y)[1](y, x),
    "jvp": lambda x, y: nf.jvp(lambda t: np.exp(t) * y, (x,), (y,))[1],
    "what does not depend": lambda x, y: nf.grad(lambda t, u: u.sum(), 0)(x, y),
    "twice the same": lambda x, y: nf.grad(
        lambda a, b: (a + b).sum(), argnums=(0, 1))(x, y),
    "aux": lambda x, y: nf.value_and_grad(
        lambda t: ((t * y).sum(), t + y), has_aux=True)(x),
    "between": lambda x, y: np.exp(nf.grad(_energy)(x * 2, y)).sum(),
    "no_grad around": lambda x, y: _without(x, y),
}


def _without(x, y):
    with nf.no_grad():
        return nf.value_and_grad(_energy)(x, y)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_inside(name, device):
    function = TRANSFORMS[name]
    x, y = (_on(device, v) for v in (X, Y))
    fused, expected = nf.fuse(function), function(x, y)
    listed = isinstance(expected, tuple)
    for _ in range(4):
        found = fused(x, y)
        _assert_equal(_host(list(found) if listed else [found]),
                      _host(list(expected) if listed else [expected]), 1e-12)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_inside_can_be_differentiated(name):
    function = TRANSFORMS[name]

    def gradient(call):
        x = nf.Variable(X.copy(), requires_grad=True)
        made = call(x, Y)
        parts = [p for m in (made if isinstance(made, tuple) else (made,))
                 for p in (m if isinstance(m, tuple) else (m,))]
        kept = [p for p in parts if isinstance(p, nf.Variable) and p.requires_grad]
        if not kept:
            return None
        sum((p * p).sum() for p in kept).backward()
        return x.grad

    found, expected = gradient(nf.fuse(function)), gradient(function)
    if expected is None:
        assert found is None or not found.any()
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_gradients_do_not_share_memory():
    fused = nf.fuse(lambda x, y: nf.grad(lambda a, b: (a + b).sum(), (0, 1))(x, y))
    for _ in range(4):
        a, b = fused(X, Y)
        a += 1
        assert a.flags.writeable
        assert not np.shares_memory(a, b)
        np.testing.assert_array_equal(b, np.ones(6))


def test_what_is_differentiated_is_not_changed_in_place():
    def inner(x):
        x += 1
        return (x * x).sum()

    for call in (nf.grad(inner), nf.fuse(nf.grad(inner))):
        with pytest.raises(TapeError, match=r"x \+= y"):
            call(X.copy())


def test_storing_what_is_differentiated_is_refused():
    def store(x, y):
        def inner(t):
            nf.ops.multiply(t, t, out=y)
            return (y * t).sum()

        return nf.grad(inner)(x)

    for call in (store, nf.fuse(store)):
        with pytest.raises(TapeError, match="out"):
            call(X, Y.copy())


def test_what_is_no_array_is_refused():
    with pytest.raises(KernelTypeError, match="argument 0 of <lambda> is a str"):
        nf.fuse(lambda x: nf.grad(lambda t: (x * x).sum())("text"))(X)


@nf.custom_vjp
def _doubled(x):
    return x * 2


_doubled.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 2,))


class _Halved(nf.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 0.5

    @staticmethod
    def backward(ctx, g):
        return g * 0.5


@pytest.mark.parametrize("opaque", [_doubled, lambda x: _Halved.apply(x)])
def test_rules_inside_of_what_is_differentiated_again_are_refused(opaque):
    def inside(x):
        return nf.grad(lambda t: opaque(t).sum())(x)

    with pytest.raises(KernelTypeError, match="fuse what is differentiated"):
        nf.fuse(inside)(nf.Variable(X, requires_grad=True))
    np.testing.assert_allclose(nf.fuse(inside)(X), inside(X))
    np.testing.assert_allclose(nf.grad(nf.fuse(lambda t: opaque(t).sum()))(X),
                               inside(X))
