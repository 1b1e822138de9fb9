"""Preambles with structs as C++ has them, in the style of CuPy's kernels."""

from __future__ import annotations

__all__ = ["MINIMA", "STRUCTS"]

MINIMA = """
template <typename T>
struct least {
    T value;
    int at;
    __device__ least() : value(), at(-1) {}
    __device__ least(T v) : value(v), at(0) {}
    __device__ least(T v, int k) : value(v), at(k) {}
};
template <typename U>
inline __device__ bool is_number(U v) { return v == v; }
template <typename T>
__device__ least<T> lesser(const least<T>& a,
                           const least<T>& b) {
    if (b.at < 0 || a.at < 0) return a.at < 0 ? b : a;
    if (!is_number(a.value)) return is_number(b.value) || a.at < b.at ? a : b;
    if (!is_number(b.value) || b.value < a.value) return b;
    return a.value < b.value ? a : least<T>(a.value, min(a.at, b.at));
}
"""

#: By name: the preamble, and a body of ``float x, float y, int j`` → ``double z``.
STRUCTS = {
    "pairs for arguments of minima": (
        MINIMA,
        "least<float> a(x, j), b = least<float>(y, 2), none; "
        "least<float> c = lesser(a, lesser(none, b)); "
        "z = c.value + 10 * c.at + none.at + lesser(a, a).at;"),
    "template of a struct": (
        "template<typename T> struct pair { T a; T b; };\n"
        "template <typename T> __device__ pair<T> turned(const pair<T>& p) "
        "{ pair<T> q{p.b, p.a / 2}; return q; }\n"
        "template <typename T> __device__ T sum(pair<T> p) { return p.a + p.b; }",
        "pair<float> p{x, y}; pair<int> q = {j, 3}; p = turned(p); q.a += 1; "
        "z = sum(p) + sum(turned(q)) + turned(turned(p)).a;"),
    "functions and operators of a struct": (
        "struct vec {\n"
        "  float x, y;\n"
        "  __device__ vec(float x, float y) : x(x), y(y) {}\n"
        "  __device__ float dot(const vec& o) const { return x * o.x + y * o.y; }\n"
        "  __device__ vec operator+(const vec& o) const { return vec(x + o.x, "
        "y + o.y); }\n"
        "  __device__ vec operator-() const { return vec(-x, -y); }\n"
        "  __device__ vec& operator+=(const vec& o) { x += o.x; this->y += o.y; "
        "return *this; }\n"
        "  __device__ bool operator<(const vec& o) const { return dot(*this) < "
        "o.dot(o); }\n"
        "  __device__ void scale(float f) { x *= f; y *= f; }\n"
        "  __device__ float operator[](int k) const { return k == 0 ? x : y; }\n"
        "  __device__ float operator()(float t) const { return x * t + y; }\n"
        "};\n"
        "__device__ vec operator*(float f, const vec& v) { return vec(f * v.x, "
        "f * v.y); }",
        "vec a(x, y), b = -a + 2.0f * vec(j, 1); b += a; a.scale(0.5f); "
        "z = a.dot(b) + (a < b) * 100 + b[1] - (a + b)[0] + a(3) + (2.0f * a).y;"),
    "complex pairs": (
        "template <typename T>\nclass cplx {\npublic:\n"
        "  typedef T value_type;\n  T re, im;\n"
        "  __device__ cplx() : re(0), im(0) {}\n"
        "  __device__ cplx(value_type r) : re(r), im(0) {}\n"
        "  __device__ cplx(T r, T i) : re(r), im(i) {}\n"
        "  __device__ T norm() const { T n = re * re + im * im; return n; }\n"
        "};\n"
        "template <typename T> __device__ cplx<T> operator*(cplx<T> a, cplx<T> b) {\n"
        "  return cplx<T>(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); }\n"
        "template <typename T> __device__ cplx<T> operator+(cplx<T> a, cplx<T> b) {\n"
        "  return {a.re + b.re, a.im + b.im}; }\n"
        "template <typename T> __device__ cplx<T> power(cplx<T> a, int n) {\n"
        "  cplx<T> r(1); for (int k = 0; k < n; k++) r = r * a; return r; }",
        "cplx<double> a(x * 0.5, y * 0.25), s; for (int k = 0; k < 4; k++) "
        "s = s + power(a, k); z = s.norm() + (a * cplx<double>(2)).im;"),
    "values by default": (
        "struct acc { double sum = 0; int n{2}; float most = -3.5f; };\n"
        "struct counted {\n  long long n = 7; float v;\n"
        "  __device__ counted(float v) : v(v) {}\n"
        "  __device__ counted(float v, int k) : counted(v + k) { n += k; }\n};",
        "acc a, b{x}, c = {y, j}; counted d(x), e(y, j); a.sum += b.sum * b.n; "
        "z = a.sum + a.n + a.most + c.sum * c.n + c.most + d.n * d.v + e.n + e.v;"),
    "structs of structs": (
        "template <typename T> struct pair { T a, b; };\n"
        "template <typename T> struct both { pair<T> low; pair<T> high; int n; };\n"
        "template <typename T> __device__ both<T> made(T v, int n) {\n"
        "  both<T> r; r.low = pair<T>{v, v + 1}; r.high = {v * 2, v * 3}; r.n = n;\n"
        "  return r; }\n"
        "template <typename T> __device__ both<T> more(const both<T>& r) {\n"
        "  both<T> s = r; s.low.a += r.high.b; return made(s.low.a, s.n + 1); }\n"
        "__device__ pair<float> first(pair<float> a, pair<pair<float>> b) { "
        "return {a.a, b.a.b + b.b.b}; }",
        "both<float> r = made(x, j); pair<pair<float>> p{{x, y}, {y, 1}}; "
        "p.a = first({x, p.a.b}, pair<pair<float>>{{1, 2}, {y, x}}); "
        "r = y > 0 ? more(r) : made(y, 1); both<float> s = more(more(r)); "
        "z = r.low.a + r.high.b * r.n + s.n + s.low.b + p.a.b * p.b.b;"),
    "members that variables hide": (
        "struct P { int n; float v;\n"
        "  __device__ float f(float n) const { float s = n; { float v = 2; s += v; } "
        "return s + v; }\n"
        "  __device__ float g() { for (int v = 0; v < 3; v++) n += v; return n * v; }\n"
        "  __device__ float both(float k) { float s = f(k); return s + this->g(); } };",
        "P p{j, x}; z = p.f(y) + p.n; z += p.both(2); z += p.n * 10; "
        "z += p.f(1);"),
    "static functions": (
        "template <typename T> struct ops { T unused;\n"
        "  static __device__ T twice(T v) { return v * 2; }\n"
        "  static __device__ T four(T v) { return twice(twice(v)); } };\n"
        "struct one { int k; __device__ static int up(int v) { return v + 1; } };",
        "z = ops<int>::twice(j) + ops<float>::four(x) + one::up(j) + "
        "ops<int>::twice(2.7f);"),
    "overloads beside templates": (
        "template <typename T> struct box { T v; };\n"
        "template <typename T> __device__ float f(T v) { return v * 2; }\n"
        "template <typename T> __device__ float f(box<T> b) { return f(b.v) + 1; }\n"
        "__device__ float f(int k) { return k * 100; }\n"
        "template <typename T> __device__ T largest(T a, T b) { return a > b ? a : b; "
        "}\n__device__ float largest(float a, float b) { return a > b ? a : b + 0.5f; "
        "}",
        "z = f(x) + f(j) + f(2.5) + largest(x, y) + largest(j, 3);"),
    "types of one shape": (
        "struct meters { float v; };\nstruct feet { float v; };\n"
        "__device__ float shown(meters m) { return m.v; }\n"
        "__device__ float shown(feet f) { return f.v * 0.3048f; }",
        "meters m{x}; feet f{y}; z = shown(m) + 10 * shown(f);"),
    "counters that change": (
        "struct lcg {\n  unsigned s;\n"
        "  __device__ lcg(unsigned seed) : s(seed * 747796405u + 1u) {}\n"
        "  __device__ float next() {\n    s = s * 1664525u + 1013904223u;\n"
        "    return (s >> 8) * 5.9604644775390625e-8f;\n  }\n"
        "  __device__ void skip(int n) { for (int k = 0; k < n; k++) next(); }\n};\n"
        "template <typename R> __device__ float normal(R& r) { float s = 0; "
        "for (int k = 0; k < 12; k++) s += r.next(); return s - 6; }",
        "lcg r(j + 1); float a = r.next(); r.skip(3); float b = 2 * normal(r) + 1; "
        "z = a + b; while (r.next() > 0.3f) z += 1;"),
    "operators of vectors of CUDA": (
        "__device__ float2 operator+(float2 a, const float2& b) { return make_float2("
        "a.x + b.x, a.y + b.y); }\n"
        "__device__ float2 operator*(float a, float2 b) { return make_float2(a * b.x, "
        "a * b.y); }\n__device__ void operator-=(float2& a, float2 b) { a.x -= "
        "b.x; a.y -= b.y; }",
        "float2 p = make_float2(x, y), q = 2 * p + p; q -= p; z = q.x + 10 * q.y;"),
    "structs of the body": (
        "", "struct P { float a; int k; float sum() const { return a + k; } "
        "void up() { k++; } bool operator==(const P& o) const { return k == o.k; } }; "
        "P p{x, j}, q = p; q.up(); q.up(); bool same = p == q; p.up(); p.up(); "
        "z = p.sum() + (p == q) * 10 + same;"),
    "structs in lambdas, loops and conditions": (
        "template <typename T> struct span { T lo, hi;\n"
        "  __device__ span(T a, T b) : lo(a < b ? a : b), hi(a < b ? b : a) {}\n"
        "  __device__ T size() const { return hi - lo; }\n"
        "  __device__ bool has(T v) const { return lo <= v && v < hi; } };\n"
        "template <typename T> __device__ span<T> halved(span<T> s, T v, int n) {\n"
        "  if (n == 0) return s; T m = (s.lo + s.hi) / 2;\n"
        "  return v < m ? halved(span<T>(s.lo, m), v, n - 1)\n"
        "               : halved(span<T>(m, s.hi), v, n - 1); }",
        "auto grown = [](span<float> s, float by) { return span<float>(s.lo - by, s.hi "
        "+ by); }; span<float> s(x, y); for (int k = 0; k < 3; k++) { if (s.has(0)) "
        "break; s = grown(s, k * 0.5f); } auto t = j > 3 ? s : span<float>(y, 1); "
        "z = s.size() + t.size() * 10 + (t.has(x) ? grown(t, 1).size() : s.lo) "
        "+ halved(span<float>(-4, 4), x, j).size();"),
    "arrays of structs that are made": (
        "template <typename K, typename V> struct entry { K key = 3; V value = 1; "
        "typedef K key_type; using value_type = V;\n"
        "  __device__ value_type twice() const { return value_type(value * 2); } };",
        "z = 0; entry<int, float> v[4] = {{j, x}, {2}}; v[2].value = y; v[3] = v[0]; "
        "for (int k = 0; k < 4; k++) z += v[k].key * v[k].twice() * (k + 1); "
        "z += v[1].value;"),
    "arrays in structs": (
        "const int SIZE = 3;\ntemplate <typename T> struct vec3 { T v[SIZE];\n"
        "  __device__ vec3(T a = 0, T b = 0, T c = 1) : v{a, b, c} {}\n"
        "  __device__ T dot(const vec3& o) const { T s = 0;\n"
        "    for (int k = 0; k < SIZE; k++) s += v[k] * o.v[k]; return s; }\n"
        "  __device__ T operator[](int k) const { return v[k]; }\n"
        "  __device__ vec3 operator+(const vec3& o) const { vec3 r;\n"
        "    for (int k = 0; k < SIZE; k++) r.v[k] = v[k] + o.v[k]; return r; } };\n"
        "struct mat { float m[2][2]; int n = 4; int at[2] = {5, 6};\n"
        "  __device__ float det() const { return m[0][0] * m[1][1] - m[0][1] * "
        "m[1][0]; } };\n"
        "__device__ mat turned(mat a, int k) { a.m[k & 1][1 - (k & 1)] *= 2; "
        "a.m[0][0] += a.at[k & 1]; a.at[1]++; return a; }",
        "vec3<float> a(x, y), b(1, 2, 3); a = a + b; a.v[1] -= 0.5f; a.v[j % 3] += 10; "
        "mat q{{{x, y}, {y, 2}}}, p = turned(q, j); p = x > y ? p : q; "
        "struct L { int k[4]; } l[2] = {{{1, 2}}, {{j}}}; l[1].k[j & 3] = 7; "
        "l[j & 1].k[2] = l[1].k[0]; z = a.dot(b) + p.det() + p.n + p.at[0] + p.at[1] + "
        "a[2] + turned(p, 1).m[1][0] + l[0].k[2] + l[1].k[3] * 100 + l[0].k[1] "
        "+ sizeof(mat) + sizeof(l[0].k);"),
    "parameters with values": (
        "template <typename T> struct cplx { T re, im;\n"
        "  __device__ cplx(T re = T(), T im = T(0)) : re(re), im(im) {}\n"
        "  __device__ T at(T x, T scale = 2, int n = 1 + 2) const { return re * x * "
        "scale + im * n; } };\n"
        "__device__ float f(float v, int k = 3, float w = 0.5f) { return v * k + w; }\n"
        "__device__ float f(int v) { return v * 100; }\n"
        "template <typename T> __device__ T g(T v, T w = 7) { return v + w; }\n",
        "cplx<float> a, b(x), c(x, y); cplx<double> d = x; z = a.re + b.at(2) + "
        "c.at(y, 3) + c.at(1, 2, 5) + d.at(y) + f(x) + f(x, 2) + f(j) + f(x, 1, y) + "
        "g(x) + g(j);"),
    "pointers to structs": (
        "struct stack { int top; float sum;\n"
        "  __device__ void push(float v) { top++; sum += v; }\n"
        "  __device__ float mean() const { return sum / top; } };\n"
        "__device__ void fill(stack* s, int n) { for (int k = 0; k < n; k++) "
        "s->push(k * 1.5f); }\n"
        "template <typename S> __device__ float meant(const S* s) { return s->mean(); "
        "}",
        "stack s{1, x}; fill(&s, j); z = meant(&s) + s.top; s.push(y); z += s.mean();"),
    "names of types": (
        MINIMA + "typedef least<float> mm; template <typename T> __device__ int "
        "place(T a, T b) { using P = least<T>; P p(a, 1), q(b, 2); "
        "return lesser(p, q).at; }",
        "mm a(x, 5), b = mm(y); z = lesser<float>(a, b).at + place(x, y) + "
        "place<int>(j, 3) + static_cast<mm>(x).at + sizeof(mm);"),
}
