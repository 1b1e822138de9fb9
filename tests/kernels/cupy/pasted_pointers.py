"""Kernels with pointers, lambdas, templates of integers and places of the loop.

As in `pasted_arrays`, each function gives what the kernels find and what SciPy or NumPy
does.
"""

from __future__ import annotations

import numpy as np
import scipy.integrate
import scipy.linalg
import scipy.ndimage as ndi
import scipy.signal
import scipy.special

import nbfused as nf
from nbfused import ElementwiseKernel
from tests.kernels.cupy.pasted_arrays import COUNT, IMAGE, LABELS, MASK, MATRIX, csr

RNG = np.random.default_rng(5)
X = RNG.uniform(-0.9, 0.9, 11)
SERIES = RNG.uniform(-1, 1, 6)


# The loop: what all elements share, the place of each ---------------------------------


def shared_before_the_loop(put):
    kernel = ElementwiseKernel(
        "float64 fraction", "T w", """
        const double at { i * step };
        w = at < half ? 0.5 * (1 + cos(M_PI * (at / half - 1))) : 1.0;
        if (at > 1 - half) w = 0.5 * (1 + cos(M_PI * ((at - 1) / half + 1)));
        """, "taper", loop_prep="const double step { 1.0 / (_ind.size() - 1) };\n"
        "double half = fraction; half /= 2;")
    return (kernel(0.4, put(np.empty(15))), scipy.signal.windows.tukey(15, 0.4))


def a_raw_number(put):
    kernel = ElementwiseKernel("raw bool bits, raw int32 count", "uint8 packed", """
        for (int k = 0; k < 8; ++k) {
            const int at = 8 * i + k;
            packed |= (at < count and bits[at]) << (7 - k);
        }""", "pack")
    bits = MASK.ravel()
    return kernel(put(bits), bits.size, size=8), np.packbits(bits)


def places_of_the_loop(put):
    kernel = ElementwiseKernel(
        "T x, int64 k", "T y",
        "y = _ind.get()[_ind.ndim - 1] - _ind.get()[_ind.ndim - 2] <= k ? x : T(0)",
        "lower")
    x = RNG.uniform(size=(2, 4, 5))
    return kernel(put(x), 1), np.tril(x, 1)


def parities_of_places(put):
    kernel = ElementwiseKernel(
        "T x", "T y", "y = __popc(_ind.get()[0] & _ind.get()[1]) & 1 ? -x : x", "signs")
    return kernel(put(np.ones((8, 8)))), scipy.linalg.hadamard(8)


# Pointers -----------------------------------------------------------------------------

BISECTION = """
template <typename T>
__device__ int row_of(T k, int low, int high, const T* ends) {
    while (low < high) {
        const int middle = (low + high) / 2;
        if (ends[middle + 1] <= k) low = middle + 1; else high = middle;
    }
    return low;
}
"""


def a_pointer_to_the_first_element(put):
    kernel = ElementwiseKernel(
        "T value, int32 column, raw int32 indptr, int32 rows, raw T scale", "T y",
        "y = value * scale[row_of((int)i, 0, rows - 1, &(indptr[0]))] + column;",
        "scale_rows", preamble=BISECTION)
    data, indices, indptr = csr(put, MATRIX)
    scale = np.arange(1.0, 10.0)
    rows = np.repeat(np.arange(9), np.diff(MATRIX.indptr))
    return (kernel(data, indices, indptr, 9, put(scale)),
            MATRIX.data * scale[rows] + MATRIX.indices)


def parts_by_pointers(put):
    """The factors of a matrix that holds both."""
    kernel = ElementwiseKernel("raw T both, int32 n", "raw T lower, raw T upper", """
        const T* from = &both[0];
        T* low = &lower[i / n * n];
        T *up;
        up = upper + i / n * n;
        const int row = i / n, column = i % n;
        T value = *(from + i);
        low[column] = row > column ? value : T(row == column);
        *(up + column) = row > column ? T(0) : value;""", "split")
    both = RNG.uniform(size=(5, 5))
    lower, upper = put(np.zeros((5, 5))), put(np.zeros((5, 5)))
    kernel(put(both), 5, lower, upper, size=25)
    return (np.stack([nf.to_numpy(lower), nf.to_numpy(upper)]),
            np.stack([np.tril(both, -1) + np.eye(5), np.triu(both)]))


def a_series_by_a_moving_pointer(put):
    kernel = ElementwiseKernel("T x", "T y", "y = clenshaw(x, C, 6)", "chebyshev",
                               preamble=f"""
        __constant__ double C[] = {{ {', '.join(map(repr, SERIES[::-1].tolist()))} }};
        __device__ double clenshaw(double x, const double* array, int n) {{
            double now, last = 0.0, before;
            const double *p;
            p = array;
            now = *p++;
            int k = n - 1;
            do {{
                before = last;
                last = now;
                now = 2.0 * x * last - before + *p++;
            }} while (--k);
            return now - x * last;
        }}""")
    return kernel(put(X)), np.polynomial.chebyshev.chebval(X, SERIES)


def a_template_of_an_integer(put):
    kernel = ElementwiseKernel("T x", "T y, T z", """
        const T c[] = {3, -2, 0.5, 1};
        y = horner<3>(x, c); z = horner<1 + 1, T>(x, c + 1);""", "horner", preamble="""
        template <int N, typename U> __device__ U horner(U x, const U* c) {
            U s = *c;
            for (int k = 1; k <= N; k++) s = s * x + c[k];
            return s;
        }""")
    y, z = kernel(put(X))
    return (np.stack([nf.to_numpy(y), nf.to_numpy(z)]),
            np.stack([np.polyval([3, -2, 0.5, 1], X), np.polyval([-2, 0.5, 1], X)]))


def several_results_by_addresses(put):
    kernel = ElementwiseKernel("T r, T t", "T x, T y, T sum", """
        T s, c;
        sincos(t, &s, &c);
        x = r * c; y = r * s;
        both(x, &y, &sum);""", "turn", preamble="""
        __device__ void both(double a, double* b, double* sum) {
            *sum = a + *b; b[0] -= a; }""")
    r, t = RNG.uniform(1, 2, 7), RNG.uniform(-9, 9, 7)
    found = np.stack([nf.to_numpy(a) for a in kernel(put(r), put(t))])
    x, y = r * np.cos(t), r * np.sin(t)
    return found, np.stack([x, y - x, x + y])


def bytes_and_strides(put):
    """A mean of neighbours, which are found by their bytes."""
    kernel = ElementwiseKernel("raw T x", "T y", """
        const int rows = x.shape()[0], columns = _raw_y.shape()[1];
        const unsigned char* data = (const unsigned char*)&x[0];
        T s = 0;
        for (int a = -1; a <= 1; a++)
            for (int b = -1; b <= 1; b++) {
                const int r = min(max((int)_ind.get()[0] + a, 0), rows - 1);
                const int c = min(max((int)_ind.get()[1] + b, 0), columns - 1);
                s += *(T*)&data[r * x.strides()[0] + c * x.strides()[1]];
            }
        y = s / 9;""", "mean_of_neighbours")
    return (kernel(put(IMAGE), put(np.empty(IMAGE.shape))),
            ndi.uniform_filter(IMAGE, 3, mode="nearest"))


def a_median_by_pointers(put):
    kernel = ElementwiseKernel("raw T x", "T y", """
        T v[5];
        for (int k = 0; k < 5; k++) v[k] = x[min(max((int)i + k - 2, 0), 10)];
        sort(v, 5);
        y = v[2];""", "median", preamble="""
        template <typename T> __device__ void sort(T* v, int n) {
            for (int k = 1; k < n; k++)
                for (T* q = v + k; q > v; q--) {
                    if (*(q - 1) <= *q) break;
                    T kept = *q; *q = q[-1]; q[-1] = kept;
                }
        }""")
    return kernel(put(X), put(np.empty(11))), ndi.median_filter(X, 5, mode="nearest")


def a_struct_by_a_pointer(put):
    """Welford's mean and variance of each row."""
    kernel = ElementwiseKernel("raw T x, int32 n", "T mean, T variance", """
        Moments m{};
        for (int k = 0; k < n; k++) update(&m, x[i * n + k]);
        mean = m.mean; variance = m.squares / m.count;""", "moments", preamble="""
        struct Moments { int count; double mean; double squares; };
        __device__ void update(Moments* m, double x) {
            const double before = x - m->mean;
            m->count++;
            m->mean += before / m->count;
            (*m).squares += before * (x - m->mean);
        }""")
    x = RNG.uniform(size=(4, 9))
    found = np.stack([nf.to_numpy(a) for a in kernel(put(x), 9, size=4)])
    return found, np.stack([x.mean(1), x.var(1)])


def an_array_of_structs(put):
    """The two nearest of some points, kept in order."""
    kernel = ElementwiseKernel("T x, raw T points, int32 n", "int32 a, int32 b", """
        Near best[2] = {{1e30, -1}, {1e30, -1}};
        for (int k = 0; k < n; k++) {
            Near found{abs(points[k] - x), k};
            for (int m = 0; m < 2; m++)
                if (found.distance < best[m].distance) {
                    const Near out = best[m];
                    best[m] = found;
                    found = out;
                }
        }
        a = best[0].index; b = best[1].index;""", "nearest", preamble="""
        struct Near { double distance; int index; };""")
    points = RNG.uniform(-1, 1, 12)
    order = np.argsort(abs(points - X[:, None]), axis=1)
    found = np.stack([nf.to_numpy(a) for a in kernel(put(X), put(points), 12)])
    return found, order[:, :2].T


# Lambdas ------------------------------------------------------------------------------


def a_lambda_that_sees_nothing(put):
    kernel = ElementwiseKernel("T x", "T y", """
        auto smooth = [](T t) -> T { if (t < 0) return 0; return t * t * (3 - 2 * t); };
        y = smooth(x) - smooth(-x);""", "odd_smoothstep")
    return kernel(put(X)), np.sign(X) * X**2 * (3 - 2 * abs(X))


def a_lambda_that_sees_variables(put):
    """Simpson's rule for a function of two numbers, of which one is around it."""
    kernel = ElementwiseKernel("T a, T width", "T y", """
        T sum = 0;
        int count = 0;
        auto density = [=](T t) { return exp(-t * t / (2 * width * width)); };
        auto add = [&](T t, T weight) { sum += weight * density(t); ++count; };
        const T step = a / 64;
        add(0, 1);
        for (int k = 1; k < 64; k++) add(k * step, k & 1 ? 4 : 2);
        add(a, 1);
        y = sum * step / 3 + (count - 65);""", "simpson")
    a, width = RNG.uniform(0.5, 1.5, 5), RNG.uniform(0.8, 1.2, 5)
    t = np.linspace(0, 1, 65)[:, None] * a
    return (kernel(put(a), put(width)),
            scipy.integrate.simpson(np.exp(-t * t / (2 * width**2)), x=t, axis=0))


# Atomics ------------------------------------------------------------------------------


def components_by_compare_and_swap(put):
    """The root of each pixel's component, by the addresses of another type."""
    kernel = ElementwiseKernel("raw bool mask, int32 columns", "raw Y y", """
        using word = typename cupy::type_traits::conditional<
            cupy::type_traits::is_same<Y, long long>::value,
            unsigned long long, Y>::type;
        if (!mask[i]) continue;
        for (int side = 0; side < 2; side++) {
            if (side == 0 ? i % columns == 0 : i < columns) continue;
            Y a = i, b = i - (side == 0 ? 1 : columns);
            if (!mask[b]) continue;
            while (1) {
                while (a != y[a]) a = y[a];
                while (b != y[b]) b = y[b];
                if (a == b) break;
                if (a < b) { Y kept = a; a = b; b = kept; }
                Y old = atomicCAS((word*)&y[a], a, b);
                if (old == a) break;
                a = old;
            }
        }""", "connect")
    y = put(np.arange(MASK.size, dtype=np.int64))
    kernel(put(MASK.ravel()), MASK.shape[1], y, size=MASK.size)
    roots = nf.to_numpy(y)
    for _ in range(MASK.size):
        roots = roots[roots]
    first = [np.flatnonzero(LABELS.ravel() == k + 1)[0] for k in range(COUNT)]
    expected = np.where(LABELS.ravel(), np.array(first)[LABELS.ravel() - 1],
                        np.arange(MASK.size))
    return roots, expected


def counters_that_go_round(put):
    kernel = ElementwiseKernel("raw int32 k", "raw uint32 up, raw uint32 down, raw T z",
                               """
        atomicInc(&up[k[i]], 4u);
        atomicDec(down + k[i], 2u);
        atomicSub(&z[k[i]], T(i));""", "count_round")
    k = np.arange(20, dtype=np.int32) % 3
    found = [put(np.zeros(3, d)) for d in (np.uint32, np.uint32, np.float64)]
    kernel(put(k), *found, size=20)
    counts = np.bincount(k)
    return (np.stack([nf.to_numpy(a) for a in found]),
            np.stack([counts % 5, -counts % 3, -np.bincount(k, np.arange(20))]))


# Special functions --------------------------------------------------------------------


def special_functions(put):
    kernel = ElementwiseKernel("T x", "T a, T b, T c, T d, T e, T f", """
        a = tgamma(4 * x); b = erfcx(3 * x); c = erfinv(x); d = erfcinv(1 + x);
        e = normcdfinv(0.5 * x + 0.5); f = cyl_bessel_i0(x) / cyl_bessel_i1(x);""",
                               "special")
    found = np.stack([nf.to_numpy(a) for a in kernel(put(X))])
    s = scipy.special
    return found, np.stack([s.gamma(4 * X), s.erfcx(3 * X), s.erfinv(X),
                            s.erfcinv(1 + X), s.ndtri(X / 2 + 0.5), s.i0(X) / s.i1(X)])


def bessel_functions(put):
    """On both sides of 8, where their formulas meet, and left of 0."""
    kernel = ElementwiseKernel("T x, int32 n", "T a, T b, T c, T d, T e", """
        a = j0(x); b = j1(x); c = y0(fabs(x)); d = y1(fabs(x)); e = yn(n, fabs(x));""",
                               "bessel")
    x = np.r_[-30:30:73j, 8, np.nextafter(8, 9), 1e-9, 1e4]
    found = np.stack([nf.to_numpy(a) for a in kernel(put(x), 4)])
    s, right = scipy.special, np.abs(x)
    return found, np.stack([s.j0(x), s.j1(x), s.y0(right), s.y1(right), s.yn(4, right)])


def bessel_functions_of_any_order(put):
    """Where the recurrence goes up, where it comes down, where the series begins."""
    kernel = ElementwiseKernel("int32 m, T x", "T y, float32 z",
                               "y = jn(m, x); z = jnf(m, float(x))", "orders")
    m, x = np.meshgrid(np.arange(40, dtype=np.int32), np.r_[
        -60:60:61j, 1e-9, 9e-5, 1.1e-4, 39.0, 500.0])
    y, z = (nf.to_numpy(a) for a in kernel(put(m), put(x)))
    single = scipy.special.jv(m, x.astype(np.float32).astype(np.float64))
    return np.stack([y, np.round(z - single, 5)]), np.stack([
        scipy.special.jv(m, x), np.zeros(m.shape)])


def a_complex_number_by_its_angle(put):
    kernel = ElementwiseKernel("T r, T t", "complex128 z", "z = thrust::polar(r, t)")
    return kernel(put(X), put(X[::-1].copy())), X * np.exp(1j * X[::-1])


CASES = {name: case for name, case in list(globals().items())
         if getattr(case, "__module__", "") == __name__}
