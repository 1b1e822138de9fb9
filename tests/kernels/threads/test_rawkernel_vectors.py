"""Vectors as values of kernels, as their arguments, in rows of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import ScalarSyntaxError
from tests.refusal import refused

GRAVITY = nf.vec3(0.0, -9.8, 0.5)


@nf.func
def drag(v, c):
    return -c * v * nf.length(v)


@nf.rawkernel(differentiable=True)
def thrown(x, v, force, gravity, h):
    i = nf.grid(1)
    if i < x.shape[0]:
        place, speed = nf.vec3(x[i]), nf.vec3(v[i, :])
        for _ in range(3):
            speed += h * (nf.vec3(force[i]) + gravity + drag(speed, 0.1))
            place = place + h * speed
        if place.y > 0.0:
            place = nf.vec3(place.z, place.y, z=place.x)
        n = nf.normalize(place)
        x[i] = place - 2.0 * nf.dot(place, n) * n / 3.0
        v[i] += nf.cross(speed, -n)


def reference(x, v, force, h=0.1):
    place, speed = x, v
    for _ in range(3):
        size = np.sqrt((speed**2).sum(axis=1, keepdims=True))
        speed = speed + h * (force + np.array(GRAVITY) - 0.1 * speed * size)
        place = place + h * speed
    place = np.where(place[:, 1:2] > 0, place[:, ::-1], place)
    n = place / np.linalg.norm(place, axis=1, keepdims=True)
    return (place - 2 * (place * n).sum(axis=1, keepdims=True) * n / 3,
            v + np.cross(speed, -n))


def test_values_and_derivatives(device):
    rng, h = np.random.default_rng(0), 1e-6
    given, tangents, bars = ([rng.standard_normal((5, 3)) for _ in "xvf"]
                             for _ in range(3))
    bars[2][:] = 0

    def pairs(others):
        return [(nf.array(a, device=device), nf.array(o, device=device))
                for a, o in zip(given, others, strict=True)]

    up, down = (reference(*(a + s*t for a, t in zip(given, tangents, strict=True)))
                for s in (h, -h))
    slopes = [(a - b) / (2*h) for a, b in zip(up, down, strict=True)]
    back, forth = pairs(bars), pairs(tangents)
    thrown.bwd[1, 8](*back, GRAVITY, 0.1)
    thrown.fwd[1, 8](*forth, GRAVITY, 0.1)
    for (a, d), value, slope in zip(forth, reference(*given), slopes, strict=False):
        np.testing.assert_allclose(nf.to_numpy(a), value, rtol=1e-12)
        np.testing.assert_allclose(nf.to_numpy(d), slope, rtol=1e-6, atol=1e-8)
    found = sum((nf.to_numpy(g) * t).sum()
                for (_, g), t in zip(back, tangents, strict=True))
    expected = sum((b * s).sum() for b, s in zip(bars, slopes, strict=False))
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_vectors_mean_the_same_in_plain_python():
    v, w = nf.vec2(3.0, 4.0), nf.vec2(1.0, -2.0)
    assert tuple(1.0 - 2.0 * v / w + w * v) == (1 - 6 + 3, 1 + 4 - 8)
    assert (nf.length(v), nf.dot(v, w)) == (5.0, -5.0)
    assert nf.normalize(v) == (0.6, 0.8)
    assert nf.normalize(0.0 * v) == (0.0, 0.0)
    with pytest.raises(TypeError, match="2 and of 3 components"):
        v + GRAVITY


def test_the_zero_vector_stays_zero(device):
    @nf.rawkernel(differentiable=True)
    def unit(x, y):
        y[0] = nf.normalize(nf.vec4(x[0]))

    x, dx, y, dy = (nf.array(np.full((1, 4), k), device=device)
                    for k in (0.0, 0.0, 9.0, 1.0))
    unit[1, 1](x, y)
    unit.bwd[1, 1]((x, dx), (y, dy))
    assert nf.to_numpy(y).tolist() == [[0.0]*4]
    assert np.isfinite(nf.to_numpy(dx)).all()


def unequal(x):
    x[0] = nf.vec3(x[0]) + nf.vec2(x[0])


def power(x):
    x[0] = nf.vec3(x[0]) ** 2


def as_number(x):
    x[0, 0] = nf.vec3(x[0])


def row_of_rows(x):
    x[0, 0] = nf.vec2(x).x


def not_a_vector(x):
    x[0, 0] = nf.dot(x[0], nf.vec3(x[0]))


def flat_cross(x):
    x[0] = nf.cross(nf.vec2(x[0]), nf.vec2(x[1]))


@pytest.mark.parametrize(("kernel", "words"), [
    (unequal, ("vectors of 3 and of 2",)), (power, ("other operators",)),
    (as_number, ("expected a number here, got a vec3",)),
    (row_of_rows, ("vec2() takes 2 numbers", "part of 1 axes; got one of 2")),
    (not_a_vector, ("dot() takes vectors", "got a part of an array", "nf.vec3(x[i])")),
    (flat_cross, ("cross() takes vec3, vec3; got vec2, vec2",))])
def test_refused(kernel, words):
    with refused(ScalarSyntaxError, "test_rawkernel_vectors.py", *words):
        nf.rawkernel(kernel)[1, 1](np.ones((3, 3)))


def test_of_nothing_they_are_zero(device):
    assert nf.vec3() == nf.vec3(0.0, 0.0, 0.0)
    assert nf.mat22() == nf.mat22(0.0, 0.0, 0.0, 0.0)
    assert nf.quat() == nf.quat(0.0, 0.0, 0.0, 0.0)

    @nf.rawkernel
    def summed(x, y: nf.View[nf.vec2], m: nf.View[nf.mat22]):
        total = nf.vec2()
        for k in range(x.shape[0]):
            total += nf.vec2(x[k], 1.0)
        y[0], m[0] = total, nf.mat22()

    y, m = nf.zeros((1, 2), "float32", device=device), nf.array(np.ones((1, 2, 2)),
                                                                device=device)
    summed.launch(nf.array(np.arange(4, dtype=np.float32), device=device), y, m, dim=1)
    assert nf.to_numpy(y).tolist() == [[6.0, 4.0]]
    assert not nf.to_numpy(m).any()
