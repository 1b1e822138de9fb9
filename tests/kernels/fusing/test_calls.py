"""Functions without an operation, called between the launches of a fused function."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from nbfused.kernels.fusing.plans.segments import SegmentedPlan

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

RNG = np.random.default_rng(0)
SQUARE, TALL, LINE = (RNG.normal(size=shape) for shape in ((5, 5), (5, 3), 7))


def same(function, *args, times=4):
    """Fused as by itself: by its program, then by its plan; `args` change."""
    fused = nf.fuse(function)
    mine = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    for k in range(times):
        found, expected = fused(*args), function(*mine)
        listed = isinstance(expected, (tuple, list))
        for f, e in zip(*((found, expected) if listed else ([found], [expected])),
                        strict=True):
            assert np.shape(f) == np.shape(e)
            assert np.asarray(f).dtype == np.asarray(e).dtype
            np.testing.assert_allclose(f, e, rtol=1e-10, atol=1e-12)
        for a, m in zip(args, mine, strict=True):
            np.testing.assert_allclose(a, m, rtol=1e-10, atol=1e-12)
            if isinstance(a, np.ndarray):
                a *= 1 + 0.1 * k
                m *= 1 + 0.1 * k
    return fused


FUNCTIONS = {
    "solve": (lambda a, b: np.linalg.solve(a * 2, b) + 1, SQUARE, TALL),
    "sort": (lambda a: np.sort(a * 2, axis=0) - 1, SQUARE),
    "eigh": (lambda a: np.linalg.eigh(a + a.T).eigenvalues * 2, SQUARE),
    "fft": (lambda a: np.abs(np.fft.fft(a * 2)), LINE),
    "histogram": (lambda a: np.histogram(a * 2, bins=4), LINE),
    "cumsum": (lambda a: np.cumsum(a + 1) * 2, LINE),
    "flip": (lambda a: np.flip(a) * 2 + a, LINE),
    "accumulate": (lambda a: np.add.accumulate(a * 3), LINE),
    "sum where": (lambda a: np.sum(a, where=a > 0), LINE),
    "det": (lambda a: np.linalg.det(a) * a, SQUARE),
    "allclose": (lambda a: np.where(np.allclose(a, a), a, 2 * a), SQUARE),
    "nested": (lambda a: np.hstack([a, a * 2]) + 1, SQUARE),
    "einsum": (lambda a: np.einsum("ij,jk->ik", a, a) + 1, SQUARE),
    "of types": (lambda a: a * (2 if np.result_type(a) == np.float64 else 3), SQUARE),
    "argsort": (lambda a: a.argsort(axis=1) * 2, SQUARE),
    "split": (lambda a: np.split(a, 5)[1] + 1, SQUARE),
    "a number": (lambda a, n: np.roll(a, 2) * n, LINE, 3.0),
    "reciprocal": (lambda a: np.reciprocal((a * 10).astype("i4") + 1000), LINE),
    "shapes that follow": (lambda a: np.unique(np.round(a)) * 2, LINE),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_numpy(name):
    function, *args = FUNCTIONS[name]
    same(function, *(a.copy() if isinstance(a, np.ndarray) else a for a in args))


def _updated(w, m, x, n):
    q, _ = np.linalg.qr(x @ w * n)
    s = np.sort(q * 2, axis=0).T
    m *= 0.9
    m += s.sum(1)
    w -= 0.1 * (w * m.mean())
    return s + 1, q.T


def test_a_plan_is_split_around_calls():
    fused = same(_updated, SQUARE[:4, :4].copy(), np.zeros(4), RNG.normal(size=(6, 4)),
                 1.5, times=8)
    (plan,) = fused._plans._states.values()
    assert isinstance(plan, SegmentedPlan)
    assert len(plan.plans) == 3
    assert fused.cache_info().misses == 1


def test_results_that_lie_otherwise_than_they_did():
    """A plan is for a layout; another one is computed without it."""
    turned = [False]

    def either(x):
        turned[0] = not turned[0]
        return x.copy(order="F" if turned[0] else "C")

    call = nf.callback(either, lambda s: s, "f8")
    fused = nf.fuse(lambda x: call(x * 2) + x)
    for _ in range(6):
        np.testing.assert_allclose(fused(SQUARE), SQUARE * 3)


def _stored(a):
    np.copyto(a, a * 2)
    np.fill_diagonal(a, 3.0)
    np.add.at(a, [0, 0], 1.0)
    return np.cumsum(a, axis=0, out=a)


def test_arguments_that_functions_change():
    x, expected = SQUARE.copy(), SQUARE.copy()
    found = nf.fuse(_stored)(x)
    _stored(expected)
    assert found is x
    np.testing.assert_allclose(x, expected)


def test_views_see_changes_in_place():
    def changed(a):
        b = np.flip(a)
        a += 1
        return b * 1

    same(changed, LINE.copy())


def test_an_error_of_the_function_is_its_own():
    fused = nf.fuse(lambda a: np.linalg.inv(a))
    for _ in range(3):
        np.testing.assert_allclose(fused(SQUARE), np.linalg.inv(SQUARE))
        with pytest.raises(np.linalg.LinAlgError):
            fused(np.zeros((5, 5)))


@pytest.mark.parametrize(("function", "words"), [
    (lambda a: nf.grad(lambda t: np.polydiv(t, t)[0].sum())(a),
     "numpy.polydiv is differentiated"),
    (lambda a: np.array_repr(a), "array_repr needs values"),
    (lambda a: np.save("nowhere", a), "numpy.save needs values"),
    (lambda a: np.frompyfunc(str, 1, 1)(a), "dtype object")])
def test_what_is_no_call_is_refused(function, words):
    with pytest.raises(KernelTypeError, match=words):
        nf.fuse(function)(LINE)


def test_integers_of_a_function_that_is_differentiated():
    """What has no derivative anyway may be called."""
    fused = nf.fuse(lambda a: nf.grad(lambda t: (t * np.argsort(t)).sum())(a))
    np.testing.assert_array_equal(fused(LINE), np.argsort(LINE))
