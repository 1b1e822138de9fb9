"""Integers, bools and Python numbers: values and dtypes are NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from tests.variants import sampled

#: Of NumPy, which is the oracle.
pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore::RuntimeWarning")]

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
          "uint64", "float16", "float32", "float64"]
#: With bounds of 64 bits and narrower ones, of both signs, and none.
FEW = "bool", "int8", "int64", "uint64", "float16"
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
NUMBERS = [-1, 2, 255, 256, -129, 65536, 2**31, -2**40, 2**63 - 1, -2**63, 2**63,
           2**64 - 1, 2**70, -2**70]


def values(dtype):
    held = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else None
    ends = [0, 1, 3] if held is None else [held.min, 0, 1, 3, held.max]
    return np.array(ends, dtype)


def same(found, expected):
    found = nf.to_numpy(found)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", sampled(DTYPES, *FEW))
@pytest.mark.parametrize("name", sampled(COMPARISONS, "equal", "less"))
def test_comparisons_with_any_integer(name, dtype):
    ours, theirs, x = getattr(nf.ops, name), getattr(np, name), values(dtype)
    for n in NUMBERS:
        if dtype == "bool" and not -2**63 <= n < 2**63:
            continue  # NumPy makes int64 of both, and raises
        same(ours(x, n), theirs(x, n))
        same(ours(n, x), theirs(n, x))
        same(theirs(nf.Variable(x), n), theirs(x, n))


@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_of_variables_and_fused(dtype):
    x = values(dtype)
    same(nf.Variable(x) == -1, x == -1)
    same(nf.Variable(x) < 2**40, x < 2**40)
    same(_fused(x), (x >= -1) & (x != 300))


@nf.fuse
def _fused(x):
    return (x >= -1) & (x != 300)


# float16 computes in float32, where these numbers are finite.
@pytest.mark.parametrize("dtype", sampled([d for d in DTYPES if d != "float16"], *FEW))
@pytest.mark.parametrize("name", sampled(
    ["add", "subtract", "multiply", "maximum", "minimum"], "subtract", "maximum"))
def test_arithmetic_takes_the_integers_that_numpy_takes(name, dtype):
    ours, theirs, x = getattr(nf.ops, name), getattr(np, name), values(dtype)
    for n in NUMBERS:
        try:
            expected = theirs(x, n)
        except (OverflowError, TypeError) as error:
            with pytest.raises(type(error)):
                ours(x, n)
        else:
            if expected.dtype != object:
                same(ours(x, n), expected)


BOUNDS = [(None, 2), (1, None), (1, 2), (None, 2.5), (-1, 300), (0, 2**70),
          (-2**70, 2), (2, 1)]


@pytest.mark.parametrize("dtype", sampled(DTYPES, *FEW))
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_clip(low, high, dtype):
    x = values(dtype)
    try:
        expected = np.clip(x, low, high)
    except OverflowError:  # bools become int64
        with pytest.raises(OverflowError):
            nf.ops.clip(x, low, high)
        return
    same(nf.ops.clip(x, low, high), expected)
    same(np.clip(nf.Variable(x), low, high), expected)
    same(nf.Variable(x).clip(low, high), expected)
    out = np.empty_like(expected)
    assert nf.ops.clip(x, low, high, out=out) is out
    same(out, expected)


def test_clip_leaves_sides_open():
    x = np.array([-2.0, 0.5, np.nan])
    same(nf.ops.clip(x), np.clip(x, None, None))
    same(nf.ops.clip(x, np.zeros(3)), np.clip(x, np.zeros(3), None))
    for low, high in ((None, 0.7), (0.2, None), (0.2, 0.7)):
        nf.testing.gradcheck(lambda v, a=low, b=high: nf.ops.clip(v, a, b),
                             [np.array([-2.0, 0.5, 1.0])])


@pytest.mark.parametrize("dtype", DTYPES)
def test_reciprocal(dtype):
    x = values(dtype)
    x = x[x != 0]  # of integers NumPy gives whatever the processor does
    same(nf.ops.reciprocal(x), np.reciprocal(x))
    same(np.reciprocal(nf.Variable(x)), np.reciprocal(x))
    same(nf.ops.reciprocal(x[-1]), np.asarray(np.reciprocal(x[-1])))


@pytest.mark.parametrize("dtype", sampled(DTYPES, *FEW))
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 2.0, 0.5, True])
def test_powers(exponent, dtype):
    x = np.array([0, 1, 3], dtype)
    try:
        expected = np.power(x, exponent)
    except TypeError:
        return
    if expected.dtype.kind != "f":
        same(nf.ops.power(x, exponent), expected)
        same(nf.Variable(x) ** exponent, x ** exponent)


@pytest.mark.parametrize("dtype", sampled(DTYPES, "bool", "uint64", "float16"))
@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("options", [
    {}, {"axis": 0}, {"axis": -1}, {"axis": 1, "keepdims": True}, {"keepdims": True}])
def test_arguments_of_the_extrema(options, name, dtype):
    x = np.array([[3, 0, 1], [0, 3, 0]], dtype)
    expected = np.asarray(getattr(np, name)(x, **options))
    same(getattr(nf.ops, name)(x, **options), expected)
    same(getattr(np, name)(nf.Variable(x), **options), expected)
    same(getattr(nf.Variable(x), name)(**options), expected)


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_arguments_of_the_extrema_with_nans(name):
    x = np.array([[1.0, np.nan, -1.0], [np.inf, -np.inf, 0.0]])
    for options in ({}, {"axis": 1}):
        same(getattr(nf.ops, name)(x, **options),
             np.asarray(getattr(np, name)(x, **options)))


@pytest.mark.parametrize(("low", "high"), [
    (0, np.int8(1)), (np.int8(0), 1), (0, np.array([1, 0], np.uint8)),
    (0.0, np.float16(1)), (0, 1.0), (0.5, 1)])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32])
def test_clip_promotes_a_number_with_both_arrays(low, high, dtype):
    x = np.array([True, False]).astype(dtype)
    same(nf.ops.clip(x, low, high), np.clip(x, low, high))
