"""Products whose sums have one term: maps of two factors."""

from __future__ import annotations

import itertools
import math
from unittest.mock import patch

import numpy as np
import pytest

import nbfused as nf
from nbfused.specs import Contract, Map
from tests.variants import sampled_together

pytestmark = pytest.mark.interpreted

DTYPES = ("bool", "int8", "uint8", "int32", "uint64", "float16", "float32", "float64",
          "complex64")


def numbers(shape, dtype, seed=0):
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j*rng.normal(size=shape)).astype(dtype)
    return (rng.normal(size=shape)*2).astype(dtype)


@pytest.fixture(autouse=True)
def kernels():
    """What computes the products of a test."""
    found = []
    own = Contract.kernel_for

    def noted(self, *given):
        found.append(own(self, *given))
        return found[-1]

    with patch.object(Contract, "kernel_for", noted):
        yield found


def padded(a, b):
    """Factors with a term of zeros more."""
    return (np.concatenate([a, np.zeros_like(a)], -1),
            np.concatenate([b, np.zeros_like(b)], -2))


@pytest.mark.parametrize(("first", "second"), sampled_together(
    itertools.product(DTYPES, DTYPES), *((d, d) for d in DTYPES), ("bool", "float16"),
    ("int8", "uint64"), ("float16", "float32"), ("float64", "complex64")))
def test_dtypes_are_those_of_sums(first, second, device, kernels):
    a, b = numbers((5, 1), first), numbers((1, 7), second, 1)

    def both(op):
        found, expected = (nf.to_numpy(op(*(nf.array(x, device=device) for x in given)))
                           for given in ((a, b), padded(a, b)))
        assert found.dtype == expected.dtype
        if first == second == "complex64":  # two products, which a GPU may round once
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-6)
        else:
            np.testing.assert_array_equal(found, expected)

    both(nf.ops.matmul)
    assert any(type(k) is Map for k in kernels)
    if "complex64" not in (first, second):
        both(lambda *given: nf.ops.linear(*given, activation="relu"))


@pytest.mark.parametrize(("subscripts", "left", "right"), [
    ("mk,kn->mn", (4, 1), (1, 3)), ("mk,kn->nm", (4, 1), (1, 3)),
    ("bmk,bkn->bmn", (2, 4, 1), (2, 1, 3)), ("bmk,kn->mbn", (2, 4, 1), (1, 3)),
    ("...mk,...kn->...mn", (2, 1, 4, 1), (5, 1, 3)),
    ("kmj,njk->nm", (1, 4, 1), (3, 1, 1)), ("...k,...k->...", (6, 1), (6, 1))])
@pytest.mark.parametrize("order", ["C", "F"])
def test_subscripts(subscripts, left, right, order, device, kernels):
    a = np.asarray(numbers(left, "float64"), order=order)
    b = np.asarray(numbers(right, "float64", 1), order=order)
    found = nf.ops.contract(subscripts, *(nf.array(x, device=device) for x in (a, b)))
    np.testing.assert_allclose(nf.to_numpy(found), np.einsum(subscripts, a, b),
                               rtol=1e-15)
    assert all(type(k) is Map for k in kernels)


def test_special_numbers(device):
    a = np.array([[np.inf], [np.nan], [-0.0], [0.0], [2.0]])
    b = np.array([[0.0, 1.0, -np.inf, np.nan, -0.0]])
    with np.errstate(invalid="ignore"):
        expected = a*b + 0.0
    found = nf.to_numpy(nf.ops.matmul(*(nf.array(x, device=device) for x in (a, b))))
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)  # whose sign is the processor's
    np.testing.assert_array_equal(np.signbit(found[known]),
                                  np.signbit(expected[known]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_epilogue_its_extras_and_a_permuted_store(dtype, device):
    """An extra may be called as a factor is."""
    @nf.contraction("bmk,bkn->mbn")
    def product(acc, a, b, n):
        return math.tanh(acc + a)*b + n

    x, y = numbers((3, 4, 1), dtype), numbers((3, 1, 5), dtype, 1)
    a, b = numbers((5,), dtype, 2), numbers((4, 1, 1), dtype, 3)
    expected = np.tanh((x.astype("f8")*y).transpose(1, 0, 2) + a)*b + 0.5
    found = product(*(nf.array(each, device=device) for each in (x, y, a, b)), 0.5)
    np.testing.assert_allclose(nf.to_numpy(found), expected, rtol=2e-5)


def test_results_that_are_given_and_views():
    x, y = numbers((6, 2), "float32")[:, 1:], numbers((2, 9), "float32", 1)[:1, ::-2]
    out = np.zeros((6, 10), np.float32)
    nf.ops.matmul(x, y, out=out[:, ::2])
    np.testing.assert_array_equal(out[:, ::2], x*y)
    assert not out[:, 1::2].any()


def test_gradients_to_second_order():
    x, y = numbers((4, 1), "float64"), numbers((1, 3), "float64", 1)

    def value(x, y):
        return nf.ops.sum(nf.ops.linear(x, y, activation="tanh")**2)

    def by_hand(x, y):
        return np.sum(np.tanh(x*y)**2)

    first = nf.grad(value, argnums=(0, 1))(x, y)
    second = nf.grad(lambda x, y: nf.ops.sum(nf.grad(value)(x, y)**2))(x, y)
    step = 1e-6
    for k in range(4):
        moved = [x + step*s*np.eye(4)[:, k:k + 1] for s in (1, -1)]
        assert first[0][k, 0] == pytest.approx(
            (by_hand(moved[0], y) - by_hand(moved[1], y))/(2*step), rel=1e-7)
        squares = [np.sum(nf.grad(value)(m, y)**2) for m in moved]
        assert second[k, 0] == pytest.approx((squares[0] - squares[1])/(2*step),
                                             rel=1e-6)


def test_no_terms_and_no_results():
    assert not nf.ops.matmul(np.ones((3, 0)), np.ones((0, 2))).any()
    assert nf.ops.matmul(np.ones((0, 1)), np.ones((1, 2))).shape == (0, 2)
