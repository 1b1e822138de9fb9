"""The pieces that kernel text is made of, executed as Python."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from nbfused.cuda.text.source import Source, affordable, offsets
from nbfused.gpu.operands import Operand, kernel_name, operand_list, width_of
from nbfused.scalar.parse.functions import parse_definition
from nbfused.scalar.typing.types import specialize
from nbfused.support.dtypes import BFLOAT16, storage

F32 = np.dtype("float32")


@pytest.mark.parametrize(("dtype", "stored"), [
    ("float16", "uint16"), (BFLOAT16, "uint16"), ("bool", "uint8"), ("int8", "int8"),
    ("float32", "float32"), ("complex64", "complex64")])
def test_storage(dtype, stored):
    assert storage(np.dtype(dtype)) == stored


@pytest.mark.parametrize(("dtypes", "width"), [
    (["f4"], 4), (["f2"], 8), (["f2", "f4"], 4), (["f8", "f4"], 2), (["i1"], 8),
    (["c16"], 1)])
def test_an_access_moves_16_bytes_of_the_widest(dtypes, width):
    operands = operand_list([np.dtype(d) for d in dtypes], "1"*len(dtypes))
    assert width_of(operands) == width


def test_long_functions_take_fewer_elements_at_once():
    short = specialize(parse_definition("def f(x): return x*x"), (F32,))
    body = "".join(f"    x = x*x + {k}.5\n" for k in range(100))
    long = specialize(parse_definition(f"def f(x):\n{body}    return x\n"), (F32,))
    assert affordable(short, 8) == 8
    assert affordable(long, 8) == 2


def test_kernel_names_are_identifiers():
    assert kernel_name("<lambda>", "map") == "lambda__map"
    assert kernel_name("x"*200).isidentifier()


SHAPES = [((7,), (3,)), ((3, 5), (10, 1)), ((2, 3, 4), (-12, 100, 7)), ((1, 1), (5, 5))]


@pytest.mark.parametrize(("shape", "strides"), SHAPES)
@pytest.mark.parametrize("first", [0, 2])
def test_offsets(shape, strides, first):
    out = Source("f")
    names = [f"n{k}" for k in range(len(shape))]
    place = offsets(out, "i", names, [Operand(0, F32, "s")], first, "t")
    text = out.kernel(1).text
    values = dict(zip(names, shape, strict=True)) | {
        f"s0_{first + k}": s for k, s in enumerate(strides)}
    for i, at in enumerate(product(*map(range, shape))):
        scope = {**values, "i": i, "divide": int.__floordiv__, "i64": int}
        exec("if True:\n" + text.split("\n", 1)[1] + f"    found = {place[0]}", scope)
        assert scope["found"] == sum(a*s for a, s in zip(at, strides, strict=True))


def test_offsets_of_whole_accesses():
    out = Source("f")
    operands = [Operand(0, F32, "1"), Operand(1, F32, "0"), Operand(2, F32, "s")]
    place = offsets(out, "i", ["n0", "n1"], operands, 0, "t", inner="4")
    scope = {"n0": 3, "n1": 5, "i": 8, "s0_0": 20, "s1_0": 1, "s2_0": 100, "s2_1": 3,
             "divide": int.__floordiv__, "i64": int}
    text = out.kernel(1).text
    exec("if True:\n" + text.split("\n", 1)[1], scope)
    assert [eval(place[k], scope) for k in range(3)] == [20 + 12, 1, 100 + 36]


def test_no_loops_no_offset():
    operands = [Operand(0, F32, "s")]
    assert offsets(Source("f"), "i", [], operands, 0, "t") == {0: "i64(0)"}


def test_parameters_are_pointers_then_integers_then_numbers():
    out = Source("f")
    out.integer("n0")
    value = out.scalar("a0", np.dtype("bool"))
    out.pointer("p0", "float32")
    out("pass")
    kernel = out.kernel(32)
    assert kernel.text.startswith("def f(p0, n0, a0):\n    pass")
    assert kernel.parameters == ("*float32", "int64", "uint8")
    assert value == "(a0 != 0)"
