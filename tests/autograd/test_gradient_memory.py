"""Gradients have memory of their own, which may be written to."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd.gradients import _owner
from nbfused.autograd.graph import Leaf
from nbfused.autograd.walk import collect


def leaf(x):
    return nf.Variable(np.array(x), requires_grad=True)


@pytest.mark.parametrize("loss", [
    lambda x: x.sum(), lambda x: x.mean(), lambda x: x.T.sum(),
    lambda x: x.reshape(12).sum(), lambda x: x.sum(axis=0).sum(),
    lambda x: x[:, 1:].sum(), lambda x: nf.ops.swish(x).sum()])
def test_a_gradient_may_be_written_to(loss):
    x = leaf(np.ones((3, 4)))
    loss(x).backward()
    expected = x.grad.copy()
    x.grad[1, 2] += 1
    expected[1, 2] += 1
    np.testing.assert_array_equal(x.grad, expected)


def test_repeated_cotangents():
    x, g = leaf(np.ones((3, 4))), np.broadcast_to(np.arange(4.0), (3, 4))
    nf.ops.transpose(nf.ops.transpose(x)).backward(g)
    assert 0 not in x.grad.strides
    np.testing.assert_array_equal(x.grad, g)
    x.sum().backward()
    assert 0 not in x.grad.strides
    np.testing.assert_array_equal(x.grad, g + 1)


def test_gradients_by_transforms_may_be_written_to():
    (g,) = nf.vjp(lambda x: x.sum(), np.ones(3))[1](np.ones(()))
    h = nf.grad(lambda x: x.mean())(np.ones(4))
    g *= 3.0
    h += 0.25
    np.testing.assert_array_equal(g, [3.0, 3.0, 3.0])
    np.testing.assert_array_equal(h, [0.5, 0.5, 0.5, 0.5])


def test_the_gradient_of_a_sum_of_tensors():
    torch = pytest.importorskip("torch")
    x = nf.Variable(torch.ones(3, 4), requires_grad=True)
    x.sum().backward()
    assert x.grad.is_contiguous()
    x.grad[0, 0] = 5.0
    assert x.grad.sum() == 16.0


def gradients(transform):
    c = np.arange(1.0, 4.0)

    def loss(a, b):
        return ((nf.ops.reshape(a, (3,)) + b) * c).sum()

    at = np.ones((3, 1)), np.ones(3)
    if transform == "grad":
        return nf.grad(loss, argnums=(0, 1))(*at)
    if transform == "value_and_grad":
        return nf.value_and_grad(loss, argnums=(0, 1))(*at)[1]
    if transform == "vjp":
        return *nf.vjp(lambda a, b: nf.ops.reshape(a, (3,)) + b, *at)[1](c), c
    return *nf.jvp(lambda a: (a, nf.ops.reshape(a, (3, 1))), (at[1],), (c,))[1], c


@pytest.mark.parametrize("transform", ["grad", "value_and_grad", "vjp", "jvp"])
def test_gradients_by_transforms_share_no_memory(transform):
    """Nor with what the caller has given: each may be scaled in place."""
    found = gradients(transform)
    for g in found:
        g *= 2.0
    for g in found:
        np.testing.assert_array_equal(g.ravel(), [2.0, 4.0, 6.0])


class FakeCupy:
    """As CuPy's arrays are: a view by strides has no base, but its memory's object."""

    def __init__(self, array, memory):
        self.data, self.base = SimpleNamespace(mem=memory), None
        self.shape, self.strides = array.shape, array.strides


def test_views_of_cupy_are_not_taken_for_owners():
    row, repeated = np.ones(3), np.broadcast_to(np.ones(1), (4, 3))
    leaf, memory = Leaf(None), object()
    stored = []
    collect({(leaf, 0): FakeCupy(repeated, memory)}, True,
            lambda old, new: stored.append((old, new)) or "copy")
    assert leaf.grad == "copy"
    assert [old for old, _ in stored] == [None]
    assert _owner(FakeCupy(row, memory)) == _owner(FakeCupy(row[::-1], memory))
    assert _owner(FakeCupy(row, object())) != _owner(FakeCupy(row, memory))
    assert _owner(row) == _owner(row[1:]) != _owner(row.copy())
    assert _owner(np.frombuffer(b"12345678")) is None
    assert _owner(object()) is None


@pytest.mark.cuda
def test_gradients_of_cupy_s_arrays_have_memory_of_their_own():
    cupy = pytest.importorskip("cupy")
    x, y = (nf.Variable(cupy.ones((50, 60)), requires_grad=True) for _ in range(2))
    x.sum().backward()
    assert x.grad.strides == (480, 8)
    x.grad[0, 0] = 7
    assert float(x.grad.sum()) == 3006
    x.grad = None
    seed = cupy.ones((50, 60))
    (x + y).backward(seed)
    x.grad += 1
    assert float(y.grad.sum()) == float(seed.sum()) == 3000
