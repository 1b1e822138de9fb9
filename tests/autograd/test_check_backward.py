"""A planted wrong rule is found on the tape, and named."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd import apply
from nbfused.config import config
from nbfused.errors import TapeError
from nbfused.scalar.ir.nodes import Block, Custom, Function, Let, literal
from nbfused.specs import Map
from nbfused.testing import GradcheckError, check_backward

pytestmark = pytest.mark.interpreted

A = np.random.default_rng(0).uniform(0.5, 2.0, (2, 3))


def product(factor):
    """The product of two arrays, its derivative by the second one times `factor`."""
    @nf.custom_vjp
    def product(x, y):
        return x * y

    product.defvjp(lambda x, y: (x * y, (x, y)),
                   lambda saved, g: (saved[1] * g, saved[0] * g * factor))
    return product


def scaled(factor):
    """The square as a Map whose scalar function has a rule, right for factor 2."""
    square = Function("square", ("x",), Block((
        Let(("y",), "mul", ("x", "x")),), ("y",)))
    rule = Function("rule", ("x", "g"), Block((
        Let(("a",), "mul", ("x", "g")),
        Let(("b",), "mul", ("a", literal(float(factor)))),), ("b",)))
    outer = Function("scaled", ("u",), Block((
        Custom(("v",), square, ("u",), rule),), ("v",)))
    return Map(outer, ("element",))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_right_rule_passes_among_others(dtype, device):
    x = nf.Variable(nf.array(A.astype(dtype), device=device), requires_grad=True)
    y = nf.ops.exp(product(1.0)(x, nf.ops.sin(x))).sum()
    assert check_backward(y) == 1
    y.backward()  # the graph is still there


def test_a_wrong_rule_is_named(device):
    x = nf.Variable(nf.array(A, device=device), requires_grad=True)
    y = product(1.01)(nf.ops.exp(x), x).sum()
    with pytest.raises(GradcheckError, match=r"product: .*argument 1 at.*'y'") as found:
        check_backward(y)
    error = found.value
    assert (error.argument, error.mode) == (1, "reverse")
    assert error.analytic == pytest.approx(1.01 * error.numeric)


def test_one_wrong_element_is_found_where_all_are_looked_at():
    wrong = np.ones((2, 3))
    wrong[1, 2] = 1.1
    with pytest.raises(GradcheckError) as found:
        check_backward(product(wrong)(*(nf.Variable(A, requires_grad=True),) * 2).sum())
    assert found.value.index == (1, 2)


def test_rules_of_scalar_functions(device):
    x = nf.Variable(nf.array(A, device=device), requires_grad=True)
    assert check_backward(apply(scaled(2.0), (x,))[0].sum()) == 1
    with pytest.raises(GradcheckError, match=r"scaled: .*argument 0"):
        check_backward(apply(scaled(3.0), (x,))[0].sum())


@nf.elementwise
def written(x, scale):
    return x * scale


@written.defvjp
def wrong_by_scale(x, scale, g):
    return g * scale, 1.5 * g * x


def test_a_rule_in_the_scalar_language_names_the_parameter():
    x, scale = (nf.Variable(a, requires_grad=True) for a in (A, A + 1))
    with pytest.raises(GradcheckError, match=r"written.*argument 1.*'scale'") as found:
        check_backward(nf.ops.sqrt(written(x, scale)).sum())
    assert found.value.analytic == pytest.approx(1.5 * found.value.numeric)
    with pytest.raises(GradcheckError, match=r"written.*argument 1.*'scale'"):
        nf.testing.gradcheck(written, [A, A + 1])
    constant = written(x, A)  # whose derivative nobody asks for
    assert check_backward(constant.sum()) == 1


def test_decorators_check_each_call_that_records():
    @nf.elementwise(gradcheck=True)
    def square(x, y):
        return x * x * y

    @nf.custom_vjp(gradcheck=True)
    def tripled(x, y):
        return x * 3.0 * y

    tripled.defvjp(lambda x, y: (x * 3.0 * y, y), lambda y, g: (g * 3.0 * y, None))
    x = nf.Variable(A.astype("f4"), requires_grad=True)
    tripled(square(x, 2.0), A.astype("f4")).sum().backward()
    np.testing.assert_allclose(x.grad, 12 * A * A, rtol=1e-6)
    with pytest.raises(GradcheckError, match="argument 1"):
        tripled(x, x)
    with nf.no_grad():
        tripled(x, x)


def test_a_wrong_rule_is_found_by_the_decorator():
    @nf.elementwise(gradcheck=True)
    def square(x):
        return x * x

    @square.defvjp
    def wrong(x, g):
        return x * g

    np.testing.assert_allclose(square(A), A * A)
    with pytest.raises(GradcheckError, match=r"square.*argument 0.*'x'"):
        square(nf.Variable(A, requires_grad=True))


def test_backward_checks_where_it_is_asked_to():
    x = nf.Variable(A, requires_grad=True)
    product(1.0)(x, x).sum().backward(gradcheck=True)
    np.testing.assert_allclose(x.grad, 2 * A)
    x.zero_grad()
    with pytest.raises(GradcheckError):
        product(2.0)(x, x).sum().backward(gradcheck=True)
    with config.override(check_grads=True), pytest.raises(GradcheckError):
        product(2.0)(x, x).sum().backward()
    assert x.grad is None
    product(2.0)(x, x).sum().backward()


def test_without_rules_there_is_nothing_to_check():
    x = nf.Variable(A, requires_grad=True)
    assert check_backward(nf.ops.square(x).sum()) == 0
    with pytest.raises(TapeError, match="nothing was recorded"):
        check_backward(nf.Variable(A))
