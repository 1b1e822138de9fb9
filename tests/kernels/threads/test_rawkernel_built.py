"""Structs that a kernel builds, and parts of arrays that it names."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ScalarSyntaxError
from tests.refusal import refused

thread_kernel = nf.rawkernel(differentiable=True)
Pair = namedtuple("Pair", ["a", "b"])


class Ray(NamedTuple):
    origin: Pair
    speed: float = 2.0


@dataclass
class State:
    position: float
    velocity: float = 0.0


@nf.func
def stepped(s, h):
    """One step of a pendulum; a struct goes in and out."""
    velocity = s.velocity - h * nf.sin(s.position)
    return State(s.position + h * velocity, velocity=velocity)


@thread_kernel
def swung(x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        s = State(x[i])
        for _ in range(5):
            s = stepped(s, 0.1)
        ray = Ray(Pair(b=s.position, a=s.velocity))
        if x[i] > 0:
            ray = ray._replace(speed=x[i])
        y[i] = ray.origin.a * ray.speed + ray["origin"][1]


def reference(x):
    position, velocity = x, np.zeros_like(x)
    for _ in range(5):
        velocity = velocity - 0.1 * np.sin(position)
        position = position + 0.1 * velocity
    return velocity * np.where(x > 0, x, 2.0) + position


def test_structs_that_a_kernel_builds(device):
    x = np.random.default_rng(0).standard_normal(9)
    y = nf.zeros(9, device=device)
    swung[1, 16](nf.array(x, device=device), y)
    np.testing.assert_allclose(nf.to_numpy(y), reference(x), rtol=1e-13)
    op = swung.as_op(outputs={"y": "x"}, grid=1, block=16)
    nf.testing.gradcheck(op, (x,), place=lambda a: nf.array(a, device=device))


@dataclass
class Checked:
    a: float

    def __post_init__(self):
        self.a *= 2


class Scaled(Pair):
    def __new__(cls, a, b):
        return super().__new__(cls, 2 * a, b)


def checked(x):
    x[0] = Checked(x[0]).a


def scaled(x):
    x[0] = Scaled(x[0], 1.0).a


def missing(x):
    x[0] = Pair(x[0]).a


def unknown(x):
    p = Pair(x[0], 1.0)
    x[0] = p.c


def unknown_replaced(x):
    p = Pair(x[0], 1.0)
    x[0] = p._replace(c=1.0).a


@pytest.mark.parametrize(("kernel", "words"), [
    (checked, ("Checked has a __post_init__", "plain fields")),
    (scaled, ("Scaled has a __new__",)), (missing, ("Pair()", "'b'")),
    (unknown, ("no field 'c'", "a, b")), (unknown_replaced, ("no field 'c'", "a, b"))])
def test_refused_structs(kernel, words):
    with refused(ScalarSyntaxError, "test_rawkernel_built.py", *words):
        nf.rawkernel(kernel)[1, 1](np.ones(3))


# Parts of arrays ----------------------------------------------------------------------


@nf.func
def norm(v):
    total = 0.0
    for k in range(len(v)):
        total += v[k] * v[k]
    return nf.sqrt(total)


@thread_kernel
def by_rows(x, y):
    """Rows of rows, slices of slices, written through as well."""
    i = nf.grid(1)
    if i < x.shape[0]:
        block = x[i]
        row, out = block[1], y[i]
        tail = x[i, 0, 1::2]
        out[0] = norm(row[2:]) * row.shape[0]
        out[1] = tail[0] + tail[1] * len(tail)
        out[2] = norm(block[0][1:4][1:]) + block[:, 3][1]
        out[2] *= norm(row[:9]) + x[i, :, 1:].size * row[2:].shape[0]
        nf.atomic.add(out, 3, row[3:][1])


def rows_by_hand(x):
    n = np.linalg.norm
    return np.stack([np.array([
        n(b[1][2:]) * len(b[1]), b[0, 1::2][0] + b[0, 1::2][1] * len(b[0, 1::2]),
        (n(b[0][1:4][1:]) + b[:, 3][1]) * (n(b[1][:9]) + b[:, 1:].size * len(b[1][2:])),
        b[1][3:][1]]) for b in x])


def test_parts_of_arrays(device):
    x = np.random.default_rng(1).uniform(0.5, 1.5, (4, 2, 6))
    y = nf.zeros((4, 4), device=device)
    by_rows[1, 8](nf.array(x, device=device), y)
    np.testing.assert_allclose(nf.to_numpy(y), rows_by_hand(x), rtol=1e-13)
    op = by_rows.as_op(outputs={"y": ((4, 4), "float64")}, grid=1, block=8)
    nf.testing.gradcheck(op, (x,), place=lambda a: nf.array(a, device=device))


@nf.rawkernel
def lengths(y, x, a, b):
    part = x[a:b:3]
    y[0] = part.shape[0]
    y[1] = part[1:].size
    y[2] = x[a:][:b].shape[0]


@pytest.mark.parametrize(("a", "b"), [(0, 10), (2, 7), (7, 2), (4, 99), (12, 20)])
def test_lengths_are_numpys(a, b):
    x, y = np.zeros(10), np.zeros(3, int)
    lengths[1, 1](y, x, a, b)
    assert y.tolist() == [len(x[a:b:3]), len(x[a:b:3][1:]), len(x[a:][:b])]


def from_the_end(x):
    x[0, 0] = x[0][-1]


def reversed_slice(x):
    x[0, 0] = x[0, ::-1][0]


def used_as_number(x):
    x[0, 0] = x[1] * 2.0


def chosen(x):
    row = x[0]
    if x[0, 0] > 1:
        row = x[1]
    x[0, 0] = row[0]


def too_deep(x):
    row = x[0]
    x[0, 0] = row[0, 1]


def no_attribute(x):
    x[0, 0] = x[0].flat


@pytest.mark.parametrize(("kernel", "words"), [
    (from_the_end, ("0 or more", "a.shape[k] - 1")), (reversed_slice, ("step",)),
    (used_as_number, ("expected a number", "a part of an array")),
    (chosen, ("'row' is a part of an array that depends on a branch",)),
    (too_deep, ("1 axes", "2 integers")), (no_attribute, ("no attribute 'flat'",))])
def test_refused_parts(kernel, words):
    with refused(ScalarSyntaxError, "test_rawkernel_built.py", *words):
        nf.rawkernel(kernel)[1, 1](np.ones((3, 3)))


def test_strides_are_numpys_in_bytes(device):
    @nf.rawkernel
    def strides(x, y):
        y[0], y[1] = x.strides

    x = nf.array(np.zeros((4, 6), np.float32), device=device)
    for view in (x, x[::2, ::-3]):
        y = nf.zeros(2, dtype="int64", device=device)
        strides[1, 1](view, y)
        expected = np.zeros((4, 6), np.float32)[::2, ::-3].strides if view is not x \
            else (24, 4)
        assert tuple(nf.to_numpy(y)) == expected


# Rules of functions with several results ----------------------------------------------


@nf.func
def polar(p, i, table):
    """A struct in and out, and an array that is read."""
    size = nf.sqrt(p.a * p.a + p.b * p.b)
    return Pair(size, p.a / size + p.b * table[i])


@polar.defvjp
def polar_vjp(p, i, table, g):
    size = nf.sqrt(p.a * p.a + p.b * p.b)
    along = (g.a - g.b * p.a / (size * size)) / size
    nf.atomic_add(table, i, g.b * p.b)
    return along * p.a + g.b / size, along * p.b + g.b * table[i], 0


@thread_kernel
def turned(x, table, y):
    i = nf.grid(1)
    found = polar(Pair(x[i, 0], x[i, 1]), i, table)
    y[i] = found.a * found[1] + found.b


@nf.func
def both(x):
    return x * x, x + 1.0


@both.defvjp
def both_vjp(x, g):
    square, more = g
    return 2.0 * x * square + more


def test_cotangents_are_in_the_shape_of_the_results(device):
    rng = np.random.default_rng(0)
    x, table = rng.uniform(0.5, 1.5, (4, 2)), rng.standard_normal(4)
    op = turned.as_op(outputs={"y": ((4,), "float64")}, grid=1, block=4)
    nf.testing.gradcheck(op, (x, table), place=lambda a: nf.array(a, device=device))

    @nf.elementwise
    def product(x):
        a, b = both(x)
        return a * b

    nf.testing.gradcheck(product, (x,), place=lambda a: nf.array(a, device=device))


def test_a_rule_of_several_results_takes_one_cotangent_or_all():
    @nf.func
    def three(x):
        return x, x * 2.0, x * 3.0

    @three.defvjp
    def rule(x, g, h):
        return g + 2.0 * h

    def kernel(x):
        a, b, c = three(x[0])
        x[0] = a + b + c

    with refused(KernelTypeError, "the vjp rule of three takes 3 values", "expected 4"):
        nf.rawkernel(kernel)[1, 1](np.ones(1))


def test_functions_inside_of_kernels_return_values(device):
    @nf.rawkernel(differentiable=True)
    def sorted_pairs(x, y):
        i = nf.grid(1)
        scale = x[i, 0]

        def ordered(a, b):
            if a < b:
                return a, b
            return b * scale, a

        low, high = ordered(x[i, 1], x[i, 2])
        y[i] = low - high * high

    x = np.array([[2.0, 1.0, 3.0], [3.0, 4.0, 2.0]])
    op = sorted_pairs.as_op(outputs={"y": lambda x: ((2,), x.dtype)}, grid=1, block=2)
    nf.testing.gradcheck(op, [x], order=2, place=lambda a: nf.array(a, device=device))
    assert nf.to_numpy(op(nf.array(x, device=device))).tolist() == [-8.0, -10.0]
