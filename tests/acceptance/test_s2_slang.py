"""Slang's differentiable kernels: gradients that accumulate, functions with rules.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays import byte_range, describe
from nbfused.errors import ShapeError


@nf.elementwise
def square(x):
    return x * x


@nf.elementwise
def cube(x):
    return x * x * x


def leaf(values, device):
    return nf.Variable(nf.array(values, "float64", device=device), requires_grad=True)


def grad_of(x):
    return nf.to_numpy(x.grad)


def test_l10_gradients_accumulate(device):
    x = leaf([0.0, 1.0, 2.0, 3.0], device)
    for times in (1, 2, 3):
        square(x).sum().backward()
        np.testing.assert_array_equal(grad_of(x), times * np.array([0, 2, 4, 6]))
    x.zero_grad()
    assert x.grad is None
    square(x).sum().backward()
    np.testing.assert_array_equal(grad_of(x), [0.0, 2.0, 4.0, 6.0])


def test_l10_accumulation_leaves_the_array_handed_out_alone(device):
    """What was read as .grad before is somebody's: a sum is a new array."""
    x = leaf([1.0, 2.0], device)
    square(x).sum().backward()
    first = x.grad
    square(x).sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(first), [2.0, 4.0])


class Square(nf.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return square(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2.0 * x * g


def test_l12_function_with_a_rule(device):
    x = leaf([3.0, 4.0], device)
    Square.apply(x).sum().backward()
    np.testing.assert_array_equal(grad_of(x), [6.0, 8.0])


def test_l12_function_as_an_operation_of_its_own(device):
    x = leaf([3.0, 4.0], device)
    square(x).sum().backward()
    np.testing.assert_array_equal(grad_of(x), [6.0, 8.0])


def test_l13_diamond(device):
    """y = x², z = y·y + y·x: both uses of y, and of x, add up."""
    x = leaf([1.0, 2.0], device)
    y = square(x)
    (y * y + y * x).sum().backward()
    np.testing.assert_array_equal(grad_of(x), [4 + 3, 32 + 12])


def test_l13_gradients_of_one_cotangent_share_no_memory(device):
    x, y = leaf([1.0, 2.0], device), leaf([3.0, 4.0], device)
    g = nf.array([1.0, 10.0], device=device)
    (x + y).backward(g)
    places = [byte_range(describe(a)) for a in (x.grad, y.grad, g)]
    for k, place in enumerate(places):
        assert not any(place.overlaps(other) for other in places[k + 1:])
    nf.ops.multiply(x.grad, 5.0, out=x.grad)
    np.testing.assert_array_equal(grad_of(y), [1.0, 10.0])
    np.testing.assert_array_equal(nf.to_numpy(g), [1.0, 10.0])


def test_l20_allocation(device):
    for dtype in ("float32", "int8", "bool", "bfloat16"):
        zeros = nf.zeros((4, 4, 3), dtype, device=device)
        assert tuple(zeros.shape) == (4, 4, 3)
        assert nf.to_numpy(zeros).dtype.name == dtype
        assert not nf.to_numpy(zeros).any()
    empty = nf.empty((4, 4, 3), "float32", device=device)
    assert (empty.ndim, tuple(empty.shape)) == (3, (4, 4, 3))
    assert describe(empty).strides == (12, 3, 1)
    assert describe(empty[:, ::2].T).strides == (1, 6, 12)
    np.testing.assert_array_equal(nf.to_numpy(nf.full(3, 7, "int16", device=device)),
                                  np.full(3, 7, np.int16))


def test_l38_higher_orders(device):
    """x³ at 2: 12, 12, 6, at each element."""
    x = nf.array([2.0, 1.0], device=device)
    f, found = cube, []
    for _ in range(3):
        f = nf.grad(f)
        found.append(nf.to_numpy(f(x)))
    np.testing.assert_allclose(found, [[12, 3], [12, 6], [6, 6]], rtol=1e-14)


def test_l38_other_outputs_raise(device):
    x = nf.array([2.0, 1.0], device=device)
    for f in (nf.ops.softmax, lambda x: x * x.sum(), lambda x: x[::-1]):
        with pytest.raises(ShapeError, match=r"sum\(\), or use vjp"):
            nf.grad(f)(x)
