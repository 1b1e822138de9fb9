"""grad, value_and_grad, vjp, jvp."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NbFusedWarning, RangeError, ShapeError
from tests.refusal import refused

pytestmark = pytest.mark.interpreted

A = np.array([1.0, 2.0, 3.0])
B = np.array([4.0, 0.5, -1.0])


@nf.elementwise
def cube(x):
    return x * x * x


class TestGrad:
    def test_of_one_element(self):
        g = nf.grad(lambda x: (x * x).sum())(A)
        assert isinstance(g, np.ndarray)
        np.testing.assert_array_equal(g, 2 * A)

    def test_orders_of_an_elementwise_function(self):
        """L38: x³ at 2 gives 12, 12, 6."""
        f: Any = cube
        found = []
        for _ in range(3):
            f = nf.grad(f)
            found.append(f(np.array([2.0])))
        np.testing.assert_allclose(found, [[12.0], [12.0], [6.0]])

    def test_elementwise_functions_give_the_derivative_per_element(self):
        def f(x):
            return nf.ops.sin(x) * x + x / (1.0 + x * x)

        def slope(x):
            return np.cos(x) * x + np.sin(x) + (1 - x * x) / (1 + x * x) ** 2

        np.testing.assert_allclose(nf.grad(f)(A), slope(A), rtol=1e-12)
        h = 1e-6
        np.testing.assert_allclose(nf.grad(nf.grad(f))(A),
                                   (slope(A + h) - slope(A - h)) / (2 * h), rtol=1e-8)

    def test_of_numbers(self):
        assert nf.grad(lambda x: x ** 3)(2.0) == 12.0
        assert nf.grad(lambda x: x ** 3)(2) == 12.0

    @pytest.mark.parametrize("f", [
        lambda x: x * x.sum(), lambda x: x.reshape(3, 1), lambda x: x[::-1],
        lambda x: x * np.ones((2, 3)), lambda x: nf.ops.softmax(x)],
        ids=["reduction", "shape", "view", "broadcast", "row"])
    def test_of_other_outputs_raises(self, f):
        with pytest.raises(ShapeError, match="elementwise"):
            nf.grad(f)(A)

    def test_a_tracked_operand_of_another_shape_may_broadcast(self):
        w = nf.Variable(2.0, requires_grad=True)
        g = nf.grad(lambda x: x * x * w)(A)
        np.testing.assert_array_equal(g.to_numpy(), 4 * A)

    def test_argnums(self):
        def f(x, y, z):
            return (x * y + z).sum()

        np.testing.assert_array_equal(nf.grad(f, 1)(A, 2 * A, A), A)
        x, z = nf.grad(f, (0, -1))(A, 2 * A, A)
        np.testing.assert_array_equal(x, 2 * A)
        np.testing.assert_array_equal(z, np.ones(3))
        with pytest.raises(ValueError, match="out of range"):
            nf.grad(f, 3)(A, A, A)
        with pytest.raises(ValueError, match="twice"):
            nf.grad(f, (0, -3))(A, A, A)

    def test_keywords_are_passed_on(self):
        np.testing.assert_array_equal(
            nf.grad(lambda x, *, scale: (x * scale).sum())(A, scale=3.0), [3.0] * 3)

    def test_value_and_aux(self):
        value, g = nf.value_and_grad(lambda x: (x * x).sum())(A)
        assert value == 14.0
        np.testing.assert_array_equal(g, 2 * A)
        (value, aux), g = nf.value_and_grad(
            lambda x: ((x * x).sum(), "aux"), has_aux=True)(A)
        assert (float(value), aux) == (14.0, "aux")
        g, aux = nf.grad(lambda x: ((x * x).sum(), 7), has_aux=True)(A)
        assert aux == 7
        with pytest.raises(ShapeError, match="aux"):
            nf.grad(lambda x: x.sum(), has_aux=True)(A)

    def test_what_does_not_depend_has_gradient_zero(self):
        np.testing.assert_array_equal(nf.grad(lambda x: np.ones(1))(A), np.zeros(3))
        np.testing.assert_array_equal(
            nf.grad(lambda x, y: (y * y).sum())(A, A), np.zeros(3))

    def test_arguments_are_checked(self):
        def f(x):
            return x.sum()

        with pytest.raises(KernelTypeError, match="argument 0 of f has dtype int64"):
            nf.grad(f)(np.arange(3))
        with pytest.raises(KernelTypeError, match=r"argument 0.*str"):
            nf.grad(lambda x: x)("text")

    def test_outputs_are_checked(self):
        with pytest.raises(KernelTypeError, match="int64"):
            nf.grad(lambda x: x.argmax())(A)
        with pytest.raises(KernelTypeError, match="returned a str"):
            nf.grad(lambda x: "text")(A)
        with pytest.raises(ShapeError, match="several outputs"):
            nf.grad(lambda x: (x, x))(A)

    def test_perturbations_are_not_confused(self):
        """d/dx [x · d/dy (x + y)] at y = x is 1, not 2."""
        f = nf.grad(lambda x: x * nf.grad(lambda y: x + y)(x))
        assert f(3.0) == 1.0

    def test_a_closed_over_variable_gets_its_gradient(self):
        w = nf.Variable(np.array(3.0), requires_grad=True)
        g = nf.grad(lambda x: (w * x * x).sum())(A)
        assert isinstance(g, nf.Variable)
        g.sum().backward()  # d/dw sum(2 w x)
        assert w.grad == 2 * A.sum()

    def test_variables_give_variables(self):
        x = nf.Variable(A)
        g = nf.grad(lambda v: (v * v).sum())(x)
        assert isinstance(g, nf.Variable)
        assert not g.requires_grad
        tracked = nf.Variable(A, requires_grad=True)
        nf.grad(lambda v: (v * v * v).sum())(tracked).sum().backward()
        np.testing.assert_allclose(tracked.grad, 6 * A)

    def test_leaves_of_the_caller_keep_their_grad(self):
        x = nf.Variable(A, requires_grad=True)
        nf.grad(lambda v: (v * v).sum())(x)
        assert x.grad is None

    def test_records_inside_no_grad(self):
        with nf.no_grad():
            np.testing.assert_array_equal(nf.grad(cube)(A), 3 * A * A)

    def test_float32_stays_float32(self):
        g = nf.grad(nf.grad(cube))(A.astype("float32"))
        assert g.dtype == np.float32

    def test_hessian_vector_product(self):
        m = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.0, -1.0, 1.0]])
        v = np.array([1.0, -2.0, 0.5])

        def f(x):  # ½ xᵀMx · Σx
            return ((x.reshape(3, 1) * m * x).sum() * 0.5) * x.sum()

        def gradient(x):
            return m @ x * x.sum() + 0.5 * x @ m @ x

        hv = nf.grad(lambda x: (nf.grad(f)(x) * v).sum())(A)
        h = 1e-6
        np.testing.assert_allclose(
            hv, (gradient(A + h * v) - gradient(A - h * v)) / (2 * h), rtol=1e-7)

    def test_runs_one_kernel_forward_and_one_back(self):
        nf.grad(cube)(A)
        with nf.trace_launches() as launches:
            nf.grad(cube)(A)
        assert [launch.kind for launch in launches] == ["Map"] * 2


MATRIX = np.array([[0.5, -1.2, 0.3], [1.0, 0.4, -0.7]])
WEIGHTS = np.array([[0.3, 1.0, -0.8], [-0.5, 0.9, 0.2]])

CURVED = {
    "broadcast": lambda x: nf.ops.tanh(x[0] * MATRIX + x[:, :1]),
    "softmax": lambda x: nf.ops.softmax(x),
    "layer_norm": lambda x: nf.ops.layer_norm(x * MATRIX, x[0] * x[1], x[1]),
    "logsumexp": lambda x: nf.ops.logsumexp(x * x[0], axis=1).reshape(2, 1) * x,
    "prod": lambda x: nf.ops.prod(x * x[0], axis=1).reshape(2, 1) * x,
    "var": lambda x: nf.ops.var(x * x[0], axis=1).reshape(2, 1) * x,
    "linear": lambda x: nf.ops.linear(x, MATRIX.T, x[0, :2], activation="gelu")
    @ MATRIX,
}


@pytest.mark.parametrize("name", [
    name if name in ("prod", "linear")
    else pytest.param(name, marks=pytest.mark.variants) for name in CURVED])
def test_derivatives_up_to_the_third(name):
    """Along a direction; each against central differences of the one before."""
    direction = np.array([[1.0, 0.5, -0.3], [-0.2, 0.8, 0.4]])

    def along(f):
        return lambda x: (nf.grad(f)(x) * direction).sum()

    f = along(lambda x: (CURVED[name](x) * WEIGHTS).sum())
    step = 1e-5
    for _ in range(2):
        found = nf.grad(f)(MATRIX)
        up, down = f(MATRIX + step * direction), f(MATRIX - step * direction)
        np.testing.assert_allclose((found * direction).sum(), (up - down) / (2 * step),
                                   rtol=1e-6, atol=1e-8)
        f = along(f)


ONES = np.ones(3)
NESTED = {
    "grad-grad": (lambda x: nf.grad(lambda y: (x * y * y).sum())(B).sum(), 2 * B),
    "grad-jvp": (lambda x: nf.jvp(lambda y: (x * y**3).sum(), (B,), (ONES,))[1],
                 3 * B**2),
    "grad-vjp": (lambda x: nf.vjp(lambda y: x * y * y, B)[0].sum(), B * B),
    "grad-pullback": (lambda x: nf.vjp(lambda y: x * y * y, B)[1](x)[0].sum(),
                      4 * A * B),
    "grad-grad-grad": (lambda x: nf.grad(lambda y: nf.grad(
        lambda z: (x * y * y * z * z).sum())(B).sum())(A).sum(), 4 * A * B),
}


@pytest.mark.parametrize("kind", NESTED)
def test_transforms_in_transforms_give_arrays(kind):
    function, expected = NESTED[kind]
    found = nf.grad(function)(A)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected)
    y, dy = nf.jvp(lambda x: x * function(x), (A,), (ONES,))
    assert isinstance(y, np.ndarray)
    assert isinstance(dy, np.ndarray)


def test_what_a_transformed_function_closes_over_stays_differentiable():
    x = nf.Variable(A, requires_grad=True)
    found = nf.grad(lambda y: (x * y * y).sum())(B)
    assert isinstance(found, nf.Variable)
    found.sum().backward()
    np.testing.assert_allclose(x.grad, 2 * B)


class TestVjp:
    def test_may_be_called_again(self):
        y, pullback = nf.vjp(nf.ops.square, A)
        assert isinstance(y, np.ndarray)
        np.testing.assert_array_equal(y, A * A)
        for c in (np.ones(3), A):
            (g,) = pullback(c)
            assert isinstance(g, np.ndarray)
            np.testing.assert_array_equal(g, 2 * A * c)

    def test_several_inputs_and_outputs(self):
        (product, total), pullback = nf.vjp(lambda x, y: (x * y, x + y), A, 2 * A)
        np.testing.assert_array_equal(product, 2 * A * A)
        np.testing.assert_array_equal(total, 3 * A)
        x, y = pullback(A, np.ones(3))
        np.testing.assert_array_equal(x, 2 * A * A + 1)
        np.testing.assert_array_equal(y, A * A + 1)

    def test_cotangents_are_checked(self):
        _, pullback = nf.vjp(nf.ops.square, A)
        with pytest.raises(ShapeError, match="2 cotangents for 1 outputs"):
            pullback(A, A)
        with pytest.raises(ShapeError, match="cotangent 0"):
            pullback(np.ones(2))
        with pytest.raises(KernelTypeError, match="float32"):
            pullback(np.ones(3, "float32"))

    def test_a_tracked_cotangent_is_differentiated(self):
        c = nf.Variable(A, requires_grad=True)
        _, pullback = nf.vjp(nf.ops.square, A)
        (g,) = pullback(c)
        g.sum().backward()
        np.testing.assert_array_equal(c.grad, 2 * A)


class TestJvp:
    def test_pushes_tangents(self):
        """L08."""
        x, dx = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 0.0, 0.0, 1.0])
        y, dy = nf.jvp(nf.ops.square, (x,), (dx,))
        np.testing.assert_array_equal(y, x * x)
        np.testing.assert_array_equal(dy, [2.0, 0.0, 0.0, 8.0])
        assert isinstance(dy, np.ndarray)

    def test_several_inputs_and_outputs(self):
        (_, s), (dp, ds) = nf.jvp(lambda x, y: (x * y, (x + y).sum()),
                                  (A, 2 * A), (np.ones(3), A))
        np.testing.assert_array_equal(dp, 2 * A + A * A)
        assert s == 18.0
        assert ds == 3 + A.sum()

    def test_numbers(self):
        y, dy = nf.jvp(lambda x: x ** 3, (2.0,), (1.0,))
        assert (y, dy) == (8.0, 12.0)

    def test_outputs_without_derivative(self):
        (_, at), (dy, dat) = nf.jvp(lambda x: (x * 2.0, x.argmax()), (A,), (A,))
        np.testing.assert_array_equal(dy, 2 * A)
        assert at == 2
        assert dat == 0

    def test_is_exact_where_the_value_is_not_smooth(self):
        _, dy = nf.jvp(nf.ops.relu, (np.array([-1.0, 0.0, 1.0]),), (np.ones(3),))
        np.testing.assert_array_equal(dy, [0.0, 0.0, 1.0])

    def test_checks_its_arguments(self):
        with pytest.raises(ShapeError, match="tangents"):
            nf.jvp(nf.ops.square, (A,), ())
        with pytest.raises(ShapeError, match="tangent 0"):
            nf.jvp(nf.ops.square, (A,), (np.ones(2),))

    def test_forward_over_reverse(self):
        v = np.array([1.0, 0.0, -1.0])
        g, hv = nf.jvp(nf.grad(lambda x: (x * x * x).sum()), (A,), (v,))
        np.testing.assert_allclose(g, 3 * A * A)
        np.testing.assert_allclose(hv, 6 * A * v)

    def test_agrees_with_vjp(self):
        m = np.random.default_rng(0).normal(size=(4, 3))

        def f(x):
            return nf.ops.tanh((x.reshape(1, 3) * m).sum(axis=1))

        v, c = np.array([0.3, -1.0, 2.0]), np.array([1.0, 2.0, -0.5, 0.1])
        _, pushed = nf.jvp(f, (A,), (v,))
        _, pullback = nf.vjp(f, A)
        np.testing.assert_allclose(pushed @ c, pullback(c)[0] @ v, rtol=1e-12)


@pytest.mark.parametrize("argnums", ["a", None, 1.5, ("x",), True, (0, False)], ids=str)
def test_argnums_that_are_no_integers(argnums):
    with refused(KernelTypeError, "argnums: expected an integer", repr(argnums)):
        nf.grad(nf.ops.square, argnums=argnums)


def test_argnums_are_integers_of_any_kind():
    g = nf.grad(lambda x, y: (x * y).sum(), argnums=np.int64(1))
    np.testing.assert_array_equal(g(A, B), A)
    g = nf.grad(lambda x, y: (x * y).sum(), argnums=iter((1, 0)))
    for _ in range(2):
        np.testing.assert_array_equal(g(A, B), (A, B))


def test_nothing_is_left_on_the_tape_inside_no_grad():
    x = nf.Variable(A, requires_grad=True)
    _, pullback = nf.vjp(nf.ops.square, x)
    assert pullback(x)[0].requires_grad
    with nf.no_grad():
        value, gradient = nf.value_and_grad(lambda v: (v * v).sum())(x)
        pushed = nf.jvp(nf.ops.square, (x,), (x,))
        pulled = pullback(x)
    assert not any(v.requires_grad for v in (value, gradient, *pushed, *pulled))
    np.testing.assert_array_equal(gradient.data, 2 * A)
    np.testing.assert_array_equal(pulled[0].data, 2 * A * A)


def test_a_function_of_math_ends_the_gradient_with_a_warning():
    with pytest.warns(NbFusedWarning, match=r"math.*NumPy's functions"):
        found = nf.grad(lambda x: x.sum() * math.sin(x[0]))(A)
    np.testing.assert_allclose(found, np.sin(1.0))
    assert nf.grad(lambda x: x.sum() * x[0].item())(A).tolist() == [1.0, 1.0, 1.0]
    total = nf.Variable(A, requires_grad=True).sum()
    assert math.log(total) == math.log(6.0)  # read in a loop of training: no warning


def test_argnums_out_of_range():
    for argnums, words in ((7, "7 is out of range"), ((0, 0), "twice")):
        with refused(RangeError, "argnums: ", words):
            nf.grad(nf.ops.square, argnums=argnums)(np.ones(3))


@pytest.mark.parametrize("transform", [
    nf.grad, nf.value_and_grad, nf.checkpoint, nf.custom_vjp,
    lambda f: nf.vjp(f, np.ones(3)), lambda f: nf.jvp(f, (np.ones(3),), (np.ones(3),))])
def test_what_is_no_function(transform):
    with refused(KernelTypeError, "a function of arrays", "got 3", "not its result"):
        transform(3)


def test_primals_and_tangents_are_tuples():
    x = np.ones(3)
    with refused(KernelTypeError, "jvp: 'primals'", "ndarray", "put it in a tuple"):
        nf.jvp(nf.ops.square, x, (x,))
    with refused(KernelTypeError, "jvp: 'tangents'", "Variable", "put it in a tuple"):
        nf.jvp(nf.ops.square, (x,), nf.Variable(x))
