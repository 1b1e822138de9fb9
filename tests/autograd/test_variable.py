"""`Variable`: what it holds, what it refuses."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import (
    KernelTypeError,
    ShapeError,
    TapeError,
)
from tests.refusal import refused

pytestmark = pytest.mark.interpreted


def test_shares_its_array_and_describes_it():
    data = np.zeros((2, 3), np.float32)
    v = nf.Variable(data)
    assert v.data is data
    assert (v.shape, v.ndim, v.size, v.dtype) == ((2, 3), 2, 6, np.dtype("float32"))
    assert v.device == "cpu"
    assert not v.requires_grad
    assert v.is_leaf
    assert v.grad is None
    assert v.grad_fn is None


def test_takes_numbers_and_lists():
    assert nf.Variable([1.0, 2.0]).dtype == np.float64
    assert nf.Variable(3).item() == 3


@pytest.mark.parametrize("dtype", ["int32", "bool", "uint8"])
def test_integers_have_no_gradient(dtype):
    with pytest.raises(KernelTypeError, match="astype"):
        nf.Variable(np.ones(2, dtype), requires_grad=True)


@pytest.mark.parametrize("function", [
    lambda x: abs(x * (1 + 2j)).sum(), lambda x: abs(x.astype("complex128")).sum(),
    lambda x: abs(nf.ops.matmul(x, np.ones((2, 2), "complex64"))).sum()])
def test_no_gradient_is_lost_in_complex_numbers(function):
    """The gradient of the first was zero."""
    x = np.array([1.0, 2.0])
    expected = [(function(nf.Variable(x + step)) - function(nf.Variable(x - step)))
                .to_numpy() / 2e-6 for step in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(nf.grad(function)(x), expected, rtol=1e-6)
    with nf.no_grad():
        function(nf.Variable(x, requires_grad=True))


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16, "float32", "float64"])
def test_floating_dtypes_have_gradients_of_the_same_dtype(dtype):
    x = nf.Variable(np.array([1.0, 2.0, -3.0]).astype(dtype), requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.dtype == dtype
    np.testing.assert_array_equal(x.grad.astype(float), [2.0, 4.0, -6.0])


def test_results_have_a_node_only_where_a_gradient_is_wanted():
    x, w = nf.Variable([1.0]), nf.Variable([1.0], requires_grad=True)
    assert (x * x).grad_fn is None
    assert not (x * x).requires_grad
    y = x * w
    assert y.grad_fn is not None
    assert y.requires_grad
    assert not y.is_leaf


def test_detach_cuts_the_graph():
    w = nf.Variable([3.0], requires_grad=True)
    (w * w.detach()).sum().backward()
    assert w.grad == 3.0


def test_requires_grad_can_be_set_on_leaves_only():
    w = nf.Variable([1.0])
    w.requires_grad = True
    y = w * 2.0
    with pytest.raises(TapeError, match="detach"):
        y.requires_grad = False
    w.requires_grad = False
    assert (w * 2.0).grad_fn is None


@pytest.mark.parametrize("want", ["no", "yes", 1, None])
def test_requires_grad_is_a_bool(want):
    for act in (lambda: nf.Variable([1.0], requires_grad=want),
                lambda: setattr(nf.Variable([1.0]), "requires_grad", want)):
        with refused(KernelTypeError, "requires_grad", "True or False", repr(want)):
            act()
    assert nf.Variable([1.0], requires_grad=np.True_).requires_grad


@pytest.mark.parametrize("copied", [
    copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
def test_leaves_are_copied_with_their_gradient(copied):
    w = nf.Variable([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    v = copied(w)
    v.grad[0] = 7.0
    v.data[0] = 5.0
    assert (w.data.tolist(), w.grad.tolist()) == ([1.0, 2.0], [2.0, 4.0])
    assert (v.data.tolist(), v.grad.tolist()) == ([5.0, 2.0], [7.0, 4.0])
    assert not copied(w.detach()).requires_grad


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
def test_computed_variables_are_not_copied_with_their_graph(copied):
    y = nf.Variable([1.0], requires_grad=True) * 2.0
    with refused(TapeError, "computed", "use detach() first"):
        copied({"loss": y})
    copied(y.detach())
    assert copy.copy(y).grad_fn is y.grad_fn


def test_a_leaf_from_another_process_is_older_than_what_reads_it():
    """Or `checkpoint` would take it for something that it computes."""
    w = nf.Variable([2.0], requires_grad=True)
    w.edge[0].order += 10**9  # many nodes have been made there
    w = pickle.loads(pickle.dumps(w))
    nf.checkpoint(lambda x: x * w)(nf.Variable([3.0], requires_grad=True)).backward()
    assert w.grad == 3.0


def test_data_can_be_replaced_by_the_like():
    w = nf.Variable(np.ones(2, "float32"), requires_grad=True)
    w.data = np.zeros(2, "float32")
    assert w.data.sum() == 0
    with pytest.raises(ShapeError, match=r"\(3,\).*\(2,\)"):
        w.data = np.zeros(3, "float32")
    with pytest.raises(KernelTypeError, match=r"float64.*float32"):
        w.data = np.zeros(2)
    with pytest.raises(TapeError, match="computed"):
        (w * 2).data = np.zeros(2, "float32")


def test_grad_can_be_assigned_and_zeroed():
    w = nf.Variable(np.ones(2), requires_grad=True)
    w.grad = np.array([1.0, 2.0])
    w.sum().backward()
    np.testing.assert_array_equal(w.grad, [2.0, 3.0])
    w.zero_grad()
    assert w.grad is None
    with pytest.raises(ShapeError):
        w.grad = np.ones(3)
    with pytest.raises(TapeError):
        nf.Variable([1.0]).grad = np.ones(1)


@pytest.mark.parametrize("give", [
    lambda w, g: setattr(w, "grad", g), lambda w, g: (w * 2.0).backward(g),
    lambda w, g: nf.vjp(lambda x: x * 2.0, w)[1](g),
    lambda w, g: nf.jvp(lambda x: x * 2.0, (w,), (g,))])
def test_gradients_are_arrays_of_the_same_library(give):
    torch = pytest.importorskip("torch")
    w = nf.Variable(np.ones(2), requires_grad=True)
    with pytest.raises(KernelTypeError, match=r"is an array of torch; .* numpy"):
        give(w, torch.ones(2, dtype=torch.float64))
    with pytest.raises(KernelTypeError, match="is a str; expected an array"):
        give(w, "text")


def test_one_element_converts_to_a_number():
    v = nf.Variable([2.5])
    assert float(v) == 2.5
    assert int(v) == 2
    assert v.item() == 2.5
    assert bool(v)
    assert not nf.Variable(0.0)
    with pytest.raises(ShapeError, match="tolist"):
        bool(nf.Variable([1.0, 2.0]))
    assert f"{nf.Variable(2.5):.2f}, {nf.Variable(2.5)}" == "2.50, Variable(array(2.5))"
    with pytest.raises(TypeError, match="format"):
        format(nf.Variable([1.0, 2.0]), ".2f")


def test_an_integer_is_an_index():
    assert [10, 20, 30][nf.Variable(np.int64(1))] == 20
    with pytest.raises(TypeError, match="no index"):
        [10, 20, 30][nf.Variable(1.0)]


def test_len_and_repr():
    assert len(nf.Variable(np.zeros((4, 2)))) == 4
    with pytest.raises(TypeError, match="without dimensions"):
        len(nf.Variable(1.0))
    w = nf.Variable([1.0], requires_grad=True)
    assert repr(w) == "Variable(array([1.]), requires_grad=True)"
    assert "grad_fn=" in repr(w * w)
    assert repr(w.detach()) == "Variable(array([1.]))"


def test_to_numpy_shares_host_memory():
    data = np.ones(3)
    v = nf.Variable(data)
    assert np.shares_memory(v.to_numpy(), data)
    assert np.shares_memory(v.numpy(), data)


def test_refuses_what_is_no_array():
    with pytest.raises(KernelTypeError, match="data"):
        nf.Variable("text")


def test_refuses_a_tensor_on_the_tape_of_its_own_library():
    torch = pytest.importorskip("torch")
    with pytest.raises(KernelTypeError, match="detach"):
        nf.Variable(torch.ones(2, requires_grad=True))


def test_rows_of_different_lengths():
    with pytest.raises(ShapeError, match=r"data.*equal length"):
        nf.Variable([[1.0, 2.0], [3.0]])


def test_tensors_keep_their_type():
    torch = pytest.importorskip("torch")
    x = nf.Variable(torch.tensor([3.0, 4.0]), requires_grad=True)
    assert x.dtype == np.float32
    (x * x).sum().backward()
    assert isinstance(x.grad, torch.Tensor)
    assert x.grad.tolist() == [6.0, 8.0]


def test_a_number_is_not_iterated_over():
    with pytest.raises(TypeError, match="without dimensions"):
        list(nf.Variable(2.0))
    rows = list(nf.Variable(np.arange(6.0).reshape(3, 2), requires_grad=True))
    assert [row.data.tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]
    assert all(row.requires_grad for row in rows)


def test_masked_arrays_do_not_take_the_numbers_out():
    x = nf.Variable(np.ones(3), requires_grad=True)
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    for call in (lambda: masked + x, lambda: x + masked, lambda: np.ma.add(masked, x)):
        with pytest.raises(TypeError, match=r"to_numpy|masked arrays"):
            call()


def test_a_variable_is_one_array_also_where_several_are_taken():
    x = np.ones((2, 2))
    with pytest.raises(KernelTypeError, match="put it in a tuple"):
        nf.ops.matmul(x, x, epilogue=lambda y, a, b: y + a + b, extras=nf.Variable(x))


@pytest.mark.filterwarnings("ignore:.*decorated again")
@pytest.mark.parametrize("wrapped", [
    nf.grad, lambda f: nf.fuse(nf.grad(f)),
    nf.elementwise_grad], ids=["grad", "fused", "elementwise"])
@pytest.mark.parametrize("inner", [lambda x: x, lambda x: x * 2], ids=["own", "made"])
def test_a_new_leaf_does_not_end_a_gradient(wrapped, inner):
    with pytest.raises(TapeError, match=r"gradient would end in a new leaf"):
        wrapped(lambda x: nf.Variable(inner(x)).sum())(np.ones(3))
    kept = wrapped(lambda x: (x * nf.Variable(inner(x).detach())).sum())
    np.testing.assert_array_equal(kept(np.ones(3)), inner(np.ones(3)))


def test_a_leaf_beside_a_leaf_of_the_users_own():
    leaf = nf.Variable(np.ones(3), requires_grad=True)
    assert nf.Variable(leaf, requires_grad=True).is_leaf
    slope = nf.grad(lambda x: (x * nf.Variable(leaf)).sum())
    assert slope(np.ones(3)).tolist() == [1.0, 1.0, 1.0]
    with nf.no_grad():
        assert not nf.Variable(leaf * 2).requires_grad
