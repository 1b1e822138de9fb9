"""Kernels as CuPy's users write them for statistics.

As in `pasted_arrays`: each gives what the kernels find, and what SciPy or NumPy does.
"""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.spatial import distance

import nbfused as nf
from nbfused import ElementwiseKernel, ReductionKernel
from tests.kernels.cupy.pasted_numbers import RNG, SAMPLE, TABLE


def histogram(put):
    counts = put(np.zeros(10, np.int64))
    ElementwiseKernel("T x, T low, T high, int32 n", "raw int64 counts", """
        if (x < low or x > high) return;
        int k{int((x - low) / (high - low) * n)};
        if (k == n) --k;
        atomicAdd(&counts[k], 1);""", "histogram")(put(SAMPLE), -2.03, 2.03, 10, counts)
    return counts, np.histogram(SAMPLE, 10, (-2.03, 2.03))[0]


def weighted_counts(put):
    k = RNG.integers(0, 8, 50).astype(np.int32)
    sums = put(np.zeros(8))
    ElementwiseKernel("int32 k, T w", "raw T sums", "atomicAdd(&sums[k], w)",
                      "weighted_counts")(put(k), put(SAMPLE), sums)
    return sums, np.bincount(k, SAMPLE, 8)


def ranks(put):
    kernel = ElementwiseKernel("T x, raw T all, int32 n", "float64 rank", """
        int less{}, equal{};
        for (int k = 0; k < n; k++) {
            less += all[k] < x;
            equal += all[k] == x;
        }
        rank = less + (equal + 1) * 0.5;""", "ranks")
    return kernel(put(SAMPLE), put(SAMPLE), 50), stats.rankdata(SAMPLE)


def concordant_pairs(put):
    other = np.round(SAMPLE + RNG.normal(size=50), 1)
    kernel = ElementwiseKernel("T x, T y, raw T xs, raw T ys, int32 n", "int32 s", """
        #define SIGN(v) (((v) > 0) - ((v) < 0))
        s = 0;
        for (int k = 0; k < n; k++) s += SIGN(x - xs[k]) * SIGN(y - ys[k]);""",
                               "concordant_pairs")
    x, y = put(SAMPLE), put(other)
    dx, dy = (np.sign(v[:, None] - v) for v in (SAMPLE, other))
    found = nf.to_numpy(kernel(x, y, x, y, 50)).astype(float)
    tau = found.sum() / np.sqrt((dx**2).sum() * (dy**2).sum())
    return np.append(found, tau), np.append((dx * dy).sum(axis=1), stats.kendalltau(
        SAMPLE, other).statistic)


def quantiles(put):
    kernel = ElementwiseKernel("T q, raw T x, int32 n, int32 method", "T y", """
        const T at{q * (n - 1)};
        const int low(at), high(min(low + 1, n - 1));
        const T t{at - low};
        switch (method) {
            case 0: y = x[low] + (x[high] - x[low]) * t; break;
            case 1: y = x[low]; break;
            case 2: y = t > 0 ? x[high] : x[low]; break;
            case 3: y = (x[low] + x[t > 0 ? high : low]) / 2; break;
        }""", "quantiles")
    q, methods = np.linspace(0, 1, 12), ("linear", "lower", "higher", "midpoint")
    args = put(q), put(np.sort(SAMPLE)), 50
    return np.stack([nf.to_numpy(kernel(*args, k)) for k in range(4)]), np.stack(
        [np.quantile(SAMPLE, q, method=m) for m in methods])


def running_moments(put):
    """Welford's update of a struct, one row for each element."""
    kernel = ElementwiseKernel("raw T x, int32 n", "T mean, T variance", """
        Moments m{};
        for (int k = 0; k < n; k++) m = with(m, x[i * n + k]);
        mean = m.mean; variance = m.square / m.count;""", "running_moments",
                               preamble="""
        struct Moments { double mean; double square; int count; };
        __device__ Moments with(const Moments& m, double x) {
            Moments r;
            r.count = m.count + 1;
            const double d{x - m.mean};
            r.mean = m.mean + d / r.count;
            r.square = m.square + d * (x - r.mean);
            return r;
        }""")
    mean, variance = kernel(put(TABLE.ravel()), 8, size=6)
    return np.stack([nf.to_numpy(mean), nf.to_numpy(variance)]), np.stack(
        [TABLE.mean(axis=1), TABLE.var(axis=1)])


def reduced(name, definition, expected, *, data=TABLE, axis=1, preamble=""):
    def run(put):
        kernel = ReductionKernel("T x", "T y", *definition, name, preamble=preamble)
        return kernel(put(data), axis=axis), expected

    return run


def distances(kind, expected):
    def run(put):
        kernel = ElementwiseKernel("raw T a, raw T b, int32 n, int32 cols, int32 kind",
                                   "T d", """
            const int p(i / cols), q(i % cols);
            T s{};
            for (int k = 0; k < n; k++) {
                const T u{a[p * n + k]}, v{b[q * n + k]};
                switch (kind) {
                    case 0: s += (u - v) * (u - v); break;
                    case 1: s += fabs(u - v); break;
                    case 2: s = max(s, fabs(u - v)); break;
                    case 3: s += fabs(u - v) / (fabs(u) + fabs(v)); break;
                }
            }
            d = kind == 0 ? sqrt(s) : s;""", "distances")
        number = ("euclidean", "cityblock", "chebyshev", "canberra").index(kind)
        return kernel(put(TABLE[:4].ravel()), put(TABLE.ravel()), 8, 6, number,
                      size=24), expected.ravel()

    return run


def joint_histogram(put):
    """Weighted counts in a table of two axes, by an index for each of them."""
    kernel = ElementwiseKernel("T x, T y, T weight", "raw T table, raw int64 seen", """
        T at[] = {x, y};
        int cell[2];
        for (int k = 0; k < 2; ++k) {
            if (at[k] < 0 || at[k] >= 1) return;
            cell[k] = at[k] * table.shape()[k];
        }
        atomicAdd(&table[cell], weight);
        atomicAdd(&seen[0], (int64)(table.strides()[cell[0] % 2] + table.size()));""",
                               "joint", preamble="typedef long long int64;")
    x, y, weight = RNG.uniform(-0.2, 1.2, (3, 40))
    table, seen = put(np.zeros((3, 5))), put(np.zeros(1, np.int64))
    kernel(put(x), put(y), put(weight), table, seen)
    bounds = [[0, 1], [0, 1]]
    counts = np.histogram2d(x, y, (3, 5), bounds)[0]
    strides = counts.sum(axis=1) @ [40, 8, 40]
    return np.r_[nf.to_numpy(table).ravel(), nf.to_numpy(seen)], np.r_[
        np.histogram2d(x, y, (3, 5), bounds, weights=weight)[0].ravel(),
        strides + 15 * counts.sum()]


CASES = {f.__name__: f for f in (
    histogram, joint_histogram, weighted_counts, ranks, concordant_pairs, quantiles,
    running_moments)}
CASES |= {f"distances, {kind}": distances(kind, distance.cdist(TABLE[:4], TABLE, kind))
          for kind in ("euclidean", "cityblock", "chebyshev", "canberra")}
CASES |= {
    "geometric mean": reduced("geometric_mean", (
        "log(x)", "a + b", "y = exp(a / (_in_ind.size() / _out_ind.size()))", "0"),
        stats.gmean(TABLE, axis=1)),
    "harmonic mean": reduced("harmonic_mean", (
        "T{1} / x", "a + b", "y = (_in_ind.size() / _out_ind.size()) / a", "0"),
        stats.hmean(TABLE, axis=1)),
    "largest magnitude": reduced("largest_magnitude", (
        "fabs(x)", "max<T>(a, b)", "y = a", "0"), np.abs(SAMPLE).max(), data=SAMPLE,
        axis=None),
    "entropy": reduced("entropy", (
        "minus_plog(x)", "a + b", "y = a", "0"), stats.entropy(
            TABLE / TABLE.sum(axis=1, keepdims=True), axis=1),
        data=TABLE / TABLE.sum(axis=1, keepdims=True),
        preamble="template<typename T> __device__ T minus_plog(T p) "
                 "{ return p > 0 and not isnan(p) ? -p * log(p) : T{}; }"),
    "norm of order 3": reduced("norm_3", (
        "CUBE(fabs(x))", "a + b", "y = cbrt(a)", "0"),
        np.linalg.norm(TABLE, 3, axis=1), preamble="#define CUBE(a) (a) * (a) * (a)"),
    "logarithm of a sum": reduced("log_sum", (
        "exp(x)", "a + b", "const T m{log(a)}; y = m", "0"),
        np.log(np.exp(TABLE).sum(axis=0)), axis=0),
}
