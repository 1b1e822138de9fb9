"""Structs that a kernel builds, and parts of arrays that it names."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import ScalarSyntaxError
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
