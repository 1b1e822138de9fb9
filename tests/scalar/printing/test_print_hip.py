"""Every operation printed for HIP, on every dtype, against the interpreter."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from nbfused.errors import KernelTypeError
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.printing.trigonometry import cosine, sine, tangent
from nbfused.scalar.typing.promotion import compute_dtype
from nbfused.scalar.typing.types import Typed, specialize
from nbfused.support.dtypes import DTYPES
from tests.scalar.kernels import numbers, operation, pairs
from tests.scalar.printing.hip import Library, needs_gxx
from tests.scalar.printing.test_print_numba import CANCELLING, ULPS
from tests.variants import sampled_together

pytestmark = needs_gxx

REAL = tuple(name for name, d in DTYPES.items() if d.kind != "c")
COMPLEX = ("complex64", "complex128")
#: Operands of their own kinds: tested in test_print_hip_forms.
APART = {"select", "powi", "philox", "complex_from"}


@cache
def typed(op: str, dtype: str) -> Typed | None:
    """The operation on operands of one dtype, if it takes them."""
    f = operation(op)
    try:
        return specialize(f, (DTYPES[dtype],)*len(f.params))
    except KernelTypeError:
        return None


def cases(dtypes):
    return [(op, d) for op in OPS if op not in APART for d in dtypes if typed(op, d)]


@cache
def library(dtype: str) -> Library:
    """All operations on a dtype in one translation unit."""
    return Library({op: (typed(op, dtype), (DTYPES[dtype],)*OPS[op].arity)
                    for op, _ in cases((dtype,))})


def arguments(op: str, dtype: str):
    """Every special value, or every pair of them."""
    d = DTYPES[dtype]
    wide = compute_dtype(d)
    with np.errstate(over="ignore"):
        args = (numbers(wide),) if OPS[op].arity == 1 else pairs(wide)
        return tuple(a.astype(d) for a in args)


#: Each dtype's distance from 1 to the next number, and its least number.
PRECISION = {"bfloat16": (2.0**-7, 2.0**-133), "float16": (2.0**-10, 2.0**-24),
             "float32": (2.0**-23, 2.0**-149), "float64": (2.0**-52, 2.0**-1074)}

#: Where NumPy takes either of 0 and -0, or another than printed text does.
SIGNLESS = {"max", "min", "complex_sign"}


def assert_close(op, got, expected):
    assert got.dtype == expected.dtype
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
        return
    eps, least = PRECISION[got.dtype.name]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            got.astype(np.float64), expected.astype(np.float64),
            rtol=ULPS.get(op, 4)*eps, atol=CANCELLING.get(op, 0)*eps + 4*least)
    zero = (got == 0) & (expected == 0) & (op not in SIGNLESS)
    signs = np.broadcast_to(np.signbit(expected), got.shape)
    np.testing.assert_array_equal(np.signbit(got)[zero], signs[zero])


@pytest.mark.parametrize(("op", "dtype"), sampled_together(
    cases(REAL), *cases(("float32", "bfloat16", "int8"))))
def test_operations(op, dtype):
    args = arguments(op, dtype)
    (got,) = library(dtype)(op, *args)
    (expected,) = evaluate(typed(op, dtype), *args)
    assert_close(op, got, expected)


@cache
def waves() -> Library:
    """sin, cos and tan of float32."""
    dtypes = (DTYPES["float32"],)
    return Library({op: (typed(op, "float32"), dtypes) for op in ("sin", "cos", "tan")})


@pytest.mark.parametrize(("op", "formula"), [
    ("sin", sine), ("cos", cosine), ("tan", tangent)])
def test_waves_of_any_angle_have_the_bits_of_their_formula(op, formula):
    rng = np.random.default_rng(8)
    size = np.concatenate([rng.uniform(0, 2e4, 3000), 2.0**rng.uniform(-30, 128, 3000)])
    x = (size*rng.choice([-1, 1], size.size)).astype(np.float32)
    (got,) = waves()(op, x)
    (expected,) = evaluate(specialize(parse(formula), (x.dtype,)), x)
    np.testing.assert_array_equal(got.view("u4"), expected.view("u4"))
