"""Complex numbers where NumPy gives infinities and NaN."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError
from tests.refusal import refused
from tests.variants import sampled

DTYPES = ["complex64", "complex128"]


@nf.elementwise
def inverse(x):
    return x**-1


@nf.elementwise
def inverse_cube(x):
    return x**-3


@pytest.mark.parametrize("size", [7, 70_001])
@pytest.mark.parametrize("dtype", sampled(DTYPES, "complex64"))
def test_quotients_by_zero_are_numpys(dtype, size, device):
    """What raises inside a kernel stores nothing."""
    b = ((np.arange(size) % 5) * (1 + 0.5j)).astype(dtype)
    a = ((np.arange(size) % 3 - 1) * (2 - 1j)).astype(dtype)
    x, y = nf.array(a, device=device), nf.array(b, device=device)
    with np.errstate(all="ignore"):
        calls = [(ops.divide(x, y), a / b), (ops.divide(1.0, y), 1.0 / b),
                 (ops.divide(x, 0.0), a / np.zeros_like(a))]
    for got, want in calls:
        np.testing.assert_allclose(nf.to_numpy(got), want, rtol=1e-5)
    for power, n in ((inverse, 1), (inverse_cube, 3)):
        got = nf.to_numpy(power(y))
        np.testing.assert_array_equal(np.isfinite(got), b != 0)
        np.testing.assert_allclose(got[b != 0], 1 / b[b != 0]**n, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_zero_and_of_imaginary_numbers_are_numpys(dtype, device):
    values = np.array([0, 1, -1, 2j, -0.5j, 0.5 - 1.5j, 2 + 3j, -2 - 1j, 2], dtype)
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = np.power(a, b)
    got = nf.to_numpy(ops.power(*(nf.array(x, device=device) for x in (a, b))))
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    finite = np.isfinite(want)
    np.testing.assert_allclose(got[finite], want[finite], rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_mean_of_nothing(dtype, device):
    x = nf.array(np.empty((0, 3), dtype), device=device)
    assert np.isnan(nf.to_numpy(ops.mean(x, axis=0))).all()


@nf.elementwise
def first_half(z):
    return (np.exp(z), np.expm1(z), np.exp2(z), np.sinh(z), np.cosh(z), np.tanh(z),
            np.sin(z), np.cos(z), np.tan(z))


@nf.elementwise
def second_half(z):
    return (np.log(z), np.log1p(z), np.log2(z), np.log10(z), np.sqrt(z),
            np.arcsinh(z), np.arccosh(z), np.arctanh(z), np.arcsin(z), np.arccos(z),
            np.arctan(z))


HALVES = {first_half: "exp expm1 exp2 sinh cosh tanh sin cos tan",
          second_half: "log log1p log2 log10 sqrt asinh acosh atanh asin acos atan"}
#: Those of the second half are compiled one by one in tests of printed text.
HALVES_AND_DTYPES = [
    pytest.param(first_half, "complex128"),
    pytest.param(second_half, "complex128", marks=pytest.mark.interpreted),
    *(pytest.param(half, "complex64", marks=pytest.mark.variants) for half in HALVES)]


def of_numpy(name):
    return getattr(np, f"arc{name[1:]}" if name[0] == "a" else name)


@pytest.mark.parametrize(("half", "dtype"), HALVES_AND_DTYPES)
def test_infinities_nan_and_signed_zeros_are_those_of_annex_g(half, dtype, device):
    """NumPy has them; beside NaN and of two infinities some signs are not said."""
    parts = [0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 2e3, -2e3, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a in parts for b in parts], dtype)
    found = half(nf.array(z, device=device))
    for name, got in zip(HALVES[half].split(), found, strict=True):
        with np.errstate(all="ignore"):
            want = of_numpy(name)(z) if name != "expm1" else np.where(
                z == 0, z, np.exp(z) - z.real.dtype.type(1))  # NumPy's is not right
        a, b = (v.view(want.real.dtype).reshape(-1, 2) for v in (
            nf.to_numpy(got), want))
        np.testing.assert_allclose(abs(a), abs(b), rtol=4e-5, atol=1e-6, err_msg=name)
        specified = ~np.isnan(b).any(1) & (np.isfinite(z.real) | np.isfinite(z.imag))
        signed = specified[:, None] & ((abs(b) > 1e-6) | (b == 0))
        wrong = signed & (np.signbit(a) != np.signbit(b))
        assert not wrong.any(), (name, z[wrong.any(1)])


@pytest.mark.parametrize(("half", "dtype"), HALVES_AND_DTYPES)
def test_functions_are_accurate_near_overflow_and_elsewhere(half, dtype, device):
    """Beside mpmath, by the size of the whole number."""
    rng = np.random.default_rng(4)
    turns = np.exp(1j*rng.uniform(-3, 3, 40))
    edge, top = 710.0 if dtype == "complex128" else 89.0, float(np.finfo(dtype).max)
    z = np.concatenate([
        turns*np.repeat([1e-6, 0.3, 3.0, 30.0], 10), turns[:9], 1 + 1e-4*turns[:9],
        [s*(edge + t*1j) for s in (1, -1, 1j) for t in (1.0, -0.5)],
        [edge - 40 + 2j, 1e18 + 1e17j, -1e12 - 3e18j, 0.6j*top, (0.8j - 0.7)*top]]
    ).astype(dtype)
    found = half(nf.array(z, device=device))
    for name, got in zip(HALVES[half].split(), found, strict=True):
        function = getattr(mpmath, name, lambda x: mpmath.mpf(2)**x)
        if name in ("log2", "log1p"):
            function = (lambda x: mpmath.log(x)/mpmath.log(2)) if name == "log2" else \
                (lambda x: mpmath.log(1 + x))
        for x, y in zip(z, nf.to_numpy(got), strict=True):
            if abs(x) > 1e10 and half is first_half:
                continue
            with mpmath.workdps(60):
                want = function(mpmath.mpc(complex(x)))
                if max(abs(want.real), abs(want.imag)) > top:
                    assert np.isinf(y.real) or np.isinf(y.imag), (name, x)
                    continue
                error = abs(mpmath.mpc(complex(y)) - want)/abs(want)
            turns = abs(x.imag) if name == "exp2" else 1  # its angle is a product
            assert error < 8*np.finfo(dtype).eps*max(turns, 1), (name, x, y, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_square_roots_of_the_largest_and_of_subnormal_numbers(dtype, device):
    limits = np.finfo(dtype)
    sizes = [0.0, limits.smallest_subnormal, limits.tiny, 1.0, 0.3, limits.max]
    z = np.array([complex(s*a, t*b) for a in sizes for b in sizes for s in (1, -1)
                  for t in (1, -1)], dtype)[4:]
    found = nf.to_numpy(ops.sqrt(nf.array(z, device=device)))
    with mpmath.workdps(700):
        for x, y in zip(z, found, strict=True):
            want = mpmath.sqrt(mpmath.mpc(complex(x)))
            if np.signbit(x.imag) and x.imag == 0.0 and x.real < 0:
                want = want.conjugate()  # mpmath has no -0.0
            assert abs(mpmath.mpc(complex(y)) - want) < 2*limits.eps*abs(want), x


@pytest.mark.parametrize("dtype", DTYPES)
def test_everything_to_the_power_of_0_is_1(dtype, device):
    parts = [np.inf, -np.inf, np.nan, 0.0, -2.0]
    x = np.array([complex(a, b) for a in parts for b in parts], dtype)
    zero = nf.array(np.zeros_like(x), device=device)
    got = nf.to_numpy(ops.power(nf.array(x, device=device), zero))
    np.testing.assert_array_equal(got, np.ones_like(x))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumsum", "cumprod", "trace"])
def test_a_real_dtype_of_complex_numbers_is_warned_of_here(name):
    x = nf.Variable(np.array([[1 + 2j, 3.0], [2j, 1.0]]))
    with pytest.warns(np.exceptions.ComplexWarning, match="imaginary") as caught:
        getattr(np, name)(x, dtype="float64")
    assert caught[0].filename == __file__


@pytest.mark.parametrize("dtype", DTYPES)
def test_signs_of_infinite_and_of_largest_parts(dtype, device):
    """NumPy's; but beside NaN, where it gives 1j, the array API's."""
    inf, nan, most = np.inf, np.nan, float(np.finfo(dtype).max)
    x = np.array([complex(inf, 3), complex(-2, -inf), complex(nan, inf),
                  complex(inf, inf), complex(nan, 1), complex(most, -most)], dtype)
    half = np.sqrt(0.5)
    none = complex(nan, nan)
    want = [1, -1j, none, none, none, complex(half, -half)]
    got = nf.to_numpy(ops.sign(nf.array(x, device=device)))
    np.testing.assert_allclose(got, np.array(want, dtype), rtol=1e-6)


@pytest.mark.parametrize("call", [
    ops.logsumexp, ops.layer_norm, ops.relu, ops.floor, ops.softmax,
    lambda x: nf.fuse(lambda x: ops.logsumexp(x * 2))(x),
    lambda x: ops.matmul_add_relu(x, x, x)],
    ids=["logsumexp", "layer_norm", "relu", "floor", "softmax", "logsumexp",
         "matmul_add_relu"])
def test_what_takes_real_numbers_names_itself_and_the_argument(call, request):
    name = request.node.callspec.id.rstrip("0123456789")
    argument = "lhs" if name == "matmul_add_relu" else "x"
    with refused(KernelTypeError, f"{name}: '{argument}' must be real", "complex128",
                 "take .real, .imag or abs()"):
        call(np.ones((2, 2)) + 1j)


@pytest.mark.interpreted
@pytest.mark.parametrize("call", [
    ops.logsumexp, ops.layer_norm, ops.relu, ops.floor, ops.softmax,
    lambda x: ops.matmul_add_relu(x, x, x), lambda x: ops.relu(x, out=x)])
@pytest.mark.parametrize("kind", [np.asarray, nf.Variable])
def test_the_refusal_is_the_same_after_a_call_that_works(call, kind):
    with pytest.raises(KernelTypeError) as first:
        call(kind(np.ones((2, 2)) + 1j))
    for _ in range(2):
        call(kind(np.ones((2, 2))))
    with pytest.raises(KernelTypeError) as later:
        call(kind(np.ones((2, 2)) + 1j))
    assert str(later.value) == str(first.value)


def test_a_kernel_with_a_complex_constant_says_where():
    with refused(KernelTypeError, __file__, "max does not take complex numbers"):
        nf.elementwise(lambda x: max(x * 1j, 0.0))(np.ones(2))
