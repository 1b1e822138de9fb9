from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from nbfused.errors import KernelTypeError
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.ir.nodes import For, If, Let, While, walk
from nbfused.scalar.language.names import atomic_add, load, sigmoid
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.types import (
    Weak,
    compute_dtype,
    promote,
    result_types,
    specialize,
)
from tests.scalar.kernels import numbers, operation

DTYPES = [np.dtype(t) for t in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8",
                                "f2", "f4", "f8")]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
F2, F4, F8, I4, I8, U1, U8 = DTYPES[9], DTYPES[10], DTYPES[11], *(
    np.dtype(t) for t in ("i4", "i8", "u1", "u8"))
UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power,
    "max": np.maximum, "lt": np.less, "eq": np.equal, "atan2": np.arctan2,
    "logaddexp": np.logaddexp, "and": np.bitwise_and, "lshift": np.left_shift,
    "logical_and": np.logical_and, "exp": np.exp, "sqrt": np.sqrt, "neg": np.negative,
    "abs": np.absolute, "sign": np.sign, "floor": np.floor, "rint": np.rint,
    "isnan": np.isnan, "square": np.square, "invert": np.invert, "pos": np.positive,
}


def typed(pyfunc, *types):
    return specialize(parse(pyfunc), types)


def inside(t):
    """Dtypes of everything that a typed function computes."""
    return {d.name for d in t.dtypes.values()}


@pytest.mark.parametrize("op", UFUNCS)
def test_result_dtypes_are_numpys(op):
    f = operation(op)
    for dtypes in itertools.product(DTYPES, repeat=len(f.params)):
        try:
            expected = UFUNCS[op](*(np.ones(1, d) for d in dtypes)).dtype
        except TypeError:
            with pytest.raises(KernelTypeError, match=op):
                result_types(f, dtypes)
            continue
        assert result_types(f, dtypes) == (expected,), (op, dtypes)


@pytest.mark.parametrize("op", ["add", "div", "pow", "lt", "max", "atan2"])
@pytest.mark.parametrize("number", [2, 2.5])
def test_python_numbers_are_weak(op, number):
    f = operation(op)
    weak = Weak(type(number).__name__)
    for d in DTYPES:
        expected = UFUNCS[op](np.ones(1, d), number).dtype
        assert result_types(f, (d, weak)) == (expected,), d


@pytest.mark.parametrize("op", ["add", "sub", "mul", "floordiv", "mod", "max", "lt",
                                "le", "gt", "ge", "eq", "ne"])
def test_values_of_mixed_integers_are_numpys(op):
    integers = [d for d in DTYPES if d.kind in "iu"]
    ufunc = UFUNCS.get(op) or getattr(np, OPS[op].rule)
    for a, b in itertools.product(integers, integers):
        x, y = np.meshgrid(numbers(a), numbers(b))
        (got,) = evaluate(specialize(operation(op), (a, b)), x, y)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(got, ufunc(x, y))


@pytest.mark.parametrize(("other", "expected"), [
    (BFLOAT16, BFLOAT16), (F2, F4), (F4, F4), (F8, F8), (I4, BFLOAT16), (U8, BFLOAT16),
    (np.dtype(bool), BFLOAT16), (Weak("float"), BFLOAT16), (Weak("int"), BFLOAT16),
    (np.dtype("c8"), np.dtype("c8")),
])
def test_bfloat16(other, expected):
    assert promote(BFLOAT16, other) == expected
    assert promote(other, BFLOAT16) == expected
    assert result_types(operation("add"), (BFLOAT16, other)) == (expected,)
    assert result_types(operation("mul"), (other, BFLOAT16)) == (expected,)


def test_sixteen_bit_floats_are_computed_in_float32():
    t = typed(lambda x: sigmoid(x)*2 + 1, F2)
    assert t.results == (F2,)
    assert inside(t) == {"float32", "bool"}
    assert compute_dtype(BFLOAT16) == F4
    x = np.array([0.1, -3.0], np.float16)
    single = x.astype(np.float32)
    np.testing.assert_array_equal(
        evaluate(t, x)[0], (2/(1 + np.exp(-single)) + 1).astype(np.float16))


def test_float32_meets_no_float64():
    def f(x, scale, n):
        y = 0.0
        for k in range(n):
            y += scale*k/3 + 0.5 if x > k else 1
        return y*x + int(x)/2 + float(n)**2, 2.0, n

    t = typed(f, F4, Weak("float"), Weak("int"))
    assert "float64" not in inside(t)
    assert t.results == (F4, F4, I8)


def test_weak_results_without_a_floating_parameter():
    t = typed(lambda n: (n/2, n + 1, n > 3, 0.5), Weak("int"))
    assert [d.name for d in t.results] == ["float64", "int64", "bool", "float64"]
    t = typed(lambda x, n: (x, n/2, 1.5), F2, Weak("int"))
    assert t.results == (F2, F2, F2)
    assert inside(t) == {"float32", "int64"}


def test_python_bools_add_as_integers_and_numpy_bools_do_not():
    t = typed(lambda n: (n > 1) + (n > 2), Weak("int"))
    assert t.results == (I8,)
    assert evaluate(t, np.array([0, 2, 3]))[0].tolist() == [0, 1, 2]
    t = typed(lambda x: (x > 1) + (x > 2), I4)
    assert t.results == (np.dtype(bool),)
    assert evaluate(t, np.array([0, 2, 3], np.int32))[0].tolist() == [False, True, True]


@pytest.mark.parametrize(("pyfunc", "text"), [
    (lambda x: x + 300, "300 does not fit uint8"),
    (lambda x: x - (-1), "-1 does not fit uint8"),
    (lambda x: x**-1, "negative integer powers"),
    (lambda x: (x > 1) - (x > 2), "subtract"),
    (lambda x: x & 1.5, "and does not take"),
    (lambda x: -(x > 1), "negative"),
])
def test_refused_operands(pyfunc, text):
    with pytest.raises(KernelTypeError, match=text):
        typed(pyfunc, U1)


def test_the_message_says_where():
    with pytest.raises(KernelTypeError, match=r"test_types.py:\d+: .*lambda"):
        typed(lambda x: x + 300, U1)


@pytest.mark.parametrize("number", [-1, 0, 255, 256, 10**30])
def test_literals_beyond_the_dtype_compare_as_in_numpy(number):
    def f(x):
        return x < number, x == number, x != number, number > x, number <= x

    x = np.array([0, 7, 255], np.uint8)
    got = evaluate(typed(f, U1), x)
    expected = x < number, x == number, x != number, x < number, x >= number
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(np.broadcast_to(a, x.shape), b)


def test_an_index_compares_exactly_with_any_integer():
    index = np.array([0, 300, 2**40])
    for d in (np.uint8, np.int16, np.uint64):
        x = np.array([44, 300 % 256, 100]).astype(d)
        t = typed(lambda i, x: i <= x, Weak("int"), np.dtype(d))
        (got,) = evaluate(t, index, x)
        np.testing.assert_array_equal(got, [a <= int(b) for a, b in
                                            zip(index, x, strict=True)])


def test_branches_join_in_the_promoted_type():
    t = typed(lambda x, n: (x if x > 0 else n), F4, I4)
    assert t.results == (F8,)
    t = typed(lambda x: 1 if x > 0 else 0.5, F4)
    assert t.results == (F4,)


def test_carried_values_widen_until_the_loop_is_stable():
    def f(x, n):
        a = 0
        b = 0
        for _ in range(n):
            a = b
            b = b + x
        return a, b

    t = typed(f, F4, I8)
    assert t.results == (F4, F4)
    got = evaluate(t, np.float32(1.5), np.int64(3))
    assert [float(g) for g in got] == [3.0, 4.5]


def test_casts():
    def f(x):
        return int(x), float(x), bool(x), np.int16(x), np.float16(x)

    t = typed(f, F4)
    assert [d.name for d in t.results] == ["int64", "float32", "bool", "int16",
                                           "float16"]
    got = evaluate(t, np.float32(-2.7))
    assert [g.item() for g in got] == [-2, float(np.float32(-2.7)), True, -2,
                                       float(np.float16(-2.7))]
    assert typed(f, U1).results[:2] == (I8, F8)
    assert typed(f, U8).results[0] == U8  # which int64 does not hold
    t = typed(lambda x: x*int(x), F4)
    assert t.results == (F4,)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", "f4", "f2"])
@pytest.mark.parametrize("decimals", [None, 0, 2])
def test_rounding_is_numpys(dtype, decimals):
    """Integers stay; Python's `round` of NumPy's numbers, too."""
    x = np.array([1.236, 0.5, 2.5, 3.45], dtype)
    f = (lambda x: round(x)) if decimals is None else lambda x: round(x, decimals)
    t = typed(f, x.dtype)
    assert t.results == (x.dtype,)
    np.testing.assert_array_equal(evaluate(t, x)[0], np.round(x, decimals or 0))


def test_known_branches_and_selections_are_decided():
    n = 3

    def f(x):
        return x*2 if n > 2 else x/0

    assert not any(isinstance(s, If) for s in walk(typed(f, F4).function.body))


@pytest.mark.parametrize("known", [True, False])
def test_a_selection_that_is_known_has_the_type_of_both_sides(known):
    one, other = (DTYPES[1], I4), (np.int8(100), np.int32(0))
    t = typed(lambda x, y: np.where(known, x, y)*100, *(one if known else one[::-1]))
    assert t.results == (I4,)
    assert evaluate(t, *(other if known else other[::-1]))[0] == 10_000


def test_dead_code_and_repeated_expressions_go():
    def f(x):
        unused = np.exp(x)  # noqa: F841
        return (x + 1)*(x + 1)

    ops = [s.op for s in typed(f, F4).function.body.statements if isinstance(s, Let)]
    assert ops == ["add", "mul"]


def test_raw_arrays_keep_their_dtype():
    def f(table, i, target):
        atomic_add(target, i, load(table, i)*0.5)
        return load(table, i + 1)

    t = typed(f, F2, Weak("int"), F4)
    assert t.dtypes["table"] == F2
    assert t.results == (F2,)
    table = np.arange(5, dtype=np.float16)
    target = np.zeros(5, np.float32)
    (got,) = evaluate(t, table, np.array([0, 2, 2]), target)
    assert got.tolist() == [1, 3, 3]
    assert target.tolist() == [0, 0, 2, 0, 0]


def test_an_index_must_be_an_integer():
    with pytest.raises(KernelTypeError, match="expected an integer"):
        typed(lambda table, x: load(table, x), F4, F4)


@pytest.mark.parametrize("dtype", ["datetime64[s]", "U3", "O", ">f4", "g"])
def test_unsupported_dtypes(dtype):
    with pytest.raises(KernelTypeError):
        specialize(operation("abs"), (np.dtype(dtype),))


def test_complex_numbers_have_no_order():
    with pytest.raises(KernelTypeError, match="order"):
        result_types(operation("lt"), (np.dtype("c8"), F4))
    assert result_types(operation("real"), (np.dtype("c8"),)) == (F4,)
    assert result_types(operation("mul"), (np.dtype("c8"), F8)) == (np.dtype("c16"),)


def test_every_value_has_a_dtype_and_no_composite_is_left():
    for name, op in OPS.items():
        try:
            t = specialize(operation(name), (F4,)*op.arity)
        except KernelTypeError:
            continue
        for s in walk(t.function.body):
            assert set(s.results) <= set(t.dtypes)
            if isinstance(s, Let) and s.op in OPS:
                assert OPS[s.op].definition is None
            if isinstance(s, (For, While)):
                assert set(s.params) <= set(t.dtypes)


def test_numbers_are_computed_in_float64_where_they_meet_it():
    """Beside float32 alone they stay float32, so that there is no float64 at all."""
    function = parse(lambda x, i, n: x * n + i * n)
    half = parse(lambda x, i, n: x * n + i)
    weak, single = Weak("float"), np.dtype(np.float32)
    typed = specialize(function, (single, np.dtype("int32"), weak))
    assert typed.dtypes["n"] == np.float64
    typed = specialize(half, (single, np.dtype("int16"), weak))
    assert np.dtype(np.float64) not in typed.dtypes.values()
