"""Indices and arrays that do not fit, sequences that are none."""

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError, RangeError, ShapeError
from tests.refusal import refused

X = np.arange(1.0, 13.0).reshape(3, 4)
SOME = np.array([0, 1])

INDICES = {
    "beyond": (RangeError, 3, "index 3 is out of bounds for axis 0", "[-3, 3)"),
    "too-many": (RangeError, (0, 0, 0), "3 indices", "2 dimensions", "leave some out"),
    "dots": (RangeError, (..., ...), "2 '...'", "one at most"),
    "step": (RangeError, slice(None, None, 0), "step 0", "axis 0"),
    "slice": (KernelTypeError, slice("a", None), "slice('a'", "integers or None"),
    "bool": (KernelTypeError, True, "a single truth value", "nf.ops.where"),
    "numpy-bool": (KernelTypeError, np.True_, "a single truth value", "nf.ops.where"),
    "float": (KernelTypeError, (SOME, 0.5), "index 0.5", "an integer"),
}


@pytest.mark.parametrize("kind", INDICES)
def test_indices(kind):
    error, index, *words = INDICES[kind]
    with refused(error, *words):
        ops.getitem(X, index)
    assert issubclass(RangeError, IndexError)


def test_indices_that_numpy_has():
    for index in (np.int64(1), np.array(1), (..., -1), slice(np.int64(2), None)):
        np.testing.assert_array_equal(ops.getitem(X, index), X[index])


def test_stacked_shapes_are_those_that_were_given():
    with refused(ShapeError, "arrays[1] of shape (4,)", "arrays[0] of shape (3, 4)",
                 "equal shapes"):
        ops.stack([X, X[0]])


@pytest.mark.parametrize("axis", [np.array(0), np.int64(0)])
def test_an_axis_in_an_array(axis):
    np.testing.assert_array_equal(ops.sum(X, axis=axis), X.sum(0))


@pytest.mark.parametrize(("call", "name"), [
    (lambda: ops.matmul(X, X.T, extras=3), "matmul: 'extras'"),
    (lambda: ops.contract("mk,kn->mn", X, X.T, extras=None), "contract: 'extras'"),
    (lambda: ops.contract("mk,kn->mn", X, X.T, out_axes=1), "contract: 'out_axes'"),
    (lambda: ops.batched_matmul(X, X.T, extras="a"), "batched_matmul: 'extras'"),
])
def test_what_is_no_sequence(call, name):
    with refused(KernelTypeError, f"{name} must be a sequence", "put it in a tuple"):
        call()


@pytest.mark.parametrize(("call", "name"), [
    (lambda: ops.take(1.0, SOME), "take: 'x'"),
    (lambda: ops.take(X, 1.5), "take: 'indices'"),
    (lambda: ops.embedding(1.0, SOME), "embedding: 'table'"),
    (lambda: ops.cross_entropy(1.0, SOME), "cross_entropy: 'logits'"),
    (lambda: ops.cross_entropy(X, 1), "cross_entropy: 'labels'"),
])
def test_numbers_where_an_array_is_needed(call, name):
    with refused(KernelTypeError, f"{name} must be an array, got 1", "nf.array"):
        call()


@pytest.mark.parametrize("shape", [(-3, -4), (-2, -6), (-12, -1, 1)], ids=str)
def test_negative_extents_whose_product_fits(shape):
    with refused(ShapeError, "reshape", str(shape[0]), "one extent may be -1"):
        ops.reshape(X, shape)


def test_logits():
    with refused(ShapeError, "'logits'", "an axis of classes", "()"):
        ops.cross_entropy(np.array(1.0), np.array(0))
    for given in (X > 1, X + 1j):
        with refused(KernelTypeError, "'logits' must be real and floating",
                     str(given.dtype)):
            ops.cross_entropy(given, np.array([0, 1, 2]))


@pytest.mark.parametrize("given", [[], None, np.ones(2)], ids=["list", "none", "array"])
def test_options_that_are_no_key(given):
    with refused(KernelTypeError, "norm: 'ord' must be 1, 2 or inf"):
        ops.norm(X, given)
    with refused(KernelTypeError, "gelu: 'approximate' must be 'none' or 'tanh'"):
        ops.gelu(X, given)


@pytest.mark.parametrize("dtypes", [("f4", "f4"), ("f4", "f8")])
def test_joined_again_and_again(dtypes):
    """Recorded calls are repeated: new memory each time, whatever the layouts."""
    rng = np.random.default_rng(0)
    kept = []
    for k in range(12):
        a, b = (rng.normal(size=s).astype(d) for s, d in zip(
            [(3, 4), (3, 2 + k % 2)], dtypes, strict=True))
        if k % 3 == 1:
            a = np.asfortranarray(a)
        if k % 4 == 2:
            b = np.repeat(b, 2, axis=1)[:, ::2]
        x, y = (nf.Variable(v, requires_grad=True) for v in (a, b))
        made = nf.ops.concatenate([x, y, x], axis=1)
        expected = np.concatenate([a, b, a], axis=1)
        cotangent = rng.normal(size=made.shape).astype(expected.dtype)
        made.backward(cotangent)
        at = 4 + b.shape[1]
        first, last = (c.astype(a.dtype) for c in (cotangent[:, :4], cotangent[:, at:]))
        np.testing.assert_allclose(x.grad, first + last, rtol=1e-6)
        np.testing.assert_array_equal(y.grad, cotangent[:, 4:at].astype(b.dtype))
        kept.append((made.data, expected))
    for made, expected in kept:
        np.testing.assert_array_equal(made, expected)
        assert made.dtype == expected.dtype
