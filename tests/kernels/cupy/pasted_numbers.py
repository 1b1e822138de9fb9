"""Kernels as CuPy's users write them for interpolation, and for draws of numbers.

As in `pasted_arrays`: each gives what the kernels find, and what SciPy or NumPy does.
"""

from __future__ import annotations

import numpy as np
import scipy.interpolate as si
import scipy.ndimage as ndi
from scipy import special
from scipy.stats import qmc

import nbfused as nf
from nbfused import ElementwiseKernel

RNG = np.random.default_rng(5)
KNOTS = np.sort(RNG.uniform(0, 10, 12))
VALUES = RNG.uniform(-1, 1, 12)
AT = RNG.uniform(KNOTS[0], KNOTS[-1], 40)
SAMPLE = np.round(RNG.normal(size=50), 1)
TABLE = RNG.uniform(0.5, 2, (6, 8))

#: The interval of sorted numbers that a value is in.
INTERVAL = """
template <typename T>
__device__ int interval(const T* knots, int n, T x) {
    int low{0}, high(n - 1);
    while (high - low > 1) {
        const int mid((low + high) / 2);
        if (x < knots[mid]) high = mid; else low = mid;
    }
    return low;
}
"""


def linear(put):
    kernel = ElementwiseKernel("T x, raw T knots, raw T values, int32 n", "T y", """
        const int k{interval(knots, n, x)};
        const T t((x - knots[k]) / (knots[k + 1] - knots[k]));
        y = values[k] * (1 - t) + values[k + 1] * t;""", "linear", preamble=INTERVAL)
    return kernel(put(AT), put(KNOTS), put(VALUES), 12), np.interp(AT, KNOTS, VALUES)


def piecewise_polynomial(put):
    spline = si.CubicSpline(KNOTS, VALUES)
    kernel = ElementwiseKernel(
        "T x, raw T knots, raw T c, int32 n, int32 nu", "T y", """
        const int k{interval(knots, n, x)};
        const T t(x - knots[k]);
        T s{}, power{1};
        for (int d = nu; d < 4; d++) {
            T factor{1};
            for (int j = 0; j < nu; j++) factor *= d - j;
            s += factor * power * c[(3 - d) * (n - 1) + k];
            power *= t;
        }
        y = s;""", "piecewise_polynomial", preamble=INTERVAL)
    args = put(AT), put(KNOTS), put(spline.c.ravel()), 12
    return np.stack([nf.to_numpy(kernel(*args, nu)) for nu in range(3)]), np.stack(
        [spline(AT, nu) for nu in range(3)])


def slopes_of_pchip(put):
    kernel = ElementwiseKernel("raw T x, raw T y", "T d", """
        const T h0{x[i + 1] - x[i]}, h1{x[i + 2] - x[i + 1]};
        const T m0{(y[i + 1] - y[i]) / h0}, m1{(y[i + 2] - y[i + 1]) / h1};
        if (m0 * m1 <= 0) { d = 0; return; }
        const T a(2 * h1 + h0), b(h1 + 2 * h0);
        d = (a + b) / (a / m0 + b / m1);""", "slopes_of_pchip")
    expected = si.PchipInterpolator(KNOTS, VALUES).derivative()(KNOTS[1:-1])
    return kernel(put(KNOTS), put(VALUES), size=10), expected


def hermite(put):
    kernel = ElementwiseKernel(
        "T x, raw T knots, raw T values, raw T slopes, int32 n", "T y", """
        #define SQUARE(a) ((a) * (a))
        struct Node { T x; T y; T d; };
        const int k(interval(knots, n, x));
        const Node a{knots[k], values[k], slopes[k]};
        const Node b{knots[k + 1], values[k + 1], slopes[k + 1]};
        const T h(b.x - a.x), t((x - a.x) / h);
        y = SQUARE(1 - t) * ((1 + 2 * t) * a.y + h * t * a.d)
            + SQUARE(t) * ((3 - 2 * t) * b.y + h * (t - 1) * b.d);""", "hermite",
        preamble=INTERVAL)
    slopes = np.cos(KNOTS)
    return kernel(put(AT), put(KNOTS), put(VALUES), put(slopes), 12), \
        si.CubicHermiteSpline(KNOTS, VALUES, slopes)(AT)


def b_spline(put):
    """De Boor's scheme, in an array of the body."""
    knots = np.concatenate([[0] * 3, np.linspace(0, 1, 7), [1] * 3])
    c, x = np.sin(np.arange(9.0)), np.linspace(0, 0.999, 30)
    kernel = ElementwiseKernel("T x, raw T t, raw T c", "T y", """
        int k = 3;
        while (k < 8 and t[k + 1] <= x) k++;
        T d[4];
        for (int j = 0; j < 4; j++) d[j] = c[j + k - 3];
        for (int r = 1; r < 4; r++)
            for (int j = 3; j >= r; j--) {
                const T low{t[j + k - 3]}, high{t[j + 1 + k - r]};
                const T a((x - low) / (high - low));
                d[j] = (1 - a) * d[j - 1] + a * d[j];
            }
        y = d[3];""", "b_spline")
    return kernel(put(x), put(knots), put(c)), si.BSpline(knots, c, 3)(x)


def bilinear(put):
    kernel = ElementwiseKernel("T r, T c, raw T x, int32 cols", "T y", """
        const int a(floor(r)), b(floor(c));
        const T u(r - a), v(c - b);
        #define X(p, q) x[(p) * cols + (q)]
        y = (1 - u) * ((1 - v) * X(a, b) + v * X(a, b + 1))
            + u * ((1 - v) * X(a + 1, b) + v * X(a + 1, b + 1));
        #undef X
        """, "bilinear")
    r, c = RNG.uniform(0, 4.9, 20), RNG.uniform(0, 6.9, 20)
    return kernel(put(r), put(c), put(TABLE.ravel()), 8), \
        ndi.map_coordinates(TABLE, [r, c], order=1)


def cubic_weights(put):
    kernel = ElementwiseKernel("T x, raw T v, int32 n", "T y", """
        const int first(int(floor(x)) - 1);
        T s{};
        for (int k = 0; k < 4; k++) {
            const T t(fabs(x - (first + k)));
            T w;
            switch (int(t)) {
                case 0: w = (T(4) - 6 * t * t + 3 * t * t * t) / 6; break;
                case 1: w = (2 - t) * (2 - t) * (2 - t) / 6; break;
                default: w = 0;
            }
            s += w * v[min(max(first + k, 0), n - 1)];
        }
        y = s;""", "cubic_weights")
    x = RNG.uniform(1, 9.9, 20)
    return kernel(put(x), put(VALUES), 12), ndi.map_coordinates(
        VALUES, [x], order=3, prefilter=False, mode="nearest")


def radial(put):
    """Sums of a kernel that is chosen by number."""
    kernel = ElementwiseKernel("T x, raw T at, raw T w, int32 n, int32 kind", "T y", """
        T s{};
        for (int k = 0; k < n; k++) s += w[k] * phi(fabs(x - at[k]), kind);
        y = s;""", "radial", preamble="""
        template<typename T> __device__ T phi(T r, int kind) {
            switch (kind) {
                case 0: return -r;
                case 1: return r == 0 ? T(0) : r * r * log(r);
                case 2: return r * r * r;
                default: return exp(-r * r);
            }
        }""")
    r = np.abs(AT[:, None] - KNOTS)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = [-r, r**2 * np.log(r), r**3, np.exp(-(r**2))]
    return np.stack([nf.to_numpy(kernel(put(AT), put(KNOTS), put(VALUES), 12, k))
                     for k in range(4)]), np.stack([e @ VALUES for e in expected])


def horner(put):
    kernel = ElementwiseKernel("T x, raw T c, int32 n", "T y", """
        T s{};
        int k(0);
        do { s = s * x + c[k]; k++; } while (k < n);
        y = s;""", "horner")
    return kernel(put(AT), put(VALUES), 12), np.polyval(VALUES, AT)


def bessel(put):
    """A series whose coefficients the preamble holds, as in Cephes."""
    kernel = ElementwiseKernel("T x", "T y", "y = series(x * x / 4, TERMS, COUNT)",
                               "bessel", preamble="""
        __constant__ const double TERMS[] = {
            1, -1, 1 / 4., -1 / 36., 1 / 576., -1 / 14400., 1 / 518400.};
        const int COUNT = 7;
        __device__ double series(double x, const double* terms, int n) {
            double s{terms[n - 1]};
            for (int k{n - 2}; k >= 0; k--) s = s * x + terms[k];
            return s;
        }""")
    x = np.linspace(0, 0.3, 9)
    return kernel(put(x)), special.j0(x)




def bisection(side):
    def run(put):
        kernel = ElementwiseKernel("T x, raw T bins, int32 n, bool right", "int64 y",
                                   """
            int low{}, high{n};
            while (low < high) {
                const int mid{low + (high - low) / 2};
                if (bins[mid] < x or (right and not (x < bins[mid]))) low = mid + 1;
                else high = mid;
            }
            y = low;""", f"bisection_{side}")
        bins = np.sort(SAMPLE)
        return kernel(put(SAMPLE + 0.1), put(bins), 50, side == "right"), \
            np.searchsorted(bins, SAMPLE + 0.1, side)

    return run


def draws_by_weight(put):
    kernel = ElementwiseKernel("T u, raw T sums, int32 n", "int32 k", """
        const T level(u * sums[n - 1]);
        k = 0;
        while (k < n - 1 and sums[k] <= level) ++k;""", "draws_by_weight")
    weights = np.abs(VALUES)
    u = RNG.uniform(size=30)
    sums = np.cumsum(weights)
    return kernel(put(u), put(sums), 12), np.searchsorted(sums, u * sums[-1], "right")


def xorshift(put):
    kernel = ElementwiseKernel("uint32 seed", "uint32 y", """
        uint32_t s{seed};
        #define ROUND(a, b, c) s ^= s << a; s ^= s >> b; s ^= s << c;
        for (int k = 0; k < 5; k++) { ROUND(13, 17, 5) }
        y = s;""", "xorshift")
    s = np.arange(1, 40, dtype=np.uint32)
    found = kernel(put(s))
    for _ in range(5):
        s = s ^ s << np.uint32(13)
        s = s ^ s >> np.uint32(17)
        s = s ^ s << np.uint32(5)
    return found, s


def splitmix(put):
    kernel = ElementwiseKernel("uint64 seed", "uint64 y", """
        unsigned long long z(seed + 0x9E3779B97F4A7C15ull);
        z = (z xor (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z xor (z >> 27)) * 0x94D049BB133111EBull;
        y = z ^ (z >> 31);""", "splitmix")
    z = [k * 7919 + 0x9E3779B97F4A7C15 for k in range(20)]
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = [((v % 2**64) ^ ((v % 2**64) >> shift)) * factor % 2**64 for v in z]
    return kernel(put(np.arange(20, dtype=np.uint64) * np.uint64(7919))), np.array(
        [v ^ (v >> 31) for v in z], np.uint64)


def van_der_corput(put):
    kernel = ElementwiseKernel("uint32 k", "float64 y",
                               "y = __brev(k) * 2.3283064365386963e-10",
                               "van_der_corput")
    return kernel(put(np.arange(32, dtype=np.uint32))), \
        qmc.Halton(1, scramble=False).random(32).ravel()


def gray_code(put):
    """The order of Sobol's numbers, from Gray's code and its lowest bit."""
    kernel = ElementwiseKernel("uint32 k", "float64 y, int32 changed", """
        const unsigned int gray{k xor (k >> 1)};
        y = __brev(gray) * 2.3283064365386963e-10;
        changed = __ffs(k) - 1;""", "gray_code")
    k = np.arange(16, dtype=np.uint32)
    found, changed = kernel(put(k))
    expected = qmc.Sobol(1, scramble=False).random(16).ravel()
    low = [(int(v) & -int(v)).bit_length() - 1 for v in k]
    return np.stack([nf.to_numpy(found), nf.to_numpy(changed)]), np.stack(
        [expected, low])


def bit_lengths(put):
    kernel = ElementwiseKernel("int64 k", "int32 y", "y = 64 - __clzll(k)",
                               "bit_lengths")
    k = np.array([0, 1, 2, 3, 255, 256, 2**40, 2**62])
    return kernel(put(k)), [int(v).bit_length() for v in k]


def box_muller(put):
    kernel = ElementwiseKernel("T u, T v", "T a, T b", """
        struct Polar { T r; T angle; };
        const Polar p{sqrt(T(-2) * log(u)), T(2 * M_PI) * v};
        a = p.r * cos(p.angle); b = p.r * sin(p.angle);""", "box_muller")
    u, v = RNG.uniform(0.01, 1, (2, 20))
    a, b = kernel(put(u), put(v))
    z = np.sqrt(-2 * np.log(u)) * np.exp(2j * np.pi * v)
    return np.stack([nf.to_numpy(a), nf.to_numpy(b)]), np.stack([z.real, z.imag])


CASES = {f.__name__: f for f in (
    linear, piecewise_polynomial, slopes_of_pchip, hermite, b_spline, bilinear,
    cubic_weights, radial, horner, bessel, draws_by_weight, xorshift, splitmix,
    van_der_corput, gray_code, bit_lengths, box_muller)}
CASES |= {f"bisection, {side}": bisection(side) for side in ("left", "right")}
