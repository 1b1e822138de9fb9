"""Derivatives of reading by index."""

import numpy as np
import pytest

import nbfused as nf
from tests.variants import sampled_together

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_repeated_rows_add_up_in_float32(dtype, device):
    table = nf.Variable(nf.array(np.zeros((3, 2), dtype), device=device),
                        requires_grad=True)
    rows = nf.array(np.zeros(4000, np.int64), device=device)
    g = np.ones((4000, 2), dtype)  # in 16 bits the sum would stick at 2048 or 256
    nf.ops.take(table, rows).backward(nf.array(g, device=device))
    grad = nf.to_numpy(table.grad)
    assert grad.dtype == np.dtype(dtype)
    expected = np.array([[4000, 4000], [0, 0], [0, 0]], dtype)
    np.testing.assert_array_equal(grad, expected)


SHAPES = [((6, 5), 0), ((6, 5), 1), ((3, 6, 5), 1), ((3, 6, 5), -1), ((2, 6, 3, 5), 1),
          ((6,), 0), ((6, 1), 0), ((1, 6, 1), 1), ((3, 6, 1), 1), ((1, 6, 4), 1),
          ((2, 3, 6), 2), ((6, 100), 0), ((2, 6, 70), 1)]
#: Of which differences of second order take seconds.
LARGE = [((3, 6, 5), -1), ((2, 6, 3, 5), 1)]


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("chosen", [[2, -1, 0, 2, -5, 4], [[1], [-2]], [3], [],
                                    3], ids=str)
def test_slices_are_numpys(shape, axis, chosen, device):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    indices = np.array(chosen, np.int64).reshape(np.shape(chosen))
    for table in (x, np.asfortranarray(x), x[::-1]):
        found = nf.ops.take(nf.array(table, device=device),
                            nf.array(indices, device=device), axis)
        np.testing.assert_array_equal(nf.to_numpy(found), np.take(table, indices, axis))


@pytest.mark.parametrize("shape", [(0, 6, 5), (3, 6, 0), (0, 6)])
def test_axes_without_elements(shape, device):
    x = np.ones(shape, np.float32)
    v = nf.Variable(nf.array(x, device=device), requires_grad=True)
    found = nf.ops.take(v, nf.array(np.array([1, -1]), device=device), 1)
    expected = np.take(x, [1, -1], 1)
    assert found.shape == expected.shape
    found.backward(nf.array(expected, device=device))
    assert v.grad.shape == shape


@pytest.mark.parametrize(("shape", "axis"), sampled_together(
    SHAPES, *(case for case in SHAPES if case not in LARGE)), ids=str)
def test_derivatives_by_two_orders(shape, axis, device):
    """Of repeated and negative indices; the oracle is differences."""
    indices = nf.array(np.array([2, -1, 2, 0]), device=device)
    x = np.random.default_rng(1).uniform(0.5, 1.5, size=shape)[..., :5]
    axis = axis if x.shape[axis] >= 3 else 0
    nf.testing.gradcheck(lambda x: nf.ops.take(x * x, indices, axis), [x], order=2,
                         place=lambda a: nf.array(a, device=device), tolerance=2e-6)


def test_an_index_out_of_range_is_named():
    with pytest.raises(IndexError, match=r"axis 0 of extent 3.*got 3"):
        nf.ops.take(np.zeros((3, 2)), np.array([0, 3]))


def test_narrow_indices_do_not_wrap(device):
    table = np.arange(1000.0)
    found = nf.ops.take(nf.array(table, device=device),
                        nf.array(np.array([5, -1, 100], np.int8), device=device))
    np.testing.assert_array_equal(nf.to_numpy(found), [5.0, 999.0, 100.0])


def test_narrow_labels_do_not_wrap(device):
    logits = np.random.default_rng(0).normal(size=(4, 1000))
    labels = np.array([0, 255, 100, 200], np.uint8)
    found = nf.ops.cross_entropy(nf.array(logits, device=device),
                                 nf.array(labels, device=device))
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    expected = -log_p[np.arange(4), labels.astype(int)].mean()
    np.testing.assert_allclose(float(nf.to_numpy(found)), expected, rtol=1e-12)


@pytest.mark.parametrize("call", [
    lambda x, **k: nf.ops.take(x, np.array([1, 0, 1]), **k),
    lambda x, **k: nf.ops.concatenate([x[:2], x[1:]], **k),
    lambda x, **k: nf.ops.stack([x[0], x[2]], **k),
])
@pytest.mark.parametrize("dtype", ["float64", "bool", "int8"])
def test_results_are_stored_where_asked(call, dtype):
    x = (np.arange(12.0).reshape(3, 4) % 3).astype(dtype)
    expected = call(x)
    out = np.zeros((2 * len(expected), 4), dtype)[::2]
    assert call(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(ValueError, match="out"):
        call(x, out=np.zeros((9, 9)))


@pytest.mark.compiled
def test_more_rows_than_float16_counts():
    labels = np.arange(70_000) % 2
    loss = nf.ops.cross_entropy(np.zeros((70_000, 2), np.float16), labels,
                                ignore_index=5)
    assert loss.dtype == np.float16
    assert loss == np.float16(np.log(2))
