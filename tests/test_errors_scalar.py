"""Scalar functions in Python that kernels do not have: file, line, what is allowed."""

from __future__ import annotations

import functools
import math
import runpy

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, RangeError, ScalarSyntaxError
from tests.refusal import refused

A = np.arange(1.0, 4.0)
TABLE = [1.0, 2.0]
WHERE = {}


def line_of(function, words):
    """The number of the line of `function` that has `words`."""
    code = function.__code__
    with open(code.co_filename) as file:
        lines = file.read().splitlines()
    found = [k for k, text in enumerate(lines, 1)
             if k >= code.co_firstlineno and words in text]
    return found[0]


def with_try(x):
    try:
        y = 1.0 / x
    except ZeroDivisionError:
        y = 0.0
    return y


def with_dict(x):
    values = {0: x}
    return values[0]


def with_text(x):
    return x if x > 0 else "negative"


def with_output(x):
    print(x)
    return x


def with_while_else(x):
    while x > 1.0:
        x = x / 2.0
    else:
        x = 0.0
    return x


def with_global_list(x):
    return x * TABLE[0]


def with_missing_name(x):
    return x * no_such_name  # noqa: F821


def with_import(x):
    import math
    return math.exp(x)


def with_walrus(x):
    return (y := x) + y


def with_set_attribute(x):
    WHERE.x = x
    return x


def with_recursion(x):
    return with_recursion(x - 1.0) if x > 0 else x


def with_star(*x):
    return x[0]


def with_half_a_result(x):
    if x > 0:
        return x


def with_loop_over_a_list(x):
    for v in TABLE:
        x = x + v
    return x


def with_matmul(x):
    return x @ x


CASES = [
    (with_try, "try:", "try"),
    (with_dict, "values = {0: x}", "a dict is not part"),
    (with_text, '"negative"', "number"),
    (with_output, "print(x)", "print"),
    (with_while_else, "x = 0.0", "else after a loop"),
    (with_global_list, "TABLE[0]", "TABLE|number|list"),
    (with_missing_name, "no_such_name", "'no_such_name' is not defined"),
    (with_import, "import math", "import"),
    (with_walrus, "y := x", "operator := is not part"),
    (with_set_attribute, "WHERE.x = x", "names"),
    (with_recursion, "def with_recursion", "calls itself"),
    (with_star, "def with_star", "name the parameters"),
    (with_half_a_result, "if x > 0", "return"),
    (with_loop_over_a_list, "for v in TABLE", "tuples of numbers"),
    (with_matmul, "x @ x", "part of the"),
]


@pytest.mark.parametrize("wrap", [
    lambda f: nf.elementwise(f)(A), lambda f: nf.reduction(combine="sum")(f)(A),
    lambda f: nf.ops.matmul(A, A[:, None], epilogue=f)],
    ids=["elementwise", "reduction", "epilogue"])
@pytest.mark.parametrize(("function", "where", "words"), CASES,
                         ids=[case[0].__name__ for case in CASES])
def test_unsupported_syntax(function, where, words, wrap):
    with pytest.raises(ScalarSyntaxError, match=words) as caught:
        wrap(function)
    error = caught.value
    assert error.filename == __file__
    assert error.lineno == line_of(function, where)
    assert error.text is not None
    assert where in error.text
    assert f"line {error.lineno}" in str(error)
    assert "test_errors_scalar.py" in str(error)


def test_what_is_nested_too_deeply(tmp_path):
    path = tmp_path / "deep.py"
    calls = "".join(f"def f{k}(x): return f{k - 1}(x)\n" for k in range(1, 1000))
    path.write_text(f"def f0(x): return x\n{calls}"
                    "def deep(x):\n    return f999(x)\n")
    space = runpy.run_path(str(path))
    with pytest.raises(ScalarSyntaxError, match="is nested too deeply"):
        nf.elementwise(space["deep"])(A)


def test_the_message_says_what_is_allowed():
    with pytest.raises(ScalarSyntaxError, match=r"if.*for.*while"):
        nf.elementwise(with_try)(A)


def test_python_itself_raises_nothing_when_decorating():
    """A function is read at its first use: an import never fails."""
    for case in CASES:
        nf.elementwise(case[0])


def test_rows_read_their_stages():
    @nf.row
    def unmarked(x):
        def top(x):
            return x
        return x - top

    @nf.row
    def misspelt(x):
        @nf.stage("sum")
        def total(y):
            return y
        return x / total

    with pytest.raises(ScalarSyntaxError, match=r"top .*must be marked with @nf.stage"):
        unmarked(A)
    words = r"'total' has a parameter 'y'.*known: x"
    with pytest.raises(ScalarSyntaxError, match=words):
        misspelt(A)


def test_index_and_size_are_numbers_of_a_row():
    @nf.row
    def weighted(x):
        @nf.stage("sum")
        def total(x):
            return x * nf.index
        return total + nf.size

    np.testing.assert_array_equal(weighted(np.ones((2, 3))), [6, 6])
    with refused(ScalarSyntaxError, "'nf.index' has a value inside an @nf.row only"):
        nf.elementwise(lambda x: x * nf.index)(A)
    with refused(KernelTypeError, "nf.size is a number inside the functions of a row"):
        nf.size(A)


def test_combines_are_named_in_the_message():
    for given in ("total", 3, None, []):
        with refused(KernelTypeError, "'combine' must be one of", "'sum'", repr(given)):
            nf.stage(given)
        with refused(KernelTypeError, "'combine' must be a function or one of", "'sum'",
                     repr(given)):
            nf.reduction(combine=given)
    with refused(KernelTypeError, "@nf.stage('sum')"):
        nf.stage(lambda x: x)
    with refused(RangeError, "'identity' must be 0, 1, -inf or inf, got 7"):
        nf.reduction(combine=lambda a, b: a + b, identity=7)
    with refused(KernelTypeError, "'identity' must be a number, got 'a'"):
        nf.reduction(combine=lambda a, b: a + b, identity="a")
    with pytest.raises(KernelTypeError, match="two values and return one"):
        nf.reduction(combine=lambda a, b, c: a + b + c)(lambda x: x)(A)
    with pytest.raises(KernelTypeError, match="1 value of an element, the map gives 2"):
        nf.reduction(combine="sum")(lambda x: (x, x))(A)


@pytest.mark.parametrize(("combine", "neutral"), [
    (lambda a, b: a * b, 1), (lambda a, b: min(a, b), math.inf),
    (lambda a, b: a | b, 0), (lambda a, b: max(a, b), 0)])
def test_the_identity_of_a_combine_must_be_neutral(combine, neutral):
    numbers = np.array([2, 3, 6])
    given = numbers if neutral == 0 else numbers.astype(float)
    made = nf.reduction(combine=combine, identity=neutral)(lambda x: x)(given)
    assert made == functools.reduce(combine, given)


def test_an_identity_that_is_not_neutral_is_refused():
    with refused(RangeError, "'identity' 0 is not neutral", "is 0.0 and 0.0"):
        nf.reduction(combine=lambda a, b: a * b)(lambda x: x)(A)


def test_a_row_is_no_scalar_function():
    @nf.elementwise
    def calls_a_row(x):
        return nf.ops.softmax(x)

    with pytest.raises((KernelTypeError, ScalarSyntaxError), match="softmax"):
        calls_a_row(A)
