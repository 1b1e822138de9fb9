"""Launches on Variables, which are nodes of the tape."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import (
    InplaceModificationError,
    KernelTypeError,
    NbFusedPerformanceWarning,
    NotDifferentiableError,
    OverlapError,
    TapeError,
)
from tests.refusal import refused
from tests.variants import sampled_together

RNG = np.random.default_rng(0)


class Body(NamedTuple):
    place: nf.DiffView
    mass: nf.DiffView
    count: nf.View


@nf.rawkernel(differentiable=True)
def step(x, v, force, h):
    i = nf.grid(1)
    v[i] += h * force[i] * x[i]
    x[i] += h * v[i] * x[i]


@nf.rawkernel(differentiable=True)
def squares(x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = x[i] * x[i]


SQUARES = squares.as_op(outputs={"y": "x"}, grid=1, block=32)


def simulated(x, v, force, launch):
    """Three steps and what is looked at in the end; `x` is no leaf."""
    x = x * 1.0
    for _ in range(3):
        launch(x, v, force, 0.1)
        force = force * 0.9
    return (x * x).sum() + (v * x).sum()


def by_numpy(x, v, force, h):
    v += h * force * x
    x += h * v * x


LAUNCHES = {
    "dim": lambda *args: step.launch(*args, dim=5),
    "numba": lambda *args: step[1, 5](*args),
    "cupy": lambda *args: step((1,), (5,), args),
    "slang": lambda x, v, force, h: step(x=x, v=v, force=force, h=h).launchRaw(
        gridSize=1, blockSize=5),
}


@pytest.mark.parametrize(("way", "debug"), sampled_together(
    [*((way, False) for way in LAUNCHES), ("dim", True)],
    *((way, False) for way in LAUNCHES if way != "dim"), ("dim", True)))
def test_gradients_through_steps_in_place(way, debug, device):
    given = RNG.standard_normal((3, 5))
    x, force = (nf.Variable(nf.array(given[k], device=device), requires_grad=True)
                for k in (0, 2))
    v = nf.Variable(nf.array(given[1], device=device))
    with config.override(debug=debug):
        found = simulated(x, v, force, LAUNCHES[way])
        found.backward()
    np.testing.assert_allclose(found.item(), simulated(*given.copy(), by_numpy))
    for k, gradient in ((0, x.grad), (2, force.grad)):
        along, e = np.zeros((3, 5)), 1e-6
        along[k] = RNG.standard_normal(5)
        ends = [simulated(*(given + s * along), by_numpy) for s in (e, -e)]
        np.testing.assert_allclose((nf.to_numpy(gradient) * along[k]).sum(),
                                   (ends[0] - ends[1]) / (2 * e), rtol=1e-6)


def variable(values, device, grad=True):
    return nf.Variable(nf.array(values, device=device), requires_grad=grad)


def test_views_see_what_a_launch_writes(device):
    x, y = variable(np.arange(4.0), device), variable(np.zeros(4), device, grad=False)
    half = y[:2]
    squares.launch(x, y, dim=4)
    half.sum().backward()
    assert nf.to_numpy(half.data).tolist() == [0.0, 1.0]
    assert nf.to_numpy(x.grad).tolist() == [0.0, 2.0, 0.0, 0.0]
    z = variable(np.zeros(6), device, grad=False)
    squares.launch(x, z[1:5], dim=4)  # through a view into what it is of
    x.zero_grad()
    (z * z).sum().backward()
    assert nf.to_numpy(z.data).tolist() == [0.0, 0.0, 1.0, 4.0, 9.0, 0.0]
    assert nf.to_numpy(x.grad).tolist() == [0.0, 4.0, 32.0, 108.0]


def test_structs_of_variables(device):
    @nf.rawkernel
    def moved(b: Body, scale: nf.DiffView):
        i = nf.grid(1)
        b.place[i] = b.place[i] * b.mass[i] + scale[0]
        b.count[i] += 1

    place = variable(np.ones(3), device, grad=False)
    mass, scale = variable([1.0, 2.0, 3.0], device), variable([4.0], device)
    count = nf.zeros(3, "int64", device=device)
    moved.launch(Body(place, mass, count), scale, dim=3)
    moved.launch(Body(place, mass, count), scale, dim=3)
    place.sum().backward()  # (m + s) m + s
    m, s = np.array([1.0, 2.0, 3.0]), 4.0
    np.testing.assert_allclose(nf.to_numpy(mass.grad), 2*m + s)
    np.testing.assert_allclose(nf.to_numpy(scale.grad), [(m + 1).sum()])
    assert nf.to_numpy(count).tolist() == [2, 2, 2]


def test_sums_in_16_bits_are_formed_in_32(device):
    @nf.rawkernel(differentiable=True)
    def shared_out(x, y):
        y[nf.grid(1)] = x[0]

    x = variable(np.ones(1, np.float16), device)
    y = variable(np.zeros(4096, np.float16), device, grad=False)
    shared_out.launch(x, y, dim=4096)
    y.sum().backward()
    assert x.grad.dtype == np.float16
    assert nf.to_numpy(x.grad).tolist() == [4096]


def test_versions_are_watched(device):
    x, y = variable(np.ones(3), device), variable(np.zeros(3), device, grad=False)
    squares.launch(x, y, dim=3)
    with nf.no_grad():
        x += 1.0
    with pytest.raises(InplaceModificationError):
        y.sum().backward()


def test_without_a_gradient_nothing_is_recorded(device):
    x, y = variable(np.ones(3), device), variable(np.zeros(3), device, grad=False)
    with nf.no_grad():
        squares.launch(x, y, dim=3)
        squares.launch(y, x, dim=3)  # also into a leaf
    assert not y.requires_grad
    assert nf.to_numpy(x.data).tolist() == [1.0] * 3


def test_refused():
    x, y = nf.Variable(np.ones(3), requires_grad=True), nf.Variable(np.zeros(3))
    with refused(NotDifferentiableError, "writes to 'y', an array",
                 "nbfused.Variable(y)"):
        squares.launch(x, np.zeros(3), dim=3)
    with refused(TapeError, "writes to 'y', a leaf", "y.copy()", "no_grad"):
        squares.launch(y, x, dim=3)
    plain = nf.rawkernel(squares.pyfunc)
    with refused(NotDifferentiableError, "'x' is a Variable", "differentiable=True",
                 "x.data"):
        plain.launch(x, y, dim=3)
    with refused(NotDifferentiableError, "'x' is a Variable of complex128", "real and"):
        squares.launch(nf.Variable(np.ones(3, complex), requires_grad=True), y, dim=3)
    counts = nf.rawkernel(differentiable=True)(squares.pyfunc)
    with refused(KernelTypeError, "no floating array", "no_grad()"):
        counts.launch(x, np.zeros(3, np.int64), dim=3)


def changed_twice(x, w):
    """Arrays that are read and written, through two launches of each kernel."""
    x, w = x * 1.0, w * 1.0
    for _ in range(2):
        step.launch(x, w, w * x, 0.1, dim=5)
    y = nf.Variable(nf.zeros(5, device=x.device))
    squares.launch(w, y, dim=5)
    return (x * x).sum() + (y * w).sum()


def test_second_derivatives_are_differences_of_first_ones(device):
    nf.testing.gradcheck(changed_twice, [*RNG.standard_normal((2, 5))], order=2,
                         place=lambda a: nf.array(a, device=device))


def test_second_derivatives_change_nothing_else(device):
    """What a launch counts is counted once, whatever is differentiated of it."""
    @nf.rawkernel
    def tallied(x: nf.DiffView, count: nf.View, y: nf.DiffView):
        i = nf.grid(1)
        count[0 if x[i] < 0.0 else 1] += 1
        y[i] = x[i] * x[i] * x[i]

    def total(x, count):
        y = nf.Variable(nf.zeros(3, device=device))
        tallied.launch(x, count, y, dim=1)
        tallied.launch(x * 1.0, count, y, dim=1)
        return y.sum()

    count, x = nf.zeros(2, "int64", device=device), nf.array([2.0, 1, 1], device=device)
    bent = nf.grad(lambda x: nf.grad(lambda x: total(x, count))(x).sum())(x)
    assert nf.to_numpy(bent).tolist() == [12.0, 0.0, 0.0]
    assert nf.to_numpy(count).tolist() == [0, 2]


@pytest.mark.variants
def test_third_derivatives_of_what_is_changed_in_place():
    """A product, of which every third derivative by different factors is the rest."""
    @nf.rawkernel(differentiable=True)
    def times(x, y):
        for k in range(x.shape[0]):
            y[0] = y[0] * x[k]

    def product(x):
        y = nf.Variable(np.ones(1))
        times[1, 1](x, y)
        return y

    nf.testing.gradcheck(product, [RNG.uniform(0.5, 1.5, 4)], order=3)


@pytest.mark.parametrize(("transform", "way"), [
    (nf.vmap, "a launch"), (nf.vmap, "an operation"), (nf.jacrev, "a launch"),
    (nf.jacrev, "an operation"), (nf.fuse, "a launch")])
def test_transforms_that_see_no_launches(transform, way):
    def called(x):
        if way == "an operation":
            return SQUARES(x)
        y = nf.Variable(np.zeros(3))
        squares.launch(x, y, dim=3)
        return y

    x = np.array([[1.0, 2, 3]]) if transform is nf.vmap else np.array([1.0, 2, 3])
    wanted = r"as_op" if transform is nf.fuse else "an axis of its own for the samples"
    with refused(KernelTypeError, "squares: ", wanted):
        transform(called)(x)


def test_nf_fuse_calls_operations():
    fused, x = nf.fuse(lambda x: SQUARES(2 * x) + 1), np.array([1.0, 2, 3])
    with pytest.warns(NbFusedPerformanceWarning, match="traced at each call"):
        np.testing.assert_allclose(fused(x), 4 * x * x + 1)
    np.testing.assert_allclose(fused(x + 1), 4 * (x + 1) ** 2 + 1)


def test_memory_under_two_names_is_refused():
    """Of a launch that is recorded; it would be two arrays."""
    x = nf.Variable(np.ones(4), requires_grad=True) * 1.0
    with refused(OverlapError, "'x' and 'y' share memory", "a copy"):
        squares.launch(x, x, dim=4)
    with refused(OverlapError, "'x' and 'y' share memory"):
        squares.launch(x[1:], x[:-1], dim=3)


def test_with_a_rule_by_hand(device):
    kernel = nf.rawkernel(differentiable=True)(squares.pyfunc)

    @kernel.defvjp
    def rule(x, y):
        i = nf.grid(1)
        if i < x.primal.shape[0]:
            x.derivative[i] += 7.0 * y.derivative[i]

    x, y = variable(np.ones(3), device), variable(np.zeros(3), device, grad=False)
    kernel.launch(x, y, dim=3)
    y.sum().backward()
    assert nf.to_numpy(x.grad).tolist() == [7.0] * 3


def test_an_array_that_another_launch_saved_stays_as_it_was(device):
    """The state of a simulation that starts from constants, through two kernels."""
    @nf.rawkernel(differentiable=True)
    def forces(x, w, f):
        i = nf.grid(1)
        f[i] = w[0] * x[i] * x[i]

    @nf.rawkernel(differentiable=True)
    def moved(f, x):
        i = nf.grid(1)
        x[i] += 0.1 * f[i]

    start = np.array([1.0, -2.0, 0.5])
    w, x = variable([0.7], device), variable(start, device, grad=False)
    for _ in range(2):
        f = variable(np.zeros(3), device, grad=False)
        forces.launch(x, w, f, dim=3)
        moved.launch(f, x, dim=3)
    x.sum().backward()
    first = start + 0.07 * start**2
    slope = 0.1 * start**2
    expected = slope + 0.1 * first**2 + 0.07 * 2 * first * slope
    np.testing.assert_allclose(nf.to_numpy(w.grad), [expected.sum()])
