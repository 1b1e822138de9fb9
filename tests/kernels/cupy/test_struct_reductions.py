"""Reductions of structs, in the style of CuPy's own kernels."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import DefinitionError, ScalarSyntaxError
from nbfused.kernels import ReductionKernel
from tests.kernels.cupy.c_structs import MINIMA

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 37))
HOLES = np.where(RNG.random((6, 37)) < 0.2, np.nan, X)
MEAN = """
template <class T>
struct present {
    typedef unsigned long long size_type;
    T total; size_type n;
    __device__ present() : total(0), n(0) {}
    __device__ present(T v)
        : total(isnan(v) ? T(0) : v),
          n(isnan(v) ? 0 : 1) {}
    __device__ present(T v, size_type k) : total(v), n(k) {}
};
template <class T>
__device__ present<T> together(present<T> const& a, present<T> const& b) {
    return present<T>(a.total + b.total, a.n + b.n);
}
"""
WELFORD = """
struct moments { double n, mean, m2; };
__device__ moments joined(const moments& a, const moments& b) {
    double n = a.n + b.n, d = b.mean - a.mean;
    if (n == 0) return a;
    return moments{n, a.mean + d * b.n / n, a.m2 + b.m2 + d * d * a.n * b.n / n};
}
"""
EXPONENTIALS = """
template <typename T> struct scaled {
    T most, sum;
    __device__ scaled operator+(const scaled& o) const {
        T m = max(most, o.most);
        return {m, sum * exp(most - m) + o.sum * exp(o.most - m)};
    }
    __device__ T log_of() const { return most + log(sum); }
};
"""
TWO = """
struct two { float first = -INFINITY, second = -INFINITY;
    __device__ two(float v) : first(v) {}
    __device__ two(float a, float b) : first(a), second(b) {}
    two() = default; };
__device__ two largest(two a, const two& b) {
    if (b.first > a.first) return two(b.first, max(a.first, b.second));
    return two(a.first, max(a.second, b.first)); }
"""
NORM = """
struct norm { double scale, squares; };
__device__ void add(norm& a, const norm& b) {
    if (b.scale == 0) return;
    if (a.scale < b.scale) {
        double r = a.scale / b.scale; a.squares = b.squares + a.squares * r * r;
        a.scale = b.scale;
    } else { double r = b.scale / a.scale; a.squares += b.squares * r * r; } }
__device__ norm both(norm a, const norm& b) { add(a, b); return a; }
"""
SPANS = """
template <typename T> struct span { T low, high; };
template <typename T> struct box { span<T> x, y; int n; };
template <typename T> __device__ span<T> around(span<T> a, span<T> b) {
    return span<T>{min(a.low, b.low), max(a.high, b.high)}; }
template <typename T> __device__ box<T> around(const box<T>& a, const box<T>& b) {
    return box<T>{around(a.x, b.x), around(a.y, b.y), a.n + b.n}; }
"""
#: The kernel's slots, identity and type, its inputs, and what NumPy makes of them.
CASES = {
    "where the least is": (("T x", "int64 y", "least<T>(x, _J)",
                            "lesser(a, b)", "y = a.at", None, "k",
                            "least<T>"), MINIMA, [HOLES],
                           lambda x: np.argmin(x, 1)),
    "the least, of numbers that convert": (
        ("T x", "T y", "x", "lesser(a, b)", "y = a.value", "least<T>()", "k",
         "least<T>"), MINIMA, [X.astype(np.float32)], lambda x: np.min(x, 1)),
    "mean beside holes": (("T x", "T y", "present<T>(x)", "together(a, b)",
                           "y = a.total / T(a.n)",
                           "present<T>()", "k", "present<T>"), MEAN, [HOLES],
                          lambda x: np.nanmean(x, 1)),
    "variance": (("T x", "T y", "moments{1, x}", "joined(a, b)", "y = a.m2 / a.n",
                  "{0, 0, 0}", "k", "moments"), WELFORD, [X], lambda x: x.var(1)),
    "logarithm of a sum of exponentials": (
        ("T x", "T y", "scaled<T>{x * 300, 1}", "a + b", "y = a.log_of() / 300", "",
         "k", "scaled<T>"), EXPONENTIALS, [X],
        lambda x: np.logaddexp.reduce(x * 300, 1) / 300),
    "the second largest": (("float32 x", "float32 y", "two(x)", "largest(a, b)",
                            "y = a.second", "two()", "k", "two"), TWO,
                           [X.astype(np.float32)], lambda x: np.sort(x, 1)[:, -2]),
    "a norm without overflow": (
        ("T x", "T y", "norm{fabs(x), 1}", "both(a, b)",
         "y = a.scale * sqrt(a.squares)", "norm{}", "k", "norm"), NORM, [X * 1e200],
        lambda x: np.linalg.norm(x / 1e200, axis=1) * 1e200),
    "a box of structs": (
        ("T x, T y", "T z", "box<T>{{x, x}, {y, y}, 1}", "around(a, b)",
         "z = (a.x.high - a.x.low) * (a.y.high - a.y.low) + a.n", None, "k", "box<T>"),
        SPANS, [X, X[::-1] * 2], lambda x, y: np.ptp(x, 1) * np.ptp(y, 1) + 37),
    "arrays in a struct": (
        ("T x", "T y", "marks(x)", "a + b", "y = a.n[0] + 100 * a.n[2] + a.n[1]", "",
         "k", "marks"), """
struct marks { int n[3] = {0, 0, 0}; marks() = default;
    __device__ marks(double v) { n[v < -1 ? 0 : v < 1 ? 1 : 2]++; }
    __device__ marks operator+(const marks& o) const { marks r; for (int k = 0; k < 3;
        k++) r.n[k] = n[k] + o.n[k]; return r; } };""", [X],
        lambda x: (x < 1).sum(1) + 100.0 * (x >= 1).sum(1)),
    "raw inputs": (("raw T v, int64 k", "T y", "moments{1, v[k * 2]}", "joined(a, b)",
                    "y = a.m2 / a.n", "moments{}", "k", "moments"), WELFORD,
                   [RNG.standard_normal(74), np.arange(37)[None]],
                   lambda v, k: v[k * 2].var(1)),
}


@pytest.mark.parametrize("name", CASES)
def test_reduction_of_a_struct(name, device):
    definition, preamble, inputs, reference = CASES[name]
    kernel = ReductionKernel(*definition, preamble=preamble)
    found = kernel(*(nf.array(x, device=device) for x in inputs), axis=1)
    np.testing.assert_allclose(nf.to_numpy(found), reference(*inputs), rtol=1e-6)


def test_derivatives_and_what_an_output_held():
    *definition, kind = CASES["variance"][0]
    kernel = ReductionKernel(*definition, kind, preamble=WELFORD)
    found = nf.grad(lambda x: kernel(x, axis=1).sum())(X)
    np.testing.assert_allclose(found, 2 * (X - X.mean(1, keepdims=True)) / 37,
                               atol=1e-14)
    most = ReductionKernel("T x", "T y", "least<T>(x, _J)", "lesser(a, b)",
                           "y = a.value", "", "k", "least<T>", preamble=MINIMA)
    (at,) = np.nonzero(nf.grad(lambda x: most(x[0]) ** 2)(X)[0])
    assert at.tolist() == [X[0].argmin()]
    held = np.ones(6)
    definition[4] = "y += a.mean"
    ReductionKernel(*definition, kind, preamble=WELFORD)(X, axis=1, out=held)
    np.testing.assert_allclose(held, 1 + X.mean(1), rtol=1e-12)


def test_nothing_is_what_the_identity_is():
    *definition, kind = CASES["the least, of numbers that convert"][0]
    kernel = ReductionKernel(*definition[:4], "y = a.at", *definition[5:], kind,
                             preamble=MINIMA)
    assert kernel(np.zeros((0, 2)), axis=0).tolist() == [-1, -1]


@pytest.mark.parametrize(("changed", "message"), [
    ({"reduce_type": "pair<T>"}, "a struct that the preamble defines.*'pair<T>'"),
    ({"reduce_expr": "a + b"}, "line 1: moments has no operator .; define operator"),
    ({"map_expr": "x"}, r"line 1: float64 does not convert to moments; give its "
                        r"members, as in moments\{n, mean, m2\}"),
    ({"post_map_expr": "y = a"}, "line 1: moments does not convert to float64; take "
                                 "one of its members: n, mean, m2"),
    ({"identity": 1}, "line 1: int32 does not convert to moments; give its members"),
    ({"reduce_type": None}, "line 1: moments does not convert to float64; take one"),
    ({"reduce_expr": lambda a, b: a}, "write all of them in C, or let Python"),
    ({"preamble": "\nstruct moments { double* n; };"},
     "<preamble of k>, line 2: the members of a struct are numbers, structs and arr"),
])
def test_refused_with_the_way_out(changed, message):
    names = ("in_params", "out_params", "map_expr", "reduce_expr", "post_map_expr",
             "identity", "name", "reduce_type")
    given = {**dict(zip(names, CASES["variance"][0], strict=True)), **changed}
    with pytest.raises((DefinitionError, ScalarSyntaxError), match=message):
        ReductionKernel(**{"preamble": WELFORD, **given})(X)
