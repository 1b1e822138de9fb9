"""`nf.callback`: functions in Python, inside and outside of fused functions."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NotDifferentiableError, ShapeError

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

X, W = np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])


def _sorted(x, n):
    return np.sort(x) * n


def _sorted_vjp(args, results, cotangents):
    places = np.argsort(np.argsort(args[0]))
    return cotangents[0][places] * args[1], None


RANKED = nf.callback(_sorted, lambda s, _: s, "f8", vjp=_sorted_vjp)


def weighted(x, w, n):
    return nf.value_and_grad(lambda t: (RANKED(t * 2, n) * w).sum())(x)


def expected_of_weighted(x, w, n):
    places = np.argsort(np.argsort(x))
    return (np.sort(x * 2) * n * w).sum(), 2 * n * w[places]


def test_its_derivative_inside_and_outside():
    fused = nf.fuse(weighted)
    rng = np.random.default_rng(0)
    for n in (2.0, 3.0, 4.0, 5.0):
        x = rng.normal(size=3)
        for call in (weighted, fused):
            for found, right in zip(call(x, W, n), expected_of_weighted(x, W, n),
                                    strict=True):
                np.testing.assert_allclose(found, right, rtol=1e-12)
    assert fused.cache_info().misses == 1
    assert [one.name for one in fused.explain(X, W, 2.0) if one.kind == "call"] == [
        "_sorted", "_sorted's vjp"]


def test_a_variable_outside_is_differentiated_through_it():
    x = nf.Variable(X, requires_grad=True)
    nf.fuse(lambda x, w: (RANKED(x, 2.0) * w).sum())(x, W).backward()
    np.testing.assert_allclose(x.grad, [6.0, 2.0, 4.0])


def test_it_is_called_once_in_each_call_and_in_order():
    seen = []
    note = nf.callback(lambda *a: seen.append([np.array(x) for x in a]), [], [])

    @nf.fuse
    def step(x):
        note(x)
        x += 1
        note(x, x.sum())
        return x * 2

    x = np.zeros(2)
    for k in range(5):
        step(x)
        assert len(seen) == 2 * (k + 1)
        assert [a.tolist() for a in seen[-2]] == [[k, k]]
        assert [a.tolist() for a in seen[-1]] == [[k + 1, k + 1], 2 * k + 2]


def test_several_results_and_numbers():
    two = nf.callback(lambda x: (float(x.sum()), x * 2), [(), (3,)], ["f8", "f8"])
    fused = nf.fuse(lambda x: (lambda s, t: t / s)(*two(x)))
    for k in range(1, 5):
        np.testing.assert_allclose(fused(X * k), X / 3)


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    call = nf.callback(lambda x: (torch.sort(x).values, float(x.sum())), [(3,), ()],
                       ["f4", "f4"])
    fused = nf.fuse(lambda x: (lambda s, t: s * t)(*call(x * 2)))
    x = torch.tensor(X).float()
    for k in range(1, 5):
        torch.testing.assert_close(fused(x * k), torch.sort(x * 2 * k).values * 12 * k)


@pytest.mark.parametrize(("wrong", "error", "words"), [
    (lambda x: x[:2], ShapeError, r"result 0 .* shape \(2,\); \(3,\) was promised"),
    (lambda x: x.astype("f4"), KernelTypeError, "float32; float64 was promised"),
    (lambda x: None, KernelTypeError, "NoneType"),
    (lambda x: "text", KernelTypeError, "str"),
    (lambda x: x.__setitem__(0, 1), ValueError, "read-only")])
def test_results_are_checked(wrong, error, words):
    call = nf.callback(wrong, (3,), "f8")
    for run in (call, nf.fuse(lambda x: call(x * 2) + 1)):
        with pytest.raises(error, match=words):
            run(X)


def test_a_wrong_count_is_named():
    call = nf.callback(lambda x: (x, x, x), [(3,), (3,)], ["f8", "f8"])
    with pytest.raises(ShapeError, match="returned 3 results; expected 2"):
        call(X)


@pytest.mark.parametrize("promise", [
    ((3,), ["f8"]), ([(3,)], "f8"), ((3.5,), "f8"), ([(3,)], ["f8", "f8"])])
def test_promises_that_do_not_fit(promise):
    with pytest.raises(ShapeError, match="callback: shapes"):
        nf.callback(_sorted, *promise)


def test_other_refusals():
    plain = nf.callback(lambda x: x * 1, (3,), "f8")
    with pytest.raises(NotDifferentiableError, match="give vjp="):
        nf.fuse(lambda x: nf.grad(lambda t: plain(t).sum())(x))(X)
    with pytest.raises(KernelTypeError, match="expected a function"):
        nf.callback(3, (3,), "f8")
    short = nf.callback(lambda x: x * 1, (3,), "f8", vjp=lambda a, r, c: ())
    with pytest.raises(ShapeError, match="0 results; expected a tuple of 1 gradients"):
        nf.grad(lambda t: short(t).sum())(X)


def test_results_have_memory_of_their_own():
    same = nf.callback(lambda x: x, (3,), "f8")
    assert not np.shares_memory(same(X), X)

    @nf.fuse
    def step(x):
        before = same(x)
        x += 1
        return before * 1

    x = X.copy()
    for k in range(4):
        np.testing.assert_allclose(step(x), X + k)


def test_a_view_of_what_is_changed_passes_from_segment_to_segment():
    """It was refused as memory that two arguments share, from the third call on."""
    call = nf.callback(lambda a: a + 1.0, lambda shape: shape, "f8")

    @nf.fuse
    def step(x, w):
        part = w[1:]
        y = call(x + part[0])
        z = call(y * part[1])
        w -= 0.5
        return part*2.0 + z[1:]

    w, want = np.arange(4.0), np.arange(4.0)
    for k in range(5):
        x = np.full(4, float(k))
        z = (x + want[1] + 1)*want[2] + 1
        want = want - 0.5
        np.testing.assert_allclose(step(x, w), want[1:]*2 + z[1:])
        np.testing.assert_allclose(w, want)
