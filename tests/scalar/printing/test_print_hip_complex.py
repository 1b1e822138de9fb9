"""Complex operations printed for HIP, against NumPy in double precision."""

from __future__ import annotations

import cmath
from functools import cache

import numpy as np
import pytest

from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.types import specialize
from nbfused.support.dtypes import DTYPES
from tests.scalar.printing.hip import Library, needs_gxx
from tests.scalar.printing.test_print_hip import typed
from tests.variants import sampled

pytestmark = needs_gxx

COMPLEX = ("complex64", "complex128")
OPERATIONS = [op for op in OPS if op not in ("philox", "select", "powi")
              and typed(op, "complex128")]
POWERS = (-3, -1, 0, 1, 2, 3, 5, 10)


def power(exponent: int, dtype: str):
    return specialize(parse(lambda z: z**exponent), (DTYPES[dtype],))


@cache
def library(dtype: str) -> Library:
    """All operations on a dtype in one translation unit."""
    d = DTYPES[dtype]
    functions = {op: (typed(op, dtype), (d,)*OPS[op].arity) for op in OPERATIONS}
    return Library(functions | {f"power_{k + 3}": (power(k, dtype), (d,))
                                for k in POWERS})


def points(dtype: str, arity: int) -> list[np.ndarray]:
    """All quadrants, both axes, near to the unit circle, small and large."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=300) + 1j*rng.normal(size=300)
    scale = np.repeat([1.0, 1e-6, 30.0, 1e-3, 1e3, 0.1], 50)
    axes = np.array([2.0, -2.0, 0.5, -0.5, 2j, -2j, 0.5j, -0.5j, 1, -1, 1j, -1j, 0])
    circle = np.exp(1j*rng.uniform(-3, 3, 20))
    every = np.concatenate([z*scale, axes, circle]).astype(dtype)
    return [every, *([rng.permutation(every)] if arity == 2 else [])]


def assert_close(got, expected, ulps):
    """By the size of the whole number."""
    assert got.dtype == expected.dtype
    if got.dtype.kind == "b":
        np.testing.assert_array_equal(got, expected)
        return
    with np.errstate(all="ignore"):
        error = abs(got - expected)/(abs(expected)*np.finfo(got.dtype).eps)
    error[(got == expected) | (np.isnan(got) & np.isnan(expected))] = 0
    assert (error <= ulps).all(), np.flatnonzero(~(error <= ulps))


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("dtype", sampled(COMPLEX, "complex64"))
def test_operations(op, dtype):
    args = points(dtype, OPS[op].arity)
    ulps = 20.0
    if op in ("pow", "complex_pow"):  # the exponential multiplies an error
        args[1] /= np.maximum(abs(args[1])/3, 1)
        with np.errstate(all="ignore"):
            ulps = 20 + 4*np.nan_to_num(abs(args[1]*np.log(args[0])), posinf=0)
    (got,) = library(dtype)(op, *args)
    assert_close(got, evaluate(typed(op, dtype), *args)[0], ulps)


@pytest.mark.parametrize("exponent", POWERS)
@pytest.mark.parametrize("dtype", sampled(COMPLEX, "complex64"))
def test_literal_powers(exponent, dtype):
    (z,) = points(dtype, 1)
    z = z[(abs(z) > 1e-3) & (abs(z) < 30)]
    (got,) = library(dtype)(f"power_{exponent + 3}", z)
    assert_close(got, (z.astype(complex)**exponent).astype(dtype), 20)


#: Parts of numbers at which C99 says what the functions are.
PARTS = (0.0, -0.0, 1.0, -1.5, np.inf, -np.inf)
ANNEX_G = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp",
           "log", "sin", "sinh", "sqrt", "tan", "tanh")


def exact(op: str, z: complex) -> complex:
    """What Python has, which refuses poles and values without a sign."""
    try:
        return getattr(cmath, op)(z)
    except (ValueError, OverflowError):
        return complex(np.nan, np.nan)


@pytest.mark.parametrize("op", ANNEX_G)
@pytest.mark.parametrize("dtype", sampled(COMPLEX, "complex64"))
def test_infinities_and_signed_zeros(op, dtype):
    z = np.array([complex(x, y) for x in PARTS for y in PARTS])
    expected = np.array([exact(op, v) for v in z])
    known = ~np.isnan(expected.real) & ~np.isnan(expected.imag)
    (got,) = library(dtype)(op, z.astype(dtype))
    assert known.sum() >= 12
    for part in ("real", "imag"):
        a, b = (getattr(v, part)[known] for v in (got, expected))
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
        zero = (b == 0) & ~(np.isinf(z.real) & np.isinf(z.imag))[known]
        np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]))


@pytest.mark.parametrize("op", ["sqrt", "log", "log10", "abs", "atanh", "asinh", "atan",
                                "reciprocal", "tanh", "acosh"])
@pytest.mark.parametrize("dtype", sampled(COMPLEX, "complex64"))
def test_nothing_overflows_on_the_way(op, dtype):
    top = np.finfo(dtype).max
    z = np.array([(s + t*1j)*m for s in (1, -0.3) for t in (0.5, -1)
                  for m in (float(top)/4, 4/float(top))])
    if op == "reciprocal":
        z /= 8
    (got,) = library(dtype)(op, z.astype(dtype))
    (expected,) = evaluate(typed(op, dtype), z.astype(dtype))
    np.testing.assert_allclose(got, expected, rtol=20*np.finfo(dtype).eps,
                               atol=4*float(np.finfo(dtype).smallest_subnormal))
