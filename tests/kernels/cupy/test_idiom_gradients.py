"""Derivatives of C's pointers, lambdas, templates and structs, by differences."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.kernels import ElementwiseKernel
from nbfused.testing import gradcheck
from tests.variants import sampled

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(1)
X, Y = RNG.uniform(0.2, 0.9, (3, 4)), RNG.uniform(-0.8, 0.8, 4)

PREAMBLE = """
struct P { double a; int k; double b; };
__constant__ double C[] = {2, 3, -1};
template <int N, typename U> __device__ U power(U x) {
    U s = 1; for (int k = 0; k < N; k++) s *= x; return s; }
__device__ double walked(const double* p, const double* end) {
    double s = 0; while (p < end) { s = s * 0.5 + *p * p[1]; p++; } return s; }
__device__ void mixed(double a, double* s, P* p) {
    *s = a * s[0]; p->a += *s; (*p).b = p->a * a; p->k++; }
__device__ void added(double* p, int k, double v) { double* q = p + k; *q += v * *p; }
"""

KERNELS = {
    "loop_prep": (("T x, T y", "T z", "z = x * step * y + i * step", "k", True, "",
                   False, False), {"loop_prep": "const double step = 3.0 / _ind.size();"
                                   }, (X, Y)),
    "places of the loop": (("T x, T y", "T z", "z = _ind.get()[1] > _ind.get()[0] ? "
                            "x * y : x * x * _ind.shape()[1];"), {}, (X, Y)),
    "a walk": (("T x, T y", "T z", "T v[4] = {x, y, x * y, 2}; T* p = v; *p++ *= y; "
                "*p += v[0]; z = walked(v, &v[3]) + walked(C, C + 2) * *--p;"), {},
               (X, Y)),
    "a raw array": (("raw T x, raw T y", "T z", "const T* p = &x[i]; const T* q; "
                     "q = y + i % 4; z = *p * *q + p[i == 11 ? -1 : 1] * q[0];"), {},
                    (X, Y), {"size": 12}),
    "addresses": (("T x, T y", "T z, T w", "P p{x, 1, y}; T s = y; mixed(x, &s, &p); "
                   "mixed(p.b, &s, &p); z = p.a + s * p.k; w = p.b; "
                   "sincos(x * y, &z, &p.b); w += z * p.b;"), {}, (X, Y)),
    "a template of an integer": (("T x, T y", "T z", "z = power<3>(x) * power<2>(y) + "
                                  "power<1, T>(x * C[2]);"), {}, (X, Y)),
    "memory of an array": (("T x, T y", "T z", "T v[3] = {x, y, x}; for (int k = 0; "
                            "k < 3; k++) added(v, k, y * x); added(&v[1], 1, x); "
                            "z = v[0] * v[1] + v[2];"), {}, (X, Y)),
    "stores by pointers": (("raw T x, raw T y", "raw T z", "T* p = z + 11; p -= i; "
                            "const T* q = &x[i]; *p = sin(*q) * y[i % 4];"), {},
                           (X, Y), {"size": 12}),
    "atomics by pointers": (("raw T x, raw T y", "raw T z", "T* p = z + i % 3; "
                             "atomicAdd(p, x[i] * x[i]); atomicSub(p + 1, y[i % 4] * "
                             "x[i]);"), {}, (X, Y), {"size": 12}),
    "lambdas": (("T x, T y", "T z", "T s = x; auto sq = [=](T a) "
                 "{ return a * a * s; }; auto add = [&](T a) "
                 "{ if (a > 3) return; s += sq(a) * y; }; "
                 "for (int k = 0; k < 3; k++) add(x * k); z = s * sq(y);"), {}, (X, Y)),
    "structs in an array": (("T x, T y", "T z", "P v[2] = {{x, 0, y}, {y}}; "
                             "for (int k = 0; k < 3; k++) { v[k & 1].a += v[0].b * x; "
                             "v[1].b -= v[k & 1].a; P t = v[0]; v[0] = v[1]; v[1] = t; "
                             "} z = v[0].a * v[1].b + v[1].a;"), {}, (X, Y)),
    "special functions": (("T x, T y", "T z", "z = tgamma(x + y * y) + erfcx(x) * y + "
                           "erfinv(y) + erfcinv(x) + normcdfinv(x) + "
                           "cyl_bessel_i0(y) * cyl_bessel_i1(x);"), {}, (X, Y)),
    "bessel functions": (("T x, T y", "T z", "z = j0(9 * x) * j1(y) + y0(x) * "
                          "y1(8 + y * y) + yn(3, 4 + x) + j1(-11 * x);"), {}, (X, Y)),
    "bytes": (("raw T x, raw T y", "T z", "const char* p = (const char*)x; "
               "z = *(T*)&p[8 * i] * *(const T*)(p + 80) + y[i % 4];"), {}, (X, Y),
              {"size": 12}),
}


def called(name, device):
    definition, keywords, args, *rest = KERNELS[name]
    definition = (*definition, *("k", True, PREAMBLE)[len(definition) - 3:])
    kernel = ElementwiseKernel(*definition[:5], preamble=PREAMBLE, **keywords)
    size = rest[0].get("size") if rest else None
    return lambda *a: kernel(*a, size=size), args


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.compiled if name == "a walk" else
                 pytest.mark.variants if name == "special functions" else ())
    for name in KERNELS])
def test_first_derivatives(name, device):
    call, args = called(name, device)
    gradcheck(call, args, place=lambda a: nf.array(a, device=device))


@pytest.mark.parametrize("name", sampled(
    ["a walk", "addresses", "lambdas", "structs in an array", "loop_prep",
     "bessel functions"], "lambdas",
    "addresses"))
def test_second_derivatives(name, device):
    call, args = called(name, device)
    gradcheck(call, args, order=2, samples=3,
              place=lambda a: nf.array(a, device=device))


@pytest.mark.parametrize("name", ["lambdas", "structs in an array", "a walk",
                                  "places of the loop"])
def test_the_text_for_gpus(name):
    definition, keywords, *_ = KERNELS[name]
    kernel = ElementwiseKernel(*definition[:5], preamble=PREAMBLE, **keywords)
    assert ".f64" in str(kernel.source("ptx", "float64"))
    assert "double" in str(kernel.source("hip", "float64"))
