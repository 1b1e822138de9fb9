"""Every public transform × every kind of scalar and array × order, from one table.

The derivatives are compared with closed forms in float64.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import nbfused as nf
from tests.variants import sampled_together

pytestmark = pytest.mark.interpreted


def function(x):
    return nf.ops.multiply(nf.ops.sin(x), nf.ops.square(x))


#: The function and its derivatives.
EXPECTED = (
    lambda x: np.sin(x) * x * x,
    lambda x: np.cos(x) * x * x + 2 * x * np.sin(x),
    lambda x: (2 - x * x) * np.sin(x) + 4 * x * np.cos(x),
    lambda x: (6 - x * x) * np.cos(x) - 6 * x * np.sin(x),
)


@nf.elementwise
def one_kernel(x):
    return np.sin(x) * (x * x)


fused = nf.fuse(function)
derived = nf.fuse(lambda x: nf.grad(function)(x))


def nested(transform, f=function):
    """The derivative of an order, by a transform that gives the first one."""

    def derivative(order, x):
        g = f
        for _ in range(order):
            g = transform(g)
        return g(x)

    return derivative


def ones(x):
    """A direction, or a cotangent, of the type of `x`."""
    if isinstance(x, float) and not isinstance(x, np.generic):
        return 1.0
    return type(x)(1.0) if isinstance(x, np.generic) else nf.ones_like(x)


def by_vjp(f):
    def derivative(x):
        y, pullback = nf.vjp(f, x)
        return pullback(ones(y))[0]

    return derivative


def by_rule(f):
    rule = nf.custom_vjp(lambda x: f(x))
    rule.defvjp(lambda x: (f(x), x),
                lambda x, g: (nf.ops.multiply(g, by_vjp(f)(x)),))
    return by_vjp(rule)


def by_class(f):
    class Applied(nf.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return f(x)

        @staticmethod
        def backward(ctx, g):
            return nf.ops.multiply(g, by_vjp(f)(*ctx.saved_tensors))

    return by_vjp(Applied.apply)


def by_jvp(f):
    return lambda x: nf.jvp(f, (x,), (ones(x),))[1]


def by_backward(order, x, f=function):
    v = nf.Variable(x, requires_grad=True)
    y = f(v)
    for _ in range(order):
        v.zero_grad()
        y.backward(ones(y.data), create_graph=True)
        y = v.grad
    return y


TRANSFORMS = {
    "grad": nested(nf.grad),
    "value_and_grad": nested(lambda f: lambda x: nf.value_and_grad(f)(x)[1]),
    "vjp": nested(by_vjp),
    "jvp": nested(by_jvp),
    "grad, then jvp": lambda order, x: by_jvp(partial(nested(nf.grad), order - 1))(x),
    "jvp, then grad": lambda order, x: nf.grad(partial(nested(by_jvp), order - 1))(x),
    "checkpoint": nested(lambda f: by_vjp(nf.checkpoint(f))),
    "checkpoint outside": nested(lambda f: nf.checkpoint(by_vjp(f))),
    "custom_vjp": nested(by_rule),
    "Function": nested(by_class),
    "backward": by_backward,
    "backward of checkpoint": partial(by_backward, f=nf.checkpoint(function)),
    "elementwise": nested(nf.grad, one_kernel),
    "fuse": nested(nf.grad, fused),
    "backward of fuse": partial(by_backward, f=fused),
}


_ROW = np.array([1.3, -0.4, 2.0])


def tensor(values, dtype="float64"):
    torch = pytest.importorskip("torch")
    return torch.tensor(values, dtype=getattr(torch, dtype))


#: How each kind of argument is made.
ARGUMENTS = {
    "float": lambda: 1.3,
    "float64": lambda: np.float64(1.3),
    "float32": lambda: np.float32(1.3),
    "array without dimensions": lambda: np.array(1.3),
    "element": lambda: _ROW[0],
    "sum": lambda: _ROW.sum(),
    "vector": lambda: _ROW.copy(),
    "float32 vector": lambda: _ROW.astype("f"),
    "strided matrix": lambda: np.linspace(-2, 2, 24).reshape(4, 6)[::2, ::-3],
    "tensor without dimensions": lambda: tensor(1.3),
    "tensor": lambda: tensor([1.3, -0.4, 2.0], "float32"),
}


SCALARS = ["float", "float64", "float32", "array without dimensions", "element", "sum",
           "tensor without dimensions"]


def host(x):
    return np.asarray(nf.to_numpy(x))


#: Whose third derivatives stand for those of the other arguments.
THIRD = ("float", "float32 vector")
#: Whose second derivatives others stand for: `element` is a float64, too.
AS_OTHERS = ("float64", "float32", "sum", "vector")
POINTS = [(argument, order) for argument in ARGUMENTS for order in (1, 2, 3)]


@pytest.mark.parametrize(("argument", "order"), sampled_together(
    POINTS, *(
        (a, order) for a, order in POINTS
        if order == 1 or a in THIRD or (order == 2 and a not in AS_OTHERS))))
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_derivatives(transform, argument, order):
    x = ARGUMENTS[argument]()
    exact = np.asarray(x, dtype=np.float64)
    found = host(TRANSFORMS[transform](order, x))
    single = getattr(x, "dtype", None) is not None and "32" in str(x.dtype)
    assert found.dtype == (np.float32 if single else np.float64)
    assert found.shape == exact.shape
    np.testing.assert_allclose(found, EXPECTED[order](exact),
                               rtol=2e-5 if single else 1e-12, atol=1e-6)


@pytest.mark.parametrize("argument", [a for a in ARGUMENTS if "tensor" in a])
def test_derivatives_on_the_tape_of_torch(argument):
    x = ARGUMENTS[argument]().requires_grad_()
    torch = pytest.importorskip("torch")
    y = function(x)
    for order in (1, 2, 3):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        np.testing.assert_allclose(
            y.detach().numpy(), EXPECTED[order](x.detach().numpy().astype(float)),
            rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("start", [2.0, np.float64(2.0), np.array([2.0])[0],
                                   np.array([0.5, 1.5]).sum(), np.array(2.0)])
def test_newton_finds_a_minimum(start):
    """Each step is taken at what the last one gave."""
    f = lambda x: x * x * x * x - 3.0 * x  # noqa: E731
    first, second = nf.grad(f), nf.grad(nf.grad(f))
    x = start
    for _ in range(8):
        x = x - first(x) / second(x)  # NumPy makes a scalar of it
    np.testing.assert_allclose(float(x), 0.75 ** (1 / 3), rtol=1e-14)


@pytest.mark.parametrize("argument", ["float64", "element", "sum",
                                      "array without dimensions", "vector"])
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_gradcheck_takes_numpys_scalars(argument, mode):
    nf.testing.gradcheck(function, [ARGUMENTS[argument]()], order=2, modes=(mode,))


def test_gradcheck_finds_a_wrong_derivative_at_a_scalar():
    wrong = nf.custom_vjp(lambda x: x * x)
    wrong.defvjp(lambda x: (x * x, x), lambda x, g: (g * x,))
    with pytest.raises(nf.testing.GradcheckError):
        nf.testing.gradcheck(wrong, [np.float64(1.3)])


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_a_constant_has_the_derivative_zero(argument):
    x = ARGUMENTS[argument]()
    zeros = np.zeros(np.shape(x))
    value, slope = nf.value_and_grad(lambda x: 1.5)(x)
    assert float(value) == 1.5
    assert type(slope) is type(nf.ones_like(x) if hasattr(x, "dim") else zeros)
    np.testing.assert_array_equal(host(slope), zeros)
    np.testing.assert_array_equal(host(nf.grad(nf.grad(lambda x: 1.5))(x)), zeros)
    value, pullback = nf.vjp(lambda x: (x, 1.5), x)
    np.testing.assert_array_equal(
        host(pullback(nf.ones_like(value[0]), 1.0)[0]), zeros + 1)
    assert float(nf.jvp(lambda x: 1.5, (x,), (ones(x),))[1]) == 0.0


@pytest.mark.parametrize("argument", SCALARS)
def test_a_number_is_a_cotangent(argument):
    x = ARGUMENTS[argument]()
    for given in (2, 2.0):
        y, pullback = nf.vjp(function, x)
        (found,) = pullback(given)
        np.testing.assert_allclose(float(found), 2 * EXPECTED[1](float(x)), rtol=1e-6)
        assert type(found) is type(y)
    with pytest.raises(nf.errors.KernelTypeError, match="array of shape"):
        nf.vjp(function, np.ones(3))[1](1.0)


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_what_is_fused_may_hold_derivatives(argument):
    x = ARGUMENTS[argument]()
    for _ in range(3):
        found = derived(x)
        at, found = (v if isinstance(v, (float, np.generic)) else nf.to_numpy(v)
                     for v in (x, found))
        np.testing.assert_allclose(found, EXPECTED[1](at), rtol=1e-6)
