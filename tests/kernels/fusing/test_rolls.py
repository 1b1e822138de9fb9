"""Rolls and arrays joined of what a program computes: few launches, NumPy's results."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.dispatch import execute
from nbfused.errors import ShapeError
from nbfused.kernels.fusing.plans.plan import Plan
from nbfused.specs import Map
from nbfused.specs.fusion.slicing.rolls import COPY
from nbfused.specs.windows import Place, Windows, wrapped

pytestmark = [pytest.mark.interpreted, pytest.mark.filterwarnings("ignore:fuse")]

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 8))
SHIFTS = (-13, -6, -3, -1, 0, 1, 2, 3, 4, 5, 8, 100)


def advected(f):
    """Nine populations that move to their neighbours, and are stacked again."""
    moved = [np.roll(f[k], (k // 3 - 1, k % 3 - 1), (0, 1)) for k in range(9)]
    density = sum(moved)
    return np.stack([m + 0.3 * np.tanh(density * m) for m in moved])


def long(x, count=40):
    for k in range(count):
        x = np.tanh(x * (1 + 0.01 * k)) + 0.1
    return x


def launches_with_windows(fused, *arguments):
    plan, = fused._plans._states.values()
    assert isinstance(plan, Plan)
    return len(plan.steps)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("shift", SHIFTS)
def test_every_shift(shift, axis):
    fused = nf.fuse(lambda x: x * np.roll(x, shift, axis) - np.roll(np.sin(x), 1, 0))
    expected = X * np.roll(X, shift, axis) - np.roll(np.sin(X), 1, 0)
    for _ in range(3):
        np.testing.assert_allclose(fused(X), expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0,), (1, 1)])
def test_arrays_without_elements(shape):
    x = np.ones(shape)

    def program(x):
        return np.roll(x, 2, -1) + np.roll(x, 1, 0), np.roll(x, 1)

    fused = nf.fuse(program)
    for _ in range(3):
        for f, e in zip(fused(x), program(x), strict=True):
            np.testing.assert_array_equal(f, e)
    assert nf.fuse(nf.grad(lambda x: program(x)[0].sum()))(x).shape == shape


@pytest.mark.compiled
@pytest.mark.parametrize("shape", [(5,), (1, 7), (2, 2), (3, 4, 5), (2, 3, 2, 3)])
def test_compiled_kernels_of_every_axis(shape):
    x = RNG.normal(size=shape)

    def moved(x):
        return sum(np.roll(x, by, axis) * (axis + 2) for by in (1, -1, 2)
                   for axis in range(x.ndim)) + np.roll(x, (1,) * x.ndim, tuple(
                       range(x.ndim)))

    fused = nf.fuse(moved)
    for given in (x, np.asfortranarray(x), x[..., ::-1], np.broadcast_to(x[:1], shape)):
        np.testing.assert_allclose(fused(given), moved(given), rtol=1e-13)
    assert len(fused.explain(x)) == 1


def test_rolls_in_turn_are_one_and_back_is_nothing():
    fused = nf.fuse(lambda x: np.roll(np.roll(np.exp(x), 2, 1), -1, 1) - np.roll(
        np.roll(x, 3, 0), -3, 0))
    np.testing.assert_allclose(fused(X), np.roll(np.exp(X), 1, 1) - X, rtol=1e-13,
                               atol=1e-14)
    (launch,) = fused.explain(X)
    assert launch.bytes == 2 * X.nbytes


@pytest.mark.parametrize("program", [
    lambda x: np.roll(x, 1, 0)[1:-1] * x[2:],  # a slice of a roll
    lambda x: np.roll(np.sin(np.roll(x, 2, 1))[:, 1:4], 1, 1),  # a roll of a slice
    lambda x: np.concatenate([np.roll(x, 1, 0), x * 2]),  # a part of a larger one
    lambda x: np.roll(x[:1], 3, 1) * x + np.roll(x[:, :1], 1, 0),  # of a row, a column
    lambda x: np.roll(x, 1, 0).T @ np.roll(x, 2, 1),
    lambda x: np.roll(x, 1, 1).sum(1) + np.roll(x, 1, 0).max(),
    lambda x: np.roll(x.reshape(4, 3, 4), 1, 1).transpose(2, 0, 1) * 2,
    lambda x: np.roll(np.pad(x, 1), 2, 0)[:, ::-1],
    lambda x: np.concatenate([x[2:], x[:2]]) + np.concatenate([x[:, 5:], x[:, :5]], 1),
    lambda x: np.concatenate([x[2:], x[:3]])[:6] + np.concatenate([x[3:], x[:2]])[0],
])
def test_what_is_around_a_roll(program):
    fused = nf.fuse(program)
    for _ in range(3):
        np.testing.assert_allclose(fused(X), program(X), rtol=1e-13, atol=1e-13)
    weights = RNG.normal(size=program(X).shape)
    gradient = nf.fuse(nf.grad(lambda x: (program(x) * weights).sum()))
    direction = RNG.normal(size=X.shape)
    ends = [(program(X + e * direction) * weights).sum() for e in (1e-6, -1e-6)]
    for _ in range(3):
        slope = (gradient(X) * direction).sum()
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-6)


def test_periodic_along_one_axis_and_a_border_along_the_other():
    def channel(x):
        y = x.copy()
        y[1:-1] = np.sin(x[2:] + np.roll(x, 1, 1)[:-2] + np.roll(x, -1, 1)[1:-1])
        return y

    fused = nf.fuse(channel)
    np.testing.assert_allclose(fused(X), channel(X), rtol=1e-14, atol=1e-14)


def test_derivatives_of_a_fused_roll_of_every_kind():
    def program(x):
        return np.sin(np.roll(x, (1, -3), (0, 1))) * x + np.roll(x[:1], 2, 1)

    fused = nf.fuse(program)
    tangent = RNG.normal(size=X.shape)
    e = 1e-6
    expected = (program(X + e * tangent) - program(X - e * tangent)) / (2 * e)
    _, made = nf.jvp(fused, (X,), (tangent,))
    np.testing.assert_allclose(made, expected, atol=1e-8)
    weights = RNG.normal(size=X.shape)
    _, pullback = nf.vjp(fused, X)
    assert (pullback(weights)[0] * tangent).sum() == pytest.approx(
        (weights * expected).sum(), rel=1e-7)
    many = RNG.normal(size=(3, *X.shape))
    np.testing.assert_allclose(nf.vmap(fused)(many), [program(x) for x in many],
                               rtol=1e-13)


@pytest.mark.compiled
def test_a_stack_of_what_is_computed_is_one_launch_and_its_derivative_two():
    f, w = RNG.normal(size=(2, 9, 5, 7))

    def pulled(w, f):
        made, pullback = nf.vjp(advected, f)
        return made, pullback(w)[0]

    forward, both = nf.fuse(advected), nf.fuse(pulled)
    direction, e = RNG.normal(size=f.shape), 1e-6
    slope = ((advected(f + e * direction) - advected(f - e * direction)) * w).sum()
    for _ in range(4):
        np.testing.assert_allclose(forward(f), advected(f), rtol=1e-12)
        made, gradient = both(w, f)
        np.testing.assert_allclose(made, advected(f), rtol=1e-12)
        assert (gradient * direction).sum() == pytest.approx(slope / (2 * e), rel=1e-6)
    assert (launches_with_windows(forward), launches_with_windows(both)) == (1, 2)


def test_a_derivative_is_cut_where_few_arrays_are_stored():
    """Its end is not computed at nine places, from parts that would all be stored."""
    f, w = RNG.normal(size=(2, 9, 5, 7))

    def pulled(w, f):
        return nf.vjp(advected, f)[1](w)[0]

    fused = nf.fuse(pulled)
    last = list(fused.explain(w, f))[-1]
    assert last.bytes <= 2 * f.nbytes
    assert fused(w, f).shape == f.shape


def test_pieces_in_a_concatenation_have_no_memory_of_their_own():
    def halves(x):
        a = long(x)
        return np.concatenate([a, np.exp(a), a * x])

    fused = nf.fuse(halves)
    for k in range(4):
        x = X + k
        found = fused(x)
        np.testing.assert_allclose(found, halves(x), rtol=1e-13)
        assert found.base is None or found.base.nbytes == found.nbytes
    (plan,) = fused._plans._states.values()
    assert isinstance(plan, Plan)
    assert len(plan.steps) == 1
    assert plan.arena == 0
    assert fused.explain(X).peak_bytes == 0


@pytest.mark.parametrize("program", [
    lambda x: (lambda a: (np.concatenate([a, a * 2]), a))(long(x)),  # a result, too
    lambda x: (lambda a: np.concatenate([a, a]))(long(x)),  # twice
    lambda x: (lambda a: np.concatenate([a, x, np.exp(a)]))(long(x)),  # an argument
    lambda x: (lambda a: (np.stack([a, a + 1]), np.stack([a - 1, a])))(long(x)),
    lambda x: (lambda a: np.stack([a, a + 1, a * a]).sum(0))(long(x)),  # only read
    lambda x: (lambda a: np.stack([a, a + 1])[1] * np.stack([a, a + 1])[0])(long(x)),
    lambda x: (lambda a: np.stack([long(a) @ a.T, long(a.T[:6, :6] * 1)]))(long(x)),
    lambda x: (lambda a: long(np.concatenate([a, np.sin(a)])) * 2)(long(x)),
    lambda x: (lambda s: s[1] * s[0][::-1] + s[::-1][0])(
        np.stack([long(x), long(x) * 2])),
    lambda x: (lambda s: s[7::-3] * s[4:10:2] + s[11:5:-2])(
        np.concatenate([long(x), long(x) * 2])),
    lambda x: (lambda a: np.concatenate([np.concatenate([a, long(a)]), a[:1]]))(
        long(x)),
    lambda x: (lambda a: np.stack([a[1:-1, 1:-1], a[2:, 1:-1] * 2, a[:-2, 2:]]))(
        long(x)),
])
def test_what_else_pieces_are(program):
    fused = nf.fuse(program)
    for k in range(4):
        x = X + 0.1 * k
        found, expected = fused(x), program(x)
        for f, e in zip(*(v if isinstance(v, tuple) else (v,)
                          for v in (found, expected)), strict=True):
            np.testing.assert_allclose(f, e, rtol=1e-12)


def test_an_argument_that_is_changed_after_a_piece_was_computed():
    """A plan launches again what it puts in place: the second result is not redone."""
    def step(x):
        made = np.concatenate([long(x), long(x) * 2])
        x *= 0.5
        return made

    fused, given, expected = nf.fuse(step), X.copy(), X.copy()
    for _ in range(4):
        np.testing.assert_allclose(fused(given), step(expected), rtol=1e-13)
        np.testing.assert_allclose(given, expected, rtol=1e-14, atol=1e-14)


def test_kernels_keep_rolls_apart_from_slices():
    """The same function, extents and boxes: one wraps, the other has zeros outside."""
    def padded(x):
        y = np.zeros_like(x)
        y[1:] = x[:-1]
        return y * 2

    a, b = nf.fuse(lambda x: np.roll(x, 1, 0) * 2), nf.fuse(padded)
    for _ in range(2):
        np.testing.assert_array_equal(a(X), np.roll(X, 1, 0) * 2)
        np.testing.assert_array_equal(b(X), padded(X))


def test_a_part_of_a_concatenation_goes_to_a_function_in_python():
    def program(x):
        joined = np.concatenate([x, x * 2])
        return nf.callback(np.sort, x.shape, x.dtype)(joined[6:]) + joined[:6]

    fused = nf.fuse(program)
    for _ in range(3):
        np.testing.assert_array_equal(fused(X), np.sort(X * 2) + X)


def test_a_sum_of_slices_that_fill_an_array_is_a_concatenation():
    def gradient(x):
        return nf.grad(lambda x: (long(x[:2]) * x[2:4] + x[4:] * x[2:4]).sum())(x)

    fused, expected = nf.fuse(gradient), gradient(X)
    for _ in range(3):
        np.testing.assert_allclose(fused(X), expected, rtol=1e-12)
    names = [name for launch in fused.explain(X) for name in launch.operations]
    assert "slice" not in names


@pytest.mark.parametrize(("program", "launches"), [
    # Rolls both ways, of one array and of two, along two axes.
    (lambda x: sum(np.roll(x, by, axis) for by in (1, -1) for axis in (0, 1)), 1),
    (lambda x: np.roll(x, 1, 0) * np.roll(np.sin(x), 1, 0) + np.roll(x, -2, 1), 1),
    # Rows that fill an array twice, and one row more.
    (lambda x: sum(long(x[k:k + 2]) * x[k:k + 2] for k in (0, 2, 4)) + x[1:3], None),
    (lambda x: x[:2] * x[2:4] + x[4:] * x[:2] + np.exp(x[2:4]) - x[4:] * x[1:3], None),
])
def test_gradients_of_what_is_read_slice_by_slice(program, launches):
    weights = RNG.normal(size=program(X).shape)

    def loss(x):
        return (program(x) * weights).sum()

    fused, expected = nf.fuse(nf.grad(loss)), nf.grad(loss)(X)
    for _ in range(3):
        np.testing.assert_allclose(fused(X), expected, rtol=1e-12, atol=1e-14)
    assert launches is None or len(fused.explain(X)) == launches


@pytest.mark.parametrize("program", [
    lambda x: np.concatenate([x[-1:], x, x[:1]])[1:-1],  # all of one piece
    lambda x: np.concatenate([x[-1:], x])[1:4].T[::-1],
    lambda x: np.stack([x, x * 2])[0],
    lambda x: np.roll(np.roll(x, 1, 0), -1, 0),
])
def test_a_part_of_a_concatenation_is_no_view_of_an_argument(program):
    fused, x = nf.fuse(program), X.copy()
    for _ in range(3):
        found = fused(x)
        assert not np.shares_memory(found, x)
        np.testing.assert_array_equal(found, program(x))


@pytest.mark.parametrize("program", [
    lambda x: np.roll(x, 1, 0) * 2,
    lambda x: np.concatenate([x, x]),
    lambda x: (np.stack([long(x), long(x + 1)]), np.roll(x, 1, 0)),
])
def test_programs_of_arrays_without_elements(program):
    fused, x = nf.fuse(program), np.ones((3, 0))
    for _ in range(4):
        found, expected = fused(x), program(x)
        for f, e in zip(*(v if isinstance(v, tuple) else (v,)
                          for v in (found, expected)), strict=True):
            assert f.shape == e.shape


def test_a_window_that_wraps_takes_arrays_of_all_its_points():
    box, origin = wrapped((1, -7), (6, 8))
    assert (box, origin) == (((1, 6), (1, 8)), (1, 1))
    spec = Map(COPY, ("window",), (), Windows.of([Place(0, origin, True)], [box],
                                                 (6, 8)))
    np.testing.assert_array_equal(execute(spec, (X,))[0], np.roll(X, (1, 1), (0, 1)))
    inner = Map(COPY, ("window",), (), Windows.of([Place(0, (1, 0))],
                                                  [((1, 6), (0, 8))], (6, 8)))
    np.testing.assert_array_equal(execute(inner, (X[:5],))[0][1:], X[:5])
    for one, rows in ((spec, 5), (inner, 4)):
        with pytest.raises(ShapeError, match="does not fill its window"):
            execute(one, (X[:rows],))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(9, 517), (12, 1024), (3, 5, 132), (40, 33)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_on_a_device(shape, dtype, device):
    """Rows of whole accesses and others, borders in every lane."""
    x = RNG.normal(size=shape).astype(dtype)

    def program(x):
        y = x.copy()
        y[..., 1:-1, 2:-1] = np.roll(x, 1, -1)[..., 2:, 2:-1] * x[..., :-2, 3:]
        around = sum(np.roll(x, by, axis) for by in (1, -3) for axis in range(x.ndim))
        return y, np.where(y > 0, around, np.roll(np.roll(y, 2, 0), 1, -1))

    fused, given = nf.fuse(program), nf.array(x, device=device)
    tolerance = {"f2": 2e-2, "f4": 1e-5, "f8": 1e-13}[dtype]
    for _ in range(3):
        for f, e in zip(fused(given), program(x.astype("f8")), strict=True):
            np.testing.assert_allclose(np.asarray(nf.to_numpy(f), "f8"), e,
                                       rtol=tolerance, atol=tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_windows_side_by_side_that_are_apart_in_a_later_call(dtype, device):
    """A kernel that was chosen for views of one array gets others, and back."""
    whole = nf.array(RNG.normal(size=(40, 264)).astype(dtype), device=device)
    other = nf.array(RNG.normal(size=(40, 264)).astype(dtype), device=device)

    def program(u, v):
        y = u.copy()
        y[1:-1, 1:-1] += 2*v[2:, 1:-1] - 3*v[:-2, 2:] + v[1:-1, :-2]
        return y + np.roll(u, 1, 1) + 5*np.roll(v, (1, -1), (0, 1))

    fused = nf.fuse(program)
    near = whole[2:34, 4:260], whole[2:34, 5:261]
    below = whole[3:35, 4:260], whole[2:34, 4:260]
    apart = whole[2:34, 4:260], other[2:34, 5:261]
    for given in (near, near, near, apart, near, below, below, apart, below):
        expected = program(*(np.asarray(nf.to_numpy(x), "f8") for x in given))
        np.testing.assert_allclose(np.asarray(nf.to_numpy(fused(*given)), "f8"),
                                   expected, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
def test_a_step_of_populations_on_a_device(device):
    f, w = RNG.normal(size=(2, 9, 16, 128))

    def pulled(w, f):
        made, pullback = nf.vjp(advected, f)
        return made, pullback(w)[0]

    expected = advected(f)
    fused, given = nf.fuse(pulled), [nf.array(x, device=device) for x in (w, f)]
    direction, e = RNG.normal(size=f.shape), 1e-6
    slope = ((advected(f + e * direction) - advected(f - e * direction)) * w).sum()
    for _ in range(4):
        made, gradient = map(nf.to_numpy, fused(*given))
        np.testing.assert_allclose(made, expected, rtol=1e-12)
        assert (gradient * direction).sum() == pytest.approx(slope / (2 * e), rel=1e-6)
    assert launches_with_windows(fused) == 2
