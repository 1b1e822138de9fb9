"""What the text for HIP looks like, and that it computes what it says."""

from __future__ import annotations

import math
import re
from functools import cache

import numpy as np
import pytest

import nbfused as nf
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.language.names import load, philox, sigmoid
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.printing.hip import Raw, ctype, statements, storage_type
from nbfused.scalar.printing.hip_operations import literal
from nbfused.scalar.typing.promotion import compute_dtype
from nbfused.scalar.typing.types import Typed, Weak, specialize
from nbfused.support.dtypes import DTYPES
from tests.scalar.kernels import numbers
from tests.scalar.printing.hip import Library, Printed, needs_gxx

F32, F64, I32, I64 = (np.dtype(t) for t in ("f4", "f8", "i4", "i8"))


def typed(pyfunc, *types) -> Typed:
    return specialize(parse(pyfunc), tuple(
        t if isinstance(t, Weak) else DTYPES[t] for t in types))


def lines(t: Typed, *arguments, results=("out",), **options) -> list[str]:
    """The statements without the lines of Python."""
    given = dict(zip(t.function.params, arguments, strict=True))
    return [line for line in statements(t, given, results, **options)
            if not line.lstrip().startswith("//")]


# The text --------------------------------------------------------------------------


def test_the_text_is_readable():
    # No other test has this function: equal ones share the text of the first.
    def swish(x, beta):
        opening = sigmoid(beta*x)
        return x*opening

    t = typed(swish, "float32", Weak("float"))
    first = swish.__code__.co_firstlineno
    assert statements(t, {"x": "x", "beta": "beta"}, ["out"]) == [
        f"// {first + 1}: opening = sigmoid(beta*x)",
        "const float t_1 = beta * x;",
        "const float e_1 = nbf::exp(-nbf::abs(t_1));",
        "const float opening_1 = ((t_1 >= 0.0f) ? 1.0f : e_1) / (1.0f + e_1);",
        f"// {first + 2}: return x*opening",
        "const float out = x * opening_1;",
    ]


def test_a_line_that_continues_does_not_hide_what_follows():
    def f(x):
        y = sigmoid(x) + \
            x
        return y

    text = statements(typed(f, "float32"), {"x": "x"}, ["out"])
    comments = [line for line in text if line.startswith("//")]
    assert comments[0].endswith(": y = sigmoid(x) +")
    assert not any(line.endswith("\\") for line in text)


def test_what_another_file_has_stands_in_the_line_of_the_call():
    def halves(p):
        q = p/2
        return q*q

    def raised(p, k: nf.literal):
        return p**k

    text = ("def f(x):\n    y = sigmoid(x)\n    z = halves(y)\n"
            "    return z + raised(y, 2)\n")
    t = function(text, {"halves": halves, "sigmoid": sigmoid, "raised": raised})
    assert [line for line in statements(t, {"x": "x"}, ["out"]) if "//" in line] == [
        "// 2: y = sigmoid(x)", "// 3: z = halves(y)", "// 4: return z + raised(y, 2)"]


def test_blocks_have_braces():
    def f(x, n):
        for k in range(n):
            x = x/2 if k > 3 else x + k
        while x > 3:
            x = x - 1
        if x < 0:
            x = -x*x
        return x

    text = lines(typed(f, "float64", "int64"), "x", "n")
    assert text[:3] == [
        "const int64_t count_1 = nbf::maximum(n, int64_t(0));", "double x_1 = x;",
        "for (int64_t index_1 = 0; index_1 < count_1; ++index_1) {"]
    shape = "".join(c for line in text for c in line if c in "{}")
    assert shape.count("{") == shape.count("}") == 6
    assert any(re.match(r"while \(x_\d > 3.0\) \{", line) for line in text)


def test_results_are_declared_or_assigned():
    t = typed(lambda a, b: (b, a + b), "int32", "int32")
    assert lines(t, "a", "b", results=("r", "s")) == [
        "const int32_t r = b;", "const int32_t s = nbf::add(a, b);"]
    assert lines(t, "a", "b", results=("a", "b"), declare=False) == [
        "const auto next = nbf::add(a, b);", "a = b;", "b = next;"]


def test_types():
    assert [ctype(DTYPES[n]) for n in ("bool", "int8", "float16", "complex64")] == [
        "bool", "int8_t", "float", "nbf::complex<float>"]
    assert [storage_type(DTYPES[n]) for n in ("bool", "int8", "bfloat16", "float64",
                                              "complex128")] == [
        "uint8_t", "int8_t", "uint16_t", "double", "nbf::complex<double>"]


def test_a_raw_array_is_indexed_with_its_strides():
    t = typed(lambda table, i, j: load(table, i, j)*2, "float16", Weak("int"),
              Weak("int"))
    raw = Raw("p", ("s0", "1"), DTYPES["float16"])
    assert lines(t, raw, "i", "j") == [
        "const float t_1 = nbf::from_f16(p[i * s0 + j]);",
        "const float out = t_1 * 2.0f;"]


#: Names in Python; in C++ words, macros, types, or nothing.
NAMES = ("register", "NULL", "M_PI", "signed", "asm", "INFINITY", "nbf", "int8_t", "_x",
         "a__b", "threadIdx", "errno", "naïve", "β", "linux", "unix", "I", "T", "int",
         "double", "major", "stdin", "exp", "nan", "complex", "half", "NAN", "EOF",
         "isnan", "warpSize", "WARP_SIZE", "__shared__", "xor", "template", "x_", "X_")


@cache
def named() -> Typed:
    """A function with a parameter of each name."""
    terms = " + ".join(f"{k}.5*{name}" for k, name in enumerate(NAMES))
    return function(f"def f({', '.join(NAMES)}):\n    return {terms}\n", {})


def test_names_of_c_and_of_macros_are_changed():
    given = [f"p[{k}]" for k in range(len(NAMES))]
    text = lines(named(), *given)
    found = [re.match(r"const float (\w+) = p\[", line) for line in text]
    names = [match[1] for match in found if match]
    assert len(set(names)) == len(NAMES)
    assert {"register", "int", "nbf", "linux", "NAN", "T"}.isdisjoint(names)
    assert {"half", "exp", "complex"} <= set(names)
    assert all(n.isascii() and not n.startswith("_") and "__" not in n
               and not n.isupper() for n in names)


def function(text: str, scope: dict, name: str = "f") -> Typed:
    """A function of float32 from text."""
    import linecache

    file = f"<{name} {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), scope)
    return typed(scope[name], *("float32",)*scope[name].__code__.co_argcount)


def test_locals_do_not_hide_what_is_given():
    def f(x):
        w = x*2
        p = w + x
        return w*p*p

    text = lines(typed(f, "float32"), "w.number<float>(p)", results=("q",))
    declared = [re.match(r"const float (\w+) =", line)[1] for line in text]
    assert not {"w", "p", "number"} & set(declared)


@pytest.mark.parametrize(("dtype", "value", "expected"), [
    ("float32", 0.1, "0.1f"), ("float32", -0.0, "(-0.0f)"), ("float64", 0.1, "0.1"),
    ("float64", 1e300, "1e+300"), ("float32", 1e300, "nbf::infinity<float>()"),
    ("float32", math.nan, "nbf::nan<float>()"), ("bool", True, "true"),
    ("float64", -math.inf, "(-nbf::infinity<double>())"),
    ("float32", 2**24, "1.6777216e+07f"),
    ("int32", -5, "(-5)"), ("int8", 7, "int8_t(7)"), ("uint32", 7, "7u"),
    ("int64", -2**63, "int64_t(-9223372036854775807 - 1)"),
    ("int32", -2**31, "(-2147483647 - 1)"),
    ("uint64", 2**64 - 1, "uint64_t(18446744073709551615u)"),
    ("complex64", -1j, "nbf::complex<float>{-0.0f, -1.0f}"),
])
def test_literals(dtype, value, expected):
    assert literal(DTYPES[dtype], value) == expected


# What it computes ------------------------------------------------------------------


def collatz(n):
    steps = 0
    while n > 1 and steps < 1000:
        n = n//2 if n % 2 == 0 else 3*n + 1
        steps += 1
    return steps


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def rotation(x, y, z, n):
    for k in range(n):
        x, y, z = (y, z, x) if k % 3 else (z + 1, x, y)
    return x, y, z


def early(x, n):
    total = 0.0
    for k in range(n):
        if k % 3 == 2:
            continue
        if total > 50.0:
            break
        total += x*k
    while total > 3.0:
        total = total/2
    return total, n if x > 1 else -n


def sevenfold(x):
    return (x**0, x**1, x**2, x**3, x**7, x**-1, x**-5)


def odd_literals(x):
    return (x + 1e-45, x*3.4e38, x - 0.1, math.inf*x, math.nan*x, -0.0*x)


def limits(x):
    return x + -2**63, x - (2**63 - 1), x ^ -1, x*-7


FORMS = {
    "collatz": (collatz, "int64"), "fibonacci": (fibonacci, "int64"),
    "rotation": (rotation, "float32", "float32", "float32", "int32"),
    "early": (early, "float32", "int32"), "philox": (philox, "int64", "int64"),
    "powers": (sevenfold, "float64"), "literals": (odd_literals, "float32"),
    "limits": (limits, "int64"), "wrapping": (lambda a, n: a**n, "int32", "int32"),
    "bytes": (lambda a, b: (a**b, a**3, -a, abs(a)), "int8", "int8"),
    "select": (lambda a, b: (a if a > b else b)*2, "int8", "int8"),
    "mixed": (lambda a, b: (a < b, a == b, a + b), "int64", "uint64"),
    "truth": (lambda a, b: (a and not b, a ^ b, a & b, a | b, a < b), "bool", "bool"),
}
PAIRS = [(a, b) for a in DTYPES for b in DTYPES if b != a]


def functions() -> dict[str, Printed]:
    """All of the forms, and a cast from each dtype to each."""
    forms = {name: (typed(*form), tuple(DTYPES[d] for d in form[1:]))
             for name, form in FORMS.items()}
    casts = {f"cast_{a}_{b}": (typed(convert(b), a), (DTYPES[a],)) for a, b in PAIRS}
    return forms | casts | {"named": (named(), (F32,)*len(NAMES))}


@cache
def library() -> Library:
    """All of them."""
    return Library(functions())


def convert(dtype: str):
    target = DTYPES[dtype].type
    return lambda x: target(x)


RNG = np.random.default_rng(5)
ARGUMENTS = {
    "collatz": (np.arange(1, 200),), "fibonacci": (np.arange(95),),
    "rotation": (*RNG.normal(size=(3, 20)), np.arange(20) % 11),
    "early": (np.linspace(-2, 4, 25), np.arange(25) % 13),
    "philox": (np.repeat([0, 1, 2**40 + 3, -5], 50), np.arange(200)),
    "powers": (RNG.uniform(-3, 3, 40),), "literals": (numbers(F32),),
    "limits": (numbers(I64),),
    "wrapping": (np.array([2, 3, -3, 7, 0, 1, -1, 5]),
                 np.array([31, 40, 21, 0, 0, -1, -2, -3])),
    "bytes": (np.arange(-128, 128), np.arange(256) % 9),
    "select": (np.arange(-128, 128), np.arange(256)[::-1] - 128),
    "mixed": (np.array([-1, 0, 5, 2**63 - 1]), np.array([2**64 - 1, 0, 5, 3], "u8")),
    "truth": (np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])),
}


@needs_gxx
@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    t, dtypes = library().functions[name]
    args = [a.astype(d) for a, d in zip(ARGUMENTS[name], dtypes, strict=True)]
    tolerance = {"powers": 1e-14}.get(name, 0)
    for got, expected in zip(library()(name, *args), evaluate(t, *args), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=0)


@needs_gxx
def test_names_do_no_harm():
    x = np.arange(2*len(NAMES), dtype=np.float32).reshape(-1, 2)
    (got,) = library()("named", *x)
    np.testing.assert_allclose(got, (np.arange(len(NAMES)) + 0.5) @ x, rtol=1e-6)


@needs_gxx
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_casts(source, target):
    a, b = DTYPES[source], DTYPES[target]
    args = numbers(np.empty(0, compute_dtype(a)).real.dtype)
    with np.errstate(over="ignore"):
        args = args.astype(a)
    if b.kind in "iu" and a.kind not in "biu":  # beyond, it is the machine's choice
        limit = 100.0 if b.itemsize == 1 else 3e4 if b.itemsize == 2 else 1e9
        args = args[abs(args.astype(complex)) < limit]
        args = abs(args).astype(a) if b.kind == "u" else args
    t, _ = library().functions[f"cast_{source}_{target}"]
    (got,) = library()(f"cast_{source}_{target}", args)
    (expected,) = evaluate(t, args)
    assert got.dtype == expected.dtype == b
    np.testing.assert_array_equal(got.astype(complex), expected.astype(complex))


@needs_gxx
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_16_bit_float_is_read(dtype):
    every = np.arange(2**16, dtype=np.uint16).view(DTYPES[dtype])
    (got,) = library()(f"cast_{dtype}_float32", every)
    np.testing.assert_array_equal(got, every.astype(np.float32))
    (back,) = library()(f"cast_float32_{dtype}", got)
    same = ~np.isnan(got)
    np.testing.assert_array_equal(back.view("u2")[same], every.view("u2")[same])
    assert np.isnan(back.astype("f4")[~same]).all()


@needs_gxx
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounding_to_16_bits(dtype):
    """Ties between neighbours, just beside them, and any bits at all."""
    every = np.arange(2**16, dtype=np.uint16).view(DTYPES[dtype]).astype(np.float32)
    finite = np.unique(every[np.isfinite(every)])
    ties = finite[:-1]/2 + finite[1:]/2
    top, step = float(finite[-1]), float(finite[-1] - finite[-2])/2
    beyond = np.float32([top + step*t for t in (0.9, 1.0, 1.1, 1.9)])
    beside = [np.nextafter(ties, np.float32(s)) for s in (-np.inf, np.inf)]
    bits = np.random.default_rng(0).integers(0, 2**32, 2**18, dtype=np.uint32)
    x = np.concatenate([ties, *beside, beyond, -beyond, bits.view("f4")])
    (got,) = library()(f"cast_float32_{dtype}", x)
    with np.errstate(all="ignore"):
        expected = x.astype(DTYPES[dtype])
    nan = np.isnan(x)
    np.testing.assert_array_equal(got.view("u2")[~nan], expected.view("u2")[~nan])
    assert np.isnan(got[nan].astype("f4")).all()
