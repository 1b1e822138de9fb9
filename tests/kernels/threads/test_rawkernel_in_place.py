"""Derivatives of kernels whose threads read what they write, against differences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import (
    GradientRaceError,
    InplaceModificationError,
    NotDifferentiableError,
)
from tests.refusal import refused
from tests.variants import sampled_together

thread_kernel = nf.rawkernel(differentiable=True)
COUNT = 9


@thread_kernel
def added(x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        x[i] += y[i]


@thread_kernel
def squared(x, y):
    """A value is loaded again after it was overwritten."""
    i = nf.grid(1)
    if i < x.shape[0]:
        x[i] = x[i] * x[i] * y[i]
        x[i] *= x[i]


@thread_kernel
def handed_on(x, y, z):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = x[i] * 2.0
        if i % 2:
            y[i] = nf.sin(y[i])
        z[i] = y[i] * y[i]


@thread_kernel
def running(x, state, n):
    """A state in memory, through a loop of any length."""
    i = nf.grid(1)
    if i < state.shape[0]:
        for t in range(n):
            state[i] = nf.sin(state[i]) * x[t, i] + 0.5 * state[i]


@thread_kernel
def recurrence(x, y, n):
    i = nf.grid(1)
    if i < x.shape[1]:
        for t in range(1, n):
            y[t, i] = nf.sin(y[t - 1, i]) * x[t, i]


@thread_kernel
def halved(x, y):
    """The condition of a loop reads what its body writes."""
    i = nf.grid(1)
    if i < x.shape[0]:
        while x[i] * x[i] > 0.01 and y[i] > -100.0:
            x[i] *= 0.5 * nf.cos(y[i] * x[i])


@thread_kernel
def nested(x, y, n):
    """Loops in a loop, as long as the data says; branches of unequal length."""
    i = nf.grid(1)
    if i < x.shape[0]:
        for t in range(n):
            k = 0
            while k < t + i % 3:
                if k % 2:
                    x[i] = nf.sin(x[i]) * y[i]
                else:
                    y[i] = nf.cos(y[i] * x[i])
                    x[i] += 0.1 * y[i]
                k += 1
            x[i] *= 1.1


@thread_kernel
def factored(a, n):
    """LU in place, a matrix for each thread."""
    i = nf.grid(1)
    if i < a.shape[0]:
        for k in range(n):
            for r in range(k + 1, n):
                a[i, r, k] /= a[i, k, k]
                for c in range(k + 1, n):
                    a[i, r, c] -= a[i, r, k] * a[i, k, c]


@thread_kernel
def counted(x, count, y):
    """An integer in memory decides what is read."""
    i = nf.grid(1)
    if i < y.shape[0]:
        count[i] += i
        y[i] = x[count[i] % x.shape[0]] * x[i]


CASES = {
    "added": (added, [(COUNT,)] * 2, ()),
    "squared": (squared, [(COUNT,)] * 2, ()),
    "handed_on": (handed_on, [(COUNT,)] * 3, ()),
    "running": (running, [(3, COUNT), (COUNT,)], (3,)),
    "running long": (running, [(90, COUNT), (COUNT,)], (90,)),
    "recurrence": (recurrence, [(40, COUNT), (40, COUNT)], (40,)),
    "halved": (halved, [(COUNT,)] * 2, ()),
    "nested": (nested, [(COUNT,)] * 2, (3,)),
    "factored": (factored, [(COUNT, 4, 4)], (4,)),
}


def given(name):
    kernel, shapes, more = CASES[name]
    rng = np.random.default_rng(2)
    arrays = [rng.uniform(0.2, 1.5, s) for s in shapes]
    if name == "factored":
        arrays[0] += 4.0 * np.eye(4)
    return kernel, arrays, more, rng


def ran(kernel, arrays, more, device):
    placed = [nf.array(a, device=device) for a in arrays]
    kernel[2, 8](*placed, *more)
    return [nf.to_numpy(a) for a in placed]


@pytest.mark.parametrize(("debug", "name"), sampled_together(
    product((False, True), CASES), (False, "handed_on"),
    (False, "recurrence")))
def test_both_modes_against_differences(name, debug, device):
    kernel, arrays, more, rng = given(name)
    tangents, bars = ([rng.standard_normal(a.shape) for a in arrays] for _ in "xy")
    h = 1e-6
    up, down = (ran(kernel, [a + s*t for a, t in zip(arrays, tangents, strict=True)],
                    more, device) for s in (h, -h))
    slopes = [(a - b) / (2*h) for a, b in zip(up, down, strict=True)]
    expected = sum((b*s).sum() for b, s in zip(bars, slopes, strict=True))

    def pairs(others):
        return [(nf.array(a, device=device), nf.array(o, device=device))
                for a, o in zip(arrays, others, strict=True)]

    back, forth = pairs(bars), pairs(tangents)
    with config.override(debug=debug):
        kernel.bwd[2, 8](*back, *more)
        kernel.fwd[2, 8](*forth, *more)
    for (a, _), was in zip(back, arrays, strict=True):
        np.testing.assert_array_equal(nf.to_numpy(a), was)  # bwd leaves them
    found = sum((nf.to_numpy(g) * t).sum() for (_, g), t in
                zip(back, tangents, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    for (_, d), slope in zip(forth, slopes, strict=True):
        np.testing.assert_allclose(nf.to_numpy(d), slope, rtol=1e-5, atol=1e-7)


def test_gradients_are_torchs(device):
    """A running state, beside the same loop on PyTorch's tape."""
    torch = pytest.importorskip("torch")
    _, (x, state), more, rng = given("running")
    bar = rng.standard_normal(COUNT)
    tx, ts = (torch.tensor(a, requires_grad=True) for a in (x, state))
    s = ts
    for t in range(*more):
        s = torch.sin(s) * tx[t] + 0.5 * s
    (s * torch.tensor(bar)).sum().backward()
    dx, ds = nf.zeros(x.shape, device=device), nf.array(bar, device=device)
    running.bwd[1, 32]((nf.array(x, device=device), dx),
                       (nf.array(state, device=device), ds), *more)
    np.testing.assert_allclose(nf.to_numpy(dx), tx.grad, rtol=1e-13)
    np.testing.assert_allclose(nf.to_numpy(ds), ts.grad, rtol=1e-13)


def test_integers_that_are_counted_in_memory(device):
    x = np.random.default_rng(0).standard_normal(5)
    start = np.array([3, 1, 4, 1, 5])
    dx, dy = nf.zeros(5, device=device), nf.array(np.ones(5), device=device)
    counted.bwd[1, 8]((nf.array(x, device=device), dx), nf.array(start, device=device),
                      (nf.zeros(5, device=device), dy))
    places = (start + np.arange(5)) % 5
    expected = x[places]
    np.add.at(expected, places, x)
    np.testing.assert_allclose(nf.to_numpy(dx), expected, rtol=1e-14)


def test_values_are_recorded_only_where_they_are_needed(device):
    def launched(name):
        kernel, arrays, more, _ = given(name)
        pairs = [tuple(nf.array(a, device=device) for _ in "xy") for a in arrays]
        with nf.trace_launches() as launches:
            kernel.bwd[2, 8](*pairs, *more)
        return [launch.name for launch in launches if launch.kind == "Raw"]

    assert launched("added") == ["added_vjp"]
    assert launched("squared") == ["squared", "squared_vjp"]
    assert launched("running") == ["running", "running", "running_vjp"]


def test_operations_on_variables(device):
    handed = handed_on.as_op(outputs={"y": "x", "z": "x"}, grid=2, block=8)
    state = running.as_op(outputs={"state": lambda x, n: ((x.shape[1],), x.dtype)},
                          grid=2, block=8)
    sums = added.as_op(outputs={"x": "y"}, grid=2, block=8)
    x, steps = given("added")[1][0], given("running")[1][0]

    def place(a):
        return nf.array(a, device=device)

    nf.testing.gradcheck(handed, (x,), order=2, place=place)
    nf.testing.gradcheck(lambda x: state(x, 3), (steps[:, :4],), order=2, place=place)
    nf.testing.gradcheck(sums, (x,), order=2, place=place)


def test_an_argument_that_an_operation_changes_has_no_gradient():
    """Its values before the launch are gone."""
    op = squared.as_op(outputs={"y": "x"}, grid=1, block=16)
    x = nf.Variable(np.ones(3), requires_grad=True)
    with refused(NotDifferentiableError, "squared", "its argument 'x'", "outputs"):
        op(x).sum().backward()


def test_an_operation_may_count_in_an_argument(device):
    """The derivative does not depend on what the kernel leaves there."""
    @thread_kernel
    def doubled(x, count, y):
        i = nf.grid(1)
        count[i] += 1
        y[i] = 2.0 * x[i]

    op = doubled.as_op(outputs={"y": "x"}, grid=1, block=3)
    x = nf.Variable(nf.array(np.ones(3), device=device), requires_grad=True)
    count = nf.zeros(3, dtype="int64", device=device)
    op(x, count).sum().backward()
    assert nf.to_numpy(x.grad).tolist() == [2.0] * 3
    assert nf.to_numpy(count).tolist() == [1] * 3


def test_what_comes_from_another_thread_of_the_block():
    @thread_kernel
    def mirrored(x, y):
        i = nf.threadIdx.x
        y[i] = x[i]
        nf.syncthreads()
        x[i] = y[7 - i] * 2.0

    (dx, dy), (gx, gy) = (np.random.default_rng(0).standard_normal((2, 8))
                          for _ in range(2))
    ends = np.copy(gx), np.copy(gy)
    mirrored.bwd[1, 8]((dx, ends[0]), (dy, ends[1]))
    assert ends[0].tolist() == (gy + 2.0 * gx[::-1]).tolist()
    assert not ends[1].any()


def shifted(x, y):
    i = nf.grid(1)
    if i < x.shape[0] - 1:
        x[i] += y[i]
        x[i + 1] = 2.0 * y[i]


def added_by_others(x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        nf.atomic.add(x, i % 3, y[i])
        x[i] *= 2.0


@pytest.mark.parametrize("kernel", [shifted, added_by_others])
def test_elements_of_other_threads_are_found_under_debug(kernel, device):
    pairs = [tuple(nf.array(np.ones(7), device=device) for _ in "xy") for _ in "xy"]
    with config.override(debug=True), refused(
            GradientRaceError, "of 'x' is changed by one thread", "touched by another"):
        thread_kernel(kernel).bwd[1, 8](*pairs)


def test_arrays_as_the_launch_left_them_are_found_under_debug(device):
    """Where it makes a difference: not in what is written before it is read."""
    x, y, z = (nf.array(np.full(5, 0.5), device=device) for _ in "xyz")
    bars = [nf.array(np.ones(5), device=device) for _ in "xyz"]
    with config.override(debug=True):
        handed_on[1, 8](x, y, z)
        handed_on.bwd[1, 8]((x, bars[0]), (y, bars[1]), (z, bars[2]))
        before = nf.array(nf.to_numpy(x), device=device)
        squared[1, 8](x, y)
        squared.bwd[1, 8]((before, bars[0]), (y, bars[1]))
        with refused(InplaceModificationError, "squared.bwd: 'x' is as the launch",
                     "a copy made before"):
            squared.bwd[1, 8]((x, bars[0]), (y, bars[1]))
