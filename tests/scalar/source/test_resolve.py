"""What Python objects stand for in the scalar language."""

from __future__ import annotations

import builtins
import math

import ml_dtypes
import numpy as np
import pytest

from nbfused.op import elementwise, func
from nbfused.scalar.ir.emit import Emitter
from nbfused.scalar.ir.nodes import Let, literal
from nbfused.scalar.language import names as language
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.source.resolve import (
    Operation,
    Vocabulary,
    apply,
    arity,
    freeze,
    function_of,
    operation,
    signature,
)

SAMPLES = [(0.75, 0.5), (2.25, 1.0), (3.5, 2.0)]


def same(target, *args):
    """Whether the operation of `target` computes what `target` does."""
    found = operation(target)
    emitter = Emitter(["x", "y"])
    result = apply(emitter, found, ("x", "y")[: len(args)])
    env = dict(zip(("x", "y"), args, strict=False))
    for s in emitter.statements:
        assert isinstance(s, Let)
        values = [env[a] if isinstance(a, str) else a.value for a in s.args]
        value = float(values[0]) if s.op == "cast" else OPS[s.op](*values)
        env[s.results[0]] = value
    return env[result] == pytest.approx(float(target(*args)))


def module_functions(module):
    """The functions of `module` that the language has, by arity."""
    for name in sorted(dir(module)):
        target = getattr(module, name)
        found = None if isinstance(target, type) else operation(target)
        if found is not None and found.op not in ("select", "clip"):
            yield name, target, max(arity(found.op), getattr(target, "nin", 0))


@pytest.mark.parametrize("module", [math, np, builtins], ids=lambda m: m.__name__)
def test_functions_of_modules_mean_what_they_say(module):
    integers = {"bitwise", "left", "right", "invert"}
    checked = set()
    for name, target, count in module_functions(module):
        for x, y in SAMPLES:
            if any(part in name for part in integers):
                x, y = int(4 * x), int(y)
            if name in ("arcsin", "asin", "acos", "arccos", "atanh", "arctanh"):
                x = x / 4
            if name in ("acosh", "arccosh"):
                x = x + 1
            count = 2 if name in ("max", "min") else count
            if module is np and name in ("real", "imag", "conj", "conjugate"):
                continue
            assert same(target, *(x, y)[:count]), name
        checked.add(name)
    expected = {math: {"exp", "atan2", "fabs", "floor", "erf"}, np: {"exp", "arctan2",
                "round", "power", "left_shift", "maximum"}, builtins: {"max", "pow"}}
    assert expected[module] <= checked


@pytest.mark.parametrize("target", [
    math.remainder, math.gcd, math.prod, np.max, np.sum, np.select, np.mean, print, len,
    range, sum, str, np.ndarray, object(), 5, "exp", np.gcd, np.float_power,
])
def test_what_is_no_operation(target):
    assert operation(target) is None


def test_casts():
    assert operation(int) == Operation("cast", "int")
    assert operation(float) == Operation("cast", "float")
    assert operation(np.float32) == Operation("cast", "float32")
    assert operation(np.bool_) == Operation("cast", "bool")
    assert operation(ml_dtypes.bfloat16) == Operation("cast", "bfloat16")


def test_the_vocabulary_is_known_as_objects():
    for name in language.__all__:
        found = operation(getattr(language, name))
        assert found is not None
        assert found.op == name


def test_names_in_definitions():
    names = Vocabulary()
    assert names["sigmoid"] == Operation("sigmoid")
    assert names["where"] == Operation("select")
    assert names["round"] == Operation("round")
    assert names["uint64"] == Operation("cast", "uint64")
    assert names["inf"] == math.inf
    assert names["range"] is range
    with pytest.raises(KeyError):
        names["sigmoidd"]


def test_freeze():
    assert freeze(np.float32(0.5)) == literal(0.5)
    assert freeze(np.int8(3)) == literal(3)
    assert freeze(np.True_) == literal(True)
    assert freeze((1, (2.0,))) == (literal(1), (literal(2.0),))
    assert freeze(1j) == literal(1j)
    for other in (None, "1", [1], (1, None), np.arange(2), math):
        assert freeze(other) is None


def test_function_of_and_signature():
    @func
    def f(x, *, k=2):
        return x * k

    @elementwise
    def g(x, y=1.0):
        return x + y

    class Op:
        scalar = g

    assert function_of(f) is f.function
    assert function_of(Op()) is g.function
    assert function_of(g.function) is g.function
    assert function_of(math.exp) is None
    assert str(signature(f)) == "(x, *, k=2)"
    assert signature(Op()).parameters["y"].default == 1.0
    assert list(signature(g.function).parameters) == ["x", "y"]


def test_numbers_of_arguments():
    emitter = Emitter(["x"])
    for op, args in [("exp", ()), ("exp", ("x", "x")), ("select", ("x", "x")),
                     ("load", ("x",)), ("atomic_add", ("x", "x")), ("clip", ("x",)),
                     ("math_pow", ("x",)), ("fabs", ()), ("max", ("x",)), ("pow", ())]:
        with pytest.raises(TypeError, match=r"takes .* got \d"):
            apply(emitter, Operation(op), args)
    assert emitter.statements == []
