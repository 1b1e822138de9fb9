"""Second derivatives of operations that launch kernels."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NotDifferentiableError
from tests.refusal import refused
from tests.variants import sampled


@nf.rawkernel(differentiable=True)
def smooth(x, w, y, n):
    i = nf.grid(1)
    if i < x.shape[0]:
        p = x[i]
        for k in range(n):
            p = p * x[i] + 0.3 * nf.sin(w[k] * p)
        if p > 0.2:
            y[i, 0] = p * x[i]
        else:
            y[i, 0] = p * p
        y[i, 1] = x[i] * w[0]


@nf.rawkernel(differentiable=True)
def once(x, y, z):
    i = nf.grid(1)
    v = x.load_once(i)
    y.store_once(i, nf.exp(v) * v)
    z[i] = v * v * v


@nf.rawkernel(differentiable=True)
def total(x, w, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        nf.atomic.add(y, i % 2, x[i] * x[i] * w[i % 3])


@nf.rawkernel(differentiable=True)
def neighbours(x: nf.DiffView, shift: nf.View, y: nf.DiffView):
    """Each element is read by three threads."""
    i = nf.grid(1)
    n = x.shape[0]
    if i < n:
        y[i] = x[i] * x[(i + 1) % n] * x[(i + 2) % n] + shift[i] * x[i] * x[i]


OPS = {
    "smooth": (smooth.as_op(outputs={"y": lambda x, w, n: ((x.shape[0], 2), x.dtype)},
                            grid=lambda x, **rest: -(-x.shape[0] // 8), block=8),
               (9, 4)),
    "once": (once.as_op(outputs={"y": "x", "z": "x"}, grid=1, block=5), (5,)),
    "total": (total.as_op(outputs={"y": ((2,), "float64")}, grid=1, block=32), (9, 3)),
    "neighbours": (neighbours.as_op(outputs={"y": "x"}, grid=1, block=32), (7,)),
}
MORE = {"smooth": (3,), "neighbours": (np.linspace(1.0, 2.0, 7),)}


def data(name, device):
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(0.3, 0.9, n) for n in OPS[name][1]]
    more = [nf.array(m, device=device) if isinstance(m, np.ndarray) else m
            for m in MORE.get(name, ())]
    return arrays, more


@pytest.mark.parametrize("name", sampled(OPS, "total", "once"))
def test_S2_second_derivatives_are_differences_of_first_ones(name, device):
    op = OPS[name][0]
    arrays, more = data(name, device)
    nf.testing.gradcheck(lambda *args: op(*args, *more), arrays, order=2,
                         place=lambda a: nf.array(a, device=device))


@pytest.mark.parametrize("name", sampled(["smooth", "total"], "total"))
def test_of_one_argument_only(name, device):
    op = OPS[name][0]
    arrays, more = data(name, device)
    for k in (0, 1):
        nf.testing.gradcheck(lambda *args: op(*args, *more), arrays, order=2,
                             argnums=[k], place=lambda a: nf.array(a, device=device))


def test_the_hessian_of_a_product(device):
    """Of x₀ x₁ x₂ + x₁ x₂ x₀ + x₂ x₀ x₁ + Σ x², by hand."""
    op = OPS["neighbours"][0]
    at = np.array([0.5, 2.0, 3.0])
    x, shift = nf.array(at, device=device), nf.array(np.ones(3), device=device)
    first = nf.grad(lambda x: op(x, shift).sum())
    units = [nf.array(row, device=device) for row in np.eye(3)]
    rows = [nf.to_numpy(nf.grad(lambda x, u=u: (first(x) * u).sum())(x)) for u in units]
    a, b, c = at
    np.testing.assert_allclose(rows, [[2, 3*c, 3*b], [3*c, 2, 3*a], [3*b, 3*a, 2]])


def test_narrow_numbers_are_added_in_wide_ones(device):
    """Of 4096 threads each adds a little to one element."""
    @nf.rawkernel(differentiable=True)
    def shared(x, w, y):
        i = nf.grid(1)
        y[i] = x[i] * w[0] * w[0]

    op = shared.as_op(outputs={"y": "x"}, grid=32, block=128)
    x = nf.array(np.full(4096, 1.0, np.float16), device=device)
    hessian = nf.grad(lambda w: nf.grad(lambda w: op(x, w).sum())(w).sum())
    w = nf.array(np.array([0.5], np.float16), device=device)
    assert float(nf.to_numpy(hessian(w))[0]) == 8192.0


@pytest.mark.parametrize("name", sampled(OPS, "neighbours", "total"))
def test_third_derivatives_are_differences_of_second_ones(name, device):
    op = OPS[name][0]
    arrays, more = data(name, device)
    nf.testing.gradcheck(lambda *args: op(*args, *more), arrays, order=3, samples=3,
                         place=lambda a: nf.array(a, device=device))


def test_derivatives_of_any_order(device):
    """Of exp(w x) x, of which the n-th derivative by x is known."""
    @nf.rawkernel(differentiable=True)
    def grown(x, w, y):
        i = nf.grid(1)
        y[i] = nf.exp(w[i] * x[i]) * x[i]

    op = grown.as_op(outputs={"y": "x"}, grid=1, block=3)
    x, w = np.array([0.3, 0.5, -0.8]), np.array([1.5, -2.0, 0.7])
    function = lambda x: op(x, nf.array(w, device=device))  # noqa: E731
    for n in range(1, 5):
        function = (lambda f: nf.grad(lambda x: f(x).sum()))(function)
        np.testing.assert_allclose(
            nf.to_numpy(function(nf.array(x, device=device))),
            np.exp(w * x) * (w**n * x + n * w ** (n - 1)), rtol=1e-12)


def test_rules_by_hand_are_refused():
    @nf.rawkernel(differentiable=True)
    def square(x, y):
        i = nf.grid(1)
        y[i] = x[i] * x[i]

    @square.defvjp
    def rule(x, y):
        i = nf.grid(1)
        x.derivative[i] += 2.0 * x.primal[i] * y.derivative[i]

    @nf.func
    def clipped(x):
        return min(max(x, -1.0), 1.0)

    @clipped.defvjp
    def straight_through(x, g):
        return g

    @nf.rawkernel(differentiable=True)
    def calls(x, y):
        i = nf.grid(1)
        y[i] = clipped(x[i]) * x[i]

    for kernel in (square, calls):
        op = kernel.as_op(outputs={"y": "x"}, grid=1, block=3)
        first = nf.grad(lambda x, op=op: op(x).sum())
        assert nf.to_numpy(first(np.ones(3))).all()
        with refused(NotDifferentiableError, kernel.__name__, "rule by hand"):
            nf.grad(lambda x, first=first: first(x).sum())(np.ones(3))


@pytest.mark.parametrize("way", ["an operation", "a launch"])
def test_products_of_the_hessian_with_vectors(way, device):
    """They pull a pullback back, which is linear in what it is given."""
    shift = nf.array(np.linspace(1.0, 2.0, 7), device=device)

    def loss(x, w):
        y = x * w
        if way == "an operation":
            y = OPS["neighbours"][0](y, shift)
        else:
            made = nf.Variable(nf.zeros(7, device=device))
            neighbours.launch(y, shift, made, dim=7)
            y = made
        return (y * y * w).sum()

    rng, h = np.random.default_rng(4), 1e-6
    given, along = (rng.uniform(0.3, 0.9, (2, 7)) for _ in "xv")

    def on(arrays):
        return [nf.array(a, device=device) for a in arrays]

    found = nf.hvp(loss, on(given), on(along))
    ends = [nf.grad(loss, argnums=(0, 1))(*on(given + s * along)) for s in (h, -h)]
    for f, up, down in zip(found, *ends, strict=True):
        np.testing.assert_allclose(nf.to_numpy(f), (
            nf.to_numpy(up) - nf.to_numpy(down)) / (2 * h), rtol=1e-6, atol=1e-6)
