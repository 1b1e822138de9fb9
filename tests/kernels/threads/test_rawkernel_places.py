"""Places that threads count by atomic operations, and gradients through them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import NotDifferentiableError
from tests.refusal import refused
from tests.variants import sampled_together

RNG = np.random.default_rng(0)


def variable(values, device, grad=True):
    return nf.Variable(nf.array(values, device=device), requires_grad=grad)


@nf.rawkernel(differentiable=True)
def compacted(x, count, out, far):
    """Elements above 0 in the order in which threads come, and some of them twice."""
    i = nf.grid(1)
    if x[i] > 0.0:
        slot = nf.atomic.add(count, 0, 1)
        out[slot] = x[i] * x[i]
        for k in nf.unroll(range(2)):
            if slot < 3 + k:
                other = nf.atomic.add(count, 1, 2)
                far[other] = x[i] * (3.0 + k)
    else:
        out[x.shape[0] - 1 - nf.atomic.add(count, 2, 1)] = x[i]


def test_places_that_threads_count(device):
    """In whatever order they came, the gradient goes back where the value is from."""
    n = 5000
    x = variable(RNG.standard_normal(n), device)
    count = nf.zeros(3, "int64", device=device)
    out, far = (variable(np.zeros(k), device, grad=False) for k in (n, 20))
    compacted.launch(x, count, out, far, dim=n)
    found, rest, start = (nf.to_numpy(v.data) for v in (out, far, x))
    positive = int((start > 0).sum())
    assert nf.to_numpy(count).tolist() == [positive, 14, n - positive]
    weights = [RNG.standard_normal(k) for k in (n, 20)]
    ((out * nf.array(weights[0], device=device)).sum() +
     (far * nf.array(weights[1], device=device)).sum()).backward()
    order = np.argsort(start)
    expected = np.zeros(n)
    roots = np.sqrt(found[:positive]) * (1 - 1e-12)
    where = order[np.searchsorted(start[order], roots)]
    expected[where] = 2 * start[where] * weights[0][:positive]
    below = order[np.searchsorted(start[order], found[positive:])]
    expected[below] = weights[0][positive:]
    for value, weight in zip(rest, weights[1], strict=True):
        for k in (3.0, 4.0):
            expected[start * k == value] += k * weight
    np.testing.assert_allclose(nf.to_numpy(x.grad), expected, rtol=1e-12)


@nf.rawkernel(differentiable=True)
def repeated(x, w, lengths, count, out, most):
    """Each element as often as `lengths` says, and the largest of them."""
    i = nf.grid(1)
    if i < x.shape[0]:
        for k in range(lengths[i]):
            value = x[i] * x[i] * nf.exp(w[0] * k)
            out[nf.atomic.add(count, 0, 1)] = value
            nf.atomic.max(most, 0, value)


@nf.rawkernel(differentiable=True)
def queue(x, w, count, out):
    """Threads that take one element after the other, as many as are left."""
    while True:
        i = nf.atomic.add(count, 0, 1)
        if i >= x.shape[0]:
            break
        out[i] = x[i] * x[(i + 1) % x.shape[0]] * w[i % 2]


@nf.rawkernel(differentiable=True)
def in_place(x, w, count, order, out):
    """An array is changed before its elements are stored, in the order that comes."""
    i = nf.grid(1)
    if i < x.shape[0]:
        x[i] *= w[0]
        x[i] = x[i] * x[i] + x[i]
        slot = nf.atomic.add(count, 0, 1)
        order[slot] = i
        out[slot] = x[i] * w[1]


N = 300
LENGTHS = RNG.integers(0, 5, N)
OPS = {
    "repeated": repeated.as_op(grid=10, block=32, outputs={
        "count": ((1,), "int64"), "out": ((int(LENGTHS.sum()),), "float64"),
        "most": ((1,), "float64")}),
    "queue": queue.as_op(grid=2, block=32, outputs={
        "count": ((1,), "int64"), "out": "x"}),
}


def operation(name, device):
    """A function of `x` and `w`, the same in whatever order threads come."""
    if name == "repeated":
        lengths = nf.array(LENGTHS, device=device)
        return lambda x, w: tuple((a * a).sum() + a.sum() for a in
                                  OPS[name](x, w, lengths)[1:])
    return lambda x, w: OPS[name](x, w)[1]


def launched(x, w):
    """The same of a launch; what is stored is put in order."""
    device = x.device
    x, count = x * 1.0, nf.zeros(1, "int64", device=device)
    order = nf.zeros(N, "int64", device=device)
    out = nf.Variable(nf.zeros(N, device=device))
    in_place.launch(x, w, count, order, out, dim=N)
    assert nf.to_numpy(count).tolist() == [N]
    back = np.argsort(nf.to_numpy(order))
    return out[nf.array(back, device=device)] * x


PLACES = [*OPS, "a launch"]


@pytest.mark.parametrize(("name", "debug"), sampled_together(
    product(PLACES, (False, True)), ("a launch", False)))
def test_both_derivatives_against_differences(name, debug, device):
    called = launched if name == "a launch" else operation(name, device)
    given = RNG.uniform(0.2, 1.0, N), np.array([0.3, 0.7])
    with config.override(debug=debug):
        nf.testing.gradcheck(called, given, order=2,
                             place=lambda a: nf.array(a, device=device))


def test_counters_that_are_arguments_are_counted_once(device):
    op = queue.as_op(grid=1, block=32, outputs={"out": "x"})
    x, w = (nf.array(a, device=device) for a in (np.arange(1.0, 7), np.ones(2)))
    count = nf.zeros(1, "int64", device=device)
    bent = nf.grad(lambda x: nf.grad(lambda x: op(x, w, count).sum())(x)[0])(x)
    assert nf.to_numpy(bent).tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    assert nf.to_numpy(count).tolist() == [6 + 32]


def test_tensors_that_pytorch_differentiates():
    torch = pytest.importorskip("torch")
    x = torch.tensor(RNG.uniform(0.2, 1.0, N), requires_grad=True)
    w = torch.tensor([0.3, 0.7], dtype=torch.float64)
    out = OPS["queue"](x, w)[1]
    (first,) = torch.autograd.grad((out * out).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    factor = torch.tensor([0.3, 0.7] * (N // 2), dtype=torch.float64)
    value = (x * torch.roll(x, -1) * factor)
    (expected,) = torch.autograd.grad((value * value).sum(), x, create_graph=True)
    np.testing.assert_allclose(first.detach(), expected.detach(), rtol=1e-12)
    np.testing.assert_allclose(second, torch.autograd.grad(expected.sum(), x)[0],
                               rtol=1e-12)
    with refused(NotDifferentiableError, "queue: ", "outside of them", "Variables"):
        torch.func.grad(lambda x: OPS["queue"](x, w)[1].sum())(x.detach())


def test_places_of_another_run_are_refused():
    x, out = np.ones(4), np.zeros(4)
    with refused(NotDifferentiableError, "compacted.bwd", "'count'", "with Variables",
                 ".as_op"):
        compacted.bwd.launch((x, x.copy()), np.zeros(3, int), (out, x.copy()),
                             (out.copy(), x.copy()), dim=4)
