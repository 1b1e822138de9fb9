"""Draws from distributions by a generator that each element has, in CuPy's style.

The expected numbers come from the same steps in Python.
"""

from __future__ import annotations

import math

import numpy as np

import nbfused as nf
from nbfused.kernels import ElementwiseKernel
from tests.kernels.cupy.distributions import PREAMBLE

COUNT = 40

class State:
    """The same generator and the same distributions in Python."""

    def __init__(self, s):
        m = 0xFFFFFFFF
        self.words = [123456789 ^ s, 362436069 + (s >> 16) & m, 521288629, 88675123,
                      5783321]
        self.d = 6615241 * (1 + s) & m
        for _ in range(8):
            self.random()

    def random(self):
        m = 0xFFFFFFFF
        x, *rest = self.words
        t, v = x ^ (x >> 2), rest[-1]
        self.words = [*rest, ((v ^ (v << 4)) ^ (t ^ (t << 1))) & m]
        self.d = self.d + 362437 & m
        return self.d + self.words[-1] & m

    def double(self):
        a = self.random() >> 5
        b = self.random() >> 6
        return (a * 67108864.0 + b) / 9007199254740992.0

    def gauss(self):
        r = 0.0
        while r >= 1 or r == 0:
            u = 2 * self.double() - 1
            v = 2 * self.double() - 1
            r = u * u + v * v
        return math.sqrt(-2 * math.log(r) / r) * v

    def exponential(self):
        return -math.log(1 - self.double())

    def gamma(self, shape):
        if shape == 1:
            return self.exponential()
        while shape < 1:
            u, v = self.double(), self.exponential()
            y = 0.0 if u <= 1 - shape else -math.log((1 - u) / shape)
            x = u ** (1 / shape) if u <= 1 - shape else \
                (1 - shape + shape * y) ** (1 / shape)
            if x <= v + y:
                return x
        b = shape - 1 / 3
        while True:
            v = -1.0
            while v <= 0:
                x = self.gauss()
                v = 1 + x / math.sqrt(9 * b)
            v, u = v**3, self.double()
            if u < 1 - 0.0331 * x**4 or \
                    math.log(u) < 0.5 * x * x + b * (1 - v + math.log(v)):
                return b * v

    def poisson(self, lam):
        count, product = -1, 1.0
        while product > math.exp(-lam):
            product, count = product * self.double(), count + 1
        return count

    def geometric(self, p):
        u, term, total, count = self.double(), p, p, 1
        while u > total:
            term *= 1 - p
            total, count = total + term, count + 1
        return count

    def binomial(self, n, p):
        turned, p = p > 0.5, min(p, 1 - p)
        first = math.exp(n * math.log(1 - p))
        bound = int(min(n, n * p + 10 * math.sqrt(n * p * (1 - p) + 1)))
        count, term, u = 0, first, self.double()
        while u > term:
            count += 1
            if count > bound:
                count, term, u = 0, first, self.double()
            else:
                u -= term
                term = (n - count + 1) * p * term / (count * (1 - p))
        return n - count if turned else count

    def zipf(self, a):
        while True:
            u, v = 1 - self.double(), self.double()
            x = math.floor(u ** (-1 / (a - 1)))
            if x < 1 or x > 2147483647:
                continue
            t = (1 + 1 / x) ** (a - 1)
            if v * x * (t - 1) / (2 ** (a - 1) - 1) <= t / 2 ** (a - 1):
                return x

    def vonmises(self, mu, kappa):
        r = 1 + math.sqrt(1 + 4 * kappa * kappa)
        rho = (r - math.sqrt(2 * r)) / (2 * kappa)
        s = (1 + rho * rho) / (2 * rho)
        while True:
            z = math.cos(math.pi * self.double())
            w = (1 + s * z) / (s + z)
            y, v = kappa * (s - w), self.double()
            if y * (2 - y) - v >= 0 or math.log(y / v) + 1 - y >= 0:
                break
        sign = -1 if self.double() < 0.5 else 1
        angle = sign * math.acos(w) + mu
        mod = math.fmod(abs(angle) + math.pi, 2 * math.pi) - math.pi
        return -mod if angle < 0 else mod

    def logseries(self, p):
        while True:
            v = self.double()
            if v >= p:
                return 1
            q = 1 - math.exp(math.log(1 - p) * self.double())
            if v > q * q:
                return 1 if v >= q else 2
            found = math.floor(1 + math.log(v) / math.log(q))
            if found >= 1:
                return found

    def hypergeometric(self, good, bad, sample):
        left, k = float(min(bad, good)), sample
        while left > 0 and k > 0:
            left -= math.floor(self.double() + left / (bad + good - sample + k))
            k -= 1
        z = int(min(bad, good) - left)
        return sample - z if good > bad else z

    def beta(self, a, b):
        while a <= 1 and b <= 1:
            x = self.double() ** (1 / a)
            y = self.double() ** (1 / b)
            if 0 < x + y <= 1:
                return x / (x + y)
        g = self.gamma(a)
        return g / (g + self.gamma(b))

    def standard_t(self, df):
        x = math.sqrt(df / 2) * self.gauss()
        return x / math.sqrt(self.gamma(df / 2))

    def triangular(self, left, mode, right):
        u, base = self.double(), right - left
        return left + math.sqrt(u * (mode - left) * base) if u <= (mode - left) / base \
            else right - math.sqrt((1 - u) * (right - mode) * base)


def drawn(put, called, reference, out="T y", **parameters):
    """A kernel that draws one number for each seed, and the numbers of `State`."""
    declared = "".join(f", {'int64' if isinstance(v[0], int) else 'float64'} {n}"
                       for n, v in parameters.items())
    kernel = ElementwiseKernel(
        f"S seed{declared}", out.replace("T ", "float64 "), f"""
        rk_state internal_state;
        rk_seed(seed + i, &internal_state);
        y = {called};""", "drawn", preamble=PREAMBLE)
    rows = [np.resize(np.array(v), COUNT) for v in parameters.values()]
    found = kernel(put(np.full(COUNT, 7, np.uint64)), *map(put, rows))
    return nf.to_numpy(found), np.array([
        reference(State(7 + k), *(row[k].item() for row in rows))
        for k in range(COUNT)], np.float64)


def gauss(put):
    return drawn(put, "rk_gauss(&internal_state)", State.gauss)


def gamma(put):
    return drawn(put, "rk_standard_gamma(&internal_state, shape)", State.gamma,
                 shape=[0.3, 1.0, 2.5, 7.0, 0.9])


def poisson(put):
    return drawn(put, "rk_poisson_mult(&internal_state, lam)", State.poisson,
                 lam=[0.5, 3.0, 12.0])


def geometric(put):
    return drawn(put, "rk_geometric_search(&internal_state, p)", State.geometric,
                 p=[0.4, 0.7])


def binomial(put):
    return drawn(put, "rk_binomial(&internal_state, (int)m, p)", State.binomial,
                 m=[10, 25], p=[0.2, 0.5, 0.8])


def zipf(put):
    return drawn(put, "rk_zipf(&internal_state, a)", State.zipf, a=[2.0, 3.5])


def vonmises(put):
    return drawn(put, "rk_vonmises(&internal_state, mu, kappa)", State.vonmises,
                 mu=[0.5, -2.0, 3.0], kappa=[0.7, 4.0])


def logseries(put):
    return drawn(put, "rk_logseries(&internal_state, p)", State.logseries,
                 p=[0.3, 0.8, 0.95])


def hypergeometric(put):
    return drawn(put, "rk_hypergeometric(&internal_state, good, bad, sample)",
                 State.hypergeometric, good=[10, 6], bad=[7, 20, 5], sample=[5, 8])


def beta(put):
    return drawn(put, "rk_beta(&internal_state, a, b)", State.beta, a=[0.5, 2.0],
                 b=[0.7, 3.0, 1.0])


def standard_t(put):
    """Numerator and denominator name one state, whose order C++ leaves open."""
    text = PREAMBLE.replace(
        "return sqrt(df/2)*rk_gauss(state)/sqrt(rk_standard_gamma(state, df/2));",
        "double N = rk_gauss(state), G = rk_standard_gamma(state, df/2);\n"
        "    return sqrt(df/2)*N/sqrt(G);")
    kernel = ElementwiseKernel(
        "uint64 seed, float64 df", "float64 y", "rk_state s; rk_seed(seed, &s); "
        "y = rk_standard_t(&s, df);", "student", preamble=text)
    seeds, df = np.arange(COUNT, dtype=np.uint64), np.resize([2.0, 5.5], COUNT)
    return nf.to_numpy(kernel(put(seeds), put(df))), np.array([
        State(k).standard_t(df[k]) for k in range(COUNT)])


def triangular(put):
    return drawn(put, "rk_triangular(&internal_state, -1.0, m, 3.0)",
                 lambda s, m: s.triangular(-1.0, m, 3.0), m=[0.0, 2.5])


CASES = {name: case for name, case in list(globals().items())
         if getattr(case, "__module__", "") == __name__ and name not in (
             "State", "drawn")}
