"""Powers by numbers that are products and roots, beside others."""

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused import ops

EXPONENTS = [2, 3, 4, -1, 0.5, -0.5, 2.0, -1.0, 1, 0, 5, -2, 1.5]
POINTS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.25, 1e-20, -1e-20, 1e18, -1e18,
                   np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_known_exponents_are_as_any_exponent_in_an_array(exponent, dtype, device):
    """Signs of zeros, infinities and NaN too."""
    with np.errstate(all="ignore"):
        x = POINTS.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        exact = np.power(x.astype("f8"), np.full(x.shape, exponent, "f8"))
    found = nf.to_numpy(ops.power(nf.array(x, device=device), exponent))
    assert found.dtype == x.dtype
    rounding = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 4e-7, "float64": 5e-16}
    with np.errstate(all="ignore"):
        expected = exact.astype(x.dtype).astype("f8")
    np.testing.assert_allclose(found.astype("f8"), expected, rounding[dtype],
                               float(ml_dtypes.finfo(x.dtype).smallest_subnormal))
    np.testing.assert_array_equal(np.signbit(found.astype("f8"))[~np.isnan(expected)],
                                  np.signbit(expected)[~np.isnan(expected)])


@pytest.mark.parametrize("exponent", [2, 3, 4, -1, 2.0, -1.0, 0.5, 1.5, -2])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(exponent, dtype):
    rng = np.random.default_rng(2)
    x = (rng.normal(size=50) + 1j*rng.normal(size=50)).astype(dtype)
    found = ops.power(x, exponent)
    assert found.dtype == x.dtype
    exact = np.power(x.astype("c16"), np.full(50, exponent, "c16"))
    tolerance = 2e-6 if dtype == "complex64" else 4e-15
    np.testing.assert_allclose(found, exact, tolerance)
    slope = nf.grad(lambda x: ops.sum(ops.power(x, exponent)), holomorphic=True)(x)
    np.testing.assert_allclose(slope, exponent*exact/x, 2*tolerance)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5, 2.0, 0.5, -1.0])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "uint64"])
def test_integers(exponent, dtype):
    """They wrap around, and have NumPy's dtypes."""
    x = np.array([0, 1, 2, 3, 7, 11, 120, 3]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = np.power(x, exponent)
    for found in (ops.power(x, exponent), np.power(nf.Variable(x), exponent).data):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, 1e-15)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_derivatives_of_known_exponents(exponent):
    """To second order, those of a power by an array."""
    x = np.array([0.3, 1.0, 2.75, 40.0, 1e-3])
    array = np.array(float(exponent))

    def of(exponent):
        return nf.grad(lambda x: ops.sum(ops.power(x, exponent)))

    def slope(exponent):
        return nf.grad(lambda x: ops.sum(of(exponent)(x)*x))

    np.testing.assert_allclose(of(exponent)(x), of(array)(x), 1e-14)
    np.testing.assert_allclose(of(exponent)(x), exponent*x**(exponent - 1.0), 1e-14)
    np.testing.assert_allclose(slope(exponent)(x), exponent**2*x**(exponent - 1.0),
                               1e-13)
    points = np.array([0.0, np.inf, -2.0])
    np.testing.assert_array_equal(of(exponent)(points), of(array)(points))


SQUARES = [nf.fuse(lambda x: x**2), nf.fuse(lambda x: x**2.0),
           lambda x: ops.power(x, 2), lambda x: x**np.float64(2)]


@pytest.mark.parametrize("square", SQUARES)
def test_a_square_is_one_product(square):
    x = np.random.default_rng(0).normal(size=1000)
    np.testing.assert_array_equal(square(x), x*x)
    np.testing.assert_array_equal(nf.grad(lambda x: ops.sum(square(x)))(x), 2*x)
