"""Every operation printed for HIP, on every dtype, against the interpreter."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from nbfused.errors import KernelTypeError
from nbfused.scalar.interpret import evaluate
from nbfused.scalar.promotion import DTYPES, compute_dtype
from nbfused.scalar.types import Typed, specialize
from nbfused.scalar.vocabulary import OPS
from tests.scalar.hip import Library, needs_gxx
from tests.scalar.kernels import numbers, operation, pairs
from tests.scalar.test_print_numba import CANCELLING, ULPS

pytestmark = needs_gxx

REAL = tuple(name for name, d in DTYPES.items() if d.kind != "c")
COMPLEX = ("complex64", "complex128")
#: Operands of their own kinds: tested in test_print_hip_forms.
APART = {"select", "powi", "philox"}


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
def library(dtypes: tuple[str, ...]) -> Library:
    """All operations in one translation unit."""
    return Library({f"{op}_{d}": (typed(op, d), (DTYPES[d],)*OPS[op].arity)
                    for op, d in cases(dtypes)})


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


@pytest.mark.parametrize(("op", "dtype"), cases(REAL))
def test_operations(op, dtype):
    args = arguments(op, dtype)
    (got,) = library(REAL)(f"{op}_{dtype}", *args)
    (expected,) = evaluate(typed(op, dtype), *args)
    assert_close(op, got, expected)
