"""What typing wrote out, and this backend has as one, is found, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.cpu.text.idioms import recognise_idioms
from nbfused.scalar.ir.nodes import Let, walk
from nbfused.scalar.language import names as nb
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.types import specialize


def operations(function, dtype="f4"):
    typed = specialize(parse(function), (np.dtype(dtype),))
    return [s.op for s in walk(recognise_idioms(typed).function.body)
            if isinstance(s, Let)]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_a_sigmoid_is_one_operation(dtype):
    assert operations(lambda x: nb.sigmoid(x), dtype) == ["sigmoid"]
    assert operations(lambda x: nb.silu(x), dtype) == ["sigmoid", "mul"]
    found = operations(lambda x: nb.gelu_tanh(x), dtype)
    assert found.count("sigmoid") == 1
    assert "exp" not in found


def test_an_exponential_that_something_else_needs_is_not_computed_twice():
    found = operations(lambda x: nb.sigmoid(x) + nb.softplus(x))
    assert "sigmoid" not in found
    assert found.count("exp") == 1


@pytest.mark.parametrize("function", [
    lambda x: (1.0 if x > 0.0 else nb.exp(-abs(x)))/(1.0 + nb.exp(-abs(x))),
    lambda x: nb.select(x >= 0.0, 1.0, nb.exp(-abs(x)))/(2.0 + nb.exp(-abs(x))),
    lambda x: nb.select(x >= 1.0, 1.0, nb.exp(-abs(x)))/(1.0 + nb.exp(-abs(x))),
    lambda x: nb.select(x >= 0.0, 0.5, nb.exp(-abs(x)))/(1.0 + nb.exp(-abs(x))),
    lambda x: nb.select(x >= 0.0, 1.0, nb.exp(abs(x)))/(1.0 + nb.exp(abs(x))),
    lambda x: nb.select(x >= 0.0, 1.0, nb.exp(-abs(x + 1.0)))
    / (1.0 + nb.exp(-abs(x + 1.0))),
    lambda x: nb.select(x*x >= 0.0, 1.0, nb.exp(-abs(x)))/(1.0 + nb.exp(-abs(x))),
])
def test_what_is_nearly_one_stays(function):
    assert "sigmoid" not in operations(function)


def test_tails_of_the_normal_distribution_get_the_exact_argument():
    assert operations(lambda x: nb.gelu_erf(x)) == ["mul", "erfc_of_half", "mul"]
    assert operations(lambda x: nb.exp(-x*x))[-1] == "exp_of_product"
    assert operations(lambda x: nb.exp(-0.5*x*x))[-1] == "exp_of_product"
    for function in (lambda x: nb.exp(-0.3*x*x), lambda x: nb.exp(-x*abs(x)),
                     lambda x: nb.erfc(-0.7*x), lambda x: nb.exp(2.0*x)):
        assert operations(function)[-1] in ("exp", "erfc")


def test_functions_without_results_and_without_sigmoids_stay():
    typed = specialize(parse(lambda x: x + 1.0), (np.dtype("f4"),))
    assert recognise_idioms(typed) is typed
