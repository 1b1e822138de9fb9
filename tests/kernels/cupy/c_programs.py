"""Random C bodies: declarations, branches, loops and expressions of mixed types.

They take what `PREAMBLE` declares: macros, templates of types and of integers,
references, pointers, a struct, a table.

Every operation is defined in C: divisors are odd, shifts are small, conversions of
floats to integers stay in range.
"""

from __future__ import annotations

import random

TYPES = {"signed char": "int8", "unsigned char": "uint8", "short": "int16",
         "unsigned short": "uint16", "int": "int32", "unsigned int": "uint32",
         "long long": "int64", "unsigned long long": "uint64", "float": "float32",
         "double": "float64", "bool": "bool"}
PREAMBLE = """
#define TWICE(a) ((a) + (a))
#define LIMIT 40
#if LIMIT > 30 && !defined(NOTHING)
#define CHOSEN(a, b) ((a) < LIMIT ? (a) : (b))
#else
#define CHOSEN(a, b) (b)
#endif
typedef struct { float a; int b; } Pair;
template <typename T> __device__ T quarter(T v) { return v / 4; }
template <typename T> __device__ void exchange(T& a, T& b) { T c = a; a = b; b = c; }
__device__ int step(int& k, float& r) {
    k ^= 5; r = r * 0.5f + 1; if (k & 1) return k; return 2 * k; }
__device__ Pair turned(const Pair& p) { Pair q{p.b * 0.5f, int(p.b) ^ 3}; return q; }
__device__ void moved(Pair* p, int k) { p->b ^= k; (*p).a += k & 3; }
__device__ int parts(int k, int* low, unsigned* high) {
    *low = k & 15; *high = (unsigned)k >> 4; low[0] += 1; return *low - k % 3; }
template <int N, typename T> __device__ T repeated(T v) {
    T s = v; for (int k = 1; k < N; k++) s = s * 3 + v; return s; }
__device__ int walked(const int* p, int n, int* out) {
    int s = 0; const int* end = p + n;
    while (p < end) { *out = s; out++; s = s * 5 + *p++; } return s; }
__device__ int leaving(int k, int n) {
    int s = 1;
    if (k < 0) { s = -1; goto last; }
    for (int q = 0; q < 4; q++) {
        int m = 0;
        while (true) {
            m += 3; s += m ^ q;
            if (s > (n & 31)) goto middle;
            if (m > 7) break;
        }
    }
    s ^= 5;
middle:
    s = s * 3 + k;
    if (s & 1) return s;
last:
    return s * 2 - n;
}
__device__ int common(int a, int b) { return b == 0 ? a : common(b, a % b); }
__device__ long long powered(long long b, int n, long long found) {
    if (n <= 0) return found;
    if (n & 1) { return powered(b * b, n / 2, found * b); }
    return powered(b * b, n >> 1, found); }
__device__ int width(int a) { return a ^ 3; }
__device__ int width(float a) { return a > 1 ? 5 : 9; }
__device__ int width(double a) { return width((float)a) + 100; }
__device__ int width(int a, int b) { return width(a) - b; }
__device__ unsigned drawn(unsigned& s) {
    s = s * 1664525u + 1013904223u; return s >> 8; }
template <typename T> struct Best {
    T value; int at = -1;
    __device__ Best() : value(0) {}
    __device__ Best(T v, int k) : value(v), at(k) {}
    __device__ T twice() const { return value * 2; }
    __device__ void shift(int k) { at ^= k; value += T(k & 3); }
    __device__ int next() { shift(5); return at++ & 63; }
    __device__ Best operator+(const Best& o) const {
        return Best(value + o.value, at ^ o.at); }
    __device__ bool operator<(const Best& o) const { return value < o.value; }
    __device__ Best& operator+=(const Best& o) {
        value -= o.value; at += 2; return *this; }
};
template <typename T> __device__ Best<T> better(const Best<T>& a, const Best<T>& b) {
    if (a.at == -1) return b;
    return a < b ? a : Best<T>(b.value, a.at & 31); }
template <typename A, typename B> struct Two { A one; B two; };
template <typename A, typename B> __device__ Two<B, A> swapped(Two<A, B> v) {
    return Two<B, A>{v.two, v.one}; }
struct Row {
    int v[3] = {1, 2};
    __device__ int sum(int by = 3) const {
        int s = 0; for (int k = 0; k < 3; k++) s = s * by + v[k]; return s; } };
__constant__ int TABLE[5] = {7, -3, 12, 0, 5};
"""
INTEGERS = [t for t in TYPES if t not in ("float", "double", "bool")]


class Program:
    """A body that computes ``double z`` from ``float x, int j, unsigned char k``."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.whole = ["j", "k"]
        self.real = ["x"]
        self.constant: set[str] = set()
        self.count = 0

    def body(self) -> str:
        """Some statements, then the output."""
        lines = [self.statement(2) for _ in range(self.random.randint(2, 5))]
        return "\n".join([*lines, f"z = {self.floating(2)} + {self.integer(2)};"])

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def statement(self, depth: int) -> str:
        kind = self.random.choice(
            ["declare", "declare", "assign", "if", "for", "while", "switch", "pair",
             "call", "alias", "change", "pointer", "lambda", "pairs", "drawn", "best",
             "best"]
            if depth else ["declare", "assign", "pair"])
        return getattr(self, f"{kind}_")(depth)

    def inner(self, depth: int) -> str:
        """A block; what it declares is gone after it."""
        whole, real = list(self.whole), list(self.real)
        text = " ".join(self.statement(depth - 1) for _ in range(2))
        self.whole, self.real = whole, real
        return f"{{ {text} }}"

    def declare_(self, depth: int) -> str:
        name, kind = self.name(), self.random.choice(list(TYPES))
        value = self.integer(depth) if kind in INTEGERS else \
            self.condition(1) if kind == "bool" else self.floating(depth)
        (self.real if kind in ("float", "double") else self.whole).append(name)
        form = self.random.choice(["= {}", "= {}", "{{ {} }}", "((int)0 + ({}))"])
        if form[0] == "{":  # which C++ lets narrow nothing
            value = f"({kind})({value})"
        return f"{kind} {name} {form.format(value)};"

    def switch_(self, depth: int) -> str:
        """Labels in any order, some of which fall through or end early."""
        labels = self.random.sample(["case 0", "case 1", "case -2", "case 1 + 2",
                                     "default"], self.random.randint(1, 4))
        parts = []
        for label in labels:
            early = self.random.choice(["", "", f"if ({self.condition(0)}) break; "])
            parts.append(f"{label}: {early}{self.inner(depth)}"
                         + self.random.choice([" break;", " break;", ""]))
        return f"switch ((int)(({self.integer(1)}) % 4)) {{ {' '.join(parts)} }}"

    def pair_(self, depth: int) -> str:
        name, other = self.name(), self.name()
        values = f"(float)({self.floating(1)}), (int)({self.integer(1)})"
        change = self.random.choice([f"{name}.a += {self.floating(0)} * 0.5f;",
                                     f"{name} = turned({name});",
                                     f"if ({self.condition(0)}) {name} = {other};", ""])
        self.real.append(f"{name}.a")
        self.whole.append(f"{name}.b")
        return f"Pair {name}{{{values}}}, {other} = turned({name}); {change}"

    def call_(self, depth: int) -> str:
        """Variables that functions of the preamble change."""
        k, r, s = self.name(), self.name(), self.name()
        text = (f"int {k} = {self.integer(1)}; float {r}((float)({self.floating(1)})), "
                f"{s}{{1}}; ")
        self.whole.append(k)
        self.real += [r, s]
        return text + self.random.choice([
            f"int {k}_ = step({k}, {r}); {k} ^= {k}_;", f"step({k}, {s});",
            f"exchange({r}, {s});"])

    def change_(self, depth: int) -> str:
        """Variables that change inside expressions, which name them once."""
        k, m = self.name(), self.name()
        value = self.integer(1)
        text = self.random.choice([
            f"int {k} = {value}, {m} = {k}++ * 2; {m} += --{k};",
            f"int {k}, {m} = ({k} = {value}) & 7;",
            f"int {k} = {value}, {m} = 0; if ({k}-- > 3) {m} = 5; {m} ^= {k}++ & 15;",
            f"int {k} = {value} & 7, {m} = 9; while ({k}-- > 0) {{ {m} += 2; "
            f"if ({k} == 3) continue; {m} ^= {k}; }}",
            f"int {m} = {value}, {k} = 0; do {m} ^= {k}; while (++{k} < 4);",
            f"int {k}_[3] = {{{value}, 2, 7}}, {k} = {k}_[1]++ * 3, {m} = {value}; "
            f"{m} = --{k}_[({m} & 3) % 3] ^ 5; {k} += ({k}_[2] -= 4) & 31; "
            f"while ({k}_[1]-- > 0) {m} ^= {k}_[0];",
            f"Pair {k}_{{1.5f, 4}}; int {m} = 3 * {k}_.b--, {k} = {value}; "
            f"{m} -= ({k}_.a *= 2) > 2.5f; {k} ^= {k}_.b;"])
        self.whole += [k, m]
        return text

    def pointer_(self, depth: int) -> str:
        """Pointers into arrays and to variables, which move and are passed on."""
        v, p, k, m = self.name(), self.name(), self.name(), self.name()
        values = ", ".join(f"(int)({self.integer(1)})" for _ in range(3))
        start = self.random.choice([f"{v}", f"&{v}[1]", f"{v} + 2", f"&{v}[0] + 1"])
        text = (f"int {v}[4] = {{{values}}}; int* {p} = {start}; int {k} = *{p} & 63; "
                f"unsigned {m} = {p} - {v}; ")
        self.whole += [k, f"{v}[3]", f"{v}[({k}) & 3]"]
        return text + self.random.choice([
            f"*{p} += {k}; {p}[1] ^= 9;", f"{p}++; *{p} = {k} * 3; {k} += *--{p};",
            f"{k} = parts({k}, &{v}[1], &{m}); {v}[2] ^= (int){m};",
            f"{k} = walked(TABLE + 1, 3, {v}); {p} = {v} + ({k} & 1); *{p} -= 4;",
            f"{k} = walked(&{v}[1], 3, {v}); {v}[3] = {p} == &{v}[1];",
            f"for (const int* q = {v}; q < {v} + 4; q += 2) {k} = {k} * 3 + *q;",
            f"{k} ^= repeated<3>({v}[1]) + repeated<1 + 1, int>({k}) * TABLE[{m} % 5];"
        ])

    def lambda_(self, depth: int) -> str:
        """Functions inside, with and without what is around them."""
        f, k, r = self.name(), self.name(), self.name()
        text = f"int {k} = {self.integer(1)} & 31; float {r} = {self.floating(0)}; "
        self.whole.append(k)
        self.real.append(r)
        value, other = f"(int)({self.integer(0)})", f"(int)({self.integer(1)})"
        return text + self.random.choice([
            f"auto {f} = [](int a, int b) {{ if (a > b) return a - b; return b * 2; "
            f"}}; {k} += {f}({value}, {other});",
            f"auto {f} = [&](int a) {{ {k} ^= a; {r} += 0.5f; return {k} + 1; }}; "
            f"{f}({value}); int {k}_ = {f}({other}); {k} -= {k}_;",
            f"auto {f} = [=](float a) -> double {{ return a * {r} + {k}; }}; {r} = 2; "
            f"{k} *= 3; {r} += {f}({r});",
            f"auto {f} = [&{k}](int a) {{ for (int q = 0; q < 3; q++) {{ if (a & 1) "
            f"return; {k} += a; a >>= 1; }} }}; {f}({value} & 255); {f}(6);"])

    def drawn_(self, depth: int) -> str:
        """Functions that change their arguments inside expressions."""
        s, m, r = self.name(), self.name(), self.name()
        value, other = self.integer(1), self.floating(1)
        text = (f"unsigned {s} = (unsigned)({value}); int {m} = 1; "
                f"double {r} = 2.0 * ((drawn({s}) & 255) * 0.01f + ({other})); ")
        self.whole += [s, m]
        self.real.append(r)
        return text + self.random.choice([
            f"do {m} += 3; while (drawn({s}) % 5);",
            f"while (drawn({s}) & 3) {{ {m} ^= 6; if ({m} > 4) continue; {m} += 2; }}",
            f"if (drawn({s}) % 3 == 1) {m} = (int)(drawn({s}) % 17) * 3 - 1;",
            f"while ({m} < 40 && (drawn({s}) & 1 || {m} < 9)) {m} += 5;",
            f"{m} = {self.condition(1)} ? (int)(drawn({s}) & 7) : (int)({s} = 5) * 2;",
            f"if ({self.condition(0)} && drawn({s}) % 3 || ++{m} == 2) {r} += {m};",
            f"int* p{m} = &{m}; *p{m} += 3; {r} -= {self.condition(0)} ? *p{m} : "
            f"p{m}[0]++;",
            f"{s} = 7 + drawn({s}) % 100; {m} = int(drawn({s})) % 9;",
            f"float {r}_ = 1; {r} = 3 * frexp({r}, &{m}) + 1; "
            f"{r} += step({m}, {r}_) % 7;",
            f"auto f{m} = [&](int a) {{ {m} += a; return {m} * 2; }}; "
            f"{r} = 0.5f * f{m}(3);"])

    def pairs_(self, depth: int) -> str:
        """An array of structs."""
        v, k = self.name(), self.name()
        values = f"(float)({self.floating(1)}), (int)({self.integer(1)})"
        self.whole += [f"{v}[0].b", k]
        self.real.append(f"{v}[1].a")
        text = f"Pair {v}[3] = {{{{{values}}}, {{0.5f}}}}; int {k} = 0; "
        return text + self.random.choice([
            f"for (int q = 0; q < 3; q++) {{ {v}[q].b += q; {v}[2].a -= {v}[q].a; }}",
            f"{v}[2] = turned({v}[0]); moved(&{v}[1], {v}[2].b & 7); {k} = {v}[1].b;",
            f"Pair {k}_ = {v}[0]; {v}[0] = {v}[1]; {v}[1] = {k}_; {k} = {v}[1].b & 3;"])

    def best_(self, depth: int) -> str:
        """Templates of structs, with their functions and operators."""
        a, b, k = self.name(), self.name(), self.name()
        t, cast, value = self.random.choice([
            ("int", "(int)", self.integer(1)), ("float", "(float)", self.floating(1)),
            ("double", "(double)", self.floating(1))])
        text = (f"Best<{t}> {a}({cast}({value}), (int)({self.integer(0)})), {b}; "
                f"int {k} = {a}.next(); ")
        text += self.random.choice([
            f"{b} = better({a}, Best<{t}>({cast}({k}), 7)) + {b};",
            f"if ({a} < Best<{t}>(3, {k})) {{ {b} += {a}; {b}.shift({k}); }}",
            f"for (int q = 0; q < 3; q++) {{ {b} = better({b}, {a} + {b}); "
            f"{a}.shift(q); if ({b} < {a}) {k} ^= {b}.next(); }}",
            f"Best<{t}> {b}_[2] = {{{a}, {{2, {k}}}}}; {b} = {b}_[1] + {b}_[0]; "
            f"{b}_[{k} & 1] = better({b}_[1], {b}); {k} += {b}_[0].at;",
            f"Two<{t}, Best<{t}>> {b}_{{{cast}({k}), {a}}}; {b} += "
            f"swapped({b}_).one; {b}_.two.value += {b}_.one; {a} = {b}_.two;",
            f"Row {b}_, {b}r = {b}_; {b}_.v[{k} & 1] = {k} & 7; {b}_.v[2] += "
            f"{b}_.v[0]; {b}r = {b}_.v[0] > 3 ? {b}_ : {b}r; {b}r.v[1]--; "
            f"{k} ^= {b}_.sum() + {b}r.sum({k} & 3);",
            f"auto {b}_ = [=](Best<{t}> v) {{ return v + {a}; }}; {b} = {b}_({b}); "
            f"{b} = {self.condition(0)} ? {b}_({b}) : better({b}, {a});"])
        self.whole += [k, f"{a}.at", f"{b}.at"]
        places = self.whole if t == "int" else self.real
        places += [f"{b}.value", f"{a}.twice()"]
        self.constant.add(f"{a}.twice()")
        return text

    def alias_(self, depth: int) -> str:
        name, other = self.name(), self.name()
        text = (f"int {name}({self.integer(1)} & 0xFFF); int& {other} = {name}; "
                f"{other} += {self.integer(0)} & 15;")
        self.whole.append(name)
        return text

    def assign_(self, depth: int) -> str:
        names = [n for n in self.whole + self.real
                 if n.startswith("v") and n not in self.constant]
        if not names:
            return self.declare_(depth)
        name = self.random.choice(names)
        if name in self.real:
            op = self.random.choice(["=", "+=", "-=", "*="])
            return f"{name} {op} {self.floating(depth)} * 0.25f;"
        op = self.random.choice(["=", "+=", "-=", "*=", "&=", "|=", "^="])
        return f"{name} {op} {self.integer(depth)};"

    def if_(self, depth: int) -> str:
        text = f"if ({self.condition(1)}) {self.inner(depth)}"
        return text + (f" else {self.inner(depth)}" if self.random.random() < 0.5
                       else "")

    def for_(self, depth: int) -> str:
        name = self.name()
        self.whole.append(name)
        self.constant.add(name)
        head = self.random.choice([
            f"int {name} = 0; {name} < 4; ++{name}", f"int {name} = 6; {name} > 0; "
            f"{name} -= 2", f"unsigned int {name} = 1; {name} <= k % 5; {name}++"])
        jump = self.random.choice(["", f"if ({self.condition(1)}) continue; ",
                                   f"if ({name} == 2) break; "])
        inner = self.inner(depth)
        self.whole.remove(name)
        return f"for ({head}) {{ {jump}{inner} }}"

    def while_(self, depth: int) -> str:
        name = self.name()
        self.constant.add(name)
        inner = self.inner(depth)
        return self.random.choice([
            f"int {name} = 0; while ({name} < 3) {{ {name}++; {inner} }}",
            f"int {name} = 0; do {{ {name} += 2; {inner} }} while ({name} < k % 7);"])

    def integer(self, depth: int) -> str:
        pick = self.random.random()
        if not depth or pick < 0.25:
            return self.random.choice([*self.whole, str(self.random.randint(0, 200)),
                                       "7u", "3LL", "'a'", "true", "0x1F"])
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        if pick < 0.6:
            return f"({a} {self.random.choice('+-*&|^')} {b})"
        if pick < 0.75:
            return f"({a} {self.random.choice('/%')} (({b}) % 16 | 1))"
        if pick < 0.85:
            return f"(({self.random.choice(INTEGERS)})({a}))"
        if pick < 0.88:
            return self.random.choice([
                f"TWICE({a})", f"CHOSEN({a}, {b})", f"quarter<int>({a})",
                f"int{{__popc({a})}}", f"(int(({a}) & 0xFFF) bitor 3)", f"__clz({a})",
                f"max<int>({a}, {b})", f"leaving({a}, {b})",
                f"(__float_as_int((float)({a})) >> 20)", f"width((short)({a}))",
                f"common(({a}) & 0xFFF, ({b}) & 255)", f"width((int)({a}), 'a')",
                f"(int)powered(({a}) & 15, ({b}) & 7, 1)", f"width(({a}) * 0.5f)",
                f"width(({a}) & 255 ? 1.5 : 0.5)"])
        if pick < 0.93:
            return f"((({a}) & 0xFF) {self.random.choice(['<<', '>>'])} 2)"
        return f"({self.condition(depth - 1)} ? {a} : {b})"

    def floating(self, depth: int) -> str:
        pick = self.random.random()
        if not depth or pick < 0.25:
            return self.random.choice([*self.real, "0.5", "1.25f", "2.", "x * 0.1"])
        a, b = self.floating(depth - 1), self.floating(depth - 1)
        if pick < 0.6:
            return f"({a} {self.random.choice('+-*')} {b})"
        if pick < 0.7:
            return f"({a} / (1.5f + ({b}) * ({b})))"
        if pick < 0.8:
            return f"({self.random.choice(['float', 'double'])})({self.integer(1)})"
        if pick < 0.83:
            return self.random.choice([
                f"ldexp((double)({a}), ({self.integer(1)}) & 7)",
                f"__int_as_float((__float_as_int((float)({a})) & 0xFFFFFF) | "
                "0x3F000000)"])
        if pick < 0.9:
            return f"({a} * 0.5f + (({self.integer(depth - 1)}) % 11))"
        return f"({self.condition(depth - 1)} ? {a} : {b})"

    def condition(self, depth: int) -> str:
        if depth and self.random.random() < 0.3:
            op = self.random.choice(["&&", "||", "and", "or"])
            return f"({self.condition(0)} {op} !{self.condition(0)})"
        a, b = (self.integer(1), self.integer(1)) if self.random.random() < 0.6 else (
            self.floating(1), self.floating(1))
        return f"({a} {self.random.choice(['<', '<=', '>', '>=', '==', '!='])} {b})"
