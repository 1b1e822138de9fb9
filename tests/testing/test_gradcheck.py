"""The checker of gradients sees wrong ones, of the first and of the second order."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.testing import GradcheckError, gradcheck, gradients

A = np.random.default_rng(0).uniform(0.5, 2.0, (2, 3))


@nf.elementwise
def square(x):
    return x * x


@nf.elementwise
def half_square(x):
    """The value of a square, half its derivative."""
    return x * nf.detach(x)


def with_rule(backward):
    """The square with a rule of its own."""
    rule = nf.custom_vjp(square)
    rule.defvjp(lambda x: (square(x), x), lambda x, g: (backward(x) * g,))
    return rule


def test_right_ones_pass():
    gradcheck(square, [A], order=2)
    gradcheck(with_rule(lambda x: 2.0 * x), [A], order=2)
    gradcheck(square, [A], reference=np.square)
    gradcheck(nf.ops.sum, [A], order=2)  # of order 2: zero


def test_a_wrong_one_is_named():
    with pytest.raises(GradcheckError, match=r"argument 0 at \(0, 0\).*differences"):
        gradcheck(half_square, [A])
    with pytest.raises(GradcheckError, match="argument 1"):
        gradcheck(lambda x, y: square(x) + half_square(y), [A, A])


def test_one_wrong_element_is_enough():
    wrong = np.ones((2, 3))
    wrong[1, 2] = 1.001
    with pytest.raises(GradcheckError, match=r"\(1, 2\)"):
        gradcheck(with_rule(lambda x: 2.0 * x * wrong), [A])


def test_nan_is_wrong():
    with pytest.raises(GradcheckError, match="nan"):
        gradcheck(with_rule(lambda x: x * np.nan), [A])


def test_a_wrong_second_order_is_seen():
    rule = with_rule(lambda x: 2.0 * x.detach())
    gradcheck(rule, [A])
    with pytest.raises(GradcheckError):
        gradcheck(rule, [A], order=2)


def test_a_reference_that_differs_is_seen():
    with pytest.raises(GradcheckError):
        gradcheck(square, [A], reference=lambda x: x * x + 0.01 * x)


def test_only_floats_are_differentiated_by(device):
    labels = np.array([0, 2])
    gradcheck(nf.ops.cross_entropy, [A, labels],
              place=lambda x: nf.array(x, device=device))
    found = gradients(nf.ops.cross_entropy, [A, labels],
                      place=lambda x: nf.array(x, device=device))
    assert found[1] is None
    assert isinstance(found[0], np.ndarray)


def test_gradients_of_narrow_dtypes_keep_them():
    for dtype in ("float16", "float32"):
        (found,) = gradients(square, [A.astype(dtype)])
        assert found is not None
        assert found.dtype == dtype
        np.testing.assert_allclose(found, 2 * A, rtol=2e-3)
