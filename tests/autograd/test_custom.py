"""`Function`: an operation with a backward of its own."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import (
    InplaceModificationError,
    KernelTypeError,
    NotDifferentiableError,
    ShapeError,
    TapeError,
)
from tests.refusal import refused

pytestmark = pytest.mark.interpreted

A = np.array([3.0, 4.0])


def leaf(x=A):
    return nf.Variable(np.array(x), requires_grad=True)


class Square(nf.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2.0 * x * g


class Exp(nf.Function):
    @staticmethod
    def forward(ctx, x):
        y = nf.ops.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * g


class Scale(nf.Function):
    calls: list = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, x, w, power):
        ctx.save_for_backward(x, w)
        ctx.power = power
        return x * w * power

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        Scale.calls.append(ctx.needs_input_grad)
        return g * w * ctx.power, (g * x).sum() * ctx.power, None


def test_first_order():
    """L12."""
    x = leaf()
    Square.apply(x).sum().backward()
    np.testing.assert_array_equal(x.grad, [6.0, 8.0])


@pytest.mark.parametrize(("function", "second"), [
    (Square, np.full(2, 2.0)), (Exp, np.exp(A))], ids=["argument", "result"])
def test_second_order(function, second):
    x = leaf()
    function.apply(x).sum().backward(create_graph=True)
    g, x.grad = x.grad, None
    g.sum().backward()
    np.testing.assert_allclose(x.grad, second)


def test_arrays_in_arrays_out():
    assert isinstance(Square.apply(A), np.ndarray)
    y = Square.apply(nf.Variable(A))
    assert isinstance(y, nf.Variable)
    assert y.grad_fn is None
    with nf.no_grad():
        assert Square.apply(leaf()).grad_fn is None


def test_needs_input_grad_and_other_arguments():
    x, w = leaf(), leaf(2.0)
    Scale.calls.clear()
    Scale.apply(x, w, 3.0).sum().backward()
    np.testing.assert_array_equal(x.grad, [6.0, 6.0])
    assert w.grad == 21.0
    Scale.apply(A, w, 1.0).sum().backward()
    assert Scale.calls == [(True, True, False), (False, True, False)]


def test_forward_may_return_arrays():
    class Host(nf.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return np.cosh(x.to_numpy())

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return np.sinh(x.to_numpy()) * g.to_numpy()

    x = leaf()
    y = Host.apply(x).sum()
    y.backward(retain_graph=True)
    np.testing.assert_allclose(x.grad, np.sinh(A))
    with pytest.raises(NotDifferentiableError, match="create_graph"):
        y.backward(create_graph=True)


class Split(nf.Function):
    @staticmethod
    def forward(ctx, x):
        at = x.argmax()
        ctx.mark_non_differentiable(at)
        return x * 2.0, x * 3.0, at

    @staticmethod
    def backward(ctx, g, h, at):
        return g * 2.0 + h * 3.0


def test_several_results():
    x = leaf()
    y, z, at = Split.apply(x)
    assert at.grad_fn is None
    (y + z).sum().backward()
    np.testing.assert_array_equal(x.grad, [5.0, 5.0])


def test_absent_cotangents_are_zeros():
    x = leaf()
    _, z, _ = Split.apply(x)
    z.sum().backward()
    np.testing.assert_array_equal(x.grad, [3.0, 3.0])


def test_marked_results_have_no_node():
    class Constant(nf.Function):
        @staticmethod
        def forward(ctx, x):
            y, z = x * 1.0, x * 2.0
            ctx.mark_non_differentiable(z)
            return y, z

        @staticmethod
        def backward(ctx, g, h):
            return g

    y, z = Constant.apply(leaf())
    assert y.requires_grad
    assert not z.requires_grad


def test_arrays_are_marked_too():
    class Positions(nf.Function):
        @staticmethod
        def forward(ctx, x):
            places = np.array([0.5])
            ctx.mark_non_differentiable(places)
            return x * 2.0, places

        @staticmethod
        def backward(ctx, g, h):
            return g

    y, places = Positions.apply(leaf())
    assert (y.requires_grad, places.requires_grad) == (True, False)


def test_none_is_saved_as_none():
    """As in PyTorch's LinearFunction, whose bias may be left out."""

    class Affine(nf.Function):
        @staticmethod
        def forward(ctx, x, w, bias=None):
            ctx.save_for_backward(x, w, bias)
            return x * w if bias is None else x * w + bias

        @staticmethod
        def backward(ctx, g):
            x, w, bias = ctx.saved_tensors
            return g * w, g * x, None if bias is None else g

    x, w = leaf(), leaf()
    Affine.apply(x, w, None).sum().backward()
    np.testing.assert_array_equal(w.grad, A)


def test_what_is_saved_is_an_array():
    class Wrong(nf.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3)

    with refused(KernelTypeError, "save_for_backward", "argument 1 is a int",
                 "attribute of ctx"):
        Wrong.apply(leaf())


@pytest.mark.parametrize(("gradient", "words"), [
    (lambda: A * 1j, ("gradient 0", "complex128", "real part")),
    (lambda: pytest.importorskip("torch").ones(2), ("gradient 0", "torch", "numpy"))],
    ids=["complex", "torch"])
def test_gradients_are_real_and_of_the_arguments_library(gradient, words):
    given = gradient()

    @nf.custom_vjp
    def f(x):
        return x * 1.0

    f.defvjp(lambda x: (x * 1.0, ()), lambda _, g: (given,))
    x = leaf()
    with refused(KernelTypeError, *words):
        f(x).sum().backward()
    assert x.grad is None


def test_gradients_are_cast_to_the_arguments_dtype():
    class Wide(nf.Function):
        @staticmethod
        def forward(ctx, x):
            return x.astype("float64")

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(A.astype("float32"))
    Wide.apply(x).sum().backward()
    assert x.grad.dtype == np.float32


def test_a_gradient_that_is_a_saved_array_is_copied():
    class Odd(nf.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0]

    x = leaf()
    Odd.apply(x).sum().backward()
    assert not np.shares_memory(x.grad, x.data)
    np.testing.assert_array_equal(x.grad, A)


@pytest.mark.parametrize(("result", "message"), [
    (lambda g: (g, g), "2 gradients, expected 1"),
    (lambda g: g.sum(), r"shape \(\), expected \(2,\)")])
def test_wrong_gradients_are_named(result, message):
    class Wrong(nf.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return result(g)

    with pytest.raises(ShapeError, match=message):
        Wrong.apply(leaf()).sum().backward()


def test_wrong_results_are_named():
    class Wrong(nf.Function):
        @staticmethod
        def forward(ctx, x):
            return "text"

    with pytest.raises(KernelTypeError, match=r"Wrong\.forward returned a str"):
        Wrong.apply(leaf())


def test_methods_that_are_missing():
    class Forward(nf.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

    with pytest.raises(NotImplementedError, match="define forward"):
        nf.Function.apply(leaf())
    with pytest.raises(NotImplementedError, match="define backward"):
        Forward.apply(leaf()).sum().backward()


def test_saved_arrays_are_watched():
    x = leaf()
    y = Square.apply(x)
    with nf.no_grad():
        x += 1.0
    with pytest.raises(InplaceModificationError, match="saved by Square"):
        y.sum().backward()


def test_saved_arrays_are_read_in_backward_only():
    class Early(nf.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return ctx.saved_tensors[0]

    with pytest.raises(TapeError, match="backward"):
        Early.apply(leaf())


def test_a_second_derivative_through_an_intermediate_is_refused():
    class Hidden(nf.Function):
        @staticmethod
        def forward(ctx, x):
            y = nf.ops.exp(x)
            ctx.save_for_backward(y)
            return y * 2.0

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0] * g * 2.0

    x = leaf()
    y = Hidden.apply(x).sum()
    y.backward(retain_graph=True)
    np.testing.assert_allclose(x.grad, 2 * np.exp(A))
    with pytest.raises(NotDifferentiableError, match="neither an argument nor a res"):
        y.backward(create_graph=True)


def test_saved_memory_is_freed():
    gc.collect()
    x = leaf(np.ones(100))
    hidden = x * 3.0
    memory = weakref.ref(hidden.data)
    y = Square.apply(hidden).sum()
    del hidden
    assert memory() is not None
    y.backward()
    gc.collect()
    assert memory() is None
    with pytest.raises(TapeError, match="freed"):
        y.backward()
