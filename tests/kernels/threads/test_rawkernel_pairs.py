"""Pairs that no derivative can be computed with: aliases, and nothing to add to."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, OverlapError


@nf.rawkernel(differentiable=True)
def product(x, w, y, z):
    i = nf.grid(1)
    y[i] = x[i] * w[i]
    z[i] = x[i] + w[i]


def arrays(device: str, count: int = 8) -> list:
    return [nf.array(np.arange(1.0, 4.0) * k, device=device)
            for k in range(1, count + 1)]


ALIASES = {
    "a derivative that is its own array": (
        lambda x, dx, w, dw, y, dy, z, dz: ((x, x), w, (y, dy), z), "bwd",
        "'x' and the derivative of 'x'"),
    "a derivative that is another array": (
        lambda x, dx, w, dw, y, dy, z, dz: ((x, w), w, (y, dy), z), "bwd",
        "the derivative of 'x' and 'w'"),
    "one derivative of two arrays": (
        lambda x, dx, w, dw, y, dy, z, dz: ((x, dx), (w, dx), (y, dy), z), "bwd",
        "the derivative of 'x' and the derivative of 'w'"),
    "a cotangent that is added to": (
        lambda x, dx, w, dw, y, dy, z, dz: ((x, dx), w, (y, dx), z), "bwd",
        "the derivative of 'x' and the derivative of 'y'"),
    "one cotangent of two results": (
        lambda x, dx, w, dw, y, dy, z, dz: ((x, dx), w, (y, dy), (z, dy)), "bwd",
        "the derivative of 'y' and the derivative of 'z'"),
    "one array for two results": (
        lambda x, dx, w, dw, y, dy, z, dz: ((x, dx), w, (y, dy), (y, dz)), "bwd",
        "'y' and 'z' share"),
    "a tangent that is changed and read": (
        lambda x, dx, w, dw, y, dy, z, dz: ((x, dx), w, (y, dx), z), "fwd",
        "the derivative of 'x' and the derivative of 'y'"),
    "a result that is a tangent": (
        lambda x, dx, w, dw, y, dy, z, dz: ((x, dx), w, (dx, dy), z), "fwd",
        "the derivative of 'x' and 'y'"),
}


@pytest.mark.parametrize(("given", "mode", "message"), ALIASES.values(), ids=ALIASES)
def test_aliases_are_refused_before_anything_is_written(device, given, mode, message):
    made = arrays(device)
    before = [nf.to_numpy(a).copy() for a in made]
    with pytest.raises(OverlapError, match=f"product.{mode}: {message}"):
        getattr(product, mode)[1, 3](*given(*made))
    for array, was in zip(made, before, strict=True):
        np.testing.assert_array_equal(nf.to_numpy(array), was)


def test_parts_of_one_array_are_no_aliases(device):
    both = nf.array(np.arange(6.0), device=device)
    x, dx = both[::2], both[1::2]
    w, _, y, dy, z = arrays(device, 5)
    product.bwd[1, 3]((x, dx), w, (y, dy), z)
    np.testing.assert_array_equal(nf.to_numpy(both), [0, 5, 2, 19, 4, 41])


def test_what_is_only_read_may_be_one_array(device):
    x, t, y, dy, z = arrays(device, 5)
    product.fwd[1, 3]((x, t), (x, t), (y, dy), z)
    np.testing.assert_array_equal(nf.to_numpy(dy), 2 * np.arange(1.0, 4) ** 2 * 2)


def test_in_place_tangents(device):
    @nf.rawkernel(differentiable=True)
    def square(x, y):
        i = nf.grid(1)
        y[i] = x[i] * x[i]

    x, dx = arrays(device, 2)
    square.fwd[1, 3]((x, dx), (x, dx))
    np.testing.assert_array_equal(nf.to_numpy(dx), [4, 16, 36])


def test_aliases_with_a_rule_by_hand(device):
    @nf.rawkernel(differentiable=True)
    def square(x, y):
        i = nf.grid(1)
        y[i] = x[i] * x[i]

    @square.defvjp
    def rule(x, y):
        i = nf.grid(1)
        x.derivative[i] += 2 * x.primal[i] * y.derivative[i]

    x, dx, y = arrays(device, 3)
    with pytest.raises(OverlapError, match="'x' and the derivative of 'y' share"):
        square.bwd[1, 3]((x, dx), (y, x))


def test_fields_of_structs(device):
    @nf.rawkernel(differentiable=True)
    def scaled(p, y):
        i = nf.grid(1)
        y[i] = p.x[i] * p.w[i]

    x, dx, w, dw, y, dy = arrays(device, 6)
    with pytest.raises(OverlapError, match=r"the derivative of 'p.x' and 'p.w'"):
        scaled.bwd[1, 3]({"x": (x, w), "w": (w, dw)}, (y, dy))
    with pytest.raises(KernelTypeError, match=r"pass \(p.x, dp.x\) or \(p.w, dp.w\)"):
        scaled.bwd[1, 3]({"x": x, "w": w}, (y, dy))
    scaled.bwd[1, 3]({"x": (x, dx), "w": w}, (y, dy))
    np.testing.assert_array_equal(nf.to_numpy(dx), 2*np.arange(1.0, 4)
                                  + 18*np.arange(1.0, 4)**2)


def test_nothing_to_add_to(device):
    x, dx, w, _, y, dy, z, dz = arrays(device)
    with pytest.raises(KernelTypeError, match=r"pass \(x, dx\) or \(w, dw\)"):
        product.bwd[1, 3](x, w, (y, dy), (z, dz))
    np.testing.assert_array_equal(nf.to_numpy(dy), 6 * np.arange(1.0, 4))
    product.bwd[1, 3](x, w, (y, dy), (z, dz), check=False)
    np.testing.assert_array_equal(nf.to_numpy(dy), 0)
    product.bwd[1, 3]((x, dx), w, y, (z, nf.full(3, 1.0, device=device)))
    np.testing.assert_array_equal(nf.to_numpy(dx), 2 * np.arange(1.0, 4) + 1)


def test_an_operation_of_which_an_argument_is_not_read(device):
    @nf.rawkernel(differentiable=True)
    def halves(x, like, y):
        i = nf.grid(1)
        if i < like.shape[0]:
            y[i] = x[i] / 2

    op = halves.as_op(outputs={"y": "x"}, grid=1, block=4)
    x, like = arrays(device, 2)
    like = nf.Variable(like, requires_grad=True)
    op(x, like).sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(like.grad), 0)
