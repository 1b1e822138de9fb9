"""Kernels as CuPy's users write them for images and sparse matrices.

Each function takes ``put``, which makes an array of the device under test, and gives
what the kernels find and what SciPy or NumPy does.
"""

from __future__ import annotations

import numpy as np
import scipy.ndimage as ndi
import scipy.sparse as sp

import nbfused as nf
from nbfused import ElementwiseKernel

RNG = np.random.default_rng(3)
IMAGE = np.round(RNG.uniform(0, 9, (7, 9)), 1)
MASK = RNG.uniform(size=(7, 9)) < 0.55
MATRIX = sp.random_array((9, 7), density=0.3, rng=RNG, format="csr")
LABELS, COUNT = ndi.label(MASK)

#: What of a line lies beyond its ends, by a number for each of SciPy's modes.
BORDER = """
__device__ int inside(int k, int n, int mode) {
    switch (mode) {
        case 0:  // reflect
            do {
                if (k < 0) k = -k - 1;
                if (k >= n) k = 2 * n - 1 - k;
            } while (k < 0 or k >= n);
            return k;
        case 1:  // mirror
            while (k < 0 or k >= n) {
                if (k < 0) k = -k;
                if (k >= n) k = 2 * n - 2 - k;
            }
            return k;
        case 2: return min(max(k, 0), n - 1);
        case 3: { k %= n; return k < 0 ? k + n : k; }
        default: return k < 0 || k >= n ? -1 : k;
    }
}
"""
MODES = ("reflect", "mirror", "nearest", "wrap", "constant")


def rows_of(matrix):
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int32),
                     np.diff(matrix.indptr))


def csr(put, matrix):
    return (put(matrix.data), put(matrix.indices.astype(np.int32)),
            put(matrix.indptr.astype(np.int32)))


# Sparse matrices ----------------------------------------------------------------------


def count_rows(put):
    counts = put(np.zeros(10, np.int32))
    ElementwiseKernel("int32 row", "raw int32 counts", "atomicAdd(&counts[row + 1], 1)",
                      "count_rows")(put(rows_of(MATRIX)), counts)
    return np.cumsum(nf.to_numpy(counts)), MATRIX.indptr


def rows_by_bisection(put):
    """The row of each element: the last of indptr that is not behind it."""
    kernel = ElementwiseKernel("raw int32 indptr, int32 n", "int32 row", """
        int low{0}, high(n);
        while (high - low > 1) {
            const int mid{(low + high) / 2};
            if (indptr[mid] <= i) low = mid; else high = mid;
        }
        row = low;""", "rows_by_bisection")
    found = kernel(put(MATRIX.indptr.astype(np.int32)), 9, size=MATRIX.nnz)
    return found, rows_of(MATRIX)


def to_dense(put):
    dense = put(np.zeros(63))
    ElementwiseKernel("float64 v, int32 row, int32 col, int32 ncols", "raw float64 out",
                      "out[row * ncols + col] = v", "to_dense")(
        put(MATRIX.data), put(rows_of(MATRIX)),
        put(MATRIX.indices.astype(np.int32)), 7, dense)
    return nf.to_numpy(dense).reshape(9, 7), MATRIX.toarray()


def matrix_times_vector(put):
    kernel = ElementwiseKernel(
        "raw T data, raw I indices, raw I indptr, raw T x", "T y", """
        T s{};
        for (I k(indptr[i]); k < indptr[i + 1]; ++k) s += data[k] * x[indices[k]];
        y = s;""", "matrix_times_vector")
    x = np.arange(7.0)
    return kernel(*csr(put, MATRIX), put(x), size=9), MATRIX @ x


def transposed_times_vector(put):
    kernel = ElementwiseKernel(
        "T v, int32 row, int32 col, raw T x", "raw T y", "add_to(y, col, v * x[row])",
        "transposed_times_vector", preamble="""
        template<typename T>
        __device__ void add_to(T* y, int k, T v) { if (v != T(0)) atomicAdd(&y[k], v); }
        """)
    x, y = np.arange(9.0), put(np.zeros(7))
    kernel(put(MATRIX.data), put(rows_of(MATRIX)),
           put(MATRIX.indices.astype(np.int32)), put(x), y)
    return y, MATRIX.T @ x


def diagonal(put):
    kernel = ElementwiseKernel("raw T data, raw I indices, raw I indptr", "T d", """
        d = 0;
        for (I k = indptr[i]; k < indptr[i + 1]; k++) {
            if (indices[k] != i) continue;
            d = data[k];
            break;
        }""", "diagonal")
    return kernel(*csr(put, MATRIX), size=7), MATRIX.diagonal()


def element(put):
    kernel = ElementwiseKernel(
        "int32 row, int32 col, raw T data, raw int32 indices, raw int32 indptr",
        "T out", """
        int low = indptr[row], high = indptr[row + 1];
        while (low < high) {
            int mid = (low + high) >> 1;
            if (indices[mid] < col) low = mid + 1; else high = mid;
        }
        out = low < indptr[row + 1] and indices[low] == col ? data[low] : T{};""",
        "element")
    row, col = (a.ravel().astype(np.int32) for a in np.indices((9, 7)))
    ordered = MATRIX.sorted_indices()
    return kernel(put(row), put(col), *csr(put, ordered)), MATRIX.toarray().ravel()


def largest_of_rows(put):
    """With the zeros that are not stored."""
    kernel = ElementwiseKernel(
        "raw T data, raw int32 indptr, int32 ncols", "T y", """
        const int count(indptr[i + 1] - indptr[i]);
        T m = count < ncols ? T(0) : data[indptr[i]];
        for (int k = indptr[i]; k < indptr[i + 1]; k++) m = max<T>(m, data[k]);
        y = m;""", "largest_of_rows")
    signed = MATRIX - sp.csr_array(MATRIX.toarray() > 0.5).astype(float)
    data, _, indptr = csr(put, signed)
    return kernel(data, indptr, 7, size=9), signed.toarray().max(axis=1)


def rows_are_sorted(put):
    shuffled = MATRIX.copy()
    for a, b in zip(shuffled.indptr[::2], shuffled.indptr[1::2], strict=False):
        shuffled.indices[a:b] = shuffled.indices[a:b][::-1]
    kernel = ElementwiseKernel("raw I indices, raw I indptr", "bool ordered", """
        ordered = true;
        for (int k = indptr[i] + 1; k < indptr[i + 1]; k++)
            if (not (indices[k - 1] < indices[k])) { ordered = false; return; }""",
                               "rows_are_sorted")
    found = kernel(*csr(put, shuffled)[1:], size=9)
    return found, [np.all(np.diff(shuffled.indices[a:b]) > 0) for a, b in
                   zip(shuffled.indptr, shuffled.indptr[1:], strict=False)]


def from_diagonals(put):
    data, offsets = np.arange(1.0, 13).reshape(3, 4), np.array([0, -1, 2], np.int32)
    kernel = ElementwiseKernel(
        "raw T data, raw int32 offsets, int32 m, int32 n", "T out", """
        int row = i / n, col = i % n;
        out = 0;
        for (int k = 0; k < m; k++)
            switch (col - row - offsets[k]) { case 0: out += data[k * n + col]; }""",
        "from_diagonals")
    found = kernel(put(data.ravel()), put(offsets), 3, 4, size=16)
    return found, sp.dia_array((data, offsets), shape=(4, 4)).toarray().ravel()


def kronecker(put):
    kernel = ElementwiseKernel("raw T a, raw T b, int32 m, int32 n", "T y", """
        #define AT(x, r, c, w) x[(r) * (w) + (c)]
        const int row(i / (m * n)), col(i % (m * n));
        y = AT(a, row / n, col / n, m) * AT(b, row % n, col % n, n);""", "kronecker")
    a, b = np.arange(4.0).reshape(2, 2), np.arange(9.0).reshape(3, 3)
    return kernel(put(a.ravel()), put(b.ravel()), 2, 3, size=36), np.kron(a, b).ravel()


# Images -------------------------------------------------------------------------------


def correlation(mode):
    weights = np.array([0.5, -1, 2, 0.25, 3])

    def run(put):
        kernel = ElementwiseKernel(
            "raw T x, raw T w, int32 n, int32 mode, T fill", "T y", """
            T s{0};
            const int row = i / n, col = i % n;
            for (int k = 0; k < 5; k++) {
                int at = inside(col + k - 2, n, mode);
                s += w[k] * (at < 0 ? fill : x[row * n + at]);
            }
            y = s;""", "correlation", preamble=BORDER)
        found = kernel(put(IMAGE.ravel()), put(weights), 9, MODES.index(mode), 1.5,
                       size=63)
        return found, ndi.correlate1d(IMAGE, weights, mode=mode, cval=1.5).ravel()

    return run


def window(name, start, step, expected):
    """A filter of the pixels around each one, nearest beyond the border."""

    def run(put):
        kernel = ElementwiseKernel("raw T x, int32 rows, int32 cols", "T y", f"""
            {start}
            for (int a = -1; a <= 1; a++) for (int b = -1; b <= 1; b++) {{
                const int row{{inside(int(i) / cols + a, rows, 2)}};
                const int col{{inside(int(i) % cols + b, cols, 2)}};
                const T v(x[row * cols + col]);
                {step}
            }}
            y = s;""", name, preamble=BORDER)
        return kernel(put(IMAGE.ravel()), 7, 9, size=63), expected().ravel()

    return run


def median(put):
    kernel = ElementwiseKernel("raw T x, int32 rows, int32 cols", "T y", """
        T v[9];
        int count = 0;
        for (int a = -1; a <= 1; a++) for (int b = -1; b <= 1; b++) {
            v[count] = x[inside(int(i) / cols + a, rows, 0) * cols
                         + inside(int(i) % cols + b, cols, 0)];
            count++;
        }
        sort(v, 9);
        y = v[4];""", "median", preamble=BORDER + """
        template<typename T>
        __device__ void exchange(T& a, T& b) { const T t{a}; a = b; b = t; }
        template<typename T> __device__ void sort(T* v, int n) {
            for (int a = 1; a < n; a++)
                for (int b = a; b > 0 && v[b - 1] > v[b]; b--)
                    exchange(v[b - 1], v[b]);
        }""")
    return kernel(put(IMAGE.ravel()), 7, 9, size=63), ndi.median_filter(
        IMAGE, 3).ravel()


def morphology(name, found_at, expected):
    """A binary operation with a cross; what lies outside is false."""

    def run(put):
        kernel = ElementwiseKernel(
            "raw bool x, int32 rows, int32 cols", "bool y", f"""
            const int dr[] = {{0, 0, 0, 1, -1}}, dc[] = {{0, 1, -1, 0, 0}};
            const int row(i / cols), col(i % cols);
            y = not {found_at};
            for (int k = 0; k < 5; k++) {{
                const int r{{row + dr[k]}}, c{{col + dc[k]}};
                const bool out = r < 0 or r >= rows or c < 0 or c >= cols;
                const bool set = not out && x[r * cols + c];
                if (set == {found_at}) {{ y = {found_at}; break; }}
            }}""", name)
        return kernel(put(MASK.ravel()), 7, 9, size=63), expected(MASK).ravel()

    return run


def label(put):
    """The smallest index goes from pixel to pixel until nothing changes."""
    start = ElementwiseKernel("bool x", "int32 y", "y = x ? int(i) : -1", "label_start")
    step = ElementwiseKernel("raw bool x, int32 rows, int32 cols",
                             "raw int32 y, raw int32 changed", """
        if (not x[i]) continue;
        for (int k = 0; k < 2; k++) {
            const int other(k == 0 ? i + 1 : i + cols);
            if ((k == 0 and i % cols == cols - 1) or other >= rows * cols) continue;
            if (not x[other]) continue;
            const int a = y[i], b = y[other];
            if (a == b) continue;
            atomicMin(&y[other], min(a, b));
            atomicMin(&y[i], min(a, b));
            atomicExch(&changed[0], 1);
        }""", "label_step")
    x, changed = put(MASK.ravel()), put(np.ones(1, np.int32))
    y = start(x)
    while nf.to_numpy(changed)[0]:
        changed = put(np.zeros(1, np.int32))
        step(x, 7, 9, y, changed, size=63)
    found = nf.to_numpy(y)
    numbers = {v: k + 1 for k, v in enumerate(np.unique(found[found >= 0]))}
    return np.array([numbers.get(v, 0) for v in found]), LABELS.ravel()


def sums_of_labels(put):
    sums = put(np.zeros(COUNT + 1))
    ElementwiseKernel("T x, int32 k", "raw T sums",
                      "if (k > 0) atomicAdd(&sums[k], x);", "sums_of_labels")(
        put(IMAGE), put(LABELS), sums)
    return nf.to_numpy(sums)[1:], ndi.sum_labels(IMAGE, LABELS, np.arange(COUNT) + 1)


def extrema_of_labels(put):
    low, high = put(np.full(COUNT + 1, np.inf)), put(np.full(COUNT + 1, -np.inf))
    ElementwiseKernel("T x, int32 k", "raw T low, raw T high", """
        atomicMin(&low[k], x);
        atomicMax(&high[k], x);""", "extrema_of_labels")(put(IMAGE), put(LABELS), low,
                                                        high)
    index = np.arange(COUNT + 1)
    return np.stack([nf.to_numpy(low), nf.to_numpy(high)]), np.stack([
        ndi.minimum(IMAGE, LABELS, index), ndi.maximum(IMAGE, LABELS, index)])


def boxes_of_labels(put):
    boxes = put(np.tile(np.array([99, -1, 99, -1], np.int32), COUNT + 1))
    ElementwiseKernel("int32 k, int32 cols", "raw int32 boxes", """
        #define WIDEN(at, v) { atomicMin(&boxes[4 * k + at], (int)(v)); \\
                               atomicMax(&boxes[4 * k + at + 1], (int)(v) + 1); }
        if (k == 0) return;
        WIDEN(0, i / cols)
        WIDEN(2, i % cols)""", "boxes_of_labels")(put(LABELS.ravel()), 9, boxes)
    expected = [[r.start, r.stop, c.start, c.stop] for r, c in ndi.find_objects(LABELS)]
    return nf.to_numpy(boxes).reshape(-1, 4)[1:], expected


def distance(metric):
    """By looking at every background pixel."""

    def run(put):
        kernel = ElementwiseKernel("raw bool x, int32 n, int32 cols, int32 metric",
                                   "float64 d", """
            double best{INFINITY};
            const int row(i / cols), col(i % cols);
            for (int k = 0; k < n; k++) {
                if (x[k]) continue;
                const int a{abs(row - k / cols)}, b{abs(col - k % cols)};
                double found;
                switch (metric) {
                    case 0: found = sqrt(double(a * a + b * b)); break;
                    case 1: found = a + b; break;
                    default: found = max(a, b);
                }
                best = min(best, found);
            }
            d = best;""", "distance")
        found = kernel(put(MASK.ravel()), 63, 9, ("", "taxicab", "chessboard").index(
            metric), size=63)
        return found, (ndi.distance_transform_cdt(MASK, metric) if metric else
                       ndi.distance_transform_edt(MASK)).ravel()

    return run


CASES = {f.__name__: f for f in (
    count_rows, rows_by_bisection, to_dense, matrix_times_vector,
    transposed_times_vector, diagonal, element, largest_of_rows, rows_are_sorted,
    from_diagonals, kronecker, median, label, sums_of_labels, extrema_of_labels,
    boxes_of_labels)}
CASES |= {f"correlation, {m}": correlation(m) for m in MODES}
CASES |= {f"distance, {m or 'euclidean'}": distance(m)
          for m in ("", "taxicab", "chessboard")}
CASES |= {
    "erosion": morphology("erosion", "false", ndi.binary_erosion),
    "dilation": morphology("dilation", "true", ndi.binary_dilation),
    "grey erosion": window("grey_erosion", "T s = INFINITY;", "s = min(s, v);",
                           lambda: ndi.grey_erosion(IMAGE, 3, mode="nearest")),
    "grey dilation": window("grey_dilation", "T s{-INFINITY};", "s = max(s, v);",
                            lambda: ndi.grey_dilation(IMAGE, 3, mode="nearest")),
    "uniform filter": window("uniform", "T s{};", "s += v / 9;",
                             lambda: ndi.uniform_filter(IMAGE, 3, mode="nearest")),
    "sobel": window("sobel", "T s(0);", "s += v * b * (2 - abs(a));",
                    lambda: ndi.sobel(IMAGE, mode="nearest")),
}
