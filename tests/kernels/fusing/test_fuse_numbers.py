"""Numbers as arguments of fused functions: what NumPy's scalars have but operators."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from tests.refusal import refused

pytestmark = pytest.mark.interpreted

X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("function", [
    lambda x, n: x * n.sum(), lambda x, n: x + n.clip(0, 1), lambda x, n: x + n.T,
    lambda x, n: x - n.squeeze(), lambda x, n: x + n.real, lambda x, n: x + n[()],
    lambda x, n: x * np.sum(n), lambda x, n: x + np.max(n), lambda x, n: x + n.size,
    lambda x, n: x * n.copy(), lambda x, n: x + n.round(decimals=1)])
def test_methods_of_scalars_are_computed_at_each_call(function):
    fused = nf.fuse(function)
    for n in (np.float32(1.25), np.float32(2), np.float64(-0.75), np.int8(3)):
        expected, found = function(X, n), fused(X, n)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert fused.cache_info().misses == 3


@pytest.mark.parametrize("function", [
    lambda x, n: x + n.reshape(-1), lambda x, n: x + n[None],
    lambda x, n: x + n.ravel(), lambda x, n: x + n.clip(0, x)])
def test_a_number_that_would_become_an_array_is_refused(function):
    with refused(KernelTypeError, "traced number 'n'", "pass an array without"):
        nf.fuse(function)(X, np.float32(0.5))


@pytest.mark.parametrize("function", [
    lambda x, n: x + np.add(n, [1.0]), lambda x, n: x + np.add(n + n, (1.0,))])
def test_a_list_beside_a_number_is_an_array(function):
    fused = nf.fuse(function)
    for n in (np.float32(0.5), np.float32(0.75)):
        found, want = fused(X, n), function(X, n)
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_a_list_of_traced_numbers_is_refused_by_name():
    with pytest.raises(KernelTypeError):
        nf.fuse(lambda x, n: x + np.sin([n]))(X, np.float32(0.5))


def test_what_a_number_does_not_have_is_said_by_its_type():
    with pytest.raises(AttributeError, match=r"'numpy\.float32' object has no"):
        nf.fuse(lambda x, n: x + n.nonsense)(X, np.float32(0.5))


WHOLE = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
Y = np.array([0.1, 0.7, 1.3], np.float32)


@pytest.mark.parametrize("function", [
    lambda i, y, n: (i * n, y * y), lambda i, y, n: (y.astype("f8") * n, y),
    lambda i, y, n: (np.arctan(i) + n, y + 1), lambda i, y, n: (i * (n / 3) + y,),
    lambda i, y, n: (np.where(i > 2, n, 0.1) * i + y,),
    lambda i, y, n: ((i * n + y).sum(axis=0),)])
def test_a_number_beside_float32_and_float64_has_all_its_digits(function):
    """A kernel that reads float32 computes numbers in it, unless float64 meets them."""
    expected, found = function(WHOLE, Y, 0.89), nf.fuse(function)(WHOLE, Y, 0.89)
    assert found[0].dtype == expected[0].dtype == np.float64
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-14)
