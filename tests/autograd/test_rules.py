"""custom_vjp and checkpoint."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import (
    InplaceModificationError,
    NotDifferentiableError,
    ShapeError,
)
from tests.refusal import refused

pytestmark = pytest.mark.interpreted

A = np.array([1.0, 2.0, 3.0])


def leaf(x=A):
    return nf.Variable(np.array(x), requires_grad=True)


def product():
    """``x · y`` with the gradient by `y` doubled, to be told from the true one."""

    @nf.custom_vjp
    def f(x, y):
        """A product."""
        return x * y

    def forward(x, y):
        return x * y, (x, y)

    def backward(residuals, g):
        x, y = residuals
        return g * y, 2.0 * g * x

    f.defvjp(forward, backward)
    return f


class TestCustomVjp:
    def test_the_rule_is_used(self):
        f, x, y = product(), leaf(), leaf(2 * A)
        z = f(x, y)
        np.testing.assert_array_equal(z.to_numpy(), 2 * A * A)
        z.sum().backward()
        np.testing.assert_array_equal(x.grad, 2 * A)
        np.testing.assert_array_equal(y.grad, 2 * A)

    def test_without_a_gradient_the_function_runs(self):
        f = product()
        assert isinstance(f(A, A), np.ndarray)
        assert f(nf.Variable(A), A).grad_fn is None
        assert f.__name__ == "f"
        assert f.__doc__ == "A product."

    def test_second_order_runs_the_forward_rule_again(self):
        f, x, y = product(), leaf(), leaf(2 * A)
        f(x, y).sum().backward(create_graph=True)
        g = y.grad  # 2 x
        x.zero_grad()
        y.zero_grad()
        g.sum().backward()
        np.testing.assert_array_equal(x.grad, [2.0, 2.0, 2.0])
        assert y.grad is None

    def test_under_transforms(self):
        f = product()
        g = nf.grad(lambda x: f(x, x).sum())
        np.testing.assert_array_equal(g(A), 3 * A)
        np.testing.assert_array_equal(nf.grad(lambda x: g(x).sum())(A), [3.0] * 3)

    def test_several_results(self):
        @nf.custom_vjp
        def f(x):
            return x * 2.0, x * 3.0

        f.defvjp(lambda x: (f(x), None), lambda _, gs: (gs[0] * 20.0 + gs[1] * 30.0,))
        x = leaf()
        y, z = f(x)
        z.sum().backward()
        np.testing.assert_array_equal(x.grad, [30.0] * 3)
        (f(x)[0] * A).sum().backward()
        np.testing.assert_array_equal(x.grad, 30.0 + 20.0 * A)
        assert y.requires_grad

    def test_other_arguments_get_no_gradient(self):
        @nf.custom_vjp
        def f(x, n):
            return x * n

        f.defvjp(lambda x, n: (x * n, n), lambda n, g: (g * n, None))
        x = leaf()
        f(x, 4.0).sum().backward()
        np.testing.assert_array_equal(x.grad, [4.0] * 3)

    def test_residuals_are_watched(self):
        f, x = product(), leaf()
        z = f(x, A)
        with nf.no_grad():
            x += 1.0
        with pytest.raises(InplaceModificationError, match="residual of f"):
            z.sum().backward()

    def test_what_is_missing_is_named(self):
        @nf.custom_vjp
        def f(x):
            return x

        with pytest.raises(NotDifferentiableError, match=r"defvjp"):
            f(leaf())
        f.defvjp(lambda x: x, lambda r, g: (g,))
        with pytest.raises(ShapeError, match="residuals"):
            f(leaf())
        f.defvjp(lambda x: (x * 1.0, None), lambda r, g: ())
        with pytest.raises(ShapeError, match="0 gradients, expected 1"):
            f(leaf()).sum().backward()


class TestCheckpoint:
    """B14."""

    def block(self, w):
        return nf.checkpoint(lambda x: nf.ops.tanh(nf.ops.exp(x) * w) * x)

    def test_gradients_are_bit_equal(self):
        found = []
        for wrap in (lambda f: f, nf.checkpoint):
            x, w = leaf(), leaf(0.1)
            f = wrap(lambda v, w=w: nf.ops.tanh(nf.ops.exp(v) * w) * v)
            f(f(x)).sum().backward()
            found.append((x.grad, w.grad))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][1], found[1][1])

    def test_recomputations_are_counted(self):
        f = self.block(leaf(0.1))
        y = f(f(leaf()))
        assert f.recomputed == 0
        y.sum().backward()
        assert f.recomputed == 2

    def test_what_is_inside_is_not_kept(self):
        kept = []

        def f(x):
            y = nf.ops.exp(x)
            kept.append(weakref.ref(y.data))
            return y * y

        x = leaf()
        y = nf.checkpoint(f)(x)
        gc.collect()
        assert kept[0]() is None
        assert f(x).grad_fn is not None
        y.sum().backward()
        np.testing.assert_allclose(x.grad, 2 * np.exp(2 * A))

    def test_second_order(self):
        x = leaf()
        nf.checkpoint(lambda v: v * v * v)(x).sum().backward(create_graph=True)
        g, x.grad = x.grad, None
        g.sum().backward()
        np.testing.assert_allclose(x.grad, 6 * A)

    def test_nested_and_under_transforms(self):
        inner = nf.checkpoint(lambda x: x * x)
        outer = nf.checkpoint(lambda x: inner(x) * x)
        np.testing.assert_allclose(nf.grad(lambda x: outer(x).sum())(A), 3 * A * A)

    def test_several_results_of_which_one_is_used(self):
        x = leaf()
        y, z, at = nf.checkpoint(lambda v: (v * 2.0, v * v, v.argmax()))(x)
        assert at.grad_fn is None
        assert y.requires_grad
        z.sum().backward()
        np.testing.assert_array_equal(x.grad, 2 * A)

    def test_an_argument_handed_through(self):
        x, y = leaf(), leaf()
        a, b = nf.checkpoint(lambda v, w: (v, v * w))(x, y)
        (a + b).sum().backward()
        np.testing.assert_array_equal(x.grad, 1 + A)
        np.testing.assert_array_equal(y.grad, A)

    def test_keywords_and_arrays(self):
        x = leaf()
        f = nf.checkpoint(lambda v, a, scale: v * a * scale)
        f(x, A, scale=2.0).sum().backward()
        np.testing.assert_array_equal(x.grad, 2 * A)

    def test_nothing_to_record(self):
        f = self.block(0.1)
        assert f(nf.Variable(A)).grad_fn is None
        assert isinstance(f(A), np.ndarray)
        with nf.no_grad():
            assert f(leaf()).grad_fn is None
        assert f.recomputed == 0

    def test_arguments_are_watched(self):
        x = leaf()
        y = nf.checkpoint(lambda v: v * v)(x)
        with nf.no_grad():
            x += 1.0
        with pytest.raises(InplaceModificationError, match="argument 0"):
            y.sum().backward()


@pytest.mark.parametrize("wrap", [nf.checkpoint, nf.custom_vjp])
def test_an_op_can_be_wrapped(wrap):
    """Also one that was used before, and so has been parsed."""
    nf.ops.swish(A)
    wrapped = wrap(nf.ops.swish)
    np.testing.assert_array_equal(wrapped(A), nf.ops.swish(A))
    assert wrapped.__name__ == "swish"


@pytest.mark.parametrize("again", [lambda x: (x, x), lambda x: x.sum()])
def test_a_block_gives_the_same_when_it_runs_again(again):
    results = iter([lambda x: x * 2.0, again])

    @nf.checkpoint
    def block(x):
        return next(results)(x)

    x = leaf()
    with refused(ShapeError, "checkpoint: block", "run again", "expected float64 (3,)"):
        block(x).sum().backward()
    assert x.grad is None


def test_the_tape_of_pytorch_sees_the_rule():
    """Not what the function does."""
    torch = pytest.importorskip("torch")
    x = torch.ones(3, requires_grad=True)
    product()(x, torch.ones(3)).sum().backward()
    assert x.grad.tolist() == nf.grad(lambda x: product()(x, np.ones(3)).sum())(
        np.ones(3)).tolist()
    assert product()(x.detach(), torch.ones(3)).tolist() == [1.0, 1.0, 1.0]
