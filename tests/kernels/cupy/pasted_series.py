"""Special functions by sums, products and steps of Halley's, written out in C."""

from __future__ import annotations

import numpy as np
import scipy.special as sp

from tests.kernels.cupy.pasted_special import X, compared


def binomial(put):
    """Integers exactly, others by the beta function."""
    text = """
    __device__ double binom(double n, double k) {
        double kx = floor(k), nx = floor(n), num, den;
        if (k == kx && (fabs(n) > 1e-8 || n == 0)) {
            if (nx == n && kx > nx / 2 && nx > 0) kx = nx - kx;
            if (kx >= 0 && kx < 20) {
                num = 1.0;
                den = 1.0;
                for (int i = 1; i < 1 + (int)kx; i++) {
                    num *= i + n - kx;
                    den *= i;
                    if (fabs(num) > 1e50) { num /= den; den = 1.0; }
                }
                return num / den;
            }
        }
        return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1));
    }"""
    n, k = np.meshgrid([3.0, 10.0, 7.5, 30.0], [0.0, 1.0, 3.0, 6.5, 2.25])
    n, k = n[k < n], k[k < n]
    return compared(put, text, "binom", sp.binom(n, k), n, k)


def dawson(put):
    """Rybicki's sum, with a table that the first loop fills."""
    text = """
    __device__ double dawson(double x) {
        double c[24];
        for (int k = 0; k < 24; k++) { const double t = (2 * k + 1) * 0.2;
                                       c[k] = exp(-t * t); }
        const double xx = fabs(x);
        const int n0 = 2 * (int)(0.5 * xx / 0.2 + 0.5);
        const double xp = xx - n0 * 0.2;
        double e1 = exp(2 * xp * 0.2), e2 = e1 * e1, d1 = n0 + 1, d2 = d1 - 2, sum = 0;
        for (int k = 0; k < 24; k++, d1 += 2, d2 -= 2, e1 *= e2)
            sum += c[k] * (e1 / d1 + 1 / (d2 * e1));
        return 0.56418958354775628695 * copysign(exp(-xp * xp), x) * sum;
    }"""
    x = np.r_[-8:8:41j]
    return compared(put, text, "dawson", sp.dawsn(x), x)


def lambert(put):
    """Halley's steps, with a start that a switch chooses."""
    text = """
    __device__ int where(double x) { return x < -0.2 ? 0 : x < 2 ? 1 : 2; }
    __device__ double lambertw(double x) {
        double w;
        switch (where(x)) {
        case 0: { const double p = sqrt(2 * (M_E * x + 1)); w = -1 + p - p * p / 3; }
            break;
        case 1: w = x / (1 + x); break;
        default: w = log(x); w -= log(w + 0.1);
        }
        for (int k = 0; k < 30; ++k) {
            const double e = exp(w), f = w * e - x;
            const double step = f / (e * (w + 1) - (w + 2) * f / (2 * w + 2));
            w -= step;
            if (fabs(step) < 1e-16 * (1 + fabs(w))) break;
        }
        return w;
    }"""
    x = np.r_[-0.36, -0.3, -0.1, 0.0, X, 1e4]
    return compared(put, text, "lambertw", sp.lambertw(x).real, x)


def hypergeometric(put):
    """Gauss's series where it converges, and Pfaff's transformation beside."""
    text = """
    __device__ double series(double a, double b, double c, double x) {
        double sum = 1, term = 1;
        for (int k = 0; k < 500; k++) {
            term *= (a + k) * (b + k) / ((c + k) * (k + 1)) * x;
            sum += term;
            if (fabs(term) <= 1e-17 * fabs(sum)) break;
        }
        return sum;
    }
    __device__ double hyp2f1(double a, double b, double c, double x) {
        return x < -0.4 ? pow(1 - x, -a) * hyp2f1(a, c - b, c, x / (x - 1))
                        : series(a, b, c, x);
    }""".replace("* hyp2f1(a, c - b, c, x / (x - 1))",
                 "* series(a, c - b, c, x / (x - 1))")
    a, x = np.meshgrid([0.5, 1.2, -1.7], np.linspace(-3, 0.6, 20))
    return compared(put, text, "hyp2f1", sp.hyp2f1(a, 0.7, 2.1, x), a,
                    np.full_like(a, 0.7), np.full_like(a, 2.1), x)


CASES = {name: case for name, case in list(globals().items())
         if getattr(case, "__module__", "") == __name__}
