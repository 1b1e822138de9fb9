"""What the scalar language does not have, and what is said about it."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from nbfused.errors import KernelTypeError, NbFusedError, ScalarSyntaxError
from nbfused.scalar.language import names as nf
from nbfused.scalar.parse.functions import parse
from tests.scalar.parse import refused


@pytest.mark.parametrize(("pyfunc", "message"), refused.CASES, ids=lambda c: getattr(
    c, "__name__", ""))
def test_errors(pyfunc, message):
    with pytest.raises(ScalarSyntaxError, match=message) as caught:
        parse(pyfunc)
    error = caught.value
    assert isinstance(error, SyntaxError)
    assert isinstance(error, NbFusedError)
    assert error.filename == refused.__file__
    lines = Path(refused.__file__).read_text().splitlines()
    assert error.text == lines[error.lineno - 1].strip()
    assert error.text in str(error)
    code = pyfunc.__code__
    assert error.lineno >= code.co_firstlineno or "default" in message


def test_the_error_points_into_the_function_called():
    def calls(x):
        return nf.exp(refused.undefined(x))

    with pytest.raises(ScalarSyntaxError, match="name 'y'") as caught:
        parse(calls)
    assert caught.value.lineno == refused.undefined.__code__.co_firstlineno + 1


def test_the_offset_points_at_the_name():
    with pytest.raises(ScalarSyntaxError) as caught:
        parse(refused.undefined)
    assert caught.value.text[caught.value.offset - 1:].startswith("y + x")


def test_what_is_allowed_is_listed():
    with pytest.raises(ScalarSyntaxError, match=r"Allowed are .*range.*math, numpy"):
        parse(refused.an_assertion)


@pytest.mark.parametrize("given", [5, None, "exp", np.arange(3), print, range])
def test_no_function(given):
    with pytest.raises((KernelTypeError, ScalarSyntaxError)):
        parse(given)


def test_objects_that_cannot_be_parsed_are_called_with_symbols():
    function = parse(functools.partial(refused.one))
    assert function.params == ("x",)
    assert function.results == ("x",)
