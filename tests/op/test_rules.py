"""Scalar functions with derivative rules of their own."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from nbfused.scalar.autodiff import differentiate
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.ir.nodes import Custom, walk
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.source.static import literal
from nbfused.scalar.source.structure import Array
from tests.refusal import refused

pytestmark = pytest.mark.interpreted


def clipped_function():
    @nf.elementwise
    def clipped(x, low, high):
        return min(max(x, low), high)

    @clipped.defvjp
    def straight_through(x, low, high, g):
        return g, 0.0, 0.0

    return clipped


def sincos_function():
    @nf.func
    def sincos(x, scale: literal = 1):
        return math.sin(x) * scale, math.cos(x) * scale

    @sincos.defvjp
    def sincos_vjp(x, scale, gs, gc):
        return 100 * scale * (gs * math.cos(x) - gc * math.sin(x))

    @sincos.defjvp
    def sincos_jvp(x, scale, dx):
        return 1000 * scale * math.cos(x) * dx, -1000 * scale * math.sin(x) * dx

    return sincos


def test_an_operation_on_arrays(device):
    clipped = clipped_function()
    x = nf.Variable(nf.array([-1.0, 0.5, 3.0], device=device), requires_grad=True)
    y = clipped(x, 0.0, 1.0)
    np.testing.assert_array_equal(nf.to_numpy(y.data), [0.0, 0.5, 1.0])
    (2.0 * y).sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(x.grad), [2.0, 2.0, 2.0])


def test_a_function_inside_another(device):
    sincos = sincos_function()

    @nf.elementwise
    def outside(x):
        s, c = sincos(x) if x > 0 else sincos(-x, 2)
        return s * s + c

    x = np.array([0.3, -0.4])
    a, k = np.abs(x), np.array([1, 2])
    s, c = k * np.sin(a), k * np.cos(a)
    np.testing.assert_allclose(outside(x), s * s + c)
    slope = (2 * s * k * np.cos(a) - k * np.sin(a)) * np.sign(x)
    v = nf.Variable(nf.array(x, device=device), requires_grad=True)
    outside(v).sum().backward()
    np.testing.assert_allclose(nf.to_numpy(v.grad), 100 * slope)
    forward = differentiate.jvp(outside.function, (True,))
    _, tangent = evaluate(forward, x, np.ones(2))
    np.testing.assert_allclose(tangent, 1000 * slope)


def test_it_stays_a_call_until_it_is_printed():
    calls = [s for s in walk(clipped_function().function.body) if isinstance(s, Custom)]
    assert len(calls) == 1


@nf.func
def get(image, gradient, x, y):
    return image[y, x] if 0 <= x < image.shape[1] and 0 <= y < image.shape[0] else 0.0


@get.defvjp
def get_vjp(image, gradient, x, y, g):
    if 0 <= x < image.shape[1] and 0 <= y < image.shape[0]:
        nf.atomic_add(gradient, y, x, g)


def test_an_accessor_with_arrays():
    """The derivative of a load is what the rule says: it adds to the second array."""
    def gathered(image, gradient, x, y):
        return get(image, gradient, x, y) + 2 * get(image, gradient, x + 1, y)

    function = parse(gathered, parameters={"image": Array(2), "gradient": Array(2)})
    backward = differentiate.vjp(function, (False,)*4, (True,))
    image, gradient = np.arange(12.0).reshape(3, 4), np.zeros((3, 4))
    x, y = np.array([0, 1, 3, 1]), np.array([0, 0, 2, 0])
    (found,) = evaluate(function, image, gradient, x, y)
    np.testing.assert_array_equal(found, [0 + 2, 1 + 4, 11 + 0, 1 + 4])
    evaluate(backward, image, gradient, x, y, np.array([1.0, 10.0, 100.0, 1000.0]))
    expected = np.zeros((3, 4))
    expected[0, :3] = [1.0, 2.0 + 1010.0, 2020.0]
    expected[2, 3] = 100.0
    np.testing.assert_array_equal(gradient, expected)


def test_tuples_are_flat_for_a_rule():
    @nf.func
    def dot(a, b):
        return a[0] * b[0] + a[1] * b[1]

    @dot.defvjp
    def dot_vjp(a, b, g):
        return 10 * g * b[0], 10 * g * b[1], 10 * g * a[0], 10 * g * a[1]

    @nf.elementwise
    def squared(x, y):
        v = [x, y]
        return dot(v, (x, 3.0))

    assert squared(2.0, 5.0) == 19.0
    assert nf.grad(squared)(2.0, 5.0) == 40.0
    assert nf.grad(squared, 1)(2.0, 5.0) == 30.0


def test_rules_of_the_wrong_size():
    def fresh(rule, what="defvjp"):
        @nf.elementwise
        def f(x, y):
            return x * y

        getattr(f, what)(rule)
        return f

    with refused(KernelTypeError, "vjp rule of f takes 2 values, expected 3: x, y"):
        fresh(lambda x, g: g)(1.0, 2.0)
    with refused(KernelTypeError, "vjp rule of f gives 1 cotangents, expected 2"):
        fresh(lambda x, y, g: g)(1.0, 2.0)
    with refused(KernelTypeError, "vjp rule of f has its parameters in another order",
                 "y, x; it takes them by position: x, y"):
        fresh(lambda y, x, g: (g, g))(1.0, 2.0)
    with refused(KernelTypeError, "jvp rule of f takes 3 values, expected 4"):
        fresh(lambda x, y, dx: dx, "defjvp")(1.0, 2.0)
    with refused(KernelTypeError, "jvp rule of f gives 2 tangents, expected 1"):
        fresh(lambda x, y, dx, dy: (dx, dy), "defjvp")(1.0, 2.0)


@pytest.mark.parametrize("rule", [None, 3, "g"])
def test_rules_that_are_no_functions(rule):
    clipped = clipped_function()
    for what in ("defvjp", "defjvp"):
        with refused(KernelTypeError, f"clipped.{what}: the rule is {rule!r}"):
            getattr(clipped, what)(rule)


def test_rules_come_before_the_first_use():
    clipped = clipped_function()
    clipped(1.0, 0.0, 2.0)
    with refused(KernelTypeError, "clipped.defvjp", "used already", "definition"):
        clipped.defvjp(lambda x, low, high, g: (g, g, g))
    with refused(KernelTypeError, "clipped.defjvp"):
        clipped.defjvp(lambda x, low, high, dx, dl, dh: dx)


def test_none_is_named():
    def fresh(rule):
        @nf.elementwise
        def f(x, y):
            return x

        f.defvjp(rule)
        return f

    with pytest.raises(SyntaxError, match=r"None is no number; write 0\.0"):
        fresh(lambda x, y, g: (g, None))(1.0, 2.0)
    with refused(KernelTypeError, "gives 0 cotangents, expected 2", "0.0"):
        fresh(lambda x, y, g: None)(1.0, 2.0)


def test_a_wrong_rule_is_found_at_the_first_use():
    def wrong(**options):
        @nf.func(**options)
        def product(a, b):
            return a * b

        @product.defvjp
        def product_vjp(a, b, g):
            return g * b, g * b

        return nf.elementwise(lambda x, y: product(x, y) + 1)

    assert wrong()(2.0, 3.0) == 7.0
    with pytest.raises(nf.testing.GradcheckError) as caught:
        wrong(gradcheck=True)(2.0, 3.0)
    error = caught.value
    assert (error.argument, error.mode) == (1, "reverse")
    for words in ("product: derivative by argument 1", "'b'", "finite differences"):
        assert words in str(error)
    assert error.analytic != pytest.approx(error.numeric)


def test_a_rule_that_cannot_be_checked():
    @nf.func(gradcheck=True)
    def repeated(x, n):
        for _ in range(n):
            x *= x
        return x

    repeated.defvjp(lambda x, n, g: (g, 0.0))
    with refused(KernelTypeError, "repeated cannot be checked", "testing.gradcheck"):
        nf.elementwise(lambda x: repeated(x, 2))(2.0)


def test_constants_for_the_derivative(device):
    @nf.elementwise(nondiff_argnames=("y",))
    def product(x, y):
        return x * y

    @nf.func(nondiff_argnames=("b",))
    def first(v, b):
        return v[0] * b

    @nf.elementwise
    def both(x, y):
        return first((x, y), y) + product(y, x)

    x, y = (nf.Variable(nf.array([v], device=device), requires_grad=True)
            for v in (3.0, 5.0))
    both(x, y).sum().backward()
    assert (nf.to_numpy(x.grad), nf.to_numpy(y.grad)) == (5.0, 3.0)
    y.zero_grad()
    product(x, y).sum().backward()
    assert y.grad is None or nf.to_numpy(y.grad) == 0.0
    with refused(KernelTypeError, "'nondiff_argnames' has 'z'", "x, y"):
        nf.elementwise(nondiff_argnames="z")(lambda x, y: x)


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("decorator", [nf.elementwise, nf.func])
def test_a_rule_for_tangents_beside_one_for_cotangents_is_checked(decorator, factor):
    @decorator(gradcheck=True)
    def square(x):
        return x*x

    @square.defvjp
    def pull(x, g):
        return 2*x*g

    @square.defjvp
    def push(x, t):
        return factor*x*t

    whole = nf.elementwise(lambda x: square(x) + 0) if decorator is nf.func else square
    x = nf.Variable(np.array([1.0, 2.0]), requires_grad=True)
    if factor == 3:
        with pytest.raises(nf.testing.GradcheckError, match="square: derivative by"):
            whole(x)
    else:
        whole(x).sum().backward()
        np.testing.assert_array_equal(x.grad, [2, 4])


def test_rules_hold_in_functions_without_source():
    """They are run on symbols: a plain call would leave the rule behind."""
    @nf.func
    def f(x, y=2.0, n: literal = 1):
        return x * y * n

    f.defvjp(lambda x, y, n, g: (10 * g * y * n, g * x))
    for text, slope in (("f(x)", 20), ("f(x, y=3.0)", 30), ("f(x, 3.0, n=4)", 120),
                        ("f(y=x, x=3.0)", 3)):
        names = {"f": f}
        exec(f"def traced(x): return {text}", names)
        assert nf.grad(nf.elementwise(names["traced"]))(1.0) == slope
