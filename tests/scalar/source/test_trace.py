"""Functions without a source, run once on symbols."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from nbfused.errors import KernelTypeError, ScalarSyntaxError
from nbfused.op import elementwise
from nbfused.scalar.ir.nodes import Let, literal, walk
from nbfused.scalar.language import names as nf
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.source.trace import Symbol, trace
from tests.scalar.evaluation import evaluate


@elementwise
def doubled(x):
    return x * 2


def sourceless(text, **names):
    """The function `f` that `text` defines, whose source nobody can find."""
    scope = {"math": math, "np": np, "nf": nf, **names}
    exec(text, scope)
    return scope["f"]


TEXTS = [
    "f = lambda x, y: x + 2*y - x/4 + 3//y - y % 2",
    "f = lambda x, y: (x**2, abs(x)**0.5, 2**y, -x, +y, abs(y))",
    "f = lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y)",
    "f = lambda x, y: np.where((x > 0) & (y > 0), np.maximum(x, y), np.sin(x))",
    "f = lambda x, y: np.float64(2) * x + np.float32(0.5) - np.int64(1)",
    "f = lambda x, y: np.exp(x) + nf.sigmoid(y) + nf.exp(1) + math.exp(2)",
    "f = lambda x, y: (math.floor(x), math.ceil(x), math.trunc(x), round(y))",
    "f = lambda x, y: np.clip(x, -1, 1) + np.round(y, 1) + nf.detach(x)",
    "def f(x, y):\n  for k in range(3):\n    x = x*y + k\n  return x, y",
    "def f(x, y=3.0, *, z=1):\n  return x - y*z",
]


@pytest.mark.parametrize("text", TEXTS)
def test_same_as_python(text):
    pyfunc = sourceless(text)
    function = parse(pyfunc)
    compared = 0
    for x, y in [(0.5, 1.5), (-2.25, 3.0), (2, 1), (1, 1), (-1, 2)]:
        args = (x, y)[: len(function.params)] + (1,) * (len(function.params) - 2)
        found, expected = evaluate(function, *args), pyfunc(x, y)
        assert found == pytest.approx(
            expected if isinstance(expected, tuple) else float(expected), rel=1e-6)
        compared += 1
    assert compared == 5


def test_as_parsed():
    traced = parse(sourceless("def f(x, y): return np.exp(-x) * y + 1, x"))

    def f(x, y):
        return np.exp(-x) * y + 1, x

    ops = [[(s.op, len(s.args)) for s in walk(g.body) if isinstance(s, Let)]
           for g in (traced, parse(f))]
    assert ops[0] == ops[1]
    assert traced.params == ("x", "y")
    assert traced.name == "f"
    assert traced == parse(sourceless("def f(x, y): return np.exp(-x) * y + 1, x"))


def test_other_scalar_functions_are_copied_in():
    pyfunc = sourceless("f = lambda x: doubled(x) + 1", doubled=doubled)
    function = parse(pyfunc)
    assert evaluate(function, 4.0) == 9.0
    assert function.name == "lambda_"


def test_a_function_without_source_is_called_from_one_with():
    inner = sourceless("f = lambda x, y=3: x * y")

    def outer(a):
        return inner(a) + inner(a, y=a)

    assert evaluate(parse(outer), 2.0) == 10.0


def test_constants_and_nothing():
    assert parse(sourceless("f = lambda: 1.5")).results == (literal(1.5),)
    assert parse(sourceless("def f(x): pass")).results == ()


def test_raw_arrays():
    function = parse(sourceless(
        "def f(a, i, x): nf.atomic_add(a, i, x * a[i, 1] + nf.load(a, i))"))
    table = {(2,): 1.0, (2, 1): 5.0}
    evaluate(function, table, 2, 3.0)
    assert table[2,] == 17.0


def test_complex_parts():
    function = parse(sourceless("f = lambda z: z.real - z.imag"))
    assert [s.op for s in function.body.statements] == ["real", "imag", "sub"]
    function = parse(sourceless("f = lambda z: z.conjugate() * (z + 1).conj()"))
    assert [s.op for s in function.body.statements] == [
        "conj", "add", "conj", "mul"]


@pytest.mark.parametrize(("text", "message"), [
    ("f = lambda x: 1 if x > 0 else 2", "needs the source.*np.where instead of if"),
    ("f = lambda x: max(x, 0)", "np.maximum instead of max"),
    ("f = lambda x: x > 0 and x < 1", "& instead of and"),
    ("f = lambda x: math.exp(x)", "nf.exp or np.exp instead"),
    ("f = lambda x: float(x)", "needs the source|need the source"),
    ("f = lambda x: int(x)", "need the source"),
    ("f = lambda x: sum(range(x))", "need the source"),
    ("f = lambda x: sum(x)", "cannot be unpacked or looped over"),
    ("f = lambda x: np.sum(x)", r"np.sum is not part"),
    ("f = lambda x: np.gcd(x, 1)", r"np.gcd is not part"),
    ("f = lambda x: np.add.reduce(x)", r"np.add is not part"),
    ("f = lambda x: x + 'a'", "expected numbers, got a str"),
    ("f = lambda x: (x, (x, x))", "expected numbers, got a tuple"),
    ("f = lambda x: [x]", "expected numbers, got a list"),
    ("f = lambda *x: 1", r"\*args"),
    ("async def f(x): return x", "async def is not part.*write a plain def"),
    ("async def f(x): yield x", "async def is not part"),
    ("def f(x): yield x", "yield is not part"),
])
def test_errors(text, message):
    with pytest.raises(ScalarSyntaxError, match=message):
        parse(sourceless(text))


def test_async_with_source_is_refused_too(recwarn):
    async def f(x):
        return x

    with pytest.raises(ScalarSyntaxError, match="async def is not part"):
        parse(f)
    assert not recwarn.list


def test_the_error_has_a_line():
    pyfunc = sourceless("def f(x):\n  y = x + 1\n  return 1 if y else 2")
    with pytest.raises(ScalarSyntaxError) as caught:
        parse(pyfunc)
    assert (caught.value.filename, caught.value.lineno) == ("<string>", 3)


def test_symbols_of_two_functions_do_not_mix():
    leaked = []
    trace(lambda x: leaked.append(x) or x, ["x"])
    with pytest.raises(ScalarSyntaxError, match="another function"):
        trace(lambda x: x + leaked[0], ["x"])
    assert isinstance(leaked[0], Symbol)


def test_wrong_number_of_arguments():
    with pytest.raises(TypeError, match="takes 1 argument"):
        parse(sourceless("f = lambda x: nf.exp(x, x)"))
    with pytest.raises(TypeError, match="decimals is a whole number from 0 to 10"):
        parse(sourceless("f = lambda x: round(x, -2)"))
    with pytest.raises(TypeError, match="takes 1 arguments, got 2"):
        parse(sourceless("f = lambda x: doubled(x, x)", doubled=doubled))


def test_not_a_function():
    with pytest.raises(KernelTypeError, match="expected a function of numbers, got 5"):
        parse(5)


def test_a_program_on_the_command_line():
    program = ("from nbfused.scalar.parse.functions import parse\n"
               "print(parse(lambda x: x*x + 1).params)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True,
                          text=True, check=True)
    assert done.stdout.strip() == "('x',)"
