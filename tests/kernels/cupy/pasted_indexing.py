"""Kernels as CuPy has them for taking, scattering, searching, packing and sorting."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import nbfused as nf
from nbfused import ElementwiseKernel, ReductionKernel

RNG = np.random.default_rng(11)
TABLE = RNG.normal(size=(3, 5, 4))
BINS = np.array([-1.0, -0.5, 0.0, 0.0, 0.7, 2.0, np.nan, np.nan])
ASKED = np.r_[RNG.normal(size=20), BINS, -np.inf, np.inf]
BYTES = RNG.integers(0, 256, 13).astype(np.uint8)

_NAN = """
template<typename T>
__device__ bool _isnan(T val) {
    return val != val;
}
#define no_thread_divergence(do_work, to_return) \\
    if (!is_done) {                              \\
        do_work;                                 \\
        is_done = true;                          \\
    }
"""


def take(put):
    """Along the middle axis, with indices from both ends."""
    kernel = ElementwiseKernel(
        "raw T a, S indices, uint32 ldim, uint32 cdim, uint32 rdim, int64 index_range",
        "T out", """
        ptrdiff_t out_i = indices % index_range;
        if (out_i < 0) out_i += index_range;
        if (ldim != 1) out_i += (i / (cdim * rdim)) * index_range;
        if (rdim != 1) out_i = out_i * rdim + i % rdim;
        out = a[out_i];""", "take")
    rows = np.array([4, -1, 0, 2, -5, 7])
    shaped = np.broadcast_to(rows[:, None], (3, 6, 4))
    found = kernel(put(TABLE), put(np.ascontiguousarray(shaped)), 3, 6, 4, 5)
    return found, TABLE.take(rows, axis=1, mode="wrap")


def scatter_add(put):
    kernel = ElementwiseKernel(
        "raw T v, S indices, int32 cdim, int32 rdim, int32 adim", "raw T a", """
        S wrap_indices = indices % adim;
        if (wrap_indices < 0) wrap_indices += adim;
        ptrdiff_t li = i / (rdim * cdim);
        ptrdiff_t ri = i % rdim;
        atomicAdd(&a[(li * adim + wrap_indices) * rdim + ri], v[i]);""", "scatter_add")
    rows = np.array([4, -1, 0, 2, -5, 4])
    values = RNG.normal(size=(3, 6, 4))
    shaped = np.ascontiguousarray(np.broadcast_to(rows[:, None], (3, 6, 4)))
    out = put(TABLE.copy())
    kernel(put(values), put(shaped), 6, 4, 5, out)
    expected = TABLE.copy()
    np.add.at(expected, (slice(None), rows), values)
    return out, expected


def searchsorted(put):
    """NaN is behind all else; bins may decrease."""
    kernel = ElementwiseKernel(
        "S x, raw T bins, int64 n_bins, bool side_is_right, bool assume_increasing",
        "int64 y", """
        bool is_done = false;
        bool inc = true;
        if (!assume_increasing && n_bins >= 2) {
            inc = (bins[0] <= bins[n_bins-1])
                  || (!_isnan<T>(bins[0]) && _isnan<T>(bins[n_bins-1]));
        }
        if (_isnan<S>(x)) {
            long long pos = (inc ? n_bins : 0);
            if (!side_is_right) {
                if (inc) {
                    while (pos > 0 && _isnan<T>(bins[pos-1])) {
                        --pos;
                    }
                } else {
                    while (pos < n_bins && _isnan<T>(bins[pos])) {
                        ++pos;
                    }
                }
            }
            no_thread_divergence( y = pos , true )
        }
        bool greater = false;
        if (side_is_right) {
            greater = inc && x >= bins[n_bins-1];
        } else {
            greater = (inc ? x > bins[n_bins-1] : x <= bins[n_bins-1]);
        }
        if (greater) {
            no_thread_divergence( y = n_bins , true )
        }
        long long left = 0;
        if (!inc && !is_done) {
            if (side_is_right ? (bins[0] <= x) && bins[0] != x : bins[0] < x) {
                no_thread_divergence( y = 0 , true )
            }
        }
        if (!is_done) {
            long long right = n_bins-1;
            while (left < right) {
                long long m = left + (right - left) / 2;
                bool is_less_than_x = side_is_right
                    ? (inc ? bins[m] <= x : bins[m] > x)
                    : (inc ? bins[m] < x : bins[m] >= x);
                if (is_less_than_x) { left = m + 1; } else { right = m; }
            }
            no_thread_divergence( y = right , true )
        }""", "searchsorted", preamble=_NAN)
    bins, finite = BINS, ASKED[ASKED == ASKED]
    found = [kernel(put(ASKED), put(BINS[:6].copy()), 6, side, True)
             for side in (False, True)]
    found.append(kernel(put(finite), put(bins), 6, True, False))
    return np.concatenate([nf.to_numpy(f) for f in found]), np.concatenate([
        np.searchsorted(bins[:6], ASKED, "left"),
        np.searchsorted(bins[:6], ASKED, "right"),
        np.searchsorted(bins[:6], finite, "right")])


def packed_bits(put):
    kernel = ElementwiseKernel("raw T a, raw int32 a_size", "uint8 packed", """
        for (int j = 0; j < 8; ++j) {
            int k = i * 8 + j;
            int bit = k < a_size[0] && a[k] != 0;
            packed |= bit << (7 - j);
        }""", "packbits_kernel")
    bits = RNG.integers(0, 3, 43)
    out = put(np.zeros(6, np.uint8))
    return kernel(put(bits), put(np.array([43], np.int32)), out), np.packbits(bits != 0)


def unpacked_bits(put):
    kernel = ElementwiseKernel(
        "raw uint8 myarray", "T unpacked",
        "unpacked = (myarray[i / 8] >> (7 - i % 8)) & 1;", "unpackbits_kernel")
    out = put(np.zeros(8 * 13, np.uint8))
    return kernel(put(BYTES), out), np.unpackbits(BYTES)


def unravelled(put):
    """The places of numbers, axis by axis, in two orders."""
    kernel = ElementwiseKernel("raw S idx, raw int64 dims, int32 nd, bool c_order",
                               "raw int64 out", """
        ptrdiff_t rest = idx[i];
        for (int d = nd - 1, k = 0; d >= 0; --d, ++k) {
            const int axis = c_order ? d : k;
            out[axis * _ind.size() + i] = rest % dims[axis];
            rest /= dims[axis];
        }""", "unravel")
    numbers, dims = np.array([0, 59, 17, 33]), (3, 5, 4)
    found = [nf.to_numpy(kernel(put(numbers), put(np.array(dims)), 3, c,
                                put(np.zeros(12, np.int64)), size=4)) for c in (1, 0)]
    return np.stack(found), np.stack([np.concatenate(np.unravel_index(
        numbers, dims, order)) for order in "CF"])


def triangle(put):
    kernel = ElementwiseKernel(
        "T a, int64 k, int64 columns, bool upper", "T y",
        "y = (upper ? i / columns + k <= i % columns : i % columns - i / columns <= k)"
        " ? a : (T)0;", "tri")
    a = RNG.normal(size=(5, 7))
    return np.stack([nf.to_numpy(kernel(put(a), 1, 7, u)) for u in (True, False)]), \
        np.stack([np.triu(a, 1), np.tril(a, 1)])


def insertion_sorted_rows(put):
    """Keys and values of the rows of a sparse matrix, in place."""
    kernel = ElementwiseKernel("raw I indptr", "raw J indices, raw T data", """
        for (J row = indptr[i] + 1; row < indptr[i + 1]; row++) {
            J key = indices[row]; T value = data[row];
            J at = row;
            while (at > indptr[i] && indices[at - 1] > key) {
                indices[at] = indices[at - 1];
                data[at] = data[at - 1];
                --at;
            }
            indices[at] = key; data[at] = value;
        }""", "sort_rows")
    pointers = np.array([0, 4, 4, 9])
    keys, values = RNG.permutation(9), RNG.normal(size=9)
    out = put(keys.copy()), put(values.copy())
    kernel(put(pointers), *out, size=3)
    orders = [a + np.argsort(keys[a:b]) for a, b in pairwise(pointers)]
    order = np.concatenate(orders).astype(int)
    return np.stack([nf.to_numpy(a) for a in out]), np.stack([keys[order],
                                                              values[order]])


def bitonic_steps(put):
    """One launch for each step of the network."""
    kernel = ElementwiseKernel("int32 j, int32 k", "raw T v", """
        const int ixj = (int)i ^ j;
        if (ixj > i) {
            const bool up = (i & k) == 0;
            if ((v[i] > v[ixj]) == up) { T t = v[i]; v[i] = v[ixj]; v[ixj] = t; }
        }""", "bitonic")
    values = RNG.normal(size=64)
    out = put(values.copy())
    k = 2
    while k <= 64:
        j = k // 2
        while j:
            kernel(j, k, out, size=64)
            j //= 2
        k *= 2
    return out, np.sort(values)


def selected(put):
    """The k-th smallest of each row by Hoare's selection."""
    kernel = ElementwiseKernel("raw T x, int32 n, int32 k", "T y", """
        T v[16];
        for (int j = 0; j < n; j++) v[j] = x[i * n + j];
        int low = 0, high = n - 1;
        while (low < high) {
            const T pivot = v[(low + high) / 2];
            int a = low - 1, b = high + 1;
            while (true) {
                do a++; while (v[a] < pivot);
                do b--; while (v[b] > pivot);
                if (a >= b) break;
                const T t = v[a]; v[a] = v[b]; v[b] = t;
            }
            if (k <= b) high = b; else low = b + 1;
        }
        y = v[k];""", "selection")
    rows = RNG.normal(size=(6, 15))
    out = put(np.zeros(6))
    return kernel(put(rows), 15, 4, out), np.partition(rows, 4, axis=1)[:, 4]


def argmax_past_nan(put):
    """A struct of a value and its place."""
    at = ElementwiseKernel("raw T x, int64 n", "int64 y", """
        struct Best { T value; long long index; };
        Best best{};
        best.index = -1;
        for (long long k = 0; k < n; k++) {
            const Best now{x[i * n + k], k};
            if (now.value != now.value) continue;
            if (best.index < 0 || now.value > best.value) best = now;
        }
        y = best.index;""", "nanargmax")
    rows = RNG.normal(size=(4, 6))
    rows[1, :3] = np.nan
    out = put(np.zeros(4, np.int64))
    return at(put(rows), 6, out), np.nanargmax(rows, axis=1)


def counted_nonzero(put):
    kernel = ReductionKernel("T x", "int64 y", "(x != 0) ? 1 : 0", "a + b", "y = a",
                             "0", "count_nonzero")
    x = RNG.integers(-1, 2, (6, 7))
    return kernel(put(x), axis=1), np.count_nonzero(x, axis=1)


def close(put):
    kernel = ElementwiseKernel(
        "T a, T b, float64 rtol, float64 atol, bool equal_nan", "bool z", """
        if (isfinite(a) && isfinite(b)) {
            z = fabs(a - b) <= atol + rtol * fabs(b);
        } else if (isnan(a) && isnan(b)) {
            z = equal_nan;
        } else {
            z = a == b;
        }""", "isclose")
    a = np.array([1, 1 + 1e-9, np.nan, np.inf, -np.inf, 0.0])
    b = np.array([1, 1, np.nan, np.inf, np.inf, 1e-9])
    return np.stack([nf.to_numpy(kernel(put(a), put(b), 1e-5, 1e-8, e))
                     for e in (0, 1)]), np.stack([
        np.isclose(a, b, equal_nan=bool(e)) for e in (0, 1)])


def percentile(put):
    """Weights between neighbours, from the nearer side."""
    kernel = ElementwiseKernel("S idx, raw T a, raw int32 offset, raw int32 size",
                               "U ret", """
        ptrdiff_t idx_below = floor(idx);
        U weight_above = idx - idx_below;
        ptrdiff_t max_idx = size[0] - 1;
        ptrdiff_t offset_bottom = offset[0] + min(idx_below, max_idx);
        ptrdiff_t offset_top = min(offset_bottom + 1, (ptrdiff_t)offset[0] + max_idx);
        U diff = a[offset_top] - a[offset_bottom];
        if (weight_above < 0.5) {
            ret = a[offset_bottom] + diff * weight_above;
        } else {
            ret = a[offset_top] - diff * (1 - weight_above);
        }""", "percentile")
    a, q = np.sort(RNG.normal(size=11)), np.linspace(0, 100, 7)
    out = put(np.zeros(7))
    found = kernel(put(q / 100 * 10), put(a), put(np.zeros(1, np.int32)),
                   put(np.full(1, 11, np.int32)), out)
    return found, np.percentile(a, q)


def bounded_interpolation(put):
    """As `numpy.interp`, with values on both sides and NaN passed on."""
    kernel = ElementwiseKernel(
        "raw V x, raw U idx, raw W fx, raw Y fy, U len, raw Y left, raw Y right",
        "Z y", """
        U x_idx = idx[i] - 1;
        if ( _isnan<V>(x[i]) ) { y = x[i]; }
        else if (x_idx < 0) { y = left[0]; }
        else if (x[i] == fx[len - 1]) { y = fy[len - 1]; }
        else if (x_idx >= len - 1) { y = right[0]; }
        else {
            const Z slope = (Z)(fy[x_idx+1] - fy[x_idx]) / (fx[x_idx+1] - fx[x_idx]);
            Z out = slope * (x[i] - fx[x_idx]) + (Z)fy[x_idx];
            if (_isnan<Z>(out)) {
                out = slope * (x[i] - fx[x_idx+1]) + (Z)fy[x_idx+1];
                if (_isnan<Z>(out) && (fy[x_idx] == fy[x_idx+1])) { out = fy[x_idx]; }
            }
            y = out;
        }""", "interp", preamble=_NAN)
    fx, fy = np.array([0.0, 1, 2, 4]), np.array([1.0, -1, np.inf, 3])
    x = np.array([-1, 0, 0.5, 0.9, 1.5, 2, 3, 4, 5, np.nan])
    out = put(np.zeros(10))
    found = kernel(put(x), put(np.searchsorted(fx, x, "right")), put(fx), put(fy), 4,
                   put(np.array([-7.0])), put(np.array([9.0])), out)
    return found, np.interp(x, fx, fy, -7, 9)


def merged_rows(put):
    """The larger of two sparse matrices, row by row, where either has an element."""
    kernel = ElementwiseKernel(
        "raw int32 pa, raw int32 ja, raw T a, raw int32 pb, raw int32 jb, raw T b, "
        "int32 columns", "raw T out", """
        int k = pa[i], m = pb[i];
        const int a_end = pa[i + 1], b_end = pb[i + 1];
        while (k < a_end || m < b_end) {
            const int ca = k < a_end ? ja[k] : columns;
            const int cb = m < b_end ? jb[m] : columns;
            T va = 0, vb = 0;
            if (ca <= cb) va = a[k++];
            if (cb <= ca) vb = b[m++];
            out[i * columns + min(ca, cb)] = max(va, vb);
        }""", "binopt")
    import scipy.sparse as sp
    a, b = (sp.random(6, 8, 0.3, "csr", random_state=s, data_rvs=RNG.standard_normal)
            for s in (1, 2))
    for m in (a, b):
        m.sort_indices()
    args = [put(np.asarray(v, np.int32 if k != 2 else float)) for m in (a, b)
            for k, v in enumerate((m.indptr, m.indices, m.data))]
    out = put(np.zeros(48))
    return kernel(*args, 8, out, size=6), a.maximum(b).toarray().ravel()


def rows_of_a_band(put):
    """Minor slices of a sparse matrix with a step, counted and then copied."""
    count = ElementwiseKernel("raw I indptr, raw I indices, I start, I stop, I step",
                              "I found", """
        found = 0;
        for (I k = indptr[i]; k < indptr[i + 1]; ++k) {
            const I j = indices[k];
            if (j < start || j >= stop || (j - start) % step) continue;
            ++found;
        }""", "minor_count")
    copy = ElementwiseKernel(
        "raw I indptr, raw I indices, raw T data, raw I first, I start, I stop, I step",
        "raw I keys, raw T values", """
        I at = first[i];
        for (I k = indptr[i]; k < indptr[i + 1]; ++k) {
            const I j = indices[k];
            if (j >= start && j < stop && (j - start) % step == 0) {
                keys[at] = (j - start) / step;
                values[at++] = data[k];
            }
        }""", "minor_copy")
    import scipy.sparse as sp
    m = sp.random(7, 9, 0.5, "csr", random_state=3)
    m.sort_indices()
    pointers, indices = m.indptr.astype(np.int64), m.indices.astype(np.int64)
    per_row = nf.to_numpy(count(put(pointers), put(indices), 1, 8, 3,
                                put(np.zeros(7, np.int64))))
    first = np.r_[0, np.cumsum(per_row)]
    out = put(np.zeros(first[-1], np.int64)), put(np.zeros(first[-1]))
    copy(put(pointers), put(indices), put(m.data), put(first), 1, 8, 3, *out, size=7)
    expected = m[:, 1:8:3].tocsr()
    expected.sort_indices()
    return np.concatenate([per_row, *map(nf.to_numpy, out)]), np.concatenate([
        np.diff(expected.indptr), expected.indices, expected.data])


CASES = {name: case for name, case in list(globals().items())
         if getattr(case, "__module__", "") == __name__}
