"""Operators and methods, against NumPy and finite differences of NumPy."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, TapeError
from tests.refusal import refused

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(5)
A = RNG.uniform(0.5, 2.0, (3, 4))
B = RNG.uniform(0.5, 2.0, 4)

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]
NUMBER = ["__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__",
          "__truediv__", "__rtruediv__", "__pow__", "__rpow__"]


def slopes(f, x, step=1e-6):
    """Central differences of the sum of `f`."""
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        found[at] = (np.sum(f(up)) - np.sum(f(down))) / (2 * step)
    return found


def check(f, x, reference=None):
    """Value and gradient of `f` on a Variable, as `reference` on an array has them."""
    reference = reference or f
    v = nf.Variable(x, requires_grad=True)
    y = f(v)
    np.testing.assert_allclose(y.to_numpy(), reference(x), rtol=1e-12)
    y.sum().backward()
    np.testing.assert_allclose(v.grad, slopes(reference, x), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("other", [B, 1.5], ids=["array", "number"])
def test_arithmetic_on_either_side(op, other):
    check(lambda x: op(x, other), A)
    check(lambda x: op(other, x), A)


@pytest.mark.parametrize("op", BINARY)
def test_broadcast_operand_gets_its_own_shape(op):
    check(lambda b: op(A, b), B)


@pytest.mark.parametrize("op", [operator.floordiv, operator.mod])
def test_integer_division(op):
    np.testing.assert_array_equal(op(nf.Variable(A), 0.4).to_numpy(), op(A, 0.4))
    np.testing.assert_array_equal(op(7.0, nf.Variable(A)).to_numpy(), op(7.0, A))


def test_unary():
    check(operator.neg, A)
    check(operator.pos, A)
    check(abs, -A)


@pytest.mark.parametrize("op", [operator.lt, operator.le, operator.gt, operator.ge,
                                operator.eq, operator.ne])
def test_comparisons_have_no_node(op):
    w = nf.Variable(A, requires_grad=True)
    y = op(w, A.mean())
    assert y.dtype == np.bool_
    assert y.grad_fn is None
    np.testing.assert_array_equal(y.to_numpy(), op(A, A.mean()))


def test_variables_hash_by_identity():
    v, w = nf.Variable([1.0]), nf.Variable([1.0])
    assert {v: 1, w: 2}[v] == 1


def test_matrix_product():
    m = RNG.normal(size=(4, 2))
    check(lambda x: x @ m, A)
    check(lambda x: A @ x, m)


def test_foreign_operands_are_refused():
    with pytest.raises(TypeError, match="unsupported operand"):
        nf.Variable(A) + "text"
    with pytest.raises(TypeError, match="unsupported operand"):
        None * nf.Variable(A)


@pytest.mark.parametrize("key", [
    0, -1, slice(1, 3), (slice(None), 2), (slice(None, None, -1), slice(3, 0, -2)),
    (..., None, 1), (slice(2, 2), 0), (None, 1, slice(0, 2))], ids=str)
def test_indexing(key):
    check(lambda x: x[key], A)


def test_indexing_by_integers_adds_up_repeated_rows():
    check(lambda x: x[np.array([2, 0, 2])], A)
    check(lambda x: x.take(np.array([5, 5, 0])), A)
    check(lambda x: x.take(np.array([3, -4]), axis=1), A)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "var", "std"])
@pytest.mark.parametrize("axis", [None, 1, (0, 1)])
def test_reductions(name, axis):
    check(lambda x: getattr(x, name)(axis=axis, keepdims=True), A)


def test_positions_have_no_node():
    w = nf.Variable(A, requires_grad=True)
    assert w.argmax().grad_fn is None
    np.testing.assert_array_equal(w.argmax(axis=1).to_numpy(), A.argmax(axis=1))
    np.testing.assert_array_equal(w.argmin(axis=0).to_numpy(), A.argmin(axis=0))


def test_shapes():
    weights = RNG.normal(size=12)
    check(lambda x: x.reshape(2, -1) * weights.reshape(2, 6), A)
    check(lambda x: x.reshape((6, 2)) * weights.reshape(6, 2), A)
    check(lambda x: x.ravel() * weights, A)
    check(lambda x: x.T * weights.reshape(4, 3), A)
    check(lambda x: x.transpose(1, 0) * weights.reshape(4, 3), A)
    check(lambda x: x.mT * weights.reshape(2, 3, 2), A.reshape(2, 2, 3))
    check(lambda x: x.squeeze() * weights.reshape(3, 4), A.reshape(3, 1, 4))
    check(lambda x: x.squeeze(1) * weights.reshape(3, 4), A.reshape(3, 1, 4))


def test_astype_and_clip():
    w = nf.Variable(A, requires_grad=True)
    y = w.astype("float32")
    assert y.dtype == np.float32
    y.sum().backward()
    assert w.grad.dtype == np.float64
    assert w.astype("int32").grad_fn is None
    check(lambda x: x.clip(0.8, 1.5), A)
    check(lambda x: x.clip(0.8), A)
    check(lambda x: x.clip(None, 1.5), A)


@pytest.mark.parametrize("op", [operator.iadd, operator.isub, operator.imul,
                                operator.itruediv, operator.ifloordiv, operator.imod,
                                operator.ipow])
def test_in_place_writes_to_the_array(op):
    data = A.copy()
    v = nf.Variable(data)
    same = op(v, 1.5)
    assert same is v
    assert v.data is data
    np.testing.assert_array_equal(data, op(A.copy(), 1.5))


def test_in_place_on_a_leaf_that_requires_grad():
    w = nf.Variable(A.copy(), requires_grad=True)
    with pytest.raises(TapeError, match="no_grad"):
        w += 1.0
    with nf.no_grad():
        w -= 1.0
    np.testing.assert_array_equal(w.data, A - 1.0)
    assert w.requires_grad


@pytest.mark.parametrize("others", [[nf.Variable(np.ones(())), 1.0], ("0.5", 1.0)])
@pytest.mark.parametrize("op", [*BINARY, operator.matmul, operator.eq, operator.lt])
def test_a_list_of_other_than_numbers_is_refused_by_name(op, others):
    """Python would find it unequal, or repeat it as often as the Variable says."""
    v = nf.Variable(np.array([0.5, 1.0]))
    for args in ((v, others), (others, v)):
        with refused(KernelTypeError, type(others).__name__, "convert it first"):
            op(*args)


@pytest.mark.parametrize("x", [
    A, A.T, A[::-1], A[:, ::2], A[0, ::2], A[:, 1], A[:1, :1], A[:0], np.array(2.0)])
def test_ravel_is_a_view_where_numpys_is(x):
    """What is changed through it would be changed in the array too."""
    found, expected = nf.Variable(x).ravel().to_numpy(), x.ravel()
    np.testing.assert_array_equal(found, expected)
    assert np.shares_memory(found, x) == np.shares_memory(expected, x)


@pytest.mark.filterwarnings("ignore:fuse.*decorated again")
@pytest.mark.parametrize("other", [[1, 2, 3], (0.5, 1.5, 2.5), [[1.0], [2.0]]])
def test_a_list_beside_an_operator_is_an_array(other):
    """As beside NumPy's arrays, with the dtype that it has there."""
    def every(x):
        return [op(*pair) for pair in ((x, other), (other, x)) for op in (
            *BINARY, operator.floordiv, operator.mod, operator.lt, operator.ge,
            operator.eq, operator.ne)]

    x = np.array([1.0, 2.0, 4.0], np.float32)
    for found in (every(nf.Variable(x)), nf.fuse(every)(x)):
        for a, b in zip(found, every(x), strict=True):
            assert a.dtype == b.dtype
            plain = a.data if isinstance(a, nf.Variable) else a
            np.testing.assert_allclose(plain, b, 1e-6)
    v = nf.Variable(np.array([6, 5, 3]))
    v &= [3, 4, 1]
    assert v.tolist() == [2, 4, 1]
    assert (v @ [1, 2, 3]).item() == 13
