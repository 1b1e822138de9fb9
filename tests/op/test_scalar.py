"""Scalar functions given as objects, functions, names; parameters with defaults."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ScalarSyntaxError
from nbfused.op import scalar_function

pytestmark = pytest.mark.interpreted

A = np.random.default_rng(0).normal(size=(3, 4))
W = np.random.default_rng(1).normal(size=(4, 2))


@nf.func
def shifted(x, by=3.0):
    return x + by


@pytest.mark.parametrize("given", [
    math.exp, np.exp, nf.exp, "exp", nf.ops.exp, lambda x: math.exp(x)],
    ids=["math", "numpy", "vocabulary", "name", "op", "lambda"])
def test_spellings(given):
    found = nf.ops.matmul(A, W, epilogue=given)
    np.testing.assert_allclose(found, np.exp(A @ W), rtol=1e-14)


@pytest.mark.parametrize(("given", "reference"), [
    ("swish", nf.ops.swish.reference), ("leaky_relu", nf.ops.leaky_relu.reference),
    (nf.ops.elu, nf.ops.elu.reference), ("gelu", nf.ops.gelu.reference),
    (shifted, lambda x: x + 3),
    (lambda x, a=2, b=0.5: x * a + b, lambda x: 2 * x + 0.5)])
def test_parameters_that_are_not_given_have_their_defaults(given, reference):
    for found in (nf.ops.linear(A, W, activation=given),
                  nf.ops.matmul(A, W, epilogue=given),
                  nf.ops.contract("mk,kn->mn", A, W, epilogue=given)):
        np.testing.assert_allclose(found, reference(A @ W), rtol=1e-12)
    np.testing.assert_allclose(nf.ops.contract("mk,kn->mn", A, W, prologue_a=given),
                               reference(A) @ W, rtol=1e-12)


def test_extras_come_before_defaults():
    found = nf.ops.matmul(A, W, bias=1.0, epilogue="swish", extras=(2.0,))
    np.testing.assert_allclose(found, nf.ops.swish.reference(A @ W + 1, 2.0),
                               rtol=1e-12)


def test_equal_functions_share_a_kernel():
    first, second = (scalar_function(lambda x, a=2: x * a, "epilogue", 1)
                     for _ in range(2))
    assert first == second
    assert first.params == ("x",)


@pytest.mark.parametrize(("given", "words"), [
    ("no_such", "unknown epilogue 'no_such'; known: .*relu.*pass a scalar function"),
    (3.0, "'epilogue' must be a scalar function or the name of one, got float"),
    (len, "'epilogue' is <built-in function len>.*pass a function of numbers"),
    ([], "'epilogue' must be a scalar function or the name of one, got list"),
    (lambda x, y: x + y, r"lambda_\(x, y\) takes the product and 1 more, got 0 extras"),
    ("softmax", "unknown epilogue|whole rows"),
])
def test_what_is_no_epilogue(given, words):
    with pytest.raises(KernelTypeError, match=words):
        nf.ops.matmul(A, W, epilogue=given)


def test_prologues_take_one_value():
    for given, words in ((lambda x, y: x + y, "must take one value and return one"),
                         (lambda x: (x, x), "must take one value and return one"),
                         ("no_such", "unknown prologue_b")):
        with pytest.raises(KernelTypeError, match=words):
            nf.ops.contract("mk,kn->mn", A, W, prologue_b=given)


def test_what_wraps_an_op_is_not_that_op():
    """A gradient of arrays is no scalar function, and must not pass for the op."""
    nf.ops.exp(A)
    for given in (nf.grad(nf.ops.square), nf.checkpoint(nf.ops.square)):
        with pytest.raises((KernelTypeError, ScalarSyntaxError)):
            nf.ops.matmul(A, W, epilogue=given)
