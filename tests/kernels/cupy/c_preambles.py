"""Preambles in C with bodies of float32 x, float32 y, int32 j and float32 z."""

from __future__ import annotations

__all__ = ["PREAMBLES"]

PREAMBLES = {
    "template that asks for its type": (
        "template <typename T> T low(T v) { if constexpr (std::is_integral_v<T>) { "
        "return v & 1; } else { return floorf(v); } }\n"
        "template <typename A, typename B> A mixed(A a, B b) { "
        "if (std::is_same<A, B>::value) return a + b; return a - b; }",
        "z = low(x) + low(j) * 2 + mixed(x, y) * 3 + mixed(x, j);"),
    "enums": (
        "enum Mode {\n NEAREST, // 0\n WRAP = (1 << 1), MIRROR,\n LAST = MIRROR + 3\n};"
        "\ntypedef enum { LOW = -2, HIGH } Level; enum { ONE = 1, BIG = 0xFFFFFFFF };\n"
        "enum Small : unsigned char { C = 255, D = 'a' };\n"
        "__device__ int chosen(enum Mode m) { switch (m) { case WRAP: return 10; "
        "case MIRROR: case NEAREST: return LAST; default: return HIGH; } }",
        "Mode m = Mode(j); Level l = LOW; z = chosen(m) + x * l + C - 2 * D + "
        "(BIG > 0) + 8 * (-ONE > 0) + Small(j + 255);"),
    "function": ("__device__ float twice(float v) { return 2 * v; }", "z = twice(x) + "
                 "twice(j)"),
    "changes its argument": ("__device__ float f(float v, int k) { v += 1; "
                             "while (k > 0) { v *= 0.5; --k; } return v; }",
                             "z = f(x, j) + x"),
    "template": ("template<typename T> __device__ __forceinline__ T half_of(T v) { "
                 "return v / 2; }", "z = half_of(x) + half_of(j)"),
    "two types": ("template <typename A, typename B>\nA add(const A& a, const B& b) "
                  "{ A c = a; c += b; return c; }", "z = add(j, x) + add(x, j)"),
    "calls another": ("__device__ int sq(int a) { return a * a; }\n"
                      "__device__ int quad(int a) { return sq(sq(a)); }",
                      "z = quad(j)"),
    "early return": ("__device__ float clampf(float v) { if (v > 1) return 1; "
                     "if (v < -1) { return -1; } return v; }", "z = clampf(x) * y"),
    "macro": ("#define SCALE 2.5f\n#define TWO (1 + 1)", "z = x * SCALE + TWO * j"),
    "gives its results by reference": (
        "__device__ void parts(float v, int& whole, float& rest) { whole = int(v); "
        "rest = v - whole; if (whole == 2) return; whole *= 2; }\n"
        "__device__ int half(int& k) { k /= 2; return k + 1; }",
        "int k; float r; parts(x, k, r); float v[2] = {y, 1}; int m = half(k); "
        "parts(v[0], m, v[1]); m += half(k); z = half(m); z += k + r + v[1] + m;"),
    "template that swaps": ("template <typename T> __device__ void exchange(T& a, "
                            "T& b) { T t = a; a = b; b = t; }", "float a = x, b = y; "
                            "if (a > b) exchange(a, b); z = b - a;"),
    "template with its argument": ("template <class T> T third(T v) { return v / 3; }",
                                   "z = third<int>(j) + third<float>(j) + third(x);"),
    "struct of a function": (
        "struct Pair { float a; int k; };\n"
        "__device__ Pair made(float v, int k) { Pair p; p.a = v; p.k = k; return p; }\n"
        "__device__ Pair next(Pair p) { p.a += 1; return Pair{p.a, p.k * 2}; }\n"
        "__device__ Pair again(Pair p) { return next(p); }\n"
        "__device__ float sum(const Pair& p) { return p.a + p.k; }",
        "Pair p = made(x, j); p = next(p); Pair q = again(p); z = sum(q) "
        "+ made(y, 2).a + sum(Pair{x, 1});"),
    "arrays by pointers": (
        "template <typename T> __device__ void sort(T* v, int n) { for (int a = 1; a < "
        "n; a++) for (int b = a; b > 0 && v[b - 1] > v[b]; b--) { T t = v[b]; v[b] = "
        "v[b - 1]; v[b - 1] = t; } }\n"
        "template <typename T> __device__ T sum(const T v[], int n) { T s{}; "
        "while (n > 0) { n--; s += v[n] * n; } return s; }\n"
        "__device__ int first(float* v, int n) { v[n - 1] *= 2; return v[0]; }",
        "float v[4] = {y, x, 1}, w[2] = {x, y}; sort(v, 4); sort(w, 2); "
        "int k = first(v, 3); z = sum(v, 4) + 10 * sum(w, 2) + k + v[2];"),
    "constants": (
        "__device__ const double C[] = {1, 2.5, 3};\nconst int N = 3, M = N - 1;\n"
        "__device__ double series(double x, const double* c, int n) { double s = 0; "
        "for (int k = 0; k < n; k++) s = s * x + c[k]; return s; }\n"
        "__device__ double at(int k) { return C[k] + M; }",
        "float N = x; z = series(N, C, 3) + at(M) + C[1];"),
    "macro that is a function": ("#define APPLY(f, v) f(v)\n__device__ float one(float "
                                 "v) { return v + 1; }", "z = APPLY(one, x);"),
    "functions that change their arguments in expressions": (
        "struct Drawn { unsigned s; };\n"
        "__device__ float next(Drawn* d) { d->s = d->s * 1664525u + 1013904223u; "
        "return (d->s >> 8) * 5.9604644775390625e-8f; }\n"
        "template <typename T> T advanced(T& v, T by) { v += by; return v * 2; }\n"
        "__device__ int taken(int* v) { v[1] += 3; return v[0]--; }",
        "Drawn d{(unsigned)j + 1}; float a = x, u, w, s; int v[2] = {j, 2}, t = 0; "
        "do { u = 2.0 * next(&d) - 1.0; w = 2.0f * next(&d) - 1; s = u*u + w*w; } "
        "while (s >= 1 || s == 0); a = 1 + advanced(a, y) * 0.5f; "
        "if (advanced(a, 1.5f) > 3) z = a; else z = -a; "
        "while (taken(v) > 0) { if (v[0] == 3) continue; t += v[1]; } "
        "for (int q = 0; advanced(a, 2.0f) < 30; q++) t += q; z += s * u - w + t + a;"),
    "a stack by pointers": (
        "__device__ int pop(const int* st, int* top) { return st[--*top]; }\n"
        "__device__ void push(int* st, int* top, int v) { st[(*top)++] = v; }",
        "int st[16] = {}, top = 0, s = 0; push(st, &top, j); push(st, &top, 3); "
        "push(st, &top, j * 2); int a = pop(st, &top), b = pop(st, &top); "
        "z = a * 10 + b + top + st[0]; while (top > 0 && s < 200) { int v = pop(st, "
        "&top); s += v * 3 + 1; if (v < j && top < 14) { st[top++] = v * 2 + 1; "
        "push(st, &top, v * 2 + 2); } } int* p = &s; z += (*p)++ * 2; z += s;"),
    "changes under conditions": (
        "template <typename T> T more(T& v) { v += 1; return v; }\n"
        "__device__ int steps(int n, float v) { int k = 0; while (n > 0 && (k++ < 3 || "
        "v > 1)) n--; return n * 10 + k; }",
        "int v[4] = {1, 3, 5, 7}, k = 4, e = 0; float a = x, s = 0; "
        "while (k > 0 && v[--k] > x + 2) s += v[k]; "
        "z = y > 0 ? more(a) * 2 : y < -2 ? (a = 5) : a; "
        "if (x > 1 && more(a) > 3 || e++ == 0 && j > 3) z += 100 * e; "
        "bool b = x > 0 || ++k > 2; b = b && (e = 7); "
        "for (int q = 0; q < 5 && (s += x) < 9; q++) z += q; "
        "const int* p = v; int t = j > 4 ? *p++ : 2; t += *p; int* w = &t; *w += b; "
        "z += s + k * 1000 + e + a + t + steps(5, x);"),
    "elements and members that change in expressions": (
        "struct P { float a; int k; };",
        "int v[4] = {j, 2}, w[3] = {1, 0, 2}, k = 1; P p{x, j}; "
        "z = p.a++ * 2; z -= --p.k * 3; z += (v[1] *= 3) + y; v[w[0]++] = v[3]-- + 5; "
        "while (v[0]-- > 1) { if (v[0] == 2) continue; z += p.k; } "
        "v[k] = k++ * 7; w[k] = (p.k = 4) + w[1]; z += v[1] + 10 * v[2] + v[3] + p.a "
        "+ 100 * w[2] + w[0] + k;"),
    "lambdas that change variables in expressions": (
        "", "float a = x; int k = j; auto f = [&](float v) { a += v; k ^= 3; "
        "return a * k; }; float c = 2 * f(y) + 1; if (f(1) > 2) c += a; z = c - k;"),
    "functions that call themselves last": (
        "int common(int a, int b) { return b == 0 ? a : common(b, a % b); }\n"
        "template <typename T> T power(T b, int n, T found) { if (n == 0) return found;"
        "if (n & 1) { T more = found * b; return power(b * b, n / 2, more); } else "
        "return power(b * b, n / 2, found); }\n"
        "__device__ float clipped(float v, int k) { if (k <= 0) return v; "
        "return v > 1 ? clipped(v / 2, k - 1) : v < -1 ? clipped(v + 3, k - 2) : v; }",
        "z = common(j * 6 + 30, 42) + power(x, j, 1.0f) * 1e-3f "
        "+ power<float>(2, 5, 1) + clipped(y * 7, j);"),
    "functions of one name": (
        "__device__ float f(float v) { return v * 2; }\n"
        "__device__ double f(double v) { return v * 0.1; }\n"
        "__device__ int f(int v) { return v / 2; }\n"
        "__device__ float f(float v, int k) { return f(v) + f(k); }\n"
        "__device__ float f(const float* v, int k) { return v[k] + f(v[0], k); }\n"
        "__device__ void g(float& v) { v += 1; }\n"
        "__device__ void g(int& v) { v *= 3; }",
        "float v[2] = {x, y}; short h = j; int k = j; g(v[1]); g(k); "
        "z = f(x) + f(0.1 * y) + f(j) + f(h) + f(true) + f(x, j) + f(v, 1) + k;"),
    "typedef": ("typedef float real;", "real r = x; z = r * real(j);"),
}
