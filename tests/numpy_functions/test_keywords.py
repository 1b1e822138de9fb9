"""Keywords and dtypes of NumPy's functions, as a random attack found them wrong."""

from __future__ import annotations

import warnings
from functools import reduce

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError, NbFusedPerformanceWarning
from tests.numpy_functions.agreement import check
from tests.refusal import refused

pytestmark = pytest.mark.interpreted

X = np.array([[1.5, -2.0, 0.5], [4.0, np.nan, 3.0]])
F, H = X.astype(np.float32), X.astype(np.float16)
N, B = np.array([[3, -1, 2], [7, 0, 5]], np.int8), np.array([[True, False, True]])
W = np.array([1.0, -2.0, 0.5, 3.0])
Y = np.array([[1.5, -2.0, 0.5], [4.0, -0.25, 3.0]])
C = np.array([1 + 2j, complex(np.nan, 1), complex(1, np.inf)])

CASES = {
    "an initial of another dtype": [
        ("max", (F[:1],), {"axis": 0, "initial": np.float64(2.5)}),
        ("min", (N,), {"axis": 1, "initial": np.float64(1.0)}),
        ("amin", (B,), {"initial": 1.0}),
        ("sum", (N,), {"initial": 2.5}),
        ("prod", (N,), {"axis": 0, "initial": np.float64(-3.0)}),
        ("sum", (B,), {"dtype": np.uint8, "where": B, "initial": np.float64(2.0)})],
    "quantiles that are elements": [
        ("percentile", (N, np.float64(30)), {"method": "higher"}),
        ("percentile", (N, np.float64(30)), {"axis": 1, "method": "lower"}),
        ("quantile", (F[:1], np.float64(0.4)), {"method": "nearest"}),
        ("quantile", (F[:1], np.float64(0.4)), {"method": "linear"})],
    "numbers of NumPy beside arrays": [
        ("percentile", (X[0], np.float64(50)), {}),
        ("clip", (F, np.float64(-1), np.float32(1)), {}),
        ("pad", (X, np.int64(1)), {"mode": "edge"})],
    "numbers of Python have NumPy's dtypes": [
        ("diff", (F,), {"prepend": 0}), ("diff", (N,), {"append": 1}),
        ("diff", (N,), {"n": 0, "append": 1}), ("vander", (H[0],), {"N": 3}),
        ("vander", (N[0],), {"increasing": True})],
    "NaN": [
        ("nanvar", (X,), {"axis": 0, "ddof": 1}), ("nanvar", (X,), {"axis": 1}),
        ("nanstd", (X,), {"axis": 0, "ddof": 2, "keepdims": True}),
        ("nan_to_num", (C,), {}), ("nan_to_num", (C,), {"nan": 2.0, "posinf": 7.0}),
        ("average", (C[:1],), {"weights": np.array([2.0]), "returned": True})],
    "what is not there is zero, whatever it was": [
        ("tril", (X, -1), {}), ("triu", (np.array([[1.0, 2.0], [np.inf, 4.0]]),), {}),
        ("diagflat", (X[1],), {}), ("diag", (C,), {}), ("tril", (B.repeat(2, 0),), {}),
        ("convolve", (np.array([np.inf, 1.0, 2.0]), W), {}),
        ("convolve", (W, np.array([np.inf, 1.0, np.nan])), {"mode": "same"}),
        ("correlate", (X[1], W), {"mode": "full"}), ("convolve", (N[0], N[1]), {}),
        ("interp", (Y, np.array([0.5, 1.5, 3.0, 3.0]), W), {}), ("interp", (
            Y, np.array([0.5, 1.5, 3.0]), np.array([2.0, 1.0, np.inf])), {}),
        ("nan_to_num", (B,), {}), ("polyder", (B[0],), {}),
        ("polyval", (B[0], B[0]), {}), ("polymul", (W, X[1]), {})],
    "dtypes of few bits": [
        ("fabs", (N,), {}), ("fabs", (B,), {}), ("frexp", (B,), {}), ("modf", (B,), {}),
        ("frexp", (N,), {}), ("modf", (N,), {}),
        ("linalg.matrix_norm", (B.repeat(3, 0),), {"ord": np.inf}),
        ("poly", (N[0],), {}), ("poly", (H[0],), {}), ("poly", (F[0],), {}),
        ("linalg.matrix_power", (N[:, :2], 3), {}),
        ("linalg.matrix_power", (N[:, :2], 0), {}),
        ("linalg.matrix_power", (B.repeat(3, 0), 2), {}),
        ("linalg.matrix_power", (Y[:, :2], -2), {}),
        ("var", (Y,), {"mean": np.float64(1.0), "dtype": np.float32}),
        ("nanvar", (H,), {"mean": np.float64(1.0)})],
}


def fused(function, rest, options):
    """The function of its first argument, in `nf.fuse`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NbFusedPerformanceWarning)
        return nf.fuse(lambda x: function(x, *rest, **options))


def alike(got, want):
    """Compare results, of which some are tuples, in values and dtypes."""
    if isinstance(want, tuple):
        for g, w in zip(got, want, strict=True):
            alike(g, w)
        return
    got = np.asarray(got.data if isinstance(got, nf.Variable) else got)
    want = np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-3 if want.dtype == "f2" else 1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", ["arrays", "Variables", "fuse"])
def test_as_numpy(case, way):
    for name, args, options in CASES[case]:
        function, (first, *rest) = reduce(getattr, name.split("."), np), args
        want = function(*args, **options)
        if way == "fuse":
            got = fused(function, rest, options)(first)
        elif way == "Variables":
            got = function(nf.Variable(first), *rest, **options)
        else:
            got = reduce(getattr, name.split("."), ops)(*args, **options)
        alike(got, want)


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_means_in_integers(name):
    with refused(KernelTypeError, name, "'dtype' is int32", "floating or complex"):
        getattr(ops, name)(X, dtype=np.int32)
    with refused(KernelTypeError, name, "'dtype' is int32", "convert the result"):
        getattr(np, name)(nf.Variable(X), dtype=np.int32, where=X > 0)


def test_variances_of_another_kind():
    with refused(KernelTypeError, "var", "'dtype' is float64", "complex one"):
        ops.var(C, dtype=np.float64)


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("x", [Y, Y + 2j * Y[::-1]], ids=["real", "complex"])
def test_variances_have_the_complex_dtype_that_is_asked_for(name, x):
    for options in ({}, {"where": Y > 0}, {"out": np.empty((), complex)}):
        want = getattr(np, name)(x, dtype=np.complex128, **options)
        got = getattr(ops, name)(x, dtype=np.complex128, **options)
        alike(got, want)


CHOSEN = np.array([[True, False, True], [True, True, False]])

#: Calls by `nf.ops`, whose gradients are those of NumPy's functions.
DIFFERENTIATED = {
    "sum": lambda m, x: m.sum(x, axis=1, where=CHOSEN, initial=2.0),
    "prod": lambda m, x: m.prod(x, axis=0, where=CHOSEN, initial=3.0),
    "max": lambda m, x: m.max(x, axis=1, where=CHOSEN, initial=-9.0),
    "mean": lambda m, x: m.mean(x, axis=0, where=CHOSEN, keepdims=True),
    "var": lambda m, x: m.var(x, axis=1, where=CHOSEN, correction=0.5),
    "std": lambda m, x: m.std(x, axis=1, mean=x[:, :1] * 2),
    "reshape": lambda m, x: m.reshape(x, (3, -1), order="F") ** 2,
    "ravel": lambda m, x: m.ravel(x, order="F") ** 2,
    "take": lambda m, x: m.take(x, [4, -1], axis=1, mode="wrap") ** 2,
    "concatenate": lambda m, x: m.concatenate([x, x ** 2], None, dtype="f8"),
    "exp": lambda m, x: m.exp(x, dtype=np.float64, casting="no"),
    "add.reduce": lambda m, x: m.add.reduce(x ** 2, where=CHOSEN, initial=1.0),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients(name):
    function = DIFFERENTIATED[name]
    check(lambda x: function(ops if isinstance(x, nf.Variable) else np, x), Y)
    inside = fused(nf.grad(lambda x: (function(np, x) * 1.5).sum()), (), {})(Y)
    outside = nf.grad(lambda x: (function(ops, x) * 1.5).sum())(Y)
    np.testing.assert_allclose(inside, outside, 1e-12)


def test_methods_of_variables():
    x = nf.Variable(Y)
    np.testing.assert_allclose(x.sum(0, where=CHOSEN, initial=1.0).data,
                               Y.sum(0, where=CHOSEN, initial=1.0))
    np.testing.assert_array_equal(x.reshape((3, 2), order="F").data,
                                  Y.reshape((3, 2), order="F"))
    np.testing.assert_array_equal(x.flatten("F").data, Y.flatten("F"))
    assert (round(x[0, 0]), float(round(x[0, 1] / 3, 2))) == (2, -0.67)
    with pytest.raises(TypeError, match=r"use numpy\.round"):
        round(x)
    with refused(KernelTypeError, "reshape", "'order'", "got 'K'", "transpose"):
        x.reshape((3, 2), order="K")


def test_whole_stores_cast():
    """What sets elements by places casts as assignment does."""
    for values, name, options in ((N, "put_along_axis", (N % 3, 7.9, 1)),
                                  (B.repeat(3, 0), "fill_diagonal", (2.5,))):
        wanted, found = values.copy(), values.copy()
        getattr(np, name)(wanted, *options)
        getattr(ops, name)(found, *options)
        np.testing.assert_array_equal(found, wanted)


def test_infinities_without_a_sign():
    for name in ("isposinf", "isneginf"):
        with refused(KernelTypeError, name, "complex128", "x.real"):
            getattr(np, name)(nf.Variable(C))


def test_bounds_by_both_names():
    with pytest.raises(ValueError, match="'min' or 'max' beside"):
        np.clip(nf.Variable(Y), 0, 1, max=2)
    np.testing.assert_array_equal(ops.clip(Y, a_min=0, max=2), np.clip(Y, 0, 2))
    with refused(KernelTypeError, "clip", "'a_min' and 'low'", "leave one out"):
        ops.clip(Y, 0.0, a_min=1.0)
