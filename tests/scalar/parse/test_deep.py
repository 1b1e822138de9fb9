"""Long and deep programs, as generators write them: read, or refused by name."""

from __future__ import annotations

import linecache
import sys

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import ScalarSyntaxError
from nbfused.scalar.autodiff.differentiate import vjp
from nbfused.scalar.cparse import Parameter, parse_c, tree
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.ir.nodes import Function
from nbfused.scalar.ir.shallow import MOST_LEVELS, levels
from nbfused.scalar.parse.functions import parse
from tests.variants import sampled

PLACES = np.array([-3.0, 0.5, 1.5, 7.0, 40.2, 1e6])
DOUBLE = np.dtype(np.float64)
PARAMS = (Parameter("x", DOUBLE), Parameter("y", DOUBLE, written=True))


def in_c(body: str) -> Function:
    return parse_c(body, "long", PARAMS)


def in_python(body: str, before: str = "") -> Function:
    text = f"{before}def f(x):\n{body}"
    pyfile = f"<deep {hash(text)}>"
    linecache.cache[pyfile] = (len(text), None, text.splitlines(True), pyfile)
    scope: dict[str, object] = {"abs": abs}
    exec(compile(text, pyfile, "exec"), scope)
    return parse(scope["f"])


def value(f: Function) -> np.ndarray:
    args = (PLACES, np.zeros_like(PLACES))[:len(f.params)]
    return np.broadcast_to(evaluate(f, *args)[0], PLACES.shape)


def stairs(n: int) -> np.ndarray:
    """``k*x`` of the first k of 0 to n - 1 with x < k, else x."""
    k = np.searchsorted(np.arange(n), PLACES, side="right")
    return np.where(k < n, k*PLACES, PLACES)


def chain(n: int, first: str, step: str, last: str) -> str:
    return first.format(k=0) + "".join(step.format(k=k) for k in range(1, n)) + last


C_FORMS = {
    "parentheses": (lambda n: f"y = {'('*n}x{')'*n};", lambda n: PLACES, 250),
    "operands in parentheses": (lambda n: f"y = {'(1.0 + '*n}x{')'*n};",
                                lambda n: PLACES + n, 250),
    "braces": (lambda n: "{"*n + "y = x;" + "}"*n, lambda n: PLACES, 500),
    "a sum": (lambda n: f"y = {' + '.join(['x']*n)};", lambda n: n*PLACES, 3000),
    "signs": (lambda n: f"y = {'- '*n}x;", lambda n: (-1)**n*PLACES, 250),
    "conditions": (lambda n: f"y = {' && '.join(['x > 0']*n)};",
                   lambda n: PLACES > 0, 1000),
    "ifs in ifs": (lambda n: "y = 0;" + "".join(
        f"if (x > {k}) {{ " for k in range(n)) + "y = x;" + "}"*n,
        lambda n: np.where(n - 1 < PLACES, PLACES, 0), 300),
    "else if": (lambda n: chain(n, "", "", "") + "".join(
        f"if (x < {k}) y = {k}*x; else " for k in range(n)) + "y = x;", stairs, 300),
    "early returns": (lambda n: "".join(
        f"if (x < {k}) {{ y = {k}*x; return; }} " for k in range(n)) + "y = x;",
        stairs, 300),
    "ternaries": (lambda n: "y = " + "".join(
        f"x < {k} ? {k}*x : " for k in range(n)) + "x;", stairs, 300),
    "statements": (lambda n: "double a = x;" + "a = a + 1.0;"*n + "y = a;",
                   lambda n: PLACES + n, 3000),
}
#: Forms of which the longest text is parsed within a second.
SHORT = [form for form in C_FORMS if form not in ("a sum", "statements",
                                                  "early returns")]
PYTHON_FORMS = {
    "a sum": (lambda n: f"    return {' + '.join(['x']*n)}\n", lambda n: n*PLACES,
              2000),
    "signs": (lambda n: f"    return {'-'*n}x\n", lambda n: (-1)**n*PLACES, 250),
    "conditions": (lambda n: f"    return 1.0*({' and '.join(['x > 0']*n)})\n",
                   lambda n: PLACES > 0, 1000),
    "elif": (lambda n: "    if x < 0: r = 0*x\n" + "".join(
        f"    elif x < {k}: r = {k}*x\n" for k in range(1, n))
        + "    else: r = x\n    return r\n", stairs, 300),
    "early returns": (lambda n: "".join(
        f"    if x < {k}: return {k}*x\n" for k in range(n)) + "    return x\n",
        stairs, 300),
    "ternaries": (lambda n: "    return " + "".join(
        f"{k}*x if x < {k} else " for k in range(n)) + "x\n", stairs, 300),
    "values on the way": (lambda n: "    s = x\n" + "".join(
        f"{'    '*(k + 1)}t{k} = x - {k}\n{'    '*(k + 1)}if t{k} < 0: s = s + "
        f"{'t' + str(k - 1) if k else 'x'}\n{'    '*(k + 1)}else:\n" for k in range(n))
        + f"{'    '*(n + 1)}s = 2*s + t0\n    return s\n",
        lambda n: np.where(PLACES < 0, 2*PLACES, np.where(
            n - 1 <= PLACES, 3*PLACES, 2*PLACES - np.floor(PLACES))), 60),
    "statements": (lambda n: "    a = x\n" + "    a = a + 1.0\n"*n + "    return a\n",
                   lambda n: PLACES + n, 2000),
}


@pytest.mark.parametrize("form", sampled(C_FORMS, *SHORT))
def test_long_c_bodies(form):
    write, expected, most = C_FORMS[form]
    for n in (3, 40, most):
        np.testing.assert_allclose(value(in_c(write(n))), expected(n))


@pytest.mark.parametrize("form", PYTHON_FORMS)
def test_long_functions(form):
    write, expected, most = PYTHON_FORMS[form]
    for n in (3, 30, most):
        np.testing.assert_allclose(value(in_python(write(n))), expected(n))


def test_calls_inside_calls():
    before = "def f0(x): return x + 1\n" + "".join(
        f"def f{k}(x): return f{k - 1}(x) + 1\n" for k in range(1, 200))
    np.testing.assert_allclose(value(in_python("    return f199(x)\n", before)),
                               PLACES + 200)


@pytest.mark.parametrize("form", ["elif", "early returns", "ternaries",
                                  "values on the way"])
def test_gradients_of_long_chains(form):
    write, expected, _ = PYTHON_FORMS[form]
    n = 59
    f = in_python(write(n))
    assert levels(f.body) <= MOST_LEVELS
    (found,) = evaluate(vjp(f, (True,), (True,)), PLACES, np.ones_like(PLACES))
    np.testing.assert_allclose(found, np.where(
        (PLACES > 0) & (n - 1 > PLACES) if form == "values on the way" else False, 2,
        expected(n)/PLACES))


@pytest.mark.parametrize(("form", "n"), [
    ("parentheses", 6000), ("operands in parentheses", 6000), ("braces", 6000),
    ("signs", 6000), ("ifs in ifs", 1100), ("else if", 2500), ("ternaries", 2500)])
def test_what_is_too_long_in_c_is_refused_by_name(form, n):
    with pytest.raises(ScalarSyntaxError, match=r"long.*(too deeply|more than 64)"):
        in_c(C_FORMS[form][0](n))


def test_what_is_too_long_in_python_is_refused_by_name():
    """What Python's own compiler takes."""
    calls = "def f0(x): return x\n" + "".join(
        f"def f{k}(x): return f{k - 1}(x)\n" for k in range(1, 1000))
    with pytest.raises(ScalarSyntaxError, match="nested too deeply"):
        in_python("    return f999(x)\n", calls)
    with pytest.raises(ScalarSyntaxError, match=r"too deeply|more than 64"):
        in_python(PYTHON_FORMS["early returns"][0](2000))


def test_the_recursion_limit_is_as_it_was():
    before = sys.getrecursionlimit()
    in_c(C_FORMS["parentheses"][0](200))
    with pytest.raises(ScalarSyntaxError):
        in_c(C_FORMS["parentheses"][0](6000))
    assert sys.getrecursionlimit() == before


def test_long_chains_are_compiled(device):
    write, expected, _ = C_FORMS["else if"]
    kernel = nf.ElementwiseKernel("float64 x", "float64 y", write(40), "long")
    x = nf.array(PLACES, device=device)
    np.testing.assert_allclose(nf.to_numpy(kernel(x)), expected(40))
    total = nf.ElementwiseKernel("float64 x", "float64 y", C_FORMS["a sum"][0](800),
                                 "long_sum")
    np.testing.assert_allclose(nf.to_numpy(total(x)), 800*PLACES)


@pytest.mark.parametrize("form", ["ternaries", "conditions", "else if", "a sum"])
def test_c_is_looked_through_as_often_as_it_is_long(form, monkeypatch):
    """Whether something changes under a condition is asked at every one of a chain."""
    asked = []
    known = tree._targets
    monkeypatch.setattr(tree, "_targets",
                        lambda *args: asked.append(args) or known(*args))
    counts = []
    for n in (100, 200):
        asked.clear()
        in_c(C_FORMS[form][0](n))
        counts.append(len(asked))
    assert counts[1] <= 2.5*counts[0] + 100
