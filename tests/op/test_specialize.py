"""Constants: literal parameters, and kernels with other globals."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ScalarSyntaxError
from nbfused.kernels.threads.rawkernel import rawkernel
from nbfused.op.specialize import specialize
from nbfused.scalar.source.static import literal, local, unroll
from tests.refusal import refused

pytestmark = pytest.mark.interpreted

SCALE, PAIR = 3.0, (1.0, 2.0)


@nf.func
def scaled(x):
    return SCALE * x


def plain(x):
    return scaled(x) + PAIR[0]


@nf.elementwise
def total(x):
    return plain(x) + 1


@nf.elementwise
def power(x, n: literal = 2, *, scale: literal = 1.0):
    y = 1.0
    for _ in unroll(range(n)):
        y *= x
    return y * scale


@nf.elementwise
def cosine_like(x, terms: literal):
    table = local(terms)
    for k in range(terms):
        table[k] = x * k
    return sum(table)


@nf.elementwise
def uses_power(x):
    return power(x, 3) + power(x)


@nf.elementwise
def misuses_power(x, n):
    return power(x, n)


def test_a_literal_is_frozen_at_the_call(device):
    x = nf.array([1.0, 2.0, 3.0], device=device)
    for n in (0, 1, 2, 5):
        np.testing.assert_array_equal(nf.to_numpy(power(x, n)),
                                      np.array([1.0, 2.0, 3.0])**n)
    np.testing.assert_array_equal(nf.to_numpy(power(x, n=3, scale=2.0)), [2, 16, 54])
    np.testing.assert_array_equal(nf.to_numpy(power(x)), [1, 4, 9])
    np.testing.assert_array_equal(nf.to_numpy(cosine_like(x, 4)), [6, 12, 18])
    assert power.nin == 1


def test_true_one_and_one_point_zero_are_three_literals():
    @nf.elementwise
    def constant(x, value: literal):
        return x + value

    kinds = [constant(np.arange(2), v).dtype.kind for v in (1, 1.0, True, 1)]
    assert kinds == ["i", "f", "i", "i"]


def test_gradients_and_outputs(device):
    x = nf.Variable(nf.array([1.0, 2.0], device=device), requires_grad=True)
    power(x, 3).sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(x.grad), [3.0, 12.0])
    out = nf.array([0.0, 0.0], device=device)
    assert power(x.data, 2, out=out) is out
    np.testing.assert_array_equal(nf.to_numpy(out), [1.0, 4.0])


def test_literals_inside_functions():
    assert uses_power(2.0) == 12.0
    with pytest.raises(ScalarSyntaxError, match=r"'n' is an nf\.literal"):
        misuses_power(2.0, 3)


def test_literals_as_plain_python():
    assert power.pyfunc(2.0, 3) == 8.0
    assert literal(3) == 3
    assert list(range(literal(2))) == [0, 1]
    assert literal(literal(2.5)) == 2.5


@pytest.mark.parametrize("value", [np.ones(2), "3", None])
def test_what_is_no_literal(value):
    with refused(KernelTypeError, "power: 'n' is an nf.literal", "expected a number"):
        power(2.0, value)
    with refused(KernelTypeError, "cosine_like: 'terms'", "got nothing"):
        cosine_like(2.0)
    with refused(KernelTypeError, "nf.literal takes", "got dict"):
        literal({})


def test_specialize_reaches_functions_of_the_module():
    assert total(1.0) == 5.0
    changed = specialize(total, SCALE=10.0, PAIR=(5.0, 2.0))
    assert changed(1.0) == 16.0
    assert total(1.0) == 5.0
    assert specialize(plain, SCALE=2)(1.0) == 3.0
    assert changed.function != total.function
    assert specialize(total, SCALE=10.0, PAIR=(5.0, 2.0)).function == changed.function
    assert specialize(changed, SCALE=0.0)(1.0) == 6.0


def test_specialize_literals_and_closures():
    def make(shift):
        @nf.elementwise
        def shifted(x):
            return x + shift
        return shifted

    one = make(1.0)
    assert (one(1.0), make(2.0)(1.0), specialize(one, shift=5.0)(1.0)) == (2, 3, 6)
    assert specialize(power, n=4)(2.0) == 16.0
    assert specialize(power, n=4, scale=0.5)(2.0) == 8.0
    assert power(2.0) == 4.0
    assert specialize(cosine_like, terms=3)(1.0) == 3.0


def test_specialize_refuses():
    with refused(KernelTypeError, "total uses no", "'SCALLE'", "PAIR, SCALE"):
        specialize(total, SCALLE=1)
    with refused(KernelTypeError, "'SCALE' must be a number", "got ndarray"):
        specialize(total, SCALE=np.ones(3))
    with refused(KernelTypeError, "expected a kernel or function", "got int"):
        specialize(3, SCALE=1)

    @nf.reduction(combine="sum")
    def weighed(x):
        return x * SCALE

    with refused(KernelTypeError, "weighed: specialize takes", "nf.func"):
        specialize(weighed, SCALE=1)


@rawkernel
def filled(y, n: literal, value: literal = 1.0):
    i = nf.grid(1)
    v = local(n)
    for k in range(n):
        v[k] = value * k
    if i < y.size:
        y[i] = sum(v) * SCALE


@pytest.mark.compiled
def test_kernels_have_literals_too(device):
    def run(kernel, *args):
        y = nf.array(np.zeros(3), device=device)
        kernel((1,), (32,), (y, *args))
        return nf.to_numpy(y)[2]

    assert run(filled, 3) == 9.0
    assert run(filled, 4, 2.0) == 36.0
    assert run(specialize(filled, n=5)) == 30.0
    assert run(specialize(filled, SCALE=1.0), 3) == 3.0
    assert run(filled, 3) == 9.0


def test_specialize_reaches_functions_through_closures():
    def make(shift):
        @nf.func
        def moved(x):
            return x + shift

        @nf.elementwise
        def both(x):
            return moved(x) * shift

        return both

    both = make(2.0)
    assert (both(1.0), nf.specialize(both, shift=3.0)(1.0), both(1.0)) == (6, 12, 6)


class Constants:
    SCALE = 5.0


@nf.elementwise
def by_attribute(x):
    return Constants.SCALE * x


@nf.func
def scaled_cubed(x):
    return SCALE * x * x * x


SLOPE = nf.derivative(scaled_cubed)


@nf.elementwise
def uses_slope(x):
    return SLOPE(x, 1.0) + SCALE


def test_what_specialize_cannot_reach_is_refused():
    """Each of these kept the old constant without a word."""
    with refused(KernelTypeError, "by_attribute uses no", "'SCALE'"):
        specialize(by_attribute, SCALE=1.0)
    with refused(KernelTypeError, "scaled_cubed_vjp", "nf.derivative", "inside"):
        specialize(uses_slope, SCALE=1.0)
    with refused(KernelTypeError, "uses_power uses no", "'n'"):
        specialize(uses_power, n=4)


def test_a_rule_that_alone_reads_the_constant():
    def make(weight):
        @nf.elementwise
        def f(x):
            return x * x

        @f.defvjp
        def rule(x, g):
            return weight * x * g

        return f

    f = make(2.0)
    assert (nf.grad(f)(3.0), nf.grad(specialize(f, weight=7.0))(3.0)) == (6.0, 21.0)
