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
    ("int k = 0;\nz = k++;", 2, r"\+\+ and -- inside an expression"),
    ("float a;\nz = (a = x) + 1;", 2, "an assignment inside an expression"),
    ("float z = x;", 1, "'z' is declared already; assign to it without a type"),
    ("int a = 1;\nint a[2];", 2, "'a' is declared already"),
    ("z = 1;\nreturn 2;", 2, "return gives no value here"),
    ("z = 1'000;", 1, "the number 1'000 is not understood here"),
    ("z = 'ab';", 1, "the number 'ab' is not understood here"),
    ("z = sqrtf(x, x);", 1, r"sqrtf\(\) takes 1 arguments, got 2"),
    ("float *p = y;", 1, "pointers are not understood"),
    ("z = *y;", 1, "a pointer is not understood"),
    ("float v[i];", 1, "the size of 'v' must be a number that is known"),
    ("float v[2] = {1, 2, 3};", 1, "'v' has 2 elements, got 3"),
    ("float v[2][2] = {{1, 2, 3}, {4}};", 1, "'v' has 2 elements, got 3"),
    ("y[atomicAdd(&y[0], 1)] += x;", 1, "an atomic function in the index"),
    ("y[atomicAdd(&y[0], 1)]++;", 1, "an atomic function in the index"),
    ("float v[2]; z = v[0][1];", 1, "'v' has 1 dimensions, got 2 indices"),
    ("float v[2]; z = v[2];", 1, "index 2 is out of range"),
    ("float v[2];\nv = 1;", 2, "'v' is an array; assign its elements"),
    ("x * 2;", 1, "the output 'z' is never assigned; write z = …"),
    ("break;", 1, "break stands outside a loop"),
    ("switch (i) { case 0: z = 1; }", 1, "'switch': this is not part"),
    ("goto end;", 1, "'goto': this is not part"),
    ("__shared__ float s[32];", 1, "shared memory: this is not part"),
    ("z = 1;\nstruct P { float a; };", 2, "structs: this is not part"),
    ("z = reinterpret_cast<int>(x);", 1, "reinterpret_cast: this is not part"),
    ("z = thing::f(x);", 1, "thing:: is not part"),
    ("int q(int a) { return a; }", 1, "cannot be read as C|a function inside"),
    ('printf("%f", x);', 1, r"printf\(\) has no place to print to"),
    ("z = 99999999999999999999;", 1, "does not fit 64 bits"),
    ('z = "text";', 1, "a string has no place"),
    ("z = y.strides()[0];", 1, r"only x\.shape\(\)\[k\]"),
    ("z = y.begin();", 1, r"y\.begin\(\) is not understood"),
    ("atomicAdd(&z, x);", 1, "the address of an element of a raw array"),
    ("atomicAdd(&y[i], x);", 1, "'y' must be a raw output"),
    ("atomicMax(&y[i]);", 1, r"atomicMax\(\) takes 2 arguments, got 1"),
    ("z = __ldg(y);", 1, "the address of an element of a raw array"),
    ("ptrdiff_t k[] = {0};\nz = y[k];", 2, "'y' does not have 1 dimensions"),
    ("float &r = z;", 1, "a reference that is not const"),
    ("z = (T*)x;", 1, "a cast to anything but a number"),
    ("#define SQ(a) ((a) * (a))\nz = SQ(x);", 1, "#define of this form"),
    ("#ifdef A\nz = x;\n#endif", 1, "#ifdef of this form"),
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
        parsed("struct P { float a; };")


@pytest.mark.parametrize(("preamble", "line", "message"), [
    ("__device__ float f(float a) {\n  return b;\n}", 2, "'b' is not declared"),
    ("__device__ float f(float a) { return f(a - 1); }", 1, r"f\(\) calls itself"),
    ("__device__ void f(float a) { }", 1, "returns a value"),
    ("\n__device__ float f(float& a) { return a; }", 2,
     "a reference that is not const"),
    ("float table = 3;\n__device__ float f(float a) { return a; }", 1,
     "a variable of the preamble"),
    ("__device__ float f(float a) {\n  int a = 1; return a;\n}", 2,
     "'a' is declared already"),
    ("template<int N> float f(float a) { return a; }", 1, "a template parameter"),
    ("__device__ float f(const float* p) { return p[0]; }", 1, "takes a raw array"),
])
def test_refused_in_the_preamble(preamble, line, message):
    with pytest.raises(ScalarSyntaxError, match=message) as caught:
        parsed("z = f(x);", preamble)
    assert caught.value.lineno == line


def test_pointers_of_the_preamble_take_raw_arrays():
    function = parsed("z = at(y, i) + at(y, 0);",
                      "__device__ T at(const T* p, int k) { return p[k + 1]; }")
    loads = [s for s in walk(function.body) if isinstance(s, Let) and s.op == "load"]
    assert [s.args[0] for s in loads] == ["y", "y"]


@pytest.mark.parametrize(("body", "same"), [
    ("#define A 1\nz = A;\n#undef A\n#define A 2\nz += A;", "z = 1; z += 2;"),
    ("/*\n#define x 5\n*/ z = x;", "z = x;"),
    ("#define A x // y\n#define B (A + \\\n 1)\nz = B;", "z = x + 1;"),
])
def test_macros_stand_for_their_text_from_there_on(body, same):
    assert parsed(body) == parsed(same)


def test_a_limit_that_atomics_change_is_read_again():
    function = parse_c("for (int k = 0; k < y[0]; k++) atomicSub(&y[0], 1);", "kernel",
                       (Parameter("y", np.dtype("int32"), raw=True, written=True),))
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
