"""Numbers as arguments of fused functions: what NumPy's scalars have but operators."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NbFusedPerformanceWarning
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


@pytest.mark.parametrize("function", [
    lambda x, n: np.piecewise(n - 1, [n < 1], [lambda v: -v, lambda v: v * v]),
    lambda x, n: np.copy(n + 1), lambda x, n: np.hstack([n - 1, 2.0]),
    lambda x, n: np.stack([n, -n]), lambda x, n: np.choose(n > 1, [n, -n]),
    lambda x, n: np.linspace(n + 1, 2, 3)])
def test_numbers_alone_are_arrays_to_functions_of_arrays(function):
    fused = nf.fuse(function)
    for n in (0.5, 1.75, np.float32(0.5), np.float64(1.75), np.float64(0.25)):
        found, want = fused(X, n), function(X, n)
        assert (found.dtype, found.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_a_number_is_raveled():
    fused = nf.fuse(lambda x, n: x + np.concatenate([np.ravel(n - 1), np.ravel(n)])[0])
    np.testing.assert_array_equal(fused(X, np.float64(3)), X + 2)


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


@pytest.mark.parametrize("function", [
    lambda x, n: x if n > 1 else -x, lambda x, n: x.sum(n % 2),
    lambda x, n: x[:, n - 1], lambda x, n: x[n - 1:], lambda x, n: x * float(n),
    lambda x, n: x * {1: 3}.get(n, 4),
    lambda x, n: sum(x + k for k in range(n)), lambda x, n: np.roll(x, round(n), 1)])
def test_an_integer_that_is_asked_for_is_traced_for_each_value(function):
    fused = nf.fuse(function)
    for n in (1, 2, 1, np.int64(2), 1, 2, True):
        np.testing.assert_array_equal(fused(X, n), function(X, n))
    assert 2 < fused.cache_info().currsize <= 4  # by type, too


def test_flags_by_keyword_beside_numbers_that_are_passed_by_value():
    def scaled(x, rate, *, training):
        return x * rate if training else x

    fused = nf.fuse(scaled)
    for rate in (0.5, 0.75, 1.25, 1.5, 1.75):
        for training in (True, False):
            np.testing.assert_array_equal(fused(X, rate, training=training),
                                          scaled(X, rate, training=training))
    assert fused.cache_info().currsize == 2


def test_many_values_of_an_integer_that_is_asked_for_are_warned_of():
    fused = nf.fuse(lambda x, n: x * float(n))
    for n in range(8):
        np.testing.assert_array_equal(fused(X, n), X * n)
    with pytest.warns(NbFusedPerformanceWarning, match="value of 'n'.*9 so far"):
        fused(X, 8)
    np.testing.assert_array_equal(fused(X, 9), X * 9)  # and once only


def loss(x, k):
    return nf.ops.sum(nf.ops.square(x) * k + nf.ops.sin(x * k))


def slope(k):
    """The derivative of `loss` by the number, of the numbers in `X`."""
    return (X**2 + X * np.cos(X * k)).sum()


EAGER = nf.value_and_grad(loss, argnums=(0, 1))
FUSED = nf.fuse(EAGER)


@pytest.mark.parametrize("kind", [float, int, bool, np.float64, np.float32])
def test_a_number_is_differentiated_by(kind):
    """As without `nf.fuse`, and one trace is for all of its values."""
    before = FUSED.cache_info().misses
    values = [kind(k) for k in (1, 0, 1)] if kind in (int, bool) else [
        kind(k) for k in (0.25, -1.5, 3)]
    for k in values:
        (value, (_, found)), (_, (_, wanted)) = FUSED(X, k), EAGER(X, k)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(value, loss(X, float(k)), rtol=1e-14)
        np.testing.assert_allclose(found, slope(float(k)), rtol=1e-6 if
                                   kind is np.float32 else 1e-13)
    assert FUSED.cache_info().misses - before == 1


def test_numbers_of_a_tree_are_differentiated_by_if_they_are_no_integers():
    by_tree = nf.grad(lambda p: loss(p["x"], p["k"]) * p["scale"])
    given = {"x": X, "k": 0.5, "scale": 2.0}
    fused = nf.fuse(by_tree)
    for name, found in fused(given).items():
        np.testing.assert_allclose(found, by_tree(given)[name], rtol=1e-14)
    np.testing.assert_allclose(fused(given)["k"], 2*slope(0.5), rtol=1e-13)
    with refused(KernelTypeError, "p['scale'] in argument 0", "an integer",
                 "pass what is not differentiated by in another"):
        fused({"x": X, "k": 0.5, "scale": 3})


def test_second_derivatives_by_a_number():
    def twice(x, k):
        return nf.grad(nf.grad(loss, argnums=1), argnums=1)(x, k)

    np.testing.assert_allclose(nf.fuse(twice)(X, 0.5), -(X**2*np.sin(X*0.5)).sum(),
                               rtol=1e-13)
