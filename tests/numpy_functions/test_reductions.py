"""Reductions with NumPy's keywords, order statistics, running sums, elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbfused as nf

from .agreement import check, normal, positive

pytestmark = pytest.mark.interpreted

A, V, P, Q = normal(4, 5), normal(5), positive(3, 4), positive(3, 4, seed=1)
MASK = normal(4, 5, seed=9) > 0
GAPS = np.where(normal(4, 5, seed=5) > 0.8, np.nan, A)
WITH_ZEROS = np.array([[2.0, 0.0, 3.0, 0.0, 1.5], [1.0, 2.0, 0.0, 4.0, 3.0],
                       [0.0, 1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0, 5.0]])



def _of(name: str, **options: Any) -> Any:
    """NumPy's function with options."""
    return lambda x: getattr(np, name)(x, **options)


CASES: dict[str, tuple[Any, ...]] = {
    **{name: (getattr(np, name), A) for name in (
        "cumsum", "cumprod", "diff", "ediff1d", "ptp", "median", "count_nonzero",
        "sort", "argsort", "unique", "cov", "corrcoef", "trapezoid", "average",
        "nan_to_num", "argwhere", "nonzero", "flatnonzero", "round", "fix", "isposinf",
        "real", "imag", "angle", "unwrap", "histogram", "sinc", "i0", "deg2rad",
        "rad2deg", "degrees", "radians", "fabs", "modf", "frexp", "signbit",
        "spacing")},
    **{f"{name} axis": (_of(name, axis=1), A) for name in (
        "cumsum", "cumprod", "sort", "argsort", "median", "ptp", "trapezoid")},
    **{f"{name} gaps": (_of(name, axis=1), GAPS) for name in (
        "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin",
        "nanmedian", "nancumsum", "nancumprod")},
    "cumprod zeros": (lambda x: np.cumprod(x, 1), WITH_ZEROS),
    **{f"{name} where": (_of(name, axis=0, where=MASK), A)
       for name in ("sum", "prod", "mean", "var", "std")},
    **{f"{name} initial": (_of(name, axis=0, initial=0.5), A)
       for name in ("sum", "prod", "max", "min")},
    "max where": (lambda x: np.max(x, 1, initial=0.1, where=MASK), A),
    "var mean": (lambda x: np.var(x, 1, ddof=1, keepdims=True), A),
    "partition": (lambda x: np.sort(np.partition(x, 2, axis=1), axis=1), A),
    "percentile": (lambda x: np.percentile(x, [10, 50, 90], axis=0), A),
    "quantile": (lambda x: np.quantile(x, 0.3, keepdims=True), A),
    **{f"quantile {m}": (lambda x, m=m: np.quantile(x, 0.35, axis=1, method=m), A)
       for m in ("lower", "higher", "nearest", "midpoint")},
    "nanquantile": (lambda x: np.nanquantile(x, 0.35, axis=1), GAPS),
    "average weights": (lambda x, w: np.average(x, axis=1, weights=w), A, positive(5)),
    "average all": (lambda x, w: np.average(x, weights=w), P, Q),
    "gradient": (np.gradient, A), "gradient spacing": (
        lambda x: np.gradient(x, 0.5, edge_order=2), A),
    "gradient points": (lambda x: np.gradient(
        x, np.array([0, 1, 3, 4.5]), axis=0, edge_order=2), A),
    "trapezoid points": (lambda y, x: np.trapezoid(y, x), A, V),
    "diff twice": (lambda x: np.diff(x, 2, 0), A), "diff prepend": (
        lambda x: np.diff(x, prepend=0), V),
    "interp": (lambda x, xp, fp: np.interp(x, np.sort(xp), fp), normal(6), V, V + 1),
    "searchsorted": (lambda x, v: np.searchsorted(np.sort(x), v), V, normal(3)),
    **{name: (getattr(np, name), P, Q) for name in (
        "fmax", "fmin", "logaddexp", "logaddexp2", "copysign", "arctan2", "hypot",
        "heaviside", "float_power", "nextafter", "logical_xor", "divmod", "isclose",
        "union1d")},
    "ldexp": (lambda x: np.ldexp(x, np.array([1, -2, 3, 0])), P),
    **{f"ldexp {d}": (np.ldexp, np.arange(4).astype(d), np.array([-2, -1, 0, 5]))
       for d in ("bool", "uint8", "uint32")},
    "round bool": (np.round, np.array([True, False])),
    "angle bool": (np.angle, np.array([True, False])),
    "select": (lambda x: np.select([x > 1, x > 0], [x * 2, x], -x), A),
    "clip": (lambda x: np.clip(x, -0.5, 0.5), A),
    "isin": (lambda x: np.isin(x, [1.0, 2.0]), np.arange(4.0)),
    "digitize": (lambda x: np.digitize(x, [-1, 0, 1]), V),
    "bincount": (np.bincount, np.array([1, 2, 2, 5])),
    "gcd": (np.gcd, np.array([12, 18]), np.array([8, 27])),
    "fft": (np.fft.fft, np.arange(12).reshape(3, 4)),
    "result_type": (lambda x: np.zeros(1, np.result_type(x, np.float32)), A),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_as_numpy(name):
    check(*CASES[name])


def test_fmax_passes_over_nan():
    x = nf.Variable([np.nan, 1.0, 2.0], requires_grad=True)
    y = nf.Variable([3.0, np.nan, 2.0], requires_grad=True)
    made = np.fmax(x, y)
    made.sum().backward()
    np.testing.assert_array_equal(made.to_numpy(), [3.0, 1.0, 2.0])
    np.testing.assert_array_equal(x.grad, [0.0, 1.0, 0.5])
    np.testing.assert_array_equal(y.grad, [1.0, 0.0, 0.5])


@pytest.mark.parametrize("function", [
    lambda x: np.sort(x, 0) * 2, lambda x: np.cumsum(x, 1), lambda x: np.tril(x),
    lambda x: np.roll(x, 1, 0), lambda x: np.einsum("ij,ij->i", x, x),
    lambda x: np.linalg.norm(x, axis=1), lambda x: np.pad(x, 1, mode="edge"),
    lambda x: np.repeat(x, [1, 2, 0, 1], 0), lambda x: x[[0, 2, 1], [1, 1, 0]],
    lambda x: np.median(x, 0), lambda x: np.diff(x).cumsum(0).swapaxes(0, 1)],
    ids=["sort", "cumsum", "tril", "roll", "einsum", "norm", "pad", "repeat", "index",
         "median", "methods"])
def test_in_fused_functions(function):
    """The program of the first call, and the plans of later ones."""
    fused = nf.fuse(function)
    for k in range(4):
        x = A + k
        np.testing.assert_allclose(fused(x), function(x), 1e-12, 1e-12)
    assert fused.cache_info().misses == 1


@pytest.mark.parametrize("decimals", [0, 1, -1])
def test_complex_numbers_are_rounded_by_parts(decimals):
    z = np.array([12.34 + 5.67j, -0.55 + 1.5j, complex(np.inf, 1.26),
                  complex(1.26, -np.inf), complex(np.nan, 2.2)])
    np.testing.assert_allclose(np.round(nf.Variable(z), decimals).to_numpy(),
                               np.round(z, decimals), 4e-16)

    def loss(z):
        return (np.abs(z - np.round(z, decimals)) ** 2).sum()

    z = z[:2]
    np.testing.assert_allclose(nf.grad(loss)(z), 2 * np.conj(z - np.round(z, decimals)))
