"""NumPy's functions, and the scalar vocabulary, on Variables."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError

pytestmark = pytest.mark.interpreted

A = np.random.default_rng(3).uniform(0.5, 2.0, (3, 4))


def leaf(x=A) -> Any:
    return nf.Variable(x, requires_grad=True)


@pytest.mark.parametrize("ufunc", [np.exp, np.log, np.sqrt, np.tanh, np.negative,
                                   np.absolute, np.square, np.sin])
def test_ufuncs_of_one_argument(ufunc):
    w = leaf()
    y = ufunc(w)
    assert y.grad_fn is not None
    np.testing.assert_allclose(y.to_numpy(), ufunc(A), rtol=1e-12)


def test_ufuncs_carry_the_gradient():
    w = leaf()
    np.exp(w).sum().backward()
    np.testing.assert_allclose(w.grad, np.exp(A), rtol=1e-12)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.divide,
                                   np.maximum, np.power, np.less])
def test_ufuncs_of_two_arguments_take_arrays_on_the_left(ufunc):
    y = ufunc(A[0], leaf())
    assert isinstance(y, nf.Variable)
    np.testing.assert_allclose(y.to_numpy(), ufunc(A[0], A), rtol=1e-12)


def test_an_array_on_the_left_of_an_operator_gives_a_variable():
    assert isinstance(A * leaf(), nf.Variable)
    assert isinstance(A[0, 0] * leaf(), nf.Variable)  # a NumPy scalar


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.minimum])
def test_reduce_has_numpys_default_axis(ufunc):
    np.testing.assert_allclose(ufunc.reduce(leaf()).to_numpy(), ufunc.reduce(A))
    np.testing.assert_allclose(
        ufunc.reduce(leaf(), axis=1, keepdims=True).to_numpy(),
        ufunc.reduce(A, axis=1, keepdims=True))


@pytest.mark.parametrize("call", [
    lambda w: np.subtract.accumulate(w), lambda w: np.subtract.reduce(w),
    lambda w: np.isnat(w), lambda w: np.add(w, 1, where=A > 1),
    lambda w: np.add.reduceat(w, [0, 1]), lambda w: np.add(w, cast(Any, object()))],
    ids=["accumulate", "reduce", "unknown", "where", "reduceat", "object"])
def test_what_there_is_no_op_for_raises(call):
    with pytest.raises(TypeError):
        call(leaf())


def test_out_is_refused_before_it_is_written():
    out = np.zeros_like(A)
    with pytest.raises(KernelTypeError, match="out"):
        np.exp(leaf(), out=out)
    assert not out.any()


def test_conversion_is_refused():
    with pytest.raises(TypeError, match=r"use \.to_numpy\(\)"):
        np.asarray(leaf())
    with pytest.raises(TypeError, match=r"use \.to_numpy\(\)"):
        np.array([leaf()])


FUNCTIONS = {
    "sum": lambda x: np.sum(x, axis=1, keepdims=True),
    "prod": lambda x: np.prod(x, 0),
    "mean": lambda x: np.mean(x),
    "max": lambda x: np.max(x, axis=0),
    "min": lambda x: np.min(x, axis=-1),
    "argmax": lambda x: np.argmax(x, axis=1),
    "argmin": lambda x: np.argmin(x),
    "var": lambda x: np.var(x, axis=1, ddof=1),
    "std": lambda x: np.std(x),
    "where": lambda x: np.where(A > 1, x, 0.0),
    "reshape": lambda x: np.reshape(x, (2, 6)),
    "ravel": lambda x: np.ravel(x),
    "transpose": lambda x: np.transpose(x, (1, 0)),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "concatenate": lambda x: np.concatenate([x, A], axis=1),
    "stack": lambda x: np.stack([x, x], axis=1),
    "squeeze": lambda x: np.squeeze(x[:, None]),
    "clip": lambda x: np.clip(x, 0.7, 1.2),
    "clip-by-name": lambda x: np.clip(x, min=0.7),
    "astype": lambda x: np.astype(x, "float32"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    y = FUNCTIONS[name](leaf())
    assert isinstance(y, nf.Variable)
    assert y.dtype == FUNCTIONS[name](A).dtype
    np.testing.assert_allclose(y.to_numpy(), FUNCTIONS[name](A), rtol=1e-12)


def test_functions_take():
    index = np.array([1, 1, 0])
    rows: Any = np.take(leaf(), index, axis=0)
    flat: Any = np.take(leaf(), index)
    np.testing.assert_array_equal(rows.to_numpy(), A[index])
    np.testing.assert_array_equal(flat.to_numpy(), A.ravel()[index])


def test_functions_ask_for_the_shape():
    assert np.shape(leaf()) == (3, 4)
    assert np.ndim(leaf()) == 2
    assert np.size(leaf()) == 12


def test_functions_without_an_op_raise():
    with pytest.raises(KernelTypeError, match=r"numpy\..*no operation .*to_numpy"):
        np.polydiv(leaf(), leaf())


def test_the_scalar_vocabulary_works_on_all_elements():
    w = leaf()
    y = nf.sigmoid(w)
    s = 1 / (1 + np.exp(-A))
    np.testing.assert_allclose(y.to_numpy(), s, rtol=1e-12)
    y.sum().backward()
    np.testing.assert_allclose(w.grad, s * (1 - s), rtol=1e-12)


def test_arrays_like_a_variable():
    x = nf.Variable(np.ones((2, 3), "f4"), requires_grad=True)
    for made, value in ((np.zeros_like(x), 0), (np.ones_like(x, dtype="f8"), 1),
                        (np.full_like(x, 2.5), 2.5)):
        assert isinstance(made, nf.Variable)
        assert not made.requires_grad
        np.testing.assert_array_equal(made.to_numpy(), np.full((2, 3), value))
    assert np.ones_like(x, dtype="f8").dtype == np.float64


def test_functions_of_pytorch_name_a_way_out():
    torch = pytest.importorskip("torch")
    x, v = torch.ones(3), nf.Variable(torch.ones(3))
    for call in (lambda: torch.exp(v), lambda: torch.nn.functional.relu(v),
                 lambda: x.add(v), lambda: torch.stack([x, v]), lambda: x[v > 0]):
        with pytest.raises(KernelTypeError, match="an argument is a Variable"):
            call()
    for found in (x + v, x - v, x @ v, x < v):  # operators are ours
        assert isinstance(found, nf.Variable)


def test_sums_at_indices_are_recorded():
    v, at = nf.Variable(np.arange(6.0).reshape(3, 2), requires_grad=True), [0, 0, 2]
    sums = v * 1
    np.add.at(sums, at, v * 2)
    np.subtract.at(sums, [1], 1.0)
    expected = v.to_numpy()
    np.add.at(expected, at, v.to_numpy() * 2)
    expected[1] -= 1
    np.testing.assert_array_equal(sums.to_numpy(), expected)
    (sums * expected).sum().backward()
    np.testing.assert_array_equal(v.grad, expected + 2*expected[at])


def test_sums_at_indices_of_other_arrays_are_refused():
    v = nf.Variable(np.ones((3, 2)), requires_grad=True)
    with pytest.raises(KernelTypeError, match=r"nf\.ops\.add_at"):
        np.add.at(np.zeros((3, 2)), [0, 1, 2], v)
    with pytest.raises(KernelTypeError, match="have it; use an index"):
        np.multiply.at(v * 1, [0], 2.0)


def test_integers_are_indices_of_plain_arrays():
    v = nf.Variable(np.array([[1.0, 3.0, 2.0], [5.0, 4.0, 6.0]]), requires_grad=True)
    np.testing.assert_array_equal(np.eye(3)[np.argmax(v, 1)], np.eye(3)[[1, 2]])
    with pytest.raises(TypeError, match="to_numpy"):
        np.asarray(v)


@pytest.mark.parametrize("run", [lambda f: f, nf.fuse], ids=["eager", "fuse"])
def test_where_of_a_ufunc_is_a_branch_in_its_derivative(run):
    """What is not divided by zero has no part in it, at the second order neither."""
    def inverse(x):
        made = nf.ops.zeros_like(x * 1.0)
        np.divide(1.0, x, out=made, where=x != 0)
        return made.sum()

    x = np.array([0.0, 2.0, -4.0])
    slope = nf.grad(inverse)
    np.testing.assert_allclose(run(slope)(x), [0.0, -0.25, -0.0625])
    np.testing.assert_allclose(run(nf.grad(lambda x: slope(x).sum()))(x),
                               [0.0, 0.25, -1 / 32])


def test_truth_and_integers_are_stored_into_plain_arrays():
    """They have no gradient that could be lost there; what floats have is refused."""
    v = nf.Variable(np.array([1.0, 3.0, 2.0]), requires_grad=True)
    keep, count = np.array([True, True, False]), np.arange(3)
    same = keep
    keep &= v > 1.5
    count += v.astype(int)
    np.add(count, 10, out=count, where=v > 2)
    assert keep is same
    assert keep.tolist() == [False, True, False]
    assert count.tolist() == [1, 14, 4]
    for store in (lambda: np.floor(v, out=count, casting="unsafe"),
                  lambda: np.add(v, 1, out=np.zeros(3))):
        with pytest.raises(KernelTypeError, match="has no gradient"):
            store()
    with pytest.raises(KernelTypeError, match="has no gradient"):
        nf.vmap(lambda x: np.logical_or(x > 0, x > 1, out=np.zeros((), bool)))(v.data)


def test_methods_of_arrays_that_call_a_ufunc_of_their_own():
    v, a = nf.Variable(np.array([0.5, 2.0]), requires_grad=True), np.array([0.1, 3.0])
    clipped = cast(Any, a.clip(v[0], v[1]))
    assert clipped.to_numpy().tolist() == [0.5, 2.0]
    clipped.sum().backward()
    assert v.grad.tolist() == [1.0, 1.0]
    assert cast(Any, a.clip(max=cast(Any, v))).to_numpy().tolist() == [0.1, 2.0]


@pytest.mark.parametrize(("call", "said"), [
    (lambda v: np.add.reduceat(v, [0, 1]), r"numpy\.add\.reduceat has no operation"),
    (np.frompyfunc(lambda x: x, 1, 1), "the ufunc .* has no operation"),
    (lambda v: np.add(v, None), r"numpy\.add: a NoneType stands beside a Variable"),
    (lambda v: np.multiply(v, [v[0], v[1]]), "a list stands beside.*numpy.stack")])
def test_what_no_operation_answers_is_refused_by_name(call, said):
    with pytest.raises(KernelTypeError, match=said):
        call(nf.Variable(np.ones(2), requires_grad=True))


def test_a_ufunc_is_left_to_the_class_of_another_operand():
    class Answering:
        def __array_ufunc__(self, ufunc, method, *inputs):
            return "answered"

    assert np.add(cast(Any, leaf()), cast(Any, Answering())) == "answered"
