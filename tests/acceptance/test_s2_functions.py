"""Slang's functions: constants, generic values, rules, derivatives as functions.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ScalarSyntaxError
from nbfused.op.derivative import derivative
from nbfused.op.specialize import specialize
from nbfused.scalar.source.static import literal, unroll

GIVEN = 3.0


@nf.rawkernel
def multiply(a, out):
    i, j = nf.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        out[i, j] = FACTOR * a[i, j]  # noqa: F821 - defined for each use


def multiplied(kernel, device):
    a = nf.array([[1.0, 2.0], [3.0, 4.0]], "float32", device=device)
    out = nf.zeros((2, 2), "float32", device=device)
    kernel((1, 1), (8, 8), (a, out))
    return nf.to_numpy(out).tolist()


def test_l14_constants_from_outside(device):
    twice, once = (specialize(multiply, FACTOR=f) for f in (2.0, 1.0))
    assert multiplied(twice, device) == [[2, 4], [6, 8]]
    assert multiplied(once, device) == [[1, 2], [3, 4]]


def test_l14_a_missing_constant(device):
    with pytest.raises(ScalarSyntaxError, match="'FACTOR' is not defined") as caught:
        multiplied(multiply, device)
    assert "nf.specialize" in str(caught.value)
    assert caught.value.lineno == multiply.pyfunc.__code__.co_firstlineno + 4
    assert multiplied(specialize(multiply, FACTOR=2.0), device) == [[2, 4], [6, 8]]
    with pytest.raises(KernelTypeError, match=r"uses no .* 'FACTRO'"):
        specialize(multiply, FACTRO=2.0)


SECOND = """
import json, sys
import numpy as np
import nbfused as nf
from nbfused.op.specialize import specialize
sys.path.insert(0, sys.argv[1])
import shapes
made = specialize(shapes.scaled, STEPS=int(sys.argv[2]))
print(made(np.arange(3.0)).tolist(), nf.cache.stats().compilations)
"""
SHAPES = """
import nbfused as nf
STEPS = 2

@nf.elementwise
def scaled(x):
    for k in range(STEPS):
        x = x * 2
    return x
"""


def test_l14_one_changed_constant_compiles_once(tmp_path):
    (tmp_path / "shapes.py").write_text(SHAPES)
    environment = {**os.environ, "NBFUSED_CACHE_DIR": str(tmp_path / "cache"),
                   "NBFUSED_BACKEND": "cpu"}
    environment.pop("NBFUSED_CACHE_DISABLE", None)

    def run(steps):
        done = subprocess.run([sys.executable, "-c", SECOND, str(tmp_path), str(steps)],
                              env=environment, capture_output=True, text=True,
                              timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        values, compilations = done.stdout.rsplit(maxsplit=1)
        return json.loads(values), int(compilations)

    assert run(1)[0] == [0, 2, 4]  # and the machine code that calls have in common
    assert run(2) == ([0, 4, 8], 1)
    assert run(2) == ([0, 4, 8], 0)
    assert run(3) == ([0, 8, 16], 1)
    assert run(2) == ([0, 4, 8], 0)


def test_l14_decorating_again_freezes_again(device):
    def make(shift):
        @nf.elementwise
        def shifted(x):
            return x + shift + GIVEN
        return shifted

    x = nf.array([1.0], device=device)
    assert [nf.to_numpy(make(s)(x)).item() for s in (1.0, 2.0, 1.0)] == [5.0, 6.0, 5.0]


@nf.func
def distance(px, py, radius):
    return nf.hypot(px, py) - radius


@nf.elementwise
def trace(origin, direction, radius, n: literal = 20):
    """How far a ray through the plane goes until it meets a circle."""
    t = 0.0
    for _ in unroll(range(n)):
        t += distance(origin + t, direction * t, radius)
    return t


def test_l15_two_cached_variants(device):
    before = nf.cache.stats()
    found = [nf.to_numpy(trace(nf.array([-2.0], device=device), 0.1, 1.0, n=n)).item()
             for n in (20, 50, 20)]
    looked_up = nf.cache.stats()
    assert len(trace._variants) == 2
    assert looked_up.hits + looked_up.misses - before.hits - before.misses <= 4
    # (t - 2)**2 + (t / 10)**2 = 1
    expected = (2 - np.sqrt(4 - 3 * 1.01)) / 1.01
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found[0] == found[2]


def test_l15_in_a_kernel(device):
    @nf.rawkernel
    def powers(x, y, n: literal):
        i = nf.grid(1)
        if i < x.size:
            y[i] = 1.0
            for _ in unroll(range(n)):
                y[i] *= x[i]

    x, y = (nf.array(v, device=device) for v in ([1.0, 2.0, 3.0], [0.0] * 3))
    for n in (3, 5):
        powers((1,), (32,), (x, y, n))
        np.testing.assert_array_equal(nf.to_numpy(y), [1.0, 2.0**n, 3.0**n])
    assert len(powers.cached_signatures) >= 1


SHAPE = (3, 3)
BOX = [[2, 2.5, 3], [3.5, 4, 4.5], [5, 5.5, 6]]
GRADIENT = [[Fraction(n, 36) for n in row]
            for row in ([25, 40, 25], [40, 64, 40], [25, 40, 25])]


@nf.func
def get(image, gradient, i, j):
    inside = 0 <= i < image.shape[0] and 0 <= j < image.shape[1]
    return image[i, j] if inside else 0.0


@get.defvjp
def get_vjp(image, gradient, i, j, g):
    if 0 <= i < image.shape[0] and 0 <= j < image.shape[1]:
        nf.atomic_add(gradient, i, j, g)


@nf.func
def mean(image, gradient, i, j):
    total, count = 0.0, 0
    for p in range(-1, 2):
        for q in range(-1, 2):
            inside = 0 <= i + p < image.shape[0] and 0 <= j + q < image.shape[1]
            total += get(image, gradient, i + p, j + q)
            count += 1 if inside else 0
    return total / count


@nf.rawkernel
def box(image, gradient, out):
    i, j = nf.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = mean(image, gradient, i, j)


@nf.rawkernel
def box_backward(image, gradient, cotangent):
    i, j = nf.grid(2)
    if i < cotangent.shape[0] and j < cotangent.shape[1]:
        derivative(mean)(image, gradient, i, j, cotangent[i, j])


def test_l17_an_accessor_with_a_rule(device):
    image = nf.array(np.arange(9.0).reshape(SHAPE), device=device)
    gradient, out = (nf.zeros(SHAPE, "float64", device=device) for _ in range(2))
    box((1, 1), (8, 8), (image, gradient, out))
    np.testing.assert_allclose(nf.to_numpy(out), BOX, rtol=1e-15)
    box_backward((1, 1), (8, 8), (image, gradient, nf.full(SHAPE, 1.0, device=device)))
    np.testing.assert_allclose(nf.to_numpy(gradient), np.array(GRADIENT, float),
                               rtol=1e-14)


@nf.func
def square(x):
    return x * x


def test_l18_the_derivative_as_a_function():
    assert derivative(square)(3.0, 1.0) == 6.0


def test_l18_inside_another_kernel(device):
    @nf.rawkernel
    def slopes(x, y):
        i = nf.grid(1)
        if i < x.size:
            y[i] = derivative(square)(x[i], 1.0)

    x, y = (nf.array(v, device=device) for v in ([1.0, 2.0, 5.0], [0.0] * 3))
    slopes((1,), (32,), (x, y))
    np.testing.assert_array_equal(nf.to_numpy(y), [2.0, 4.0, 10.0])
