"""Calls that are found again by types are checked as the first one was."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError, NbFusedError, OverlapError

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 40)).astype(np.float32)
W = RNG.standard_normal(40).astype(np.float32)
SQUARE = RNG.standard_normal((40, 40)).astype(np.float32)

CALLS = {
    "sum": (lambda x, **k: ops.sum(x, axis=1, **k), lambda x: x.sum(1)),
    "max": (lambda x, **k: ops.max(x, axis=1, **k), lambda x: x.max(1)),
    "norm": (lambda x, **k: ops.norm(x, axis=1, **k),
             lambda x: np.sqrt((x*x).sum(1))),
    "softmax": (lambda x, **k: ops.softmax(x, **k),
                lambda x: np.exp(x)/np.exp(x).sum(1, keepdims=True)),
    "layer_norm": (lambda x, **k: ops.layer_norm(x, W, **k),
                   lambda x: (x - x.mean(1, keepdims=True))
                   / np.sqrt(x.var(1, keepdims=True) + 1e-5)*W),
    "linear": (lambda x, **k: ops.linear(x, SQUARE, W, "relu", **k),
               lambda x: np.maximum(x @ SQUARE + W, 0))}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.compiled if name in ("sum", "linear") else ())
    for name in CALLS])
def test_other_arrays_shapes_and_dtypes(name):
    call, expected = CALLS[name]
    for dtype, rows, order in ("f4", 6, "C"), ("f4", 6, "F"), ("f8", 6, "C"), \
            ("f4", 3, "C"), ("f8", 3, "C"), ("f4", 1, "C"), ("f4", 3, "F"), \
            ("f4", 6, "C"):
        x = RNG.standard_normal((rows, 40)).astype(dtype, order)
        got = call(x)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, expected(x), 2e-4, 2e-4)


@pytest.mark.parametrize("name", CALLS)
def test_places_for_results(name):
    call, expected = CALLS[name]
    call(X)
    for _ in range(3):
        x = RNG.standard_normal(X.shape).astype(np.float32)
        x.flags.writeable = False
        out = np.full_like(call(x), np.nan)
        assert call(x, out=out) is out
        np.testing.assert_allclose(out, expected(x), 2e-4, 2e-4)
        again = np.full_like(out, np.nan)
        assert call(x, out=(again,)) is again
        assert np.array_equal(out, again)
        out.flags.writeable = False
        with pytest.raises(NbFusedError, match="read-only"):
            call(x, out=out)
    with pytest.raises(NbFusedError, match=r"shape|length"):
        call(X, out=np.zeros((2, 2), np.float32))
    with pytest.raises(KernelTypeError, match="length 2"):
        call(X, out=(out, out))


@pytest.mark.parametrize("name", ["softmax", "linear"])
def test_results_that_overlap_are_refused_again(name):
    x = np.ones((40, 40), np.float32)
    for _ in range(2):
        CALLS[name][0](x, out=np.empty_like(x))
        with pytest.raises(OverlapError):
            CALLS[name][0](x, out=x)


@pytest.mark.parametrize("name", CALLS)
def test_variables_after_arrays_are_recorded(name):
    call, _ = CALLS[name]
    expected = call(X)
    for _ in range(2):
        x = nf.Variable(X, requires_grad=True)
        result = call(x)
        np.testing.assert_array_equal(result.data, expected)
        ops.sum(result).backward()
        assert x.grad.shape == X.shape
        np.testing.assert_array_equal(call(X), expected)


@pytest.mark.parametrize("name", CALLS)
def test_writing_is_noticed_again(name):
    """What a tape still reads may not change unseen."""
    call, _ = CALLS[name]
    out = np.zeros_like(call(X))
    call(X, out=out)
    x = nf.Variable(out, requires_grad=True)
    result = ops.sum(x*x)
    call(X, out=out)
    with pytest.raises(NbFusedError):
        result.backward()


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_integers_and_scalars_are_refused_after_floats(name):
    call, _ = CALLS[name]
    for _ in range(2):
        call(X)
        with pytest.raises(KernelTypeError, match="floating"):
            call(np.ones((6, 40), np.int32)) if name == "softmax" else \
                ops.softmax(np.ones((6, 40), np.int32))
        with pytest.raises(KernelTypeError, match="at least one dimension"):
            call(np.float32(2)*np.ones(()).reshape(()).astype(np.float32)[...])


def test_norms_of_other_orders_and_dtypes():
    whole = np.array([[3, -4], [-128, 5]], np.int8)
    for _ in range(2):
        assert float(ops.norm(X, 1)) == pytest.approx(abs(X).sum(), rel=1e-5)
        assert float(ops.norm(X, float("inf"))) == abs(X).max()
        assert float(ops.norm(whole)) == pytest.approx(np.sqrt(9 + 16 + 2**14 + 25))
        assert float(ops.norm(whole.astype(np.float32))) == pytest.approx(
            np.sqrt(9 + 16 + 2**14 + 25))
        for order in (3, 0.5, "fro", [2], None):
            with pytest.raises(KernelTypeError, match="'ord'"):
                ops.norm(X, order)
        assert float(ops.norm(X * np.complex64(1j))) == pytest.approx(
            np.linalg.norm(X), rel=1e-5)


def test_activations_are_told_apart():
    """Names, functions of one text, functions that cannot be kept."""
    def scaled(by):
        return lambda x: x*by

    class Unhashable:
        __hash__ = None

        def __call__(self, x):
            return x

    plain = ops.linear(X, SQUARE, W)
    twice, thrice = scaled(2.0), scaled(3.0)
    for _ in range(2):
        for activation, expected in (("relu", np.maximum(plain, 0)), (None, plain),
                                     ("negative", -plain), (ops.negative, -plain),
                                     (twice, plain*2), (thrice, plain*3)):
            np.testing.assert_allclose(ops.linear(X, SQUARE, W, activation), expected,
                                       1e-6)
        for wrong in (Unhashable(), 3, ["relu"], "nonsense"):
            with pytest.raises((KernelTypeError, TypeError)):
                ops.linear(X, SQUARE, W, wrong)


def test_products_of_other_ranks():
    stack = RNG.integers(-3, 4, (3, 40, 40)).astype(np.float32)
    whole = RNG.integers(-3, 4, (6, 40)).astype(np.float32)
    for _ in range(2):
        assert np.array_equal(ops.matmul(whole, stack), whole @ stack)
        assert np.array_equal(ops.matmul(whole, stack[0]), whole @ stack[0])
        assert np.array_equal(ops.matmul(whole[0], stack[0]), whole[0] @ stack[0])
        assert float(ops.matmul(whole[0], whole[1])) == whole[0] @ whole[1]
        assert np.array_equal(ops.matmul(whole, stack[0], bias=2.0),
                              whole @ stack[0] + 2)
        with pytest.raises(KernelTypeError, match="'a' must be an array"):
            ops.matmul(2.0, stack)
