"""Derivatives of kernels in C and Python, against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NotDifferentiableError, TapeError
from nbfused.kernels import ElementwiseKernel, ReductionKernel
from nbfused.testing import gradcheck
from tests.variants import sampled

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(0)
X, Y, W = RNG.uniform(0.5, 1.5, (3, 4)), RNG.uniform(-1, 1, 4), RNG.uniform(0.5, 1, 6)

ELEMENTWISE = {
    "broadcast": (("T x, T y", "T z", "z = x * x * y + y"), (X, Y)),
    "a number": (("T x, T y", "T z", "z = x * y"), (X, 3)),
    "a remainder": (("T x, T y", "T z", "z = remainder(x * 7, y) * x"), (X, Y)),
    "exponents": (("T x, T y", "T z", "int e; T w; T m = frexp(x, &e); T f = modf("
                   "y * 3 + 0.2, &w); z = m * x + e * y + f * x + "
                   "ldexp(y, e + 2) * w;"), (X, Y)),
    "exponents in an expression": (
        ("T x, T y", "T z", "int e; T a = y; z = frexp(x, &e) * y; "
         "z += e * moved(a, x) * x; z *= a;", "k", True,
         "template<typename T> T moved(T& a, T by) { a *= by; return a + by; }"),
        (X, Y)),
    "a function that calls itself": (
        ("T x, T y", "T z", "z = p(x, 5, y) * x;", "k", True,
         "template<typename T> T p(T b, int n, T a) { "
         "return n == 0 ? a : n & 1 ? p(b * b, n / 2, a * b) : p(b * b, n / 2, a); }"),
        (X, Y)),
    "Bessel functions": (("T x, T y", "T z", "z = jn(2, x * 5) + jn(4, y) + "
                          "jn(7, x * y) + yn(3, x + 2) + jn(1, y);"), (X, Y)),
    "the sign's bit": (("T x, T y", "T z", "double d = y; "
                        "z = __double_as_longlong(d) < 0 ? -x * y : x + y;"), (X, Y)),
    "statements": (("T x, T y", "T z", "T d = x - y; d *= d; z = d + exp(-d);"),
                   (X, Y)),
    "branches": (("T x, T y", "T z", "if (x > 1) { z = x * y; return; } "
                  "z = y > 0 ? sin(x) : x / (1 + y * y);"), (X, Y)),
    "float and double": (("float64 x", "float64 z", "float f = 2; z = x * f / 3"),
                         (X,)),
    "several outputs": (("T x, T y", "T z, T w", "z = x * y; w = hypot(x, y);"),
                        (X, Y)),
    "gather": (("T x, raw T y", "T z", "z = x * y[(i * i) % 4] + y[_ind.size() % 4]"),
               (X, Y)),
    "gather by shape": (("raw T x, int64 k", "T z",
                         "ptrdiff_t at[] = {k % 3, k}; z = x[at] * x.size()"),
                        (X, np.arange(3))),
    "all raw": (("raw T x, raw T y", "T z", "z = x[i] * y[i % 4]"), (X, Y),
                {"size": 7}),
    "stores": (("raw T x, raw T y", "raw T z", "z[n - 1 - i] = x[i] * y[i % 4];"),
               (X, Y), {"size": 12}),
    "atomics": (("raw T x, raw int64 k", "raw T z",
                 "atomicAdd(&z[k[i]], x[i] * x[i]);"),
                (X, np.arange(12) // 3), {"size": 12}),
    "a static loop": (("T x, T y", "T z", "T s = x; for (int k = 0; k < 5; ++k) "
                       "s = s * y + sin(s); z = s;"), (X, Y)),
    "a dynamic loop": (("T x, raw T w, int32 m", "T z",
                        "T s = x; for (int k = 0; k < m; ++k) "
                        "{ if (k == 2) continue; s += w[k] * s; } z = s;"), (X, W, 5)),
    "while": (("T x", "T z", "T s = x; while (s < 20) { s = s * s + 1; } z = s;"),
              (X,)),
    "an array": (("T x, T y", "T z", "T v[3] = {x, y, 1}; for (int k = 0; k < 3; k++) "
                  "v[(k + 1) % 3] += v[k] * x; z = v[0] * v[2];"), (X, Y)),
    "a function": (("T x, T y", "T z", "z = f(x, 3) * f(y, 2)", "k", True,
                    "template<typename U> __device__ U f(U a, int k) { U s = 1; "
                    "for (; k > 0; k--) s *= a; return s; }"), (X, Y)),
    "initialisers": (("T x, T y", "T z", "const T m { x * 2 }; T t{m}, s(x * y), e{}; "
                      "z = m * t + s * e + T(s) * T{y};"), (X, Y)),
    "switch": (("T x, T y", "T z", "z = y; for (int k = 0; k < 4; k++) switch (k) { "
                "case 0: z += x * x; break; case 1: if (y > 0) break; z *= x; "
                "case 2: z = z * y + x; break; default: z = sin(z); }"), (X, Y)),
    "a struct": (("T x, T y", "T z", "P p{x, y}; for (int k = 0; k < 3; k++) "
                  "{ P q = p; p.a = q.b * x; p.b += q.a; } p = scaled(p, y); "
                  "z = p.a * p.b;", "k", True, "struct P { double a; double b; }; "
                  "__device__ P scaled(P p, double s) { p.a *= s; return P{p.a, p.b / "
                  "(2 + s)}; }"), (X, Y)),
    "references": (("T x, T y", "T z", "T a(x), b(y); T& c = a; c *= c; mix(a, b); "
                    "T m = mixed(b, x); z = a * b + m;", "k", True,
                    "template<typename U> __device__ void mix(U& a, U& b) "
                    "{ U t{a}; a = a * b; b += t; }\n__device__ double mixed(double& "
                    "a, double b) { a *= b; return a + b; }"), (X, Y)),
    "a function that adds": (("raw T x, raw int64 k", "raw T z",
                              "add(z, k[i], SQUARE(x[i]));", "k", True,
                              "#define SQUARE(a) ((a) * (a))\n"
                              "template<typename U> __device__ void add(U* p, int k, "
                              "U v) { if (v > 1) atomicAdd(&p[k], v); }"),
                             (X, np.arange(12) // 3), {"size": 12}),
    "changes inside expressions": (("T x, T y", "T z", "int k = 3; T s = x, t; "
                                    "while (k-- > 0) s = s * y + x; "
                                    "z = (t = s * x) + y;"), (X, Y)),
    "arrays by pointers": (("T x, T y", "T z", "T v[3] = {x, y, 1}; sums(v, 3); "
                            "z = series(x, v, 3) + series(y, C, 2);", "k", True,
                            "const double C[] = {2, 3};\n"
                            "template<typename U> __device__ void sums(U* v, int n) { "
                            "for (int k = 1; k < n; k++) v[k] += v[k - 1] * v[k]; }\n"
                            "__device__ double series(double x, const double* c, int n)"
                            " { double s = 0; for (int k = 0; k < n; k++) "
                            "s = s * x + c[k]; return s; }"), (X, Y)),
    "an output that is not assigned": (("T x, T y", "T z, T w", "z = x * y;"), (X, Y)),
    "Python": (("T x, raw T w", "T z", lambda x, w, i, n: x * w[i % 6] + w[0] / n),
               (X, W)),
}


#: One with a loop, one that adds to memory, one with branches.
COMPILED = ("a dynamic loop", "atomics", "branches")


#: Whose series the interpreter is slow at.
LONG = ("Bessel functions",)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.compiled if name in COMPILED else
                 pytest.mark.variants if name in LONG else ()) for name in ELEMENTWISE])
def test_elementwise(name, device):
    definition, args, *rest = ELEMENTWISE[name]
    kernel = ElementwiseKernel(*definition)
    keywords = rest[0] if rest else {}
    gradcheck(lambda *a: kernel(*a, **keywords), args,
              place=lambda a: nf.array(a, device=device))


@pytest.mark.parametrize("name", sampled(
    ["broadcast", "branches", "gather", "stores", "a static loop"],
    "branches", "gather", "stores"))
def test_elementwise_twice(name, device):
    definition, args, *rest = ELEMENTWISE[name]
    kernel = ElementwiseKernel(*definition)
    keywords = rest[0] if rest else {}
    gradcheck(lambda *a: kernel(*a, **keywords), args, order=2, samples=3,
              place=lambda a: nf.array(a, device=device))


def logarithm(x):
    return nf.log(x), 1.0


def blend(a, n, b, m):
    return (a * n + b * m) / (n + m), n + m


REDUCTIONS = {
    "norm": (("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0"), (X,)),
    "mean": (("T x", "T y", "x * x", "a + b",
              "y = a * _out_ind.size() / _in_ind.size()", "0"), (X,)),
    "product": (("T x", "T y", "x", "a * b", "y = a", "1"), (X,)),
    "maximum": (("T x", "T y", "x * x", "max(a, b)", "y = a", "-INFINITY"), (X,)),
    "weighted": (("T x, T w", "T y", "x * w", "a + b", "y = a", "0"), (X, Y)),
    "raw": (("T x, raw T w", "T y", "x * w[_j % 6]", "a + b", "y = a", "0"), (X, W)),
    "a number": (("T x, float64 p", "T y", "pow(x, p)", "a + b", "y = pow(a, 1 / p)",
                  "0"), (X, 3)),
    "unknown": (("T x", "T y", "x", "a + b + a * b", "y = log(a)", "0"), (X,)),
    "no identity": (("T x", "T y", "x", "hypot(a, b)", "y = a", None), (X,)),
    "several outputs": (("T x", "T y, T z", "x", "a + b", "y = a * a; z = sin(a)", "0"),
                        (X,)),
    "a state of two parts": (("T x", "T y", logarithm, blend, lambda a, n: a * a,
                              (0.0, 0.0)), (X,)),
}


@pytest.mark.parametrize("axis", sampled([None, 0, 1], 0))
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name, axis, device):
    definition, args = REDUCTIONS[name]
    kernel = ReductionKernel(*definition)
    if name == "a state of two parts":  # 0 / 0 is not neutral: begin with an element
        kernel = ReductionKernel(*definition[:-1], None)
    gradcheck(lambda *a: kernel(*a, axis=axis), args,
              place=lambda a: nf.array(a, device=device))


@pytest.mark.parametrize("name", sampled(["norm", "unknown"], "norm"))
def test_reduction_twice(name, device):
    definition, args = REDUCTIONS[name]
    kernel = ReductionKernel(*definition)
    gradcheck(lambda *a: kernel(*a, axis=0), args, order=2, samples=3,
              place=lambda a: nf.array(a, device=device))


def test_a_decorated_reduction_by_a_function(device):
    total = nf.reduction(combine=lambda a, b: a + b + 0.5 * a * b)(lambda x, y: x * y)
    for axis in (None, 0, 1):
        gradcheck(lambda x, y, axis=axis: total(x, y, axis=axis), [X, Y],
                  place=lambda a: nf.array(a, device=device))
    empty = nf.Variable(nf.array(np.zeros((0, 3)), device=device), requires_grad=True)
    np.testing.assert_array_equal(nf.to_numpy(total(empty, 1.0, axis=0).data), 0)


def test_grad_of_a_kernel(device):
    cube = ElementwiseKernel("T x", "T y", "y = x * x * x", "cube")
    x = nf.array([2.0, -1.0], device=device)
    np.testing.assert_array_equal(nf.to_numpy(nf.grad(cube)(x)), [12.0, 3.0])


def test_a_kernel_in_float32_has_a_gradient_in_float32(device):
    kernel = ElementwiseKernel("T x, raw T y", "T z", "z = x * y[0]")
    x, y = (nf.Variable(nf.array([1, 2, 3], "float32", device=device),
                        requires_grad=True) for _ in range(2))
    kernel(x, y).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (np.float32, np.float32)
    np.testing.assert_array_equal(nf.to_numpy(y.grad), [6, 0, 0])


def test_what_reads_what_it_stores_has_no_derivative(device):
    kernel = ElementwiseKernel("raw T x", "raw T y", "y[i] = x[i];\ny[i] += 1;")
    x = nf.Variable(nf.array(np.ones(3), device=device), requires_grad=True)
    with pytest.raises(NotDifferentiableError, match="reads what it stores in 'y'"):
        kernel(x, size=3).sum().backward()


def test_an_output_that_was_given_is_not_recorded(device):
    kernel = ElementwiseKernel("T x", "T y", "y = x")
    x = nf.Variable(nf.array(np.ones(3), device=device), requires_grad=True)
    with pytest.raises(TapeError):
        kernel(x, nf.zeros(3, device=device))


def test_integers_have_no_gradient(device):
    kernel = ElementwiseKernel("T x", "int32 y", "y = x")
    x = nf.Variable(nf.array(np.ones(3), device=device), requires_grad=True)
    assert not kernel(x).requires_grad
