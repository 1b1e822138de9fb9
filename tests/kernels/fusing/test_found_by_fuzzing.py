"""Programs of NumPy's functions that were wrong once: found by `tests.fuzz`."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

X = np.arange(6.0).reshape(2, 3) + 1
ROW = np.array([[1.0, 2.0, 3.0]])


def _rolled(x, axis):
    first = [slice(None)] * x.ndim
    first[axis] = slice(1, None)
    last = [slice(None)] * x.ndim
    last[axis] = slice(0, 1)
    return np.concatenate([x[tuple(first)], x[tuple(last)]], axis)


def _changed(call):
    """What `call` gives of an array that is changed afterwards."""
    def changed(x):
        made = call(x)
        x += 1
        return made

    return changed


def _stored_by_another_rank(x, y):
    y[:-1, None] *= 2
    z = np.ones((4, 2, 3)) * x[0, 0]
    z[0:4, ::-1] = y
    return np.roll(z, 1, 0)


CASES = {
    "a roll of a roll": (lambda x: _rolled(_rolled(np.concatenate([x, x]), 1), 0), ROW),
    "a slice of a roll": (lambda x: _rolled(np.concatenate([x, x + 1]), 1)[1:], ROW),
    "shifted blocks": (lambda x: np.fft.ifftshift(np.block([[x, x], [x, x]])), ROW),
    "stored by another rank": (_stored_by_another_rank, X, np.array([1.0, 2.0, 3.0])),
    **{f"{name}, changed": (_changed(call), X) for name, call in {
        "repeat": lambda x: np.repeat(x, 2, 0), "repeat once": lambda x: x.repeat(1, 0),
        "tile": lambda x: np.tile(x, 1), "tile twice": lambda x: np.tile(x, (2, 1)),
        "roll by nothing": lambda x: np.roll(x, 0, 1), "pad": lambda x: np.pad(x, 0),
        "resize": lambda x: np.resize(x, (3, 2)), "block": np.block,
        "reshape": lambda x: x.reshape(-1), "rows": lambda x: x[1:].reshape(-1, 1),
    }.items()},
    "a scalar of unstack": (_changed(lambda x: np.unstack(x[0])[1]), X),
    "a scalar": (_changed(lambda x: x[0, 1]), X),
    "a scalar of a row": (_changed(lambda x: x[0][1] * 1 + x[1, 0]), X),
    "two scalars": (_changed(lambda x: np.stack([x[0, 0], x[1, 1]])), X),
    "cov of float32": (np.cov, X.astype("f4")),
    "corrcoef of float32": (np.corrcoef, X.astype("f4")),
    "polyval by a list": (lambda x: np.polyval([1, 2.0], x), X.astype("f4")),
    "polyadd of a number": (lambda x: np.polyadd(x[0], x[0, 0]), X),
    "convolve by a number": (lambda x: np.convolve(x[0], x[0, 0]), X),
    "geomspace of float16": (lambda x: np.geomspace(x, 2 * x, 3), X.astype("f2")),
    "an inverted constant": (lambda x: ~np.isreal(x), X > 2),
    "of numbers": (lambda x, n: x + np.isreal(n) + np.modf(n)[0], X, np.float64(1.5)),
    "one line": (lambda x: np.apply_along_axis(lambda v: v * 2, -1, x), np.zeros(0)),
}


@pytest.mark.parametrize("name", CASES)
def test_as_numpy(name):
    function, *args = CASES[name]
    mine, theirs = ([np.array(a) if isinstance(a, np.ndarray) else a for a in args]
                    for _ in range(2))
    fused = nf.fuse(lambda *given: function(*given))
    found, expected = fused(*mine), function(*theirs)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("call", [np.median, np.sort, lambda x: np.quantile(x, 0.25)])
def test_functions_of_the_library_on_variables(call):
    found = nf.fuse(lambda x: call(x) * 2)(nf.Variable(X[0]))
    np.testing.assert_allclose(found.data, call(X[0]) * 2)


@pytest.mark.parametrize("share", [25, 25.0, [25, 60.5], np.float64(25), [0, 100]])
def test_percentiles_have_the_dtype_of_a_strong_share(share):
    x = X[0].astype("f4")
    found, expected = np.percentile(nf.Variable(x), share), np.percentile(x, share)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.data, expected, rtol=1e-6)


def test_running_sums_of_nothing_begin_with_the_initial_number():
    found = np.cumulative_sum(nf.Variable(np.zeros(0)), include_initial=True)
    np.testing.assert_array_equal(found.data, [0.0])


@pytest.mark.parametrize("view", [
    lambda x: x.T.reshape(-1), lambda x: x.T.ravel()[1:],
    lambda x: x[:, 1:].reshape(4)])
def test_what_may_be_a_view_or_a_copy_is_refused_after_a_change(view):
    with pytest.raises(KernelTypeError, match="a view or a copy depends on"):
        nf.fuse(_changed(view))(X.copy())

    def before(x):
        made = view(x).sum()
        x += 1
        return made

    assert nf.fuse(before)(X.copy()) == before(X.copy())


def test_a_view_of_a_result_by_two_steps_is_a_view_of_it():
    def parts(x):
        whole = x * 2
        return whole, whole[1:][:, :1]

    assert np.shares_memory(*nf.fuse(parts)(X))


@pytest.mark.parametrize("view", [
    lambda x: x[0, ::2].ravel(), lambda x: x[:, :1].ravel(), lambda x: np.ravel(x[0])])
def test_what_is_raveled_may_be_a_copy_though_it_has_one_axis(view):
    """Of elements that lie apart NumPy's ravel is a copy, and reshape a view."""
    with pytest.raises(KernelTypeError, match=r"a view or a copy|not contiguous"):
        nf.fuse(_changed(view))(np.repeat(X, 2, 1)[:, ::2])


def test_a_contiguous_array_is_changed_through_its_ravel():
    x = X[0].copy()
    nf.fuse(lambda x: np.ravel(x).fill(2))(x)
    np.testing.assert_array_equal(x, 2)


def test_the_ravel_of_elements_apart_is_a_copy_on_variables():
    x = nf.Variable(X[0, ::2].copy()[::-1])
    np.ravel(x)[0] = 9
    np.testing.assert_array_equal(x.data, X[0, ::-2])
