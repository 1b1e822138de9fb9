"""C bodies mean what a C++ compiler makes of them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

import nbfused as nf
from nbfused.kernels import ElementwiseKernel
from tests.kernels.cupy.c_preambles import PREAMBLES
from tests.kernels.cupy.c_shim import SHIM
from tests.kernels.cupy.c_structs import STRUCTS

pytestmark = pytest.mark.interpreted

C = {"float32": "float", "float64": "double", "int8": "signed char", "int16": "short",
     "int32": "int", "int64": "long long", "uint8": "unsigned char",
     "uint16": "unsigned short", "uint32": "unsigned int",
     "uint64": "unsigned long long", "bool": "bool"}

#: Bodies of float32 x, float32 y, int32 j and float32 z.
FLOATS = {
    "double literal": "z = x * 0.1 + y",
    "float literal": "z = x * 0.1f + y",
    "declarations": "float d = x - y, e = d * d; z = e + d;",
    "integer quotient": "z = (j - 3) / 2 + x",
    "integer remainder": "z = (j - 7) % 5",
    "negative divisor": "z = j / -3 * 100 + j % -3",
    "mixed": "z = j / 2.0f + j / 2",
    "cast": "z = (int)x + (float)j / 3 + int(y) * 2",
    "static_cast": "z = static_cast<int>(x) / static_cast<float>(3) + "
                   "static_cast<unsigned char>(j)",
    "ternary": "z = x > y ? x : j",
    "nested ternary": "z = x > 1 ? 1 : x < -1 ? -1 : x",
    "logic": "z = x > 0 && y > 0 || !(j % 2)",
    "comparison as a number": "z = (x > y) + (x < y) * 2 + (j == 3)",
    "bits": "z = (j & 6) | (j << 2) ^ (~j & 0xff) | (j >> 1)",
    "if": "if (x > y) { z = x; } else if (x == y) z = 0; else z = y;",
    "for": "float s = 0; for (int k = 0; k < j; ++k) s += x * k; z = s;",
    "for down": "float s = 0; for (int k = j; k >= 0; k -= 2) { s += k; } z = s;",
    "for with a jump": """
        float s = 0;
        for (int k = 0; k < 20; k++) {
            if (k % 3 == 0) continue;
            if (k > j) break;
            s += k * y;
        }
        z = s;""",
    "for without a count": """
        float s = x;
        for (int k = 0, m = 10; k < m; k += 2, --m) { if (k == 4) continue; s += m; }
        z = s;""",
    "continue where the counter is hidden": """
        float s = 0;
        for (int k = 0, m = 0; k < 6; k++) {
            { float k = x; if (k > 0) continue; s += k + m; } m++;
        }
        int q = 0;
        do { int q2 = q; q++; { int q = 9; if (j > 4) continue; s += q; } s += q2; }
        while (q < 3);
        z = s;""",
    "bounds and counters of two signs": """
        float s = 0;
        for (int k = -2; k < 3u; k++) s += 1;
        for (unsigned int k = j - 4; k < 10; k++) s += 10;
        for (unsigned char k = 300; k < 48; k++) s += 100;
        for (unsigned int k = 0; k < j - 4; k++) { s += 1000; if (k == 5) break; }
        for (size_t k = 0; k < j - 4; k++) { s += 7; if (k == 5) break; }
        for (int k = 3; k < j; k += -1) { s += 3; if (k < 0) break; }
        for (auto k = 0u; k < j; k++) s += 0.5f;
        z = s;""",
    "changed counter": "float s = 0; for (int k = 0; k < 9; k++) { s += k; if (k == 3) "
                       "k = 6; } z = s;",
    "while": "int k = 0; while (k * k < j + 5) { k++; } z = k;",
    "do": "float s = x; do { s *= 0.5f; } while (s > 0.1f || s < -0.1f); z = s;",
    "do with continue": """
        int k = 0; float s = 0;
        do { k += 1; if (k % 2) continue; s += k; } while (k < j + 3);
        z = s;""",
    "endless": "int k = 0; for (;;) { k++; if (k > j) break; } z = k;",
    "shadow": "float k = x; { int k = 3; z = k; } z += k; for (int k = 0; k < 2; k++) "
              "z += k; z += k;",
    "compound": "float s = x; s += 2; s *= y; s -= 1; s /= 3; int k = j; k %= 3; "
                "k <<= 2; k |= 1; k ^= 3; k &= 13; k >>= 1; z = s + k;",
    "chained": "float a, b; a = b = x; z = a + b;",
    "array": "float v[3] = {x, y, 2}; v[0] += v[1]; v[2] *= v[0]; z = v[2];",
    "array by a variable": """
        float v[4] = {};
        for (int k = 0; k < 4; k++) v[k] = x * k;
        v[j & 3] = y;
        z = v[0] + 2 * v[1] + 3 * v[2] + 4 * v[3];""",
    "matrix": """
        float m[2][3];
        for (int a = 0; a < 2; a++) for (int b = 0; b < 3; b++) m[a][b] = a * x + b * y;
        z = m[1][2] - m[0][1];""",
    "matrix in parts": """
        int a[2][2] = {{1}, {3, 4}}, b[][2] = {1, 2, 3}, c[2][2][2] = {1, 2, {3, {4}}};
        z = a[0][1] + 2 * a[1][0] + 4 * a[1][1] + 8 * b[1][0] + 16 * b[1][1];
        z += 100 * c[0][1][0] + 1000 * c[1][0][0] + 10000 * c[1][1][0];""",
    "table": "const float w[] = {0.5f, 2, 4}; z = w[j % 3 < 0 ? 0 : j % 3] * x;",
    "return": "z = 0; if (x < 0) return; z = x;",
    "old value": "if (x > 0) z = x;",
    "functions": "z = sqrtf(fabsf(x)) + expf(-x * x) + fminf(x, y) + powf(2.0f, y)",
    "overloads": "z = max(x, y) + min(j, 2) + abs(j) + fmod(x, 2.0f)",
    "rounding": "z = floorf(x) + ceilf(y) + truncf(x * 3) + rintf(y * 2) + roundf(x)",
    "predicates": "z = isnan(x - x) + isinf(1 / (x - x)) * 2 + signbit(y) * 4",
    "size and index": "z = _ind.size() - i - 1 + n",
    "auto": "auto k = j * 2; auto d = x * 1.0; z = k / 4 + d;",
    "unsigned": "unsigned int u = j; u = u - 40; z = u > 5u; z += u / 3;",
    "small integers": "signed char c = 100; c += j; unsigned char u = 250; u += j; "
                      "z = c + u;",
    "folded": "z = (-(-sizeof(int))) / 3 + (0xFFFFFFFFFFFFFFFFull * 3 - 5) / 7 + x;",
    "long": "long long big = 1LL << 40; z = big / (j * j + 1) + 10000000000;",
    "bool": "bool b = x; b = !b; z = b + true;",
    "char": "auto c = 'a'; c += 100; z = c + '\\377' + sizeof('a') + '\"' + j; // '",
    "hex and octal": "z = 0x1F + 010 + 0x1p3;",
    "comments": "z = x; // a comment; y\n /* z = 5;\n */ z += y;",
    "sizeof": "z = sizeof(float) + sizeof(double) * j;",
    "limits": "z = numeric_limits<short>::max() + std::numeric_limits<int>::lowest() "
              "* numeric_limits<float>::epsilon() + x;",
    "initialised": """
        float a{x}, b(y * 2), c{}; const double m { x * 2 }; const int k = 7;
        int whole(x), last(k / 2 * 2.5f); auto u{j}; auto v(y);
        z = a + b + c + m + whole + last + u + v + float{} + double(x) * int(y);""",
    "an initialiser that is a cast": "float a(max(x, float(0))), b((float)j); "
                                      "z = a + b",
    "words for operators": "z = (x > 0 and y > 0 or not (j bitand 1)) + (j xor 3) + "
                           "(j bitor compl 5) + (x not_eq y); int k = j; k and_eq 6; "
                           "k or_eq 8; k xor_eq 3; z += k;",
    "bits of words": "z = __popc(j * 77777) + __clz(j) * 2 + __ffs(j * 8) * 3 + "
                     "__popc(-j) + __popcll(-1LL - j) + __clzll(j) + __ffsll(j - 4) + "
                     "(__brev(j) >> 16) % 1000 + __brevll(j * 3) % 1000",
    "upper halves of products": """
        z = __mulhi(j * 1234567891, -987654321) % 1000
            + __umulhi(j * 1234567891u, 4000000007u) % 1000
            + __mul64hi(j * 1234567891234567ll, -987654321987654ll) % 1000
            + __umul64hi(-j * 77ull, 18446744073709551557ull) % 1000;""",
    "remainders": "z = remainder(x * 7, y) + remainderf(j * 0.5f, 1.0f) * 100 + "
                  "remainder(double(x), 3.0) + remainder(x, float(INFINITY))",
    "bits as another type": """
        z = (__float_as_int(x) >> 20) + (__float_as_uint(-y) >> 24)
            + (__double_as_longlong(x * y) >> 45) + __float_as_int(j);
        z += __int_as_float(__float_as_int(x) ^ (1 << 31)) * 3 +
            __uint_as_float(0x3fc00000u + j) + __longlong_as_double(
                __double_as_longlong(y) + (1LL << 52));""",
    "bits through pointers": """
        float h = 0.5f * (x * x + 1), r = x * x + 1; int b = *(int*)&r;
        b = 0x5f3759df - (b >> 1); r = *(float*)&b; r = r * (1.5f - h * r * r);
        double d = y; unsigned long long w = *reinterpret_cast<unsigned long long*>(&d);
        *(unsigned*)&h ^= 0x80000000u; float c; memcpy(&c, &b, sizeof(c));
        z = r * 100 + (w >> 50) + h + c + bit_cast<int>(x) % 1000
            + reinterpret_cast<const unsigned&>(y) % 777u;""",
    "exponents": """
        int e; double m = frexp(x * 1e-3, &e); float w, f = modff(y * 7.3f, &w);
        z = m + e * 10 + f * 100 + w + ldexp(double(y), j - 3) + ldexpf(x, -j)
            + scalbn(x, 2);
        float o = frexpf(y, &e); z += o + e * 1000;
        double g, q = modf(-x * 0.75, &g); z += q - g;""",
    "macros": """
        #define SQ(a) ((a) * (a))
        #define LESS(a, b) ((a) < (b) ? (a) : (b))
        #if defined(SQ) && 3 > 2
        z = SQ(x + 1) + LESS(LESS(x, y), LESS(j, 3));
        #else
        z = nothing;
        #endif
        #undef SQ
        #undef LESS
        """,
    "switch": """
        z = 0;
        for (int k = 0; k < 6; k++) {
            switch (k + j & 3) {
                case 0: if (x > 2) break; z += 1;
                case 1: z += 10; if (y > 1) continue; break;
                default: z += 100;
                case 3: { z += 1000; break; }
            }
            z += 0.5f;
        }""",
    "switch that ends early": """
        z = 3;
        switch (j) { case 1: z = 1; return; case 2: if (x > 0) return; z = 4; break;
            case 'a' - 94: while (true) { z += 1; if (z > y + 9) break; } }
        z += 5;""",
    "switch in a switch": """
        switch (j % 3) { case 0: switch (j) { case 0: z = 1; break; default: z = 2; }
            z += 10; break; case 1: case 2: z = 20; }""",
    "switch on a narrow number": """
        signed char c = j - 3; switch (c) { case -1: z = 1; break; case -2: z = 2;
            break; case 1 + 1: z = 3; }""",
    "a struct": """
        struct P { float a; int b; }; struct Q { P p; double c; };
        P p{x, j}; Q q{p, 2}; P r; r = q.p; r.b += 1; q.p.a *= 3; const P s = {y};
        for (int k = 0; k < 3; k++) { if (r.a > k) r.b = r.b * 2; r.a += q.p.a; }
        P t = x > y ? r : P{1, 2};
        z = p.a + p.b + q.p.a + q.c + r.a + r.b + s.a + s.b + t.b;""",
    "references": "float a = x; float& r = a; r += y; auto& q = r; q *= 2; z = a + r;",
    "names of types": "using U = unsigned char; typedef short S; U u = j * 50; "
                      "S s = u * 300; z = u + s;",
    "constants": "constexpr int K = 3; const int M = K + 1; float a[M]; a[K] = x; "
                 "z = a[M - 1] * K;",
    "changes inside expressions": """
        int k = j, m = 3; float v[4] = {x, y, 2, 3}, s, t;
        z = v[--m] * 2 + ++k; z += v[m--]; if ((k = j / 2) > 1) z += 100;
        while (k-- > 0) { if (k == 2) continue; z += v[m++ & 3] * k; }
        do { z += 1; if (k > 5) continue; z += 3; } while (++k < 4);
        for (int q = 0, r = 5; q < --r; q++) { z += r; if (r == 3) continue; z += q; }
        z += (s = x * 2) + (t = x > 0 ? 1 : 2); v[k++ & 3] += s; v[k-- & 1] *= t;
        switch (k++ % 3) { case 0: z += k; break; case 1: z -= k; }
        int a = k++, b = k; z += min(a++, 3) + b + v[0] + v[3] + s + t + (m += 2);""",
    "arrays in braces": "float v[]{x, y, 2}, w[2]{}, u[2][2]{{1, 2}, {x}}; "
                        "z = v[1] + w[0] + u[1][0] * v[2] + u[0][1];",
    "less than a cast": "z = (x < int(y)) + 2 * (j < float(3)) + 4 * (x < (y > 0)) + "
                        "8 * (j < int(x) && y > (2)) + (x < int{3}) * 16;",
    "the size of a struct": "struct P { char a; double b; int c; }; z = sizeof(P);",
    "template arguments": "z = max<float>(j, x) + std::min<int>(x, 2) + max<double>(y, "
                          "0.5);",
    "questions about types": """
        z = std::is_same<float, double>::value + 2 * is_floating_point_v<float> +
            4 * std::is_integral<bool>::value + 8 * std::is_signed_v<unsigned char>;
        if (!std::is_same_v<int, float> && std::is_unsigned<bool>::value) z += x;
        else z = y;
        if constexpr (std::is_arithmetic<short>::value or is_integral<float>::value)
            z += 16; else if (x > 0) z = 0;
        bool b = std::is_signed<double>::value; if (b && x > 0) z = -z;""",
    "nan": "z = x > 1 ? NAN : fmaxf(x, NAN);",
}
INTEGERS = {
    "sum": "z = x + y", "difference": "z = x - y", "product": "z = x * y",
    "quotient": "z = x / (y | 1)", "remainder": "z = x % (y | 1)", "minus": "z = -x",
    "not": "z = ~x", "compare": "z = x < y", "shift": "z = (x >> 1) + (y << 2)",
    "literal": "z = x * 3 + 1", "half": "z = x / 2.0", "ternary": "z = x > y ? x : -1",
    "abs": "z = x < 0 ? -x : x",
}


def cases():
    """Name, types of x, y, j and z, body, preamble."""
    for name, body in FLOATS.items():
        yield name, ("float32", "float32", "int32", "float32"), body, ""
    for name, (preamble, body) in {**PREAMBLES, **STRUCTS}.items():
        types = ("float32", "float32", "int32", "float32")
        yield f"preamble {name}", types, body, preamble
    for a, b in (("int8", "int8"), ("uint8", "int16"), ("int32", "uint32"),
                 ("uint64", "int32"), ("int64", "uint64"), ("uint16", "uint16"),
                 ("int16", "uint8"), ("bool", "int32")):
        for name, body in INTEGERS.items():
            yield f"{name} {a} {b}", (a, b, "int32", "float64"), body, ""


CASES = {name: rest for name, *rest in cases()}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Every body as a function in C++."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler to compare with")
    text = [SHIM]
    for k, (types, body, preamble) in enumerate(CASES.values()):
        x, y, j, z = (C[t] for t in types)
        text.append(
            f"namespace n{k} {{\n{preamble}\nstatic void "
            f"body(const {x} x, const {y} y, const {j} j, {z}& z, "
            f"long long i, long long n, Index _ind) {{ {body}\n; }}\n"
            f'extern "C" void k{k}(long long n, const {x}* x, const {y}* y, '
            f"const {j}* j, {z}* z) {{ for (long long i = 0; i < n; ++i) "
            f"body(x[i], y[i], j[i], z[i], i, n, Index{{n}}); }}\n}}\n"
            + "".join(f"#undef {line.split()[1]}\n" for line in preamble.splitlines()
                      if line.startswith("#define")))
    folder = tmp_path_factory.mktemp("c")
    (folder / "k.cpp").write_text("\n".join(text))
    subprocess.run([compiler, "-w", "-std=c++17", "-fwrapv", "-ffp-contract=off",
                    "-shared", "-fPIC", "-o", folder / "k.so", folder / "k.cpp"],
                   check=True)
    return ctypes.CDLL(str(folder / "k.so"))


def values(dtype, seed):
    """Numbers of both signs, with some that repeat."""
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return np.round(rng.uniform(-4, 4, 40), 1).astype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, 40).astype(bool)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -100), min(info.max, 120), 40).astype(dtype)


@pytest.mark.parametrize("name", CASES)
def test_body_as_in_cpp(name, library, device):
    types, body, preamble = CASES[name]
    x, y = (values(t, k) for k, t in enumerate(types[:2]))
    j = np.random.default_rng(9).integers(0, 9, 40).astype("int32")
    expected = np.full(40, 7, types[3])
    number = list(CASES).index(name)
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, y, j, expected)]
    getattr(library, f"k{number}")(ctypes.c_longlong(40), *pointers)
    kernel = ElementwiseKernel(
        f"{types[0]} x, {types[1]} y, int32 j", f"{types[3]} z", body, "body",
        preamble=preamble)
    out = nf.full(40, 7, types[3], device=device)
    found = nf.to_numpy(kernel(*(nf.array(a, device=device) for a in (x, y, j)), out))
    if types[3].startswith("float"):
        np.testing.assert_allclose(found, expected, rtol=4e-6, atol=4e-6)
    else:
        np.testing.assert_array_equal(found, expected)
