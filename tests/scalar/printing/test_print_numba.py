from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from nbfused.errors import KernelTypeError
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.language.names import load, philox, sigmoid
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.printing.numba import Raw, statements
from nbfused.scalar.typing.types import Typed, Weak, specialize
from tests.scalar.kernels import compiled, numbers, operation, pairs
from tests.variants import sampled, sampled_together

FLOATS = ("float32", "float64")
INTEGERS = ("int8", "int32", "int64", "uint8", "uint32", "uint64", "bool")
#: The other operations on integers are those of floats, on casts.
ON_INTEGERS = {
    "add", "sub", "mul", "div", "floordiv", "truncdiv", "mod", "fmod", "pow", "neg",
    "abs", "min", "max", "and", "or", "xor", "invert", "lshift", "rshift", "lt", "le",
    "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_not", "sign",
    "floor", "isnan", "relu", "square", "exp",
}
#: Long texts, which are compiled last: of a sine, as that of "sin", or of series.
LONG = {"cos", "tan", "complex_sin", "complex_cos", "complex_tan", "complex_sinc",
        "cospi", "sinpi", "sinc", "i1", "trigamma", "sinh"}
TOGETHER = 12
#: Operations with operands of their own kind, tested below or on complex numbers.
APART = {"select", "powi", "philox", "id", "detach", "real", "imag", "conj"}

#: Relative error in units of eps where NumPy's and the C library's results differ.
ULPS = {"lgamma": 300, "digamma": 100, "trigamma": 50, "pow": 8, "erfc": 30,
        "sin": 4, "cos": 4, "tan": 8, "gelu_erf": 30, "gelu_tanh": 16, "mish": 16,
        "rsqrt": 8, "acosh": 8, "asinh": 8, "atanh": 8, "sinh": 8, "log_sigmoid": 8,
        "tanh": 8}
#: Absolute error in units of eps, where terms of order 1 cancel.
CANCELLING = {"logaddexp": 1, "logaddexp2": 1, "digamma": 10}


def typed(op: str, dtype: str) -> Typed:
    f = operation(op)
    return specialize(f, (np.dtype(dtype),)*len(f.params))


def takes(op: str, dtype: str) -> bool:
    try:
        typed(op, dtype)
    except KernelTypeError:
        return False
    return True


def operations(dtype: str, arity: int) -> list[str]:
    found = [op for op, o in OPS.items() if o.arity == arity and op not in APART
             and (op in ON_INTEGERS or dtype in FLOATS) and takes(op, dtype)]
    return sorted(found, key=LONG.__contains__)


def computed(ops: list[str], args: list) -> dict:
    """The results of operations on the same arguments, of one kernel."""
    dtypes = [a.dtype for a in args]
    return compiled({op: typed(op, dtypes[0].name) for op in ops}, dtypes)(*args)


@cache
def arguments(dtype: str, arity: int) -> list:
    """Numbers of `dtype`, or every pair of them."""
    d = np.dtype(dtype)
    return [numbers(d)] if arity == 1 else list(pairs(d))


@cache
def some(dtype: str, arity: int, part: int) -> dict:
    """The results of as many operations as are best in one kernel.

    Numba's types take more than twice as long for twice the text, and the functions of
    complex numbers are long: each has a kernel of its own.
    """
    ops = operations(dtype, arity)[TOGETHER*part:TOGETHER*(part + 1)]
    return computed(ops, arguments(dtype, arity))


def results(op: str, dtype: str, arity: int) -> tuple[list, dict]:
    """The arguments of an operation, and the results of some, itself among them."""
    part = operations(dtype, arity).index(op) // TOGETHER
    return arguments(dtype, arity), some(dtype, arity, part)


#: What operations are on complex numbers is compiled once, by their usual names.
WRITTEN_OUT = {o.on_complex for op, o in OPS.items() if takes(op, "complex128")}
COMPLEX = [op for op in OPS if op != "philox" and op not in WRITTEN_OUT
           and takes(op, "complex128")]


def points(dtype: str, arity: int) -> list:
    """Arguments of an operation on complex numbers."""
    rng = np.random.default_rng(1)
    return [(rng.normal(size=20) + 1j*rng.normal(size=20)).astype(dtype)
            for _ in range(arity)]


#: Computed by another function on the other axis, or by text of the form of another's.
SIMILAR = {"sin", "cos", "tan", "asin", "atan", "acos", "log2", "log10", "fmax",
           "complex_max", "complex_lt", "complex_gt", "complex_ge", "ne", "logical_or"}


def cases(arity):
    return [(op, d) for d in FLOATS + INTEGERS for op in operations(d, arity)]


def first(arity):
    """Those of floats and of some integers, but for long texts of float32."""
    return [(op, d) for op, d in cases(arity)
            if d in (*FLOATS, "int8", "uint32", "int64", "bool")
            and not (d == "float32" and op in LONG)]


def assert_equal(op, got, expected):
    assert got.dtype == expected.dtype
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, expected)
        return
    info = np.finfo(got.dtype)
    absolute = CANCELLING.get(op, 0)*info.eps + 4*info.smallest_subnormal
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, expected, rtol=ULPS.get(op, 4)*info.eps,
                                   atol=absolute)


@pytest.mark.parametrize(("op", "dtype"), sampled_together(cases(1), *first(1)))
def test_unary(op, dtype):
    args, found = results(op, dtype, 1)
    assert_equal(op, found[op][0], evaluate(typed(op, dtype), *args)[0])


@pytest.mark.parametrize(("op", "dtype"), sampled_together(cases(2), *first(2)))
def test_binary(op, dtype):
    args, found = results(op, dtype, 2)
    assert_equal(op, found[op][0], evaluate(typed(op, dtype), *args)[0])


@pytest.mark.parametrize("op", sampled(
    COMPLEX, *(op for op in COMPLEX if op not in SIMILAR)))
@pytest.mark.parametrize("dtype", sampled(["complex64", "complex128"], "complex128"))
def test_complex(op, dtype):
    args = points(dtype, OPS[op].arity)
    (got,), (expected,) = computed([op], args)[op], evaluate(typed(op, dtype), *args)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=20*np.finfo(dtype).eps)


@pytest.mark.parametrize("op", ["max", "lt", "floor", "erf", "relu", "gelu_erf"])
def test_operations_without_complex_operands(op):
    assert not takes(op, "complex64")


def scalar(pyfunc, *types):
    return specialize(parse(pyfunc), tuple(
        t if isinstance(t, Weak) else np.dtype(t) for t in types))


def both(pyfunc, *args):
    """The printed function's results and the interpreter's, on arrays."""
    t = scalar(pyfunc, *(a.dtype for a in args))
    found = compiled({"f": t}, [a.dtype for a in args])(*args)["f"]
    return list(zip(found, evaluate(t, *args), strict=True))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 7, 10, -1, -2, -5])
def test_literal_powers(exponent):
    a = numbers(np.dtype("float64"))
    a = a[(abs(a) < 1e20) & (abs(a) > 1e-20)]
    ((got, _),) = both(lambda x: x**exponent, a)
    np.testing.assert_allclose(got, a**float(exponent), rtol=1e-14)


@pytest.mark.parametrize(("exponent", "expected"), [
    (0, [1, 1, 1]), (3, [0, -8, -27]), (2, [0, 4, 9])])
def test_powers_are_exact_at_zero_and_below(exponent, expected):
    a = np.array([0.0, -2.0, -3.0], np.float32)
    ((got, _),) = both(lambda x: x**exponent, a)
    np.testing.assert_array_equal(got, np.array(expected, np.float32))


def test_integer_power_with_a_variable_exponent_wraps_around():
    a = np.array([2, 3, -3, 7, 0, 1, -1, 5], np.int32)
    n = np.array([31, 40, 21, 0, 0, -1, -2, -3], np.int32)
    ((got, oracle),) = both(lambda x, n: x**n, a, n)
    expected = [(int(x)**int(k) + 2**31) % 2**32 - 2**31 if k >= 0 else 0
                for x, k in zip(a, n, strict=True)]
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(oracle, expected)


def test_control_flow():
    def f(x, n):
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

    x = np.linspace(-2, 4, 25, dtype=np.float32)
    n = (np.arange(25) % 13).astype(np.int32)
    pairs = both(f, x, n)
    for got, oracle in pairs:
        np.testing.assert_array_equal(got, oracle)

    plain = [f(float(a), int(k)) for a, k in zip(x, n, strict=True)]
    np.testing.assert_allclose(pairs[0][0], [p[0] for p in plain], rtol=1e-6)
    np.testing.assert_array_equal(pairs[1][0], [p[1] for p in plain])


def test_carried_values_are_assigned_at_once():
    def fibonacci(n):
        a, b = 0, 1
        for _ in range(n):
            a, b = b, a + b
        return a

    n = np.arange(12, dtype=np.int64)
    ((got, _),) = both(fibonacci, n)
    np.testing.assert_array_equal(got, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89])


@pytest.mark.parametrize("seed", [0, 1, 2**40 + 3, -5])
def test_philox_agrees_with_the_interpreter_bit_for_bit(seed):
    index = np.arange(1000)
    ((got, oracle),) = both(lambda i, s: philox(s, i), index, np.full(1000, seed))
    np.testing.assert_array_equal(got, oracle)


@pytest.mark.parametrize("source", sampled(
    ["float32", "float64", "int8", "uint64", "bool"], "float64", "int8", "uint64"))
@pytest.mark.parametrize("target", ["int8", "uint8", "int32", "uint32", "int64",
                                    "uint64", "float32", "float64", "bool"])
def test_casts(source, target):
    a = numbers(np.dtype(source))
    if a.dtype.kind == "f" and target != "bool":
        limit = 100.0 if target in ("int8", "uint8") else 1e9
        a = a[abs(a) < limit]
        a = abs(a) if target[0] == "u" else a
    convert = np.dtype(target).type
    ((got, oracle),) = both(lambda x: convert(x), a)
    np.testing.assert_array_equal(got, a.astype(target))
    np.testing.assert_array_equal(oracle, a.astype(target))


def test_the_real_part_of_a_complex_number_wraps_around_in_a_cast():
    a = np.array([-3.5 + 1j, 1e10 - 2j])
    ((got, oracle),) = both(lambda x: np.uint32(x), a)
    expected = a.real.astype(np.int64).astype(np.uint32)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(oracle, expected)


def test_a_raw_array_is_indexed_with_its_strides():
    def reverse(table, i, j):
        return load(table, i, j)*2

    f = specialize(parse(reverse), (np.dtype("float16"), Weak("int"), Weak("int")))
    raw = Raw("p", ("s0", "1"), np.dtype("float16"))
    lines = statements(f, {"table": raw, "i": "i", "j": "j"}, ["out"])
    assert lines == ["t_1 = f16_to_f32(p[i * s0 + j])", "out = t_1 * f32(2.0)"]


def test_the_text_is_readable():
    def swish(x, beta):
        gate = sigmoid(beta*x)
        return x*gate

    lines = statements(scalar(swish, "float32", Weak("float")),
                       {"x": "x", "beta": "beta"}, ["out"])
    assert lines == [
        "t_1 = beta * x",
        "e_1 = math.exp(-abs(t_1))",
        "gate_1 = (f32(1.0) if (t_1 >= f32(0.0)) else e_1) / (f32(1.0) + e_1)",
        "out = x * gate_1",
    ]


def test_a_call_can_be_replaced():
    t = scalar(lambda x: math.exp(x) + math.sin(x), "float32")
    lines = statements(t, {"x": "x"}, ["out"], prefix="q_", calls={
        ("exp", "float32"): "fast_exp", ("sin", "float32"): "fast_sin"})
    assert lines == ["out = fast_exp(x) + fast_sin(x)"]
    again = statements(t, {"x": "x"}, ["out"], prefix="q_",
                       calls={("sin", "float32"): "s"})
    assert again == ["out = math.exp(x) + s(x)"]


def test_names_that_clash_are_kept_apart():
    def f(x):
        f32 = x*2
        math_ = f32 + 1
        return f32*math_*f32

    a = np.array([1.5], np.float32)
    ((got, _),) = both(f, a)
    assert got[0] == 3.0*4.0*3.0


def test_sixteen_bit_floats_are_rounded_by_a_cast():
    t = scalar(lambda x: np.float16(x)*3, "float32")
    assert statements(t, {"x": "x"}, ["out"]) == [
        "out = f16_to_f32(f32_to_f16(x)) * f32(3.0)"]
    assert t.results == (np.dtype(np.float16),)
    got = evaluate(t, np.float32(1.0003))
    assert got[0] == np.float16(1.0003)*np.float16(3)


def test_constants_that_are_written_often_have_a_name():
    """Numba analyses each `f32(...)` as a call."""
    def f(x):
        return ((x*0.3 + 0.3)*(x - 0.3) + 0.7)*(0.3 + x)

    text = "\n".join(statements(specialize(parse(f), (np.dtype(np.float32),)),
                                {"x": "x"}, ["y"]))
    assert text.count("f32(0.3)") == text.count("f32(0.7)") == 1
    assert text.startswith("f32_")
    assert text.count("f32_") == 5
    scope = {"f32": np.float32, "x": np.float32(0.9)}
    exec(text, scope)
    expected = evaluate(specialize(parse(f), (np.dtype(np.float32),)), np.float32(0.9))
    assert scope["y"] == expected[0]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("op", ["+", "-", "*", "&", "|", "^", "<<", ">>"])
def test_numba_keeps_64_bits(dtype, op):
    """So that the text casts no result of these."""
    import numba

    scope = {}
    exec(f"def f(a, b): return a {op} b", scope)
    compiled = numba.njit(scope["f"])
    compiled(np.dtype(dtype).type(3), np.dtype(dtype).type(2))
    (signature,) = compiled.nopython_signatures
    assert str(signature.return_type) == dtype


def test_results_are_not_called_as_parameters_are():
    """Else the first result would be there before the second reads its parameter."""
    swap = specialize(parse(lambda r0, r1: (r1, r0)), (np.dtype("float32"),)*2)
    lines = statements(swap, {"r0": "p[0]", "r1": "p[1]"}, ["r0", "r1"])
    found: dict[str, object] = {"p": [1.0, 2.0]}
    exec("\n".join(lines), found)
    assert (found["r0"], found["r1"]) == (2.0, 1.0)
