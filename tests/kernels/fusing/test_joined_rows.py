"""Rows, the Maps and the sums around them in one launch, against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.specs.fusion import row_joins
from tests.variants import sampled_together

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]
ops = nf.ops


def launches(function, *args):
    return [(one.kind, one.operations) for one in nf.fuse(function).explain(*args)]


def thrice(function, *args):
    """The result of a plan, after that of a program."""
    fused = nf.fuse(function)
    return [fused(*args) for _ in range(3)][-1]


def normal(*shape, seed=0, dtype="float64"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e/e.sum(-1, keepdims=True)


def picked(x, labels):
    """The cross entropy of each row, and its derivative."""
    p, rows = softmax(x), np.arange(len(x))
    return -np.log(p[rows, labels]), p - np.eye(x.shape[1])[labels]


def loss_of_linear(x, labels, w, b, reduction="mean"):
    return ops.cross_entropy(ops.linear(x, w, b), labels, reduction=reduction)


def pull(x, labels, w, b):
    return nf.value_and_grad(loss_of_linear, argnums=(2, 3))(x, labels, w, b)


@pytest.mark.parametrize(("rows", "classes", "dtype"), sampled_together(
    [(*extents, dtype) for extents in ((1, 1), (3, 5), (24, 10), (300, 33))
     for dtype in ("float64", "float32")],
    (24, 10, "float64"), (1, 1, "float32"), (300, 33, "float32")))
def test_a_loss_its_derivative_and_the_bias_are_one_launch(rows, classes, dtype):
    x, w, b = (normal(*s, seed=k, dtype=dtype) for k, s in enumerate(
        ((rows, 4), (4, classes), (classes,))))
    labels = np.random.default_rng(5).integers(classes, size=rows)
    found, (dw, db) = thrice(pull, x, labels, w, b)
    wide = [a.astype("float64") for a in (x, w, b)]
    each, g = picked(wide[0] @ wide[1] + wide[2], labels)
    tolerance = {"rtol": 1e-10, "atol": 1e-12} if dtype == "float64" else {
        "rtol": 1e-4, "atol": 1e-5}
    assert found.dtype == db.dtype == dtype
    assert found.shape == ()
    np.testing.assert_allclose(found, each.mean(), **tolerance)
    np.testing.assert_allclose(db, g.mean(0), **tolerance)
    np.testing.assert_allclose(dw, wide[0].T @ g/rows, **tolerance)
    assert [kind for kind, _ in launches(pull, x, labels, w, b)] == [
        "Contract", "Row", "Contract"]


def test_another_number_of_rows_has_another_mean():
    """The number of rows is a constant of the kernel, so it is traced again."""
    fused = nf.fuse(lambda x, labels: ops.cross_entropy(x, labels))
    for rows in (4, 9, 4, 9, 9, 4):
        x, labels = normal(rows, 5, seed=rows), np.arange(rows) % 5
        np.testing.assert_allclose(fused(x, labels), picked(x, labels)[0].mean())


def test_sums_and_their_cotangent_that_is_given():
    """The cotangent of each row is no constant here, and still read in the Row."""
    def both(x, labels, g):
        each, back = nf.vjp(lambda y: ops.cross_entropy(
            y, labels, reduction="none"), x)
        (dx,) = back(g)
        return ops.sum(each), dx, ops.sum(dx, axis=0)

    x, labels, g = normal(6, 4), np.array([0, 3, 1, 2, 2, 0]), normal(6, seed=3)
    total, dx, columns = thrice(both, x, labels, g)
    each, d = picked(x, labels)
    np.testing.assert_allclose(total, each.sum())
    np.testing.assert_allclose(dx, d*g[:, None], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(columns, (d*g[:, None]).sum(0), rtol=1e-12, atol=1e-15)
    assert [kind for kind, _ in launches(both, x, labels, g)] == ["Row"]


def test_labels_that_are_ignored():
    def both(x, labels):
        return nf.value_and_grad(
            lambda y: ops.cross_entropy(y, labels, ignore_index=1))(x)

    x, labels = normal(7, 3), np.array([0, 1, 2, 1, 1, 0, 2])
    found, dx = thrice(both, x, labels)
    kept = labels != 1
    each, d = picked(x, labels)
    np.testing.assert_allclose(found, each[kept].mean())
    np.testing.assert_allclose(dx, d*kept[:, None]/kept.sum(), rtol=1e-12, atol=1e-15)


def test_maps_on_both_sides_of_a_row():
    def block(x, y, scale):
        total = x + y
        return total, ops.softmax(total)*scale - x

    x, y, scale = normal(5, 7), normal(5, 7, seed=1), normal(7, seed=2)
    total, out = thrice(block, x, y, scale)
    np.testing.assert_allclose(total, x + y)
    np.testing.assert_allclose(out, softmax(x + y)*scale - x, rtol=1e-12)
    assert [kind for kind, _ in launches(block, x, y, scale)] == ["Row"]


@pytest.mark.compiled
def test_two_rows_one_after_the_other():
    x = normal(6, 9)
    np.testing.assert_allclose(
        thrice(lambda x: ops.softmax(ops.softmax(x)), x), softmax(softmax(x)),
        rtol=1e-12)
    assert [kind for kind, _ in launches(lambda x: ops.softmax(ops.softmax(x)),
                                         x)] == ["Row"]


@pytest.mark.compiled
def test_a_value_on_the_way_is_rounded_as_its_array_would_be():
    x = normal(6, 9, dtype="float16")
    plain = ops.softmax(ops.softmax(x))
    np.testing.assert_array_equal(
        thrice(lambda x: ops.softmax(ops.softmax(x)), x), plain)


@pytest.mark.parametrize(("function", "kinds"), [
    (lambda x: ops.softmax(ops.softmax(x, axis=0)), ["Row", "Row"]),
    (lambda x: ops.sum(ops.softmax(x), axis=1), ["Row", "Reduce"]),
    (lambda x: ops.max(ops.softmax(x), axis=0), ["Row", "Reduce"]),
    (lambda x: ops.softmax(x) @ x.T + ops.softmax(x).sum(), ["Row", "Contract"]),
])
def test_what_is_joined_and_what_is_not(function, kinds):
    x = normal(6, 9)
    assert [kind for kind, _ in launches(function, x)] == kinds
    np.testing.assert_allclose(thrice(function, x), function(x), rtol=1e-12)


def test_rows_that_are_too_long(monkeypatch):
    monkeypatch.setattr(row_joins, "COLUMNS", 8)
    x = normal(6, 9)
    assert len(launches(lambda x: ops.softmax(ops.softmax(x)), x)) == 2


def test_rows_whose_sums_would_be_long_kernels(monkeypatch):
    monkeypatch.setattr(row_joins, "SUMMED", 8)
    x = normal(6, 9)
    assert [kind for kind, _ in launches(
        lambda x: ops.sum(ops.softmax(x), axis=0), x)] == ["Row", "Reduce"]


def test_what_lies_between_two_rows_is_not_jumped_over():
    def between(x, w):
        a = ops.softmax(x)
        return ops.softmax(a + a @ w)

    x, w = normal(6, 9), normal(9, 9, seed=1)
    a = softmax(x)
    np.testing.assert_allclose(thrice(between, x, w), softmax(a + a @ w), rtol=1e-12)
    assert [kind for kind, _ in launches(between, x, w)] == ["Row", "Contract", "Row"]


def test_a_map_that_changes_an_argument_in_place_stays_a_map():
    """It may read and store the same array, which a Row may not."""
    def step(weight, x):
        weight -= 0.5*ops.softmax(x)

    fused, x = nf.fuse(step), normal(6, 9)
    weight = normal(6, 9, seed=1)
    expected = weight - 3*0.5*softmax(x)
    assert [one.kind for one in fused.explain(weight, x)] == ["Row", "Map"]
    for _ in range(3):
        fused(weight, x)
    np.testing.assert_allclose(weight, expected, rtol=1e-12)


def test_gradients_of_what_was_joined():
    """A call that is recorded differentiates the joined Row."""
    x, labels = normal(5, 4), np.array([0, 1, 3, 2, 2])
    fused = nf.fuse(lambda x: ops.cross_entropy(x*2.0, labels))
    value, dx = nf.value_and_grad(fused)(x)
    each, d = picked(2*x, labels)
    np.testing.assert_allclose(value, each.mean())
    np.testing.assert_allclose(dx, 2*d/5, rtol=1e-10, atol=1e-14)


def test_gradients_of_sums_of_rows():
    """Columns' sums and a sum over all, each with a cotangent of its own."""
    fused = nf.fuse(lambda x: (ops.sum(ops.softmax(x), axis=0), ops.mean(ops.softmax(
        x), axis=(0, 1))))
    x, w = normal(5, 4), normal(4, seed=1)
    assert [one.kind for one in fused.explain(x)] == ["Row"]

    def weighted(x):
        columns, whole = fused(x)
        return ops.sum(columns*w) + 3.0*whole

    dx = nf.grad(weighted)(x)
    p, g = softmax(x), w + 3.0/20
    np.testing.assert_allclose(dx, p*(g - (p*g).sum(1, keepdims=True)), rtol=1e-10,
                               atol=1e-14)


def test_squares_that_are_only_summed_are_not_stored():
    """The gradients are stored once; the norm reads them."""
    def norms(x, w):
        g = x @ w
        return g, (g*g).sum()

    x, w = normal(6, 5), normal(5, 4, seed=1)
    g, total = thrice(norms, x, w)
    np.testing.assert_allclose(g, x @ w)
    np.testing.assert_allclose(total, ((x @ w)**2).sum())
    names = [names for _, names in launches(norms, x, w)]
    assert names == [("contract_identity",), ("multiply", "sum_sum")]


@pytest.mark.parametrize("shape", [(4, 4), (2, 1, 1, 4), (3, 4, 1), (1, 4), (1,)],
                         ids=str)
def test_a_mask_that_is_broadcast_is_read_by_the_row(shape):
    """Attention's are, over the batch or the heads."""
    mask = np.random.default_rng(0).random(shape) > 0.3
    s, g = normal(2, 3, 4, 4), normal(2, 3, 4, 4, seed=1)

    def attended(s):
        return ops.softmax(ops.where(mask, s * 0.5, -1e9), axis=-1)

    def pulled(s, g):
        found, pull = nf.vjp(attended, s)
        return found, pull(g)[0]

    assert [kind for kind, _ in launches(pulled, s, g)] == ["Row"]
    found, gradient = thrice(pulled, s, g)
    p = softmax(np.where(mask, s * 0.5, -1e9))
    want = np.where(mask, p * (g - (g * p).sum(-1, keepdims=True)) * 0.5, 0)
    np.testing.assert_allclose(found, p, rtol=1e-12)
    np.testing.assert_allclose(gradient, want, rtol=1e-9, atol=1e-12)


def test_a_recorded_row_sums_what_was_broadcast():
    bias, s, g = normal(3, 1, 4), normal(2, 3, 4, 4, seed=1), normal(2, 3, 4, 4, seed=2)
    fused = nf.fuse(lambda s, b: ops.softmax(s * 0.5 + b, axis=-1))
    x, b = (nf.Variable(v, requires_grad=True) for v in (s, bias))
    (fused(x, b) * g).sum().backward()
    p = softmax(s * 0.5 + bias)
    want = p * (g - (g * p).sum(-1, keepdims=True))
    np.testing.assert_allclose(x.grad, want * 0.5, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(b.grad, want.sum((0, 2), keepdims=True)[0], rtol=1e-9)


@pytest.mark.parametrize("shape", [(5, 3), (4, 1)])
def test_a_sum_over_all_rows_is_not_read_in_the_row_that_makes_it(shape):
    """A column's mean is known after the last row, and what reads it comes later."""
    def scaled(x):
        y = x - x.mean(axis=-1, keepdims=True) + x
        return y*y.mean(axis=0)

    x = normal(*shape)
    np.testing.assert_allclose(thrice(scaled, x), scaled(x), rtol=1e-12, atol=1e-14)
