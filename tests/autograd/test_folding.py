"""What begins with a cotangent of ones computes as if it had been stored."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd.graph import Ones
from nbfused.autograd.tape import PLAIN
from tests.variants import sampled_together

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(5)


def leaf(*shape, dtype="float32"):
    return nf.Variable(nf.array(RNG.uniform(0.2, 0.9, shape), dtype),
                       requires_grad=True)


@nf.elementwise
def weighted(x, y, shift):
    return x * y + shift


LOSSES = {
    "map": lambda x, y: nf.ops.swish(x).sum(),
    "nothing": lambda x, y: x.sum(),
    "all by itself": lambda x, y: (x - x).sum(),
    "two inputs": lambda x, y: weighted(x, y, 1.5).sum(),
    "broadcast": lambda x, y: (x * y[0]).sum(),
    "twice": lambda x, y: x.sum() + (x * y).sum() + x.sum(),
    "mean": lambda x, y: (x * y).mean(),
    "axis by axis": lambda x, y: (x * y).sum(axis=0).sum(),
    "kept dimensions": lambda x, y: nf.ops.exp(x).sum(axis=1, keepdims=True).sum(),
    "views": lambda x, y: nf.ops.exp(x.T.reshape(-1)[2:9]).sum(),
    "raw": lambda x, y: nf.ops.take(x, np.array([2, 0, 2]), axis=0).sum(),
    "another dtype": lambda x, y: nf.ops.exp(x).sum(dtype="float64"),
    "row": lambda x, y: nf.ops.log_softmax(x * y).sum(),
    "product": lambda x, y: (x @ y.T).sum(),
    "maximum": lambda x, y: nf.ops.maximum(x, y).max(),
    "branches": lambda x, y: nf.ops.where(x > 0.5, x, y).sum(),
}


#: Losses whose cotangent is rounded, or is of another dtype, in 16 bits.
ROUNDED = ("broadcast", "twice", "another dtype", "product")


@pytest.mark.parametrize(("loss", "dtype"), sampled_together(
    [(loss, dtype) for loss in LOSSES
     for dtype in ("float32", "bfloat16", "float64", "float16")],
    *((loss, "float32") for loss in LOSSES),
    *((loss, "bfloat16") for loss in ROUNDED)))
def test_as_with_a_stored_cotangent(loss, dtype):
    x, y = leaf(4, 3, dtype=dtype), leaf(4, 3, dtype=dtype)

    def gradients(**options):
        out = LOSSES[loss](x, y)
        x.grad = y.grad = None
        out.backward(**{k: f(out) for k, f in options.items()})
        return [None if v.grad is None else v.grad for v in (x, y)]

    folded = gradients()
    stored = gradients(grad=lambda out: np.ones(out.shape, out.dtype))
    for a, b in zip(folded, stored, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert (a.dtype, a.shape) == (b.dtype, b.shape) == (x.dtype, x.shape)
            assert np.array_equal(a, b)


def test_it_launches_less():
    x = leaf(5)
    for _ in range(2):
        x.grad = None
        with nf.trace_launches() as launches:
            nf.ops.swish(x).sum().backward()
        assert [launch.name for launch in launches] == ["swish", "sum_sum", "swish_vjp"]
        assert launches[-1].bytes == 2*5*4


def test_numbers_that_change_are_no_constants():
    x = leaf(5)
    for beta in (1.0, 2.0):
        x.grad = None
        nf.ops.swish(x, beta).sum().backward()
        folded = x.grad
        x.grad = None
        nf.ops.swish(x, beta).backward(np.ones(5, "float32"))
        assert np.array_equal(folded, x.grad)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_leaf_of_one_element(shape):
    x = leaf(*shape)
    x.backward()
    assert x.grad.shape == shape
    assert x.grad == 1
    assert not np.shares_memory(x.grad, x.data)
    x.backward()
    assert x.grad == 2


def test_rules_of_users_get_arrays():
    seen = []

    @nf.custom_vjp
    def total(x):
        return (x * x).sum()

    def backward(saved, g):
        seen.append(g)
        return (g * 2.0 * saved,)

    total.defvjp(lambda x: (total(x), x), backward)
    x = leaf(3)
    total(x).backward()
    assert isinstance(seen[0], nf.Variable)
    assert np.array_equal(x.grad, 2*x.data)


def test_derivatives_of_derivatives():
    x = leaf(3, dtype="float64")
    (x * x * x).sum().backward(create_graph=True)
    first = x.grad
    x.grad = None
    first.sum().backward()
    assert np.allclose(x.grad, 6*x.data, rtol=1e-15)


def test_no_gradients_where_there_are_no_elements():
    x = leaf(0, 3)
    nf.ops.exp(x).sum().backward()
    assert x.grad.shape == (0, 3)


@pytest.mark.parametrize(("like", "shape"), [
    ((), ()), ((), (2, 3)), ((1,), (2,)), ((1, 1), (1, 1)), ((1, 1), (0,)), ((1,), ())])
def test_ones_that_somebody_reads(like, shape):
    made = Ones(shape, np.dtype("float32"), np.full(like, 7.0)).array(PLAIN)
    assert (made.shape, made.dtype) == (shape, np.float32)
    assert (made == 1).all()


def test_tensors():
    torch = pytest.importorskip("torch")
    x = nf.Variable(torch.linspace(-1, 1, 7), requires_grad=True)
    theirs = x.data.clone().requires_grad_()
    nf.ops.swish(x).sum().backward()
    torch.nn.functional.silu(theirs).sum().backward()
    assert torch.allclose(x.grad, theirs.grad)
