"""What C bodies refuse, and where they say so."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.errors import ScalarSyntaxError
from nbfused.scalar.cparse import Parameter, number_of, parse_c, type_of
from nbfused.scalar.cparse.types import ALIASES, common_dtype, promote, type_name
from nbfused.scalar.ir.nodes import If, Let, While, walk

F32, I64 = np.dtype("float32"), np.dtype("int64")
PARAMS = (Parameter("x", F32), Parameter("y", F32, raw=True),
          Parameter("z", F32, written=True), Parameter("i", I64),
          Parameter("_ind_size", I64), Parameter("_y_size", I64),
          Parameter("_y_shape0", I64), Parameter("_y_shape1", I64))
TYPES = (("T", F32),)


def parsed(body, preamble=""):
    return parse_c(body, "kernel", PARAMS, TYPES, preamble)


@pytest.mark.parametrize(("body", "line", "message"), [
    ("z = x +;", 1, "cannot be read as C: unexpected ';'|cannot be read as C"),
    ("z = x;\nz = w;", 2, "'w' is not declared"),
    ("z = x;\n\n  z = besselk(x);", 3, r"the function besselk\(\) is not known"),
    ("z = y;", 1, "'y' is an array; index it"),
    ("z = x[0];", 1, "'x' is a number, it cannot be indexed; declare it as 'raw'"),
    ("x = 1;", 1, "'x' is an input or const"),
    ("y[i] = 1;", 1, "'y' is an input or const"),
    ("z = y[0][1];", 1, "'y' is indexed by one flat index"),
    ("const float c = 1;\nc = 2;", 2, "'c' is an input or const"),
    ("z = x % 2;", 1, "the operator % takes integers, got float32 and int32; use fmod"),
    ("z = ~x;", 1, "the operator ~ takes an integer"),
    ("int k = 1;\nz = k + k++;", 2, "'k' is named beside a .*leaves the order open"),
    ("int k = 1; int& r = k;\nz = r * ++k;", 2, "'r' is named beside"),
    ("float v[2];\nz = v[0]++ + v[0];", 2, "'v' is named beside a"),
    ("float v[2];\nz = v[0]++ + v[i];", 2, "'v' is named beside a"),
    ("float v[2], *p = v;\nz = v[0]++ + p[1];", 2, "'p' is named beside a"),
    ("struct P { float a, b; }; P p;\nz = p.a++ + p.b; P q = p; z = q.a++ + (q = p).a;",
     2, "'q' is named beside a"),
    ("int v[2], k = 0;\nz = v[k++]++;", 2, "an element whose index changes as well"),
    ("int k = 0; float v[2];\nv[k++] = k;", 2, "'k' is named beside a"),
    ("z = (x = 1) + 1;", 1, "changes variables, elements and members, no constants"),
    ("z = y[0]++;", 1, "'y' is an input or const"),
    ("int k = 1;\nz = sizeof(k++);", 2, "computed under a condition"),
    ("float z = x;", 1, "'z' is declared already; assign to it without a type"),
    ("int a = 1;\nint a[2];", 2, "'a' is declared already"),
    ("z = 1;\nreturn 2;", 2, "return gives no value here"),
    ("z = 1'000;", 1, "the number 1'000 is not understood here"),
    ("z = 'ab';", 1, "the number 'ab' is not understood here"),
    ("z = sqrtf(x, x);", 1, r"sqrtf\(\) takes 1 arguments, got 2"),
    ("float v[i];", 1, "the size of 'v' must be a number that is known"),
    ("float v[2] = {1, 2, 3};", 1, "'v' has 2 elements, got 3"),
    ("float v[2][2] = {{1, 2, 3}, {4}};", 1, "'v' has 2 elements, got 3"),
    ("y[atomicAdd(&y[0], 1)] += x;", 1, "an atomic function in the index"),
    ("y[atomicAdd(&y[0], 1)]++;", 1, "an atomic function in the index"),
    ("float v[2]; z = v[0][1];", 1, "'v' has 1 dimensions, got 2 indices"),
    ("float v[2]; z = v[2];", 1, "index 2 is out of range"),
    ("float v[2];\nv = 1;", 2, "'v' is an array; assign its elements"),
    ("break;", 1, "break stands outside a loop"),
    ("switch (x) { case 0: z = 1; }", 1, "switch takes an integer, got float32"),
    ("switch (i) {\ncase 0: z = 1;\ncase 0: z = 2; }", 3, "the case 0 stands twice"),
    ("switch (i) { default: z = 1; default: z = 2; }", 1, "default stands twice"),
    ("switch (i) {\n case i: z = 1; }", 2, "the label of a case must be an integer"),
    ("switch (i) {\n z = 1; case 0: z = 2; }", 2, "stands before its first case"),
    ("switch (i) { case 0: if (x > 0) {\n case 1: z = 2; } }", 2, "a case inside a bl"),
    ("goto end;", 1, "no label 'end' at the first level"),
    ("if (x > 0) {\n goto in; in: z = 1; }", 2, "no label 'in' at the first level"),
    ("z = *(long long*)&x;", 1, "bits of float32 are not those of int64"),
    ("z = reinterpret_cast<int>(x);", 1, "to what is no pointer and no reference"),
    ("int b; memcpy(&b, &x, 2);", 1, r"memcpy\(\) of 2 bytes to a number of 4"),
    ("int b[2]; memcpy(b, &x, 4);", 1, r"memcpy\(\) copies one number here"),
    ("z = *x;", 1, r"the bits of a number as another type are \*\(int\*\)&x"),
    ("union { float f; int k; } u;", 1, r"bits are read as another type by \*\(int"),
    ("z = std::is_same<T>::value;", 1, "is_same of 1 types is not part"),
    ("z = std::is_same<T, Q>::value;", 1, "a 'Q' where a type is expected"),
    ("again: z += 1;\nif (z < 3) goto again;", 2, "goto again leads back"),
    ("typedef struct { float a; };", 1, "a typedef of a struct without a name"),
    ("float* p;\nz = p[0];", 2, "the pointer 'p' has no array yet"),
    ("float* p;\nz = p;", 2, "'p' is a pointer that has no array yet"),
    ("float* p = x;", 1, "the pointer 'p' takes a raw array"),
    ("int* p = y;", 1, "the pointer 'p' is of int32, got an array of float32"),
    ("int* p = (int*)y;", 1, "'p' would read float32 as int32"),
    ("float v[2]; float* p = v; const float* q = y;\nz = q - p;", 2, "needs one array"),
    ("const float* p = y; const float* q = y;\nz = p + q;", 2, "is an array; index it"),
    ("const float* p = y + 0.5f;", 1, "a pointer moves by an integer, got float32"),
    ("const float* p = y;\np[1] = 2;", 2, "'y' is an input or const"),
    ("float v[2]; const float* p = v;\n*p = 2;", 2, "'v' is an input or const"),
    ("float v[2], w[2]; float* p = v;\np = w;", 2, "points into 'v' and cannot into"),
    ("y = y + 1;", 1, "'y' is an array; assign its elements"),
    ("z = *x;", 1, r"\* takes a pointer"),
    ("z = ((int*)y)[0];", 1, "only an array that has a name is indexed"),
    ("float* p = &x;", 1, "'x' is an input or const; point to it by const p"),
    ("int a = 1; float* p = &a;", 1, "'p' is of float32, got a variable of int32"),
    ("float a; const float* p = &a;\n*p = 2;", 2, "is an input or const"),
    ("int k = 1;\nz = (k++ && k) + k;", 2, "'k' is named beside a"),
    ("int k = 1;\nz = (x > 0 ? k++ : 1) - k;", 2, "'k' is named beside a"),
    ("const float* p = y;\nz = (x > 0 ? *p++ : 0) + *p;", 2, "'p' is named beside a"),
    ("const float* p = y; z = *p++ + *p;", 1, "'p' is named beside a .*order open"),
    ("__shared__ float s[32];", 1, "shared memory: this is not part"),
    ("z = 1;\nstruct P { float a; ~P() {} };", 2, "a destructor is not part of"),
    ("struct P { float* a; };", 1, "structs and arrays of these, and no pointers"),
    ("struct P { float a; }; P p; z = p.b;", 1, "no member 'b'; there are a"),
    ("struct P { float a; }; P p; z = p;", 1, "P does not convert to float32"),
    ("struct P { float a; }; P p{1, 2};", 1, "takes 1 members, a; got 2"),
    ("struct P { float a; }; struct Q { int a; };\nP p; Q q; p = q;", 2,
     "Q does not convert to P; give its members, as in P.a"),
    ("struct P { float a; }; P p; z = p + 1;", 1, "P has no operator .; define"),
    ("struct P { float a; }; const P p{1};\np.a = 2;", 2, "'p' is an input or const"),
    ("struct P { float a; }; P v[3];\nP* p = v;", 2, "into an array of structs"),
    ("struct P { float a; };\nP v[1] = {{1}, {2}};", 2, "'v' has 1 elements, got 2"),
    ("struct P { float a; }; P v[2];\nv[0] = v;", 2, "'v' is an array; index it"),
    ("auto f = [](T a) { return a + z; };", 1, "'f' does not capture 'z'; write .&."),
    ("auto f = [=](T a) {\n z = a; };", 2, "'z' is an input or const"),
    ("auto f = [](auto a) { return a; };", 1, "'a' of a lambda is auto"),
    ("auto f = [](T& a) { a = 1; };", 1, "'a' of a lambda is no value"),
    ("auto f = [](T a) {\n if (a > 1) return a;\n return 1; };", 3, "write its type"),
    ("auto f = [&](T a) { z += a; return a; };\nz = f(x) + z;", 2, "'f'|'z' is named"),
    ("auto f = [](T a) { };\nz = f(x);", 2, "returns nothing; call it in a statement"),
    ("auto f = [](T a) { return a; };\nz = f(x, x);", 2, "takes 1 arguments, got 2"),
    ("auto f = [](T a) { return a; };\nz = f;", 2, "'f' is a lambda; call it, as in f"),
    ("z = [](T a) { return a; }(x);", 1, "a lambda that is no variable of its own"),
    ("auto f = [k = 3](T a) { return a; };", 1, "the capture 'k' of a lambda"),
    ("auto f = [&](T a) mutable { return a; };", 1, "'mutable' in the head of a lam"),
    ("float v[2]; auto f = [&](T a) { v[0] = a; };", 1, "changes the array 'v'"),
    ("float v[2]; auto f = [=](T a) { return v[0]; };", 1, "copies 'v', which is"),
    ('printf("%d\\n", x);', 1, "printf: %d takes an int, got float32; write %g"),
    ('printf("%d %f", i, i);', 1, "%d takes an int, got int64; write %lld, or cast"),
    ('printf("%f", 1);', 1, "%f takes a double, got int32; write %d, or cast it"),
    ('printf("%d");', 1, "printf: %d has no value"),
    ('printf("%d", 1, 2);', 1, "the format takes 1 values, got 2"),
    ('printf("%s", x);', 1, "%s takes a text in quotes"),
    ('printf("%p", x);', 1, "'%p' is no conversion; there are %d"),
    ('printf("50%");', 1, "'%' is no conversion"),
    ('printf("%*d", 3, 4);', 1, "takes its width as a value"),
    ('printf("%hf", x);', 1, "a length that %f does not take"),
    ('printf(x);', 1, "takes a format in quotes first"),
    ('z = printf("a");', 1, "gives no value here"),
    ('printf("a\\0b");', 1, "no ASCII character but the end"),
    ('printf("' + "%d" * 33 + '"' + ", 1" * 33 + ");", 1, "at most 32 values, got 33"),
    ("struct P { float a; }; z = -P{1};", 1, "P has no operator -; define"),
    ("struct P { float a; }; P p = x;", 1, "float32 does not convert to P"),
    ("z = x.real;", 1, "a number has no member 'real'"),
    ("struct P q;", 1, "'struct P' without its members"),
    ("T t{x, 2};", 1, "the list in braces takes 1 value; got 2"),
    ("z = thing::f(x);", 1, "thing:: is not part"),
    ("int q(int a) { return a; }", 1, "cannot be read as C|a function inside"),
    ("z = 99999999999999999999;", 1, "does not fit 64 bits"),
    ('z = "text";', 1, "a string has no place"),
    ("z = y.strides()[3];", 1, r"x\.strides\(\)\[k\] needs a raw x"),
    ("z = y.shape()[3];", 1, r"only x\.shape\(\)\[k\]"),
    ("z = _ind.get()[0];", 1, r"the axis of _ind\.get\(\)\[k\] must be known"),
    ("const char* p = (const char*)y;\nz = p[0];", 2, "a byte of 'y', an array of fl"),
    ("z = y.begin();", 1, r"y\.begin\(\) is not understood"),
    ("atomicAdd(&z, x);", 1, "the address of an element of a raw array"),
    ("atomicAdd(&y[i], x);", 1, "'y' must be a raw output"),
    ("atomicMax(&y[i]);", 1, r"atomicMax\(\) takes 2 arguments, got 1"),
    ("ptrdiff_t k[] = {0};\nz = y[k];", 2, "'y' does not have 1 dimensions"),
    ("float &r = y[0];", 1, "the reference 'r' must be of a variable"),
    ("int &r = z;", 1, "the reference 'r' has another type"),
    ("z = atomicInc(&y[0], 1);", 1, "must be a raw output"),
    ("z = max<3>(x, x);", 1, "'max' is not declared"),
    ("__syncthreads();", 1, "needs the threads of a block.*nf.rawkernel"),
    ("assert(x > 0);", 1, r"assert\(\) stops no kernel"),
    ("z = (T*)x;", 1, "a cast to anything but a number"),
    ("#define SQ(a) ((a) * (a))\nz = SQ(x, 1);", 2, r"SQ\(\) takes 1 arguments, got 2"),
    ("#define SQ(a) ((a) * (a))\nz = SQ(x;", 2, "closing parenthesis is missing"),
    ("#define F(a, ...) a\nz = F(x);", 1, "any number of arguments"),
    ("#define F(a) #a\nz = F(x);", 1, "# makes a string"),
    ("z = 1;\n#ifdef A\nz = x;", 2, "#if without #endif"),
    ("z = 1;\n#endif", 2, "#endif without #if"),
    ("#if 1\n#else\n#elif 1\n#endif", 3, "#elif without #if"),
    ("#if 1.5\n#endif", 1, "'1.5' is no integer"),
    ("#if 1 +\n#endif", 1, "a number is missing"),
    ("#if 4 / 0\n#endif", 1, "division or modulo by zero|by zero"),
    ("#if __CUDA_ARCH__ >= 600\nz = x;\n#endif", 1, "a macro of a compiler"),
    ("z = x;\n#error no\n", 2, "#error no"),
    ("z = x;\n#line 7\n", 2, "#line is not understood"),
])
def test_refused(body, line, message):
    with pytest.raises(ScalarSyntaxError, match=message) as caught:
        parsed(body)
    assert caught.value.lineno == line
    assert caught.value.filename == "<body of kernel>"
    assert body.split("\n")[line - 1].strip() in str(caught.value)


def test_refusals_name_what_is_understood_and_the_way_out():
    with pytest.raises(ScalarSyntaxError, match=r"Understood are .*nf\.RawKernel"):
        parsed("z = w;")
    with pytest.raises(ScalarSyntaxError, match=r"Python function.*nf\.RawKernel"):
        parsed("union P { float a; };")


@pytest.mark.parametrize(("preamble", "line", "message"), [
    ("__device__ float f(float a) {\n  return b;\n}", 2, "'b' is not declared"),
    ("__device__ float f(float a) { return; }", 1, "returns a value"),
    ("__device__ float f(float a) { if (a > 1) goto on; return a; on: a = 2; }", 1,
     "ends without a value after a goto"),
    ("__device__ float f(float a) {\n  int a = 1; return a;\n}", 2,
     "'a' is declared already"),
    ("__device__ float f(float a) {\n  return a * f(a - 1);\n}", 2,
     r"f\(\) calls itself other than by return f\(…\).*write a loop, with an array"),
    ("__device__ float g(float);\n__device__ float f(float a) { return g(a); }\n"
     "__device__ float g(float a) { return f(a); }", 3, "by way of another function"),
    ("__device__ float f(float a) {\n  for (;;) return f(a - 1);\n}", 2,
     r"f\(\) calls itself inside a loop"),
    ("__device__ float f(float a) {\n  return f(a, 1);\n}", 2, "takes 1 arguments"),
    ("template<typename T>\ntypename std::enable_if<std::is_integral<T>::value, T>"
     "::type f(T a) { return a; }", 1, "enable_if .write one template that chooses"),
    ("template<typename T, std::enable_if_t<true, int> = 0> T f(T a) { return a; }", 1,
     "enable_if_t .write one template that chooses"),
    ("template<typename T> requires (sizeof(T) > 4) T f(T a) { return a; }", 1,
     "a requires clause .write one template that chooses"),
    ("template<typename T> T f(T a) { return a; }\ntemplate<> float f(float a);", 2,
     r"a template that is written again for some types .choose"),
    ("template<int N> struct P { float a; };", 1, "whose parameter is an integer"),
    ("template<int N = 2> float f(float a) { return a; }", 1, "a value by default"),
    ("template<P q> float f(float a) { return a; }", 1, "no type and no integer"),
    ("float table;\n__device__ float f(float a) { return a; }", 1,
     "the variable 'table' of the preamble is no constant"),
    ("__device__ float f(const float* p) { return p[0]; }", 1, "takes a raw array"),
])
def test_refused_in_the_preamble(preamble, line, message):
    with pytest.raises(ScalarSyntaxError, match=message) as caught:
        parsed("z = f(x);", preamble)
    assert caught.value.lineno == line


@pytest.mark.parametrize(("body", "preamble", "message"), [
    ("z = f(x);", "__device__ void f(float a) { }", "returns nothing; call it in a st"),
    ("f(x);", "__device__ void f(float a) { return 1; }", "void and returns nothing"),
    ("float a = x; z = f(a) + a;", "__device__ float f(float& a) { return a++; }",
     r"'a' is named beside a call of f\(\) inside an expression, where C\+\+ leaves"),
    ("float a = x; z = f(a) * f(a);", "__device__ float f(float& a) { return a++; }",
     "'a' is named beside a call of f"),
    ("float a = x; z = (x > 0 && f(a) > 1) + a;", "__device__ float f(float& a) "
     "{ return a++; }", "'a' is named beside a change inside an expression"),
    ("float a = x; z = 1 + f(a);", "__device__ void f(float& a) { a = 1; }",
     "returns nothing; call it in a statement"),
    ("z = f(i);", "float f(float a) { return a; } float f(double a) { return a; }",
     "2 functions f.. take 1 arguments, and none of them fits these best; cast"),
    ("z = f(x, x);", "float f(float a) { return a; } float f(float* a) { return *a; }",
     "takes 1 arguments, got 2"),
    ("float a = x; float b = f(a, a);", "__device__ float f(float& a, float& b) "
     "{ a = b; return b; }", "'a' is given by reference, and changed by the call"),
    ("f(x);", "__device__ void f(float& a) { a = 1; }", "'x' is an input or const"),
    ("f(z + 1);", "__device__ void f(float& a) { a = 1; }", "takes a variable or an"),
    ("f(y[atomicAdd(&y[0], 1)]);", "__device__ void f(float& a) { a = 1; }",
     "must be a raw output"),
    ("f(i);", "__device__ void f(float& a) { a = 1; }", "is of float32, got int64"),
    ("const float v[2] = {1};\nf(v);", "__device__ void f(float* p) { p[0] = 1; }",
     "'p' is an input or const"),
    ("float v[2][2]; f(v);", "__device__ void f(float* p) { }", "of one dimension"),
    ("float v[2]; z = f(v) + v[0];", "int f(float* p) { p[0] = 1; return 1; }",
     "'v' is named beside a call of f"),
    ("float v[2]; f(v, v[0]);",
     "__device__ void f(float* p, float& q) { p[0] = q = 1; }", "'v' is given twice"),
    ("K = 1;", "const float K = 2;", "'K' is an input or const"),
    ("K = 1;", "float K = 2;", "'K' is an input or const"),
    ("z = f<3>(x);", "template<int N> __device__ float f(float a) { N = 2; return a; }",
     "'N' is an input or const"),
    ("z = f<int>(x);", "template<int N> __device__ float f(float a) { return a * N; }",
     "the template argument N of f is an integer"),
    ("z = f<i>(x);", "template<int N> __device__ float f(float a) { return a * N; }",
     "N of f must be an integer that is known"),
    ("z = f<2, 3>(x);", "template<int N> __device__ float f(float a) { return a * N; }",
     "takes 1 template arguments, got 2"),
    ("z = f(x);", "template<int N> __device__ float f(float a) { return a * N; }",
     "N of f.* cannot be told from the arguments; write f<N>"),
    ("f(&i);", "__device__ void f(float* a) { *a = 1; }", "is of float32, got a var"),
    ("f(&x);", "__device__ void f(float* a) { *a = 1; }", "'x' is an input or const"),
    ("f(&z, &z);", "__device__ void f(float* a, float* b) { *a = *b; }", "given twice"),
    ("z = f(&x);", "__device__ float f(const float* a) { return a[1]; }",
     "points to one variable, which is a.0."),
    ("z = f(&x);", "__device__ float f(const float* a) { return a; }",
     "'a' is a pointer; take its value, as in .a"),
    ("f(y, x);", "__device__ void f(float* p, float a) { p[0] = a; }",
     "'p' is an input or const"),
    ("f(y);", "__device__ void f(int* p) { p[0] = 1; }", "is of int32, got an array"),
    ("z = f(x, 1);", "template<typename U> __device__ U f(U a, U b) { return a + b; }",
     r"U of f\(\) is both float32 and int32; write f<T>"),
    ("z = f(1);", "template<typename U> __device__ U f(int a) { return a; }",
     "U of f.* cannot be told from the arguments"),
    ("z = f<int, int>(1);", "template<typename U> __device__ U f(U a) { return a; }",
     "takes 1 template arguments, got 2"),
])
def test_refused_calls_of_the_preamble(body, preamble, message):
    with pytest.raises(ScalarSyntaxError, match=message):
        parsed(body, preamble)


def test_pointers_of_the_preamble_take_raw_arrays():
    function = parsed("z = at(y, i) + at(y, 0);",
                      "__device__ T at(const T* p, int k) { return p[k + 1]; }")
    loads = [s for s in walk(function.body) if isinstance(s, Let) and s.op == "load"]
    assert [s.args[0] for s in loads] == ["y", "y"]


@pytest.mark.parametrize(("body", "same"), [
    ("#define A 1\nz = A;\n#undef A\n#define A 2\nz += A;", "z = 1; z += 2;"),
    ("/*\n#define x 5\n*/ z = x;", "z = x;"),
    ("#define A x // y\n#define B (A + \\\n 1)\nz = B;", "z = x + 1;"),
    ("#define SQ(a) ((a) * (a))\nz = SQ(x +\n 1);", "z = (x + 1) * (x + 1);"),
    ("#define F(a, b) a##b\n#define FAB G\n#define G(q) q + 1\nz = F(F, AB)(x);",
     "z = x + 1;"),
    ("#define f(a) f(a + 1)\n#define fabsf(a) fabsf(a)\nz = fabsf(x);",
     "z = fabsf(x);"),
    ("#define NONE() 3\n#define F x\nz = NONE() + F;", "z = 3 + x;"),
    ("#define A 2\n#if A == 2 && !defined(B)\nz = x;\n#else\nz = w;\n#endif", "z = x;"),
    ("#if 0\n#if 1\nz = w;\n#else\nz = 'v\n#endif\n#elif 1 ? 0 : 1\nz = w;\n"
     "#elif 7 % 4 << 1 == 6 and -7 / 2 == -3\nz = x;\n#else\nz = w;\n#endif", "z = x;"),
    ("#define A\n#undef A\n#ifndef A\nz = x;\n#endif", "z = x;"),
    ("#if (B | 0x10u) & ~0x1L && 010 == 8\nz = x;\n#endif", "z = x;"),
])
def test_macros_stand_for_their_text_from_there_on(body, same):
    assert parsed(body) == parsed(same)


def test_an_element_has_two_addresses():
    assert parsed("z = __ldg(y + i);") == parsed("z = __ldg(&y[i]);")
    assert parsed("z = __ldg(y);") == parsed("z = __ldg(&y[0]);")
    with pytest.raises(ScalarSyntaxError, match="'k' is an array; index it"):
        parsed("int k[2]; z = __ldg(y + k);")


def test_a_limit_that_atomics_change_is_read_again():
    function = parse_c("for (int k = 0; k < y[0]; k++) atomicSub(&y[0], 1);", "kernel",
                       (Parameter("y", np.dtype("int32"), raw=True, written=True),))
    assert any(isinstance(s, While) for s in walk(function.body))


@pytest.mark.parametrize("body", [
    "for (int k = 0; k < 4; k++) { bump(k); z += 1; }",
    "for (int k = 0; k < 4; k++) { int& r = k; r++; z += 1; }",
    "int m = 4; int& r = m; for (int k = 0; k < m; k++) { r--; z += x; }"])
def test_a_counter_that_a_reference_changes_is_no_range(body):
    function = parsed(body, "__device__ void bump(int& k) { k++; }")
    assert any(isinstance(s, While) for s in walk(function.body))


def test_a_loop_that_counts_is_a_for():
    counted = "for (int k = 0; k < 4; k++) z += x;"
    assert not any(isinstance(s, While) for s in walk(parsed(counted).body))
    stopped = "for (int k = 0; k < 4; k++) { z += x; if (z > 9) k = 4; }"
    assert any(isinstance(s, While) for s in walk(parsed(stopped).body))


def test_operands_that_must_not_be_computed_are_not():
    function = parsed("z = i > 0 && y[i - 1] > 0;")
    (branch,) = [s for s in walk(function.body) if isinstance(s, If)]
    assert any(isinstance(s, Let) and s.op == "load" for s in walk(branch.then))
    assert not any(isinstance(s, Let) and s.op == "load"
                   for s in function.body.statements)


def test_the_same_text_is_parsed_once():
    assert parsed("z = x;") is parsed("z = x;")
    assert parsed("z = x + 1;") == parsed("  z = x + 1; // more")


@pytest.mark.parametrize(("text", "value"), [
    ("0", 0), ("-1", -1), ("-INFINITY", -np.inf), ("1e30", F32.type(1e30)), ("T(2)", 2),
    ("2 * 3 + 1", 7), ("-FLT_MAX", np.finfo(F32).min), ("INT_MIN", -2.0**31),
    ("1 / 2", 0), ("1 / 2.", 0.5)])
def test_constant_expressions(text, value):
    found = number_of(text, "kernel", F32, TYPES)
    assert found == value
    assert found.dtype == F32


@pytest.mark.parametrize(("text", "dtype"), [
    ("T", "float32"), ("double", "float64"), ("unsigned long long", "uint64"),
    ("int8_t", "int8"), ("complex<float>", "complex64"), ("size_t", "uint64"),
    ("const int", "int32"), ("short", "int16")])
def test_types(text, dtype):
    assert type_of(text, "kernel", TYPES) == np.dtype(dtype)


def test_usual_arithmetic_conversions():
    def types(*names):
        return [ALIASES[type_name(n.split())] if " " in n or n in ("int", "char")
                else ALIASES[n] for n in names]

    for a, b, expected in (("int8", "uint8", "int32"),
                           ("int", "unsigned int", "uint32"),
                           ("long long", "unsigned int", "int64"),
                           ("int64", "uint64", "uint64"), ("uint16", "int", "int32"),
                           ("int64", "float32", "float32"), ("half", "int", "float32"),
                           ("float32", "double", "float64"), ("bool", "bool", "int32"),
                           ("complex64", "float64", "complex128"),
                           ("complex64", "int64", "complex64")):
        first, second = types(a, b) if b != "double" else (ALIASES[a], np.dtype(float))
        found = common_dtype(first, second)
        assert found == common_dtype(second, first) == np.dtype(expected)
    assert promote(np.dtype("float16")) == F32
    assert promote(np.dtype("bool")) == np.dtype("int32")
