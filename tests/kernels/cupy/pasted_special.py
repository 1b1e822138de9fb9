"""Special functions written out in C, as CuPy has those that CUDA lacks.

Coefficients and cuts are those of Moshier's Cephes, or of Abramowitz and Stegun.
"""

from __future__ import annotations

import numpy as np
import scipy.special as sp

import nbfused as nf
from nbfused import ElementwiseKernel

X = np.r_[np.linspace(0.1, 9.7, 40), 20.0, 60.5]

POLEVL = """
template<int N> static __device__ double polevl(double x, const double coef[]) {
    double ans;
    const double *p;
    p = coef;
    ans = *p++;
    for (int i = 0; i < N; ++i) {
        ans = ans * x + *p++;
    }
    return ans;
}
template<int N> static __device__ double p1evl(double x, const double coef[]) {
    double ans = x + coef[0];
    const double *p = coef + 1;
    int i = N - 1;
    do
        ans = ans * x + *p++;
    while (--i);
    return ans;
}
"""


def compared(put, text, called, expected, *args):
    """A kernel of a function of the preamble, and SciPy's values."""
    names = "abcd"[:len(args)]
    kernel = ElementwiseKernel(", ".join(f"float64 {n}" for n in names), "float64 y",
                               f"y = {called}({', '.join(names)})", "special",
                               preamble=POLEVL + text)
    found = kernel(*(put(np.asarray(a, np.float64)) for a in args))
    return nf.to_numpy(found), expected


def digamma(put):
    """Poles, reflection, recurrence, asymptotic series."""
    text = """
    static __device__ double PSI_A[] = {
        8.33333333333333333333E-2, -2.10927960927960927961E-2,
        7.57575757575757575758E-3, -4.16666666666666666667E-3,
        3.96825396825396825397E-3, -8.33333333333333333333E-3,
        8.33333333333333333333E-2 };
    __device__ double psi(double x) {
        double p, q, nz, s, w, y, z;
        int i, n, negative;
        negative = 0;
        nz = 0.0;
        if (isinf(x)) { return x > 0 ? x : CUDART_NAN; }
        if (x <= 0.0) {
            negative = 1;
            q = x;
            p = floor(q);
            if (p == q) return CUDART_NAN;
            nz = q - p;
            if (nz != 0.5) {
                if (nz > 0.5) {
                    p += 1.0;
                    nz = q - p;
                }
                nz = M_PI / tan(M_PI * nz);
            } else {
                nz = 0.0;
            }
            x = 1.0 - x;
        }
        y = 0.0;
        if ((x <= 10.0) && (x == floor(x))) {
            n = (int)x;
            for (i = 1; i < n; i++) { w = i; y += 1.0 / w; }
            y -= 0.57721566490153286061;
            goto done;
        }
        s = x;
        w = 0.0;
        while (s < 10.0) {
            w += 1.0 / s;
            s += 1.0;
        }
        if (s < 1.0e17) {
            z = 1.0 / (s * s);
            y = z * polevl<6>(z, PSI_A);
        } else {
            y = 0.0;
        }
        y = log(s) - (0.5 / s) - y - w;
    done:
        if (negative) {
            y -= nz;
        }
        return (y);
    }"""
    x = np.r_[X, -X[:30], 3.0, 7.0]
    return compared(put, text, "psi", sp.psi(x), x)


def zeta(put):
    """Euler and Maclaurin's sum."""
    text = """
    static __device__ double A[] = {12.0, -720.0, 30240.0, -1209600.0, 47900160.0,
        -1.8924375803183791606e9, 7.47242496e10, -2.950130727918164224e12,
        1.1646782814350067249e14, -4.5979787224074726105e15,
        1.8152105401943546773e17, -7.1661652561756670113e18};
    static __device__ double MACHEP = 1.11022302462515654042E-16;
    double __device__ zeta(double x, double q) {
        int i;
        double a, b, k, s, t, w;
        if (x == 1.0) {
            return 1.0/0.0;
        }
        if (x < 1.0) {
            return CUDART_NAN;
        }
        if (q <= 0.0) {
            if (q == floor(q)) {
                return CUDART_INF;
            }
            if (x != floor(x)) {
                return CUDART_NAN;
            }
        }
        s = pow(q, -x);
        a = q;
        i = 0;
        b = 0.0;
        while ((i < 9) || (a <= 9.0)) {
            i += 1;
            a += 1.0;
            b = pow(a, -x);
            s += b;
            if (fabs(b / s) < MACHEP) {
                return s;
            }
        }
        w = a;
        s += b * w / (x - 1.0);
        s -= 0.5 * b;
        a = 1.0;
        k = 0.0;
        for (int j = 0; j < 12; j++) {
            a *= x + k;
            b /= w;
            t = a * b / A[j];
            s = s + t;
            t = fabs(t / s);
            if (t < MACHEP) return s;
            k += 1.0;
            a *= x + k;
            b /= w;
            k += 1.0;
        }
        return s;
    }"""
    x, q = np.meshgrid([1.5, 2.0, 3.7, 12.0, 1.0], [0.3, 1.0, 4.5, 30.0])
    return compared(put, text, "zeta", sp.zeta(x, q), x, q)


def exponential_integral(put):
    """Of any order: a power series, or a continued fraction that is scaled."""
    text = """
    #define EUL 0.57721566490153286060
    #define BIG 1.44115188075855872E+17
    __device__ double expn(double order, double x) {
        int n = (int)order, i, k;
        double ans, r, t, yk, xk, pk, pkm1, pkm2, qk, qkm1, qkm2, psi, z;
        if (x == 0.0) return 1.0 / (n - 1.0);
        if (n == 0) return exp(-x) / x;
        if (x <= 1.0) {
            psi = -EUL - log(x);
            for (i = 1; i < n; i++) psi += 1.0 / i;
            z = -x; xk = 0.0; yk = 1.0; pk = 1.0 - n;
            ans = n == 1 ? 0.0 : 1.0 / pk;
            do {
                xk += 1.0;
                yk *= z / xk;
                pk += 1.0;
                if (pk != 0.0) ans += yk / pk;
                if (ans != 0.0) t = fabs(yk / ans); else t = 1.0;
            } while (t > 1.11e-16);
            t = n;
            r = n - 1;
            return pow(z, r) * psi / tgamma(t) - ans;
        }
        k = 1;
        pkm2 = 1.0; qkm2 = x; pkm1 = 1.0; qkm1 = x + n;
        ans = pkm1 / qkm1;
        do {
            k += 1;
            if (k & 1) {
                yk = 1.0;
                xk = n + (k - 1) / 2;
            } else {
                yk = x;
                xk = k / 2;
            }
            pk = pkm1 * yk + pkm2 * xk;
            qk = qkm1 * yk + qkm2 * xk;
            if (qk != 0) {
                r = pk / qk;
                t = fabs((ans - r) / r);
                ans = r;
            } else
                t = 1.0;
            pkm2 = pkm1; pkm1 = pk; qkm2 = qkm1; qkm1 = qk;
            if (fabs(pk) > BIG) {
                pkm2 /= BIG; pkm1 /= BIG; qkm2 /= BIG; qkm1 /= BIG;
            }
        } while (t > 1.11e-16);
        ans *= exp(-x);
        return ans;
    }"""
    n, x = np.meshgrid([0, 1, 2, 5], X)
    return compared(put, text, "expn", sp.expn(n, x), n, x)


def elliptic_integrals(put):
    """Both complete ones by the arithmetic and geometric mean."""
    text = """
    __device__ void means(double m, double& first, double& second) {
        double a = 1, b = sqrt(1 - m), c = sqrt(m), sum = 0.5 * m, scale = 1;
        for (int k = 0; k < 9 && fabs(c) > 1e-17; k++) {
            const double next = (a + b) / 2;
            c = (a - b) / 2;
            b = sqrt(a * b);
            a = next;
            sum += scale * c * c;
            scale *= 2;
        }
        first = M_PI_2 / a;
        second = first * (1 - sum);
    }
    __device__ double ratio(double m) {
        double k = 0, e = 0;
        means(m, k, e);
        return e / k;
    }"""
    m = np.linspace(0, 0.99, 30)
    return compared(put, text, "ratio", sp.ellipe(m) / sp.ellipk(m), m)


def incomplete_gamma(put):
    """A series below, a continued fraction above, chosen by recursion at the end."""
    text = """
    __device__ double igam_fac(double a, double x) {
        return exp(a * log(x) - x - lgamma(a));
    }
    __device__ double igamc(double a, double x) {
        double c = 0, y = 1 - a, z = x + y + 1, yc, r, t, pk, qk;
        double pkm2 = 1, qkm2 = x, pkm1 = x + 1, qkm1 = z * x, ans = pkm1 / qkm1;
        for (int i = 0; i < 2000; i++) {
            c += 1.0; y += 1.0; z += 2.0;
            yc = y * c;
            pk = pkm1 * z - pkm2 * yc;
            qk = qkm1 * z - qkm2 * yc;
            if (qk != 0) { r = pk / qk; t = fabs((ans - r) / r); ans = r; }
            else { t = 1.0; }
            pkm2 = pkm1; pkm1 = pk; qkm2 = qkm1; qkm1 = qk;
            if (fabs(pk) > 4.503599627370496e15) {
                pkm2 *= 2.220446049250313e-16; pkm1 *= 2.220446049250313e-16;
                qkm2 *= 2.220446049250313e-16; qkm1 *= 2.220446049250313e-16;
            }
            if (t <= 1.11e-16) break;
        }
        return ans * igam_fac(a, x);
    }
    __device__ double igam(double a, double x) {
        if (x == 0) return 0;
        if ((x > 1.0) && (x > a)) return 1.0 - igamc(a, x);
        double r = a, c = 1.0, ans = 1.0;
        while (c / ans > 1.11e-16) { r += 1.0; c *= x / r; ans += c; }
        return ans * igam_fac(a, x) / a;
    }"""
    a, x = np.meshgrid([0.5, 1.0, 3.3, 12.0], np.r_[0.0, X[:40]])
    found, expected = compared(put, text, "igam", sp.gammainc(a, x), a, x)
    return np.round(found, 13), np.round(expected, 13)


def legendre(put):
    """Associated functions, by recurrences upwards."""
    text = """
    __device__ double lpmv(double order, double degree, double x) {
        const int m = (int)order, l = (int)degree;
        if (m > l) return 0.0;
        double pmm = 1.0;
        if (m > 0) {
            double somx2 = sqrt((1.0 - x) * (1.0 + x)), fact = 1.0;
            for (int i = 1; i <= m; i++) { pmm *= -fact * somx2; fact += 2.0; }
        }
        if (l == m) return pmm;
        double pmmp1 = x * (2 * m + 1) * pmm, pll = pmmp1;
        for (int ll = m + 2; ll <= l; ll++) {
            pll = (x * (2 * ll - 1) * pmmp1 - (ll + m - 1) * pmm) / (ll - m);
            pmm = pmmp1;
            pmmp1 = pll;
        }
        return pll;
    }"""
    m, n, x = np.meshgrid([0, 1, 3], [0, 2, 5], np.linspace(-0.9, 0.9, 7))
    return compared(put, text, "lpmv", sp.lpmv(m, n, x), m, n, x)


def normal_tail(put):
    """The logarithm of the distribution, by a series far on the left."""
    text = """
    __device__ double log_ndtr(double a) {
        double log_LHS, last_total = 0, right_hand_side = 1, numerator = 1,
               denom_factor = 1, denom_cons = 1.0 / (a * a);
        long sign = 1, i = 0;
        if (a > 6) return -normcdf(-a);
        if (a > -20) return log(normcdf(a));
        log_LHS = -0.5 * a * a - log(-a) - 0.5 * log(2 * M_PI);
        while (fabs(last_total - right_hand_side) > DBL_EPSILON) {
            i += 1;
            last_total = right_hand_side;
            sign = -sign;
            denom_factor *= denom_cons;
            numerator *= 2 * i - 1;
            right_hand_side += sign * numerator * denom_factor;
        }
        return log_LHS + log(right_hand_side);
    }"""
    a = np.r_[-60:10:50j]
    return compared(put, text, "log_ndtr", sp.log_ndtr(a), a)


CASES = {name: case for name, case in list(globals().items())
         if getattr(case, "__module__", "") == __name__ and name != "compared"}
