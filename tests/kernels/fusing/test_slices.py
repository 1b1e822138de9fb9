"""Slices read and written in `nf.fuse`: NumPy's results, few launches, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from nbfused.kernels.fusing.plans.plan import Plan

#: Programs are decorated for each test.
pytestmark = [pytest.mark.interpreted, pytest.mark.filterwarnings("ignore:fuse")]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 9))


def stencil(x):
    y = x.copy()
    y[1:-1, 1:-1] = x[1:-1, 1:-1] + 0.1 * (
        x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1])
    return y


def zeros_then_inside(x):
    y = np.zeros_like(x)
    y[1:-1, 1:-1] = np.sin(x[2:, 2:]) * x[:-2, :-2]
    return y


def columns(x):
    y = np.zeros_like(x)
    for k in range(9):
        y[:, k] = x[:, k] * (y[:, k - 1] if k else 1)
    return y


def other_steps(x):
    y = x * 1
    y[::2] = x[::2] * 3
    y[1::2, ::-1] = x[1::2]
    y[:, 3] += 1
    y[2, 4] = 7
    y.T[0] = 5
    y[None][0, -1] *= y[0]
    return y


def upwind(x):
    return x - 0.1 * np.where(x > 0, x - np.roll(x, 1, 0), np.roll(x, -1, 0) - x)


#: Program, launches of it, launches of its gradient with the value.
PROGRAMS = {
    "stencil": (stencil, 1, 3), "zeros": (zeros_then_inside, 1, 3),
    "columns": (columns, None, None), "steps": (other_steps, None, None),
    "two stencils": (lambda x: stencil(np.sin(stencil(x))), 2, None),
    "upwind": (upwind, 1, 3),
    "rolls": (lambda x: np.roll(x, (1, -2), (0, 1)) + np.roll(x, [2, 1], 0) * x,
              1, None),
    "roll of all": (lambda x: np.roll(x, 3) + x, 2, None),
    "flips": (lambda x: np.flip(np.exp(x)) + np.fliplr(x) * np.flip(x, (0,)), 1, 3),
    "differences": (lambda x: np.diff(x, 2, 0)[:, :-1] * np.diff(x)[:-2], 1, 3),
    "windows": (lambda x: sum(x[:, k:k + 5] * x[:, 4 - k:9 - k] for k in range(5)),
                1, 3),
    "stack": (lambda x: np.stack([np.sin(x[0]), x[1] * x[2], x[3]], 1) * 2, 1, 3),
    "join": (lambda x: np.exp(np.concatenate([x, x[::-1] * 2, x[:1]]))[3:12:2],
             1, 4),  # zeros between elements, and where these are, are two launches
    "stacks": (lambda x: np.column_stack([np.vstack([x[:, 0], x[:, 1]])[0],
                                          np.hstack([x, x[:, :2]])]), 1, 3),
    "integers": (lambda x: np.sin(x)[2] * x[:, None, 3], 1, None),
    **{mode: (lambda x, mode=mode: np.pad(np.sin(x), ((1, 2), (3, 0)), mode) * 2,
              None, None) for mode in ("constant", "edge", "wrap", "reflect",
                                       "symmetric")},
}


def loss(function):
    return lambda x: np.sin(function(x)).sum()


def differences(function, x, step=1e-6):
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        ends = [x.copy(), x.copy()]
        ends[0][at] += step
        ends[1][at] -= step
        found[at] = (function(ends[0]) - function(ends[1])) / (2 * step)
    return found


#: A program of each kind of launch: places that overlap, several of them, joins.
COMPILED = ("stencil", "two stencils", "roll of all", "stack", "join", "wrap")


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.compiled) if name in COMPILED else name
    for name in PROGRAMS])
def test_programs_of_slices_give_what_numpy_gives(name):
    function, count, _ = PROGRAMS[name]
    fused, expected = nf.fuse(function), function(X.copy())
    for _ in range(3):  # traced, planned, the plan
        np.testing.assert_allclose(fused(X), expected, rtol=1e-13, atol=1e-13)
    assert count is None or len(fused.explain(X)) == count


@pytest.mark.parametrize("name", PROGRAMS)
def test_their_gradients_are_differences_and_few_launches(name):
    function, _, count = PROGRAMS[name]
    expected = differences(loss(function), X)
    both = nf.fuse(lambda x: nf.value_and_grad(loss(function))(x))
    np.testing.assert_allclose(both(X)[1], expected, atol=1e-7)
    np.testing.assert_allclose(nf.grad(nf.fuse(loss(function)))(X), expected, atol=1e-7)
    assert count is None or len(both.explain(X)) <= count


@pytest.mark.parametrize("name", ["stencil", "steps", "rolls", "join", "two stencils"])
def test_second_derivatives(name):
    function, weights = loss(PROGRAMS[name][0]), RNG.normal(size=X.shape)
    first = nf.fuse(nf.grad(function))
    expected = differences(lambda x: (first(x) * weights).sum(), X)
    second = nf.fuse(nf.grad(lambda x: (nf.grad(function)(x) * weights).sum()))
    np.testing.assert_allclose(second(X), expected, atol=1e-6)
    eager = nf.grad(lambda x: (nf.grad(nf.fuse(function))(x) * weights).sum())
    np.testing.assert_allclose(eager(X), expected, atol=1e-6)


def relax(x):
    x[1:-1] = 0.5 * (x[2:] + x[:-2])
    return x * 2


def with_live_views(x):
    before, row = x[:-2], x[2]
    x[1:-1] += before
    row *= 2
    x[0], x[-1] = 3, x[-2]
    return before + x[2:], row


@pytest.mark.parametrize("function", [relax, with_live_views])
def test_arguments_are_changed_in_parts_as_by_numpy(function):
    expected = X.copy()
    results = function(expected)
    fused = nf.fuse(function)
    for _ in range(3):
        given = X.copy()
        found = fused(given)
        np.testing.assert_allclose(given, expected, rtol=1e-14)
        for f, e in zip(found, results, strict=True):
            np.testing.assert_allclose(f, e, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", *(
    pytest.param(dtype, marks=pytest.mark.compiled) for dtype in ("?", "c8", "f2"))])
def test_every_kind_of_number_is_stored(dtype):
    x = (RNG.normal(size=(5, 6)) * 4).astype(dtype)

    def function(x):
        y = np.concatenate([x, x[:2]])
        y[1:-1, ::2] = x[:, 1::2]
        y[0] = x[1]
        return y

    found, expected = nf.fuse(function)(x), function(x)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.compiled
def test_layouts_and_extents_with_one_kernel_each():
    fused = nf.fuse(stencil)
    for shape in ((3, 3), (2, 5), (1, 4), (40, 3), (3, 100), (64, 65)):
        x = RNG.normal(size=shape)
        repeated = np.broadcast_to(x[:1], shape)
        for given in (x, np.asfortranarray(x), x[:, ::-1], repeated):
            np.testing.assert_allclose(fused(given), stencil(given.copy()), rtol=1e-13)


def with_axes_in_front(x):
    y = np.zeros_like(x)
    y[...] = np.sin(x)[None]
    y[0] = x[1:2] * y[2:3]
    np.copyto(y, x[None] * 2, where=x > 1)
    return y


def test_axes_of_one_in_front_of_what_is_assigned_are_dropped():
    fused, expected = nf.fuse(with_axes_in_front), with_axes_in_front(X)
    np.testing.assert_allclose(fused(X), expected, rtol=1e-13)


def test_what_is_no_part_is_refused_with_the_way_out():
    def repeated(x):
        y = np.broadcast_to(x[:1] * 2, (3, 9))
        y[1] = 0

    with pytest.raises(KernelTypeError, match="share memory; change a copy"):
        nf.fuse(repeated)(X.copy())


@pytest.mark.parametrize("function", [
    lambda x: (x[::2] ** 2).sum(), lambda x: ((x @ x.T)[:, 1::3] ** 2).sum(),
    lambda x: np.trace(x @ x.T) + np.diagonal(x * 2, 1).prod(),
    lambda x: (np.sin(x)[::-2, 4:0:-3] ** 3).sum() + x[3:4:2].sum(),
    lambda x: (x.reshape(5, 2, 3)[1::3, :, ::2] * 2).sum()])
def test_gradients_of_slices_with_steps_have_plans(function):
    x = np.random.default_rng(1).normal(size=(5, 6))
    fused, expected = nf.fuse(nf.grad(function)), nf.grad(function)(x)
    for _ in range(3):
        np.testing.assert_allclose(fused(x), expected, rtol=1e-12)
    (plan,) = fused._plans._states.values()
    assert isinstance(plan, Plan)


def test_a_map_of_a_product_is_not_computed_for_each_point_that_reads_it():
    def outer(x, w):
        return x[:, :, None] * np.tanh(x @ w)[:, None, :]

    fused, w = nf.fuse(outer), RNG.normal(size=(9, 4))
    found = fused.explain(X, w)
    assert ["tanh" in launch.operations for launch in found] == [True, False]
    np.testing.assert_allclose(fused(X, w), outer(X, w), rtol=1e-12)


@pytest.mark.parametrize("program", [
    lambda chain, x: chain(x)[1:], lambda chain, x: np.stack([chain(x), x * 2]),
    lambda chain, x: chain(x).T[:7:2] + chain(x)[:, 1:5].T])
def test_chains_longer_than_the_stack_are_sliced(program):
    def chain(x):
        for _ in range(400):
            x = x * 1.001
        return x

    found = nf.fuse(lambda x: program(chain, x))(X)
    np.testing.assert_allclose(found, program(chain, X), rtol=1e-12)


def test_values_that_are_read_twice_again_and_again():
    """There are 2**40 ways from the result to the argument: each step is seen once."""
    def folded(x):
        for _ in range(40):
            x = np.sin(x) * np.cos(x)
        return x - np.roll(x, 1)

    assert len(nf.fuse(folded).explain(np.ones(5))) == 2


def _stored_in_part(a):
    b = a + 0
    b[::2] += 1.25
    b = b + np.sin(b) + np.sin(a)
    return np.cos(b).sum() + np.cos(b[1:]).sum()


@pytest.mark.parametrize("shape", [(5,), (4, 3), (3, 2, 4)])
def test_sums_whose_derivative_depends_on_the_place(shape):
    x = np.random.default_rng(5).normal(size=shape)
    b = x.copy()
    b[::2] += 1.25
    outer = b + np.sin(b) + np.sin(x)
    slope = -np.sin(outer)
    slope[1:] *= 2  # twice among the elements that are added up
    expected = slope * (1 + np.cos(b) + np.cos(x))
    fused = nf.fuse(_stored_in_part)
    for _ in range(3):
        np.testing.assert_allclose(nf.grad(fused)(x), expected, rtol=1e-12)
    twice = nf.grad(lambda x: (nf.grad(fused)(x) ** 2).sum())(x)
    direct = nf.grad(lambda x: (nf.grad(_stored_in_part)(x) ** 2).sum())(x)
    np.testing.assert_allclose(twice, direct, rtol=1e-10)
