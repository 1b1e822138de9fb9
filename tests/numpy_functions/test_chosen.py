"""``x[mask]`` inside of `nf.fuse` and `vmap`, where its extent is not known."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((2, 5, 4))


def reductions(x, y):
    m = x > 0
    return (x[m].sum(), x[m].mean(), np.mean(x[m]*y[m] + 1), np.log(x[m]).sum(),
            x[m].max(), x[m].min(), np.max(x[m], initial=9.0), x[m].var(),
            np.std(x[m], ddof=1), np.prod(x[m]), (x[m] > 1).any(), np.all(x[m] > -1),
            np.add.reduce(x[m]), x[m].sum()/x[m].size, np.size(x[m]))


def elements(x, y):
    m = x > 0.3
    return (np.sqrt(x[m]).mean(), np.maximum(x[m], y[m]).sum(), (2.0**x[m]).sum(),
            np.where(x[m] > 0.5, 1.0, y[m]).sum(), np.clip(x[m], 0, 1).sum(),
            (x[m]*y.sum()).sum(), (x[m].astype(np.float32)*2).sum(dtype=float),
            sum(part.sum() for part in np.divmod(x[m], 0.25)), (-abs(y[m])).min())


def rows(x, y):
    m, c = x[:, 0] > 0, y[0] > 0
    return (x[m].sum(axis=0), x[m].sum(), x[m].mean(axis=0), (x[m]*y[0]).sum(),
            x[m, 1].max(), x[:, c].sum(axis=1), x[:, c].sum(axis=-1), x[2, c].sum(),
            x[..., c].mean(), (x[:, c]*x[:, :1]).sum(axis=1), x[m, 1:3].sum(axis=0),
            x[None, m].sum(), np.max(x[m], axis=0), x[0, c].size)


def changes(x, y):
    m = x > 0
    x[m] += 1
    x[m] = x[m]*y[m] - 2
    x[~m] = 0.5
    return x


def changes_of_rows(x, y):
    m, c = x[:, 0] > 0, y[0] > 0
    x[2, c] = 7.0
    x[:, c] *= 2
    x[m, 1] -= 3
    x[m] = y[0]
    x[1, c] = y[1, c]
    x[..., c] += x[:, :1]
    return x


def copies(x, y):
    m = x > 0
    before = x[m]
    x[m] = 0
    m[...] = False
    before += 1
    r = x[:, 0] < 0
    row = x[r]
    r[...] = True
    x[...] = 3
    return before.sum(), x, x[m].sum(), row.sum(), row.sum(axis=0)


def masks_without_a_name(x, y):
    x[x > 0] *= y[x > 0]
    return (x[x < 0]*y[x < 0]).sum(), x


FUNCTIONS = [reductions, elements, rows, changes, changes_of_rows, copies,
             masks_without_a_name]


def equal(found, wanted):
    found, wanted = ((x if isinstance(x, tuple) else (x,)) for x in (found, wanted))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6 if np.asarray(
            b).dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_fused_is_what_numpy_gives(function):
    fused = nf.fuse(function)
    for shift in (0, 0.4, -9):  # with other numbers of elements; the last with none
        x = X + shift
        if shift == -9 and function in (reductions, elements, rows):
            continue
        equal(fused(x.copy(), Y.copy()), function(x.copy(), Y.copy()))


@pytest.mark.parametrize("function", [reductions, elements, changes, copies],
                         ids=lambda f: f.__name__)
def test_samples_are_what_numpy_gives(function):
    x = RNG.standard_normal((3, 5, 4)) + 0.2

    def of_copies(x, y):
        return function(x*1, y)

    found = nf.vmap(of_copies, in_axes=(0, None))(x, Y)
    wanted = [function(one.copy(), Y) for one in x]
    wanted = tuple(map(np.stack, zip(*wanted, strict=True))) if isinstance(
        wanted[0], tuple) else np.stack(wanted)
    equal(found, wanted)


def test_nothing_that_is_chosen():
    @nf.fuse
    def f(x):
        m = x > 9
        return x[m].sum(), x[m].mean(), x[m].max(), np.min(x[m], initial=3.0), x[m].size

    total, mean, greatest, least, size = f(X)
    assert (float(total), float(least), int(size)) == (0, 3, 0)
    assert np.isnan(mean)
    assert np.isnan(greatest)


def loss(x, y):
    m = x > 0
    scale = (y*y).sum()
    return np.log(x[m]*scale).sum() + (x[m]**2/y[m]).mean() + x[m].max()


def gradients(x, y):
    return nf.grad(loss, 0)(x, y), nf.grad(loss, 1)(x, y)


def test_gradients_are_those_outside_and_of_differences():
    x = X.copy()
    x[0, 0] = 0.0  # where the logarithm of what is not chosen has no derivative
    found, step, at = nf.fuse(gradients)(x, Y), 1e-6, (1, 2)
    equal(found, gradients(x, Y))
    for k in (0, 1):
        shifted = [[x.copy(), Y.copy()] for _ in range(2)]
        shifted[0][k][at] += step
        shifted[1][k][at] -= step
        wanted = (loss(*shifted[0]) - loss(*shifted[1]))/(2*step)
        assert found[k][at] == pytest.approx(wanted, rel=1e-6)


def test_second_derivatives():
    def f(x):
        m = x > 0
        return (x[m]**3).sum()

    hessian = nf.fuse(nf.hessian(f))(X[0])
    np.testing.assert_allclose(hessian, np.diag(np.where(X[0] > 0, 6*X[0], 0)))


@pytest.mark.parametrize(("function", "text"), [
    (lambda x: x[x > 0], "returns x\\[mask\\]"), (lambda x: len(x[x > 0]), "not known"),
    (lambda x: np.median(x[x > 0]), "np.median"), (lambda x: x[x > 0].shape, ".shape"),
    (lambda x: np.sort(x[x > 0]), "np.sort"), (lambda x: x[x > 0][0], "not known"),
    (lambda x: nf.ops.exp(x[x > 0]), "np.exp"),
    (lambda x: x[x > 0]*x[x < 0], "different masks"),
    (lambda x: x[x > 0]*np.arange(3.0), "same mask"),
    (lambda x: np.max(x.astype(int)[x > 0]), "initial="),
    (lambda x: x[x[:2] > 0].sum(), "has the shape"),
    (lambda x: x[[0, 1], x[0] > 0].sum(), "another array"),
    (lambda x: x[None][0, :, x[0] > 0].sum(), "in front"),
    (lambda x: x[x > 0].sum(keepdims=True), "not known")])
def test_what_depends_on_the_number_is_refused(function, text):
    with pytest.raises(KernelTypeError, match=text):
        nf.fuse(function)(X)
