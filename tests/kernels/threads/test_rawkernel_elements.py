"""Arrays of vectors, of matrices and of structs; assignments to parts of arrays."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import KernelTypeError, NotDifferentiableError, ScalarSyntaxError
from tests.refusal import refused
from tests.variants import sampled

vectors = nf.DiffView[nf.vec3]
GRAVITY = nf.vec3(0.0, -9.8, 0.0)
RNG = np.random.default_rng(0)


class Particle(NamedTuple):
    place: nf.vec3
    speed: nf.vec3
    mass: float
    kind: int


@dataclass
class Hit:
    t: float
    normal: nf.vec3


@nf.func
def nearest(origin, direction):
    """A struct that the function fills, field by field."""
    hit = Hit(1e9, nf.vec3(0.0, 0.0, 0.0))
    for k in range(3):
        if origin.x > 0.5 * k:
            hit.t = direction.y + k
            hit.normal = direction * hit.t
            hit.normal.y = origin.z
    return hit


@nf.rawkernel
def stepped(p: nf.DiffView[Particle], force: vectors, out: vectors, h):
    i = nf.grid(1)
    if i < len(p):
        q = p[i]
        a = force[i] / q.mass + float(q.kind) * GRAVITY
        a.x = 3.0 * a.x
        p[i].speed += h * a
        hit = nearest(a, q.speed)  # q is a place: the speed that was just stored
        p[i].place.y = q.place.x * q.mass
        out[i] = hit.normal
        out[i].z *= hit.t
        nf.atomic.add(out, i, q.place)


def stepped_reference(place, speed, mass, kind, force, h):
    a = force / mass[:, None] + kind[:, None] * np.array(GRAVITY)
    a = a * [3.0, 1.0, 1.0]
    speed = speed + h * a
    place = place.copy()
    place[:, 1] = place[:, 0] * mass
    t, normal = np.full(len(a), 1e9), np.zeros_like(a)
    for i in range(len(a)):
        for k in range(3):
            if a[i, 0] > 0.5 * k:
                t[i] = speed[i, 1] + k
                normal[i] = speed[i] * t[i]
                normal[i, 1] = a[i, 2]
    out = normal * np.stack([np.ones_like(t), np.ones_like(t), t], axis=1) + place
    return place, speed, out


def given(n=5):
    place, speed, force = RNG.standard_normal((3, n, 3))
    return place, speed, RNG.uniform(1, 2, n), np.arange(n) % 2, force


def test_structs_and_vectors_as_elements(device):
    n, h = 5, 0.3
    *fields, force = given(n)

    def run(fields, force):
        arrays = [nf.array(f, device=device) for f in fields]
        out = nf.zeros((n, 3), device=device)
        stepped[1, 8](Particle(*arrays), nf.array(force, device=device), out, h)
        return [nf.to_numpy(a) for a in (arrays[0], arrays[1], out)]

    for found, expected in zip(run(fields, force), stepped_reference(*fields, force, h),
                               strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    arrays = [*(nf.array(f, device=device) for f in fields[:3])]
    bars = [RNG.standard_normal(f.shape) for f in fields[:3]]
    out_bar = RNG.standard_normal((n, 3))
    moved = [nf.array(b, device=device) for b in bars]
    change = nf.zeros((n, 3), device=device)
    stepped.bwd[1, 8](
        (Particle(*arrays, nf.array(fields[3], device=device)), Particle(*moved, None)),
        (nf.array(force, device=device), change),
        (nf.zeros((n, 3), device=device), nf.array(out_bar, device=device)), h)

    def value(place, speed, mass, force):
        found = stepped_reference(place, speed, mass, fields[3], force, h)
        return sum((a * b).sum() for a, b in zip(
            found, (bars[0], bars[1], out_bar), strict=True)) + (mass * bars[2]).sum()

    for k, gradient in enumerate((*moved, change)):
        along, e = RNG.standard_normal(nf.to_numpy(gradient).shape), 1e-6
        ends = [value(*(x + s*along if j == k else x for j, x in enumerate(
            (*fields[:3], force)))) for s in (e, -e)]
        np.testing.assert_allclose((nf.to_numpy(gradient) * along).sum(),
                                   (ends[0] - ends[1]) / (2*e), rtol=1e-6)


def test_structured_arrays_of_numpy():
    dtype = np.dtype([("place", "f8", 3), ("speed", "f8", 3), ("mass", "f8"),
                      ("kind", "i4")], align=True)
    *fields, force = given()
    p, out = np.zeros(5, dtype), np.zeros((5, 3))
    for name, f in zip(dtype.names, fields, strict=True):
        p[name] = f
    stepped.launch(p, force, out, 0.3, dim=5)
    place, speed, expected = stepped_reference(*fields, force, 0.3)
    np.testing.assert_allclose(p["place"], place)
    np.testing.assert_allclose(p["speed"], speed)
    np.testing.assert_allclose(out, expected)

    @nf.rawkernel(differentiable=True)
    def swapped(p):  # the fields are those of the dtype
        i, j = nf.grid(2)
        if i < p.shape[0] and j < p.shape[1]:
            q = p[i, j]
            p[i, j].mass = q.place[2] * float(p.ndim)
            p[i, j].place[0] = nf.length(nf.vec3(q.speed))

    table = np.stack([p, p])
    swapped[1, (2, 5)](table)
    np.testing.assert_allclose(table["mass"], 2 * table["place"][:, :, 2])
    np.testing.assert_allclose(table["place"][..., 0],
                               np.linalg.norm(table["speed"], axis=-1))


@nf.rawkernel
def copied(p: nf.View[Particle], q: nf.View[Particle], x: nf.View[nf.vec3, 2]):
    i = nf.grid(1)
    p[i] = q[i]
    s = q[i]
    q[i] = Particle(s.speed, GRAVITY, s.mass * float(len(x)), x.shape[1])
    row = x[i]
    x[i, 1:] = row[0]
    row[0] = nf.vec3(0.0, 0.0, 0.0)


def test_whole_structs_are_assigned(device):
    *fields, _ = given(2)

    def particles():
        return Particle(*(nf.array(f, device=device) for f in fields))

    p, q = particles(), particles()
    p.mass[:] = 0
    start = RNG.standard_normal((2, 4, 3))
    x = nf.array(start, device=device)
    copied[1, 2](p, q, x)
    np.testing.assert_array_equal(nf.to_numpy(p.mass), fields[2])
    np.testing.assert_array_equal(nf.to_numpy(q.place), fields[1])
    np.testing.assert_array_equal(nf.to_numpy(q.speed), np.stack([GRAVITY] * 2))
    np.testing.assert_array_equal(nf.to_numpy(q.mass), 2 * fields[2])
    np.testing.assert_array_equal(nf.to_numpy(q.kind), [4, 4])
    expected = np.repeat(start[:, :1], 4, axis=1)
    expected[:, 0] = 0
    np.testing.assert_array_equal(nf.to_numpy(x), expected)


@nf.rawkernel(differentiable=True)
def filled(x, y):
    i = nf.grid(1)
    x[i, 2:] = y[i, 2:]
    x[i, :2] *= y[i, 0]
    row = x[i]
    row[1:3] += 1.5
    x[i, 3:] = y[i, 3] * y[i, 4]


def filled_reference(x, y):
    x = x.copy()
    x[:, 2:] = y[:, 2:]
    x[:, :2] *= y[:, :1]
    x[:, 1:3] += 1.5
    x[:, 3:] = (y[:, 3] * y[:, 4])[:, None]
    return x


@pytest.mark.parametrize("debug", sampled([False, True], False))
def test_parts_are_assigned(debug, device):
    x, y = RNG.standard_normal((2, 3, 6))

    def run(x, y):
        found = nf.array(x, device=device)
        filled[1, 3](found, nf.array(y, device=device))
        return nf.to_numpy(found)

    np.testing.assert_allclose(run(x, y), filled_reference(x, y))
    bar, along, e = RNG.standard_normal((3, 6)), RNG.standard_normal((2, 3, 6)), 1e-6
    g, dy = nf.array(bar, device=device), nf.zeros((3, 6), device=device)
    with config.override(debug=debug):
        filled.bwd[1, 3]((nf.array(x, device=device), g),
                         (nf.array(y, device=device), dy))
    ends = [filled_reference(x + s*along[0], y + s*along[1]) for s in (e, -e)]
    np.testing.assert_allclose(
        (nf.to_numpy(g) * along[0]).sum() + (nf.to_numpy(dy) * along[1]).sum(),
        (bar * (ends[0] - ends[1])).sum() / (2*e), rtol=1e-7)


def test_operations_on_variables(device):
    @nf.rawkernel
    def pushed(p: nf.DiffView[Particle], out: vectors):
        i = nf.grid(1)
        out[i] = nf.cross(p[i].place, p[i].speed) / p[i].mass

    op = pushed.as_op(outputs={"out": "p.place"}, grid=1, block=4)
    place, speed, mass, kind, _ = given(4)

    def apply(place, speed, mass):
        return op({"place": place, "speed": speed, "mass": mass,
                   "kind": nf.array(kind, device=device)})

    nf.testing.gradcheck(apply, (place, speed, mass), order=2,
                         place=lambda a: nf.array(a, device=device))


def a_quaternion(x: vectors, n):
    x[0] = nf.quat_identity()


def too_many(x: vectors, n):
    x[0, 1] = GRAVITY


def moving(x: vectors, n):
    x[0][n] = 1.0


def no_field(x: vectors, n):
    x[0].w = 1.0


def overlapping(x: vectors, n):
    x[1:] = x[:2]


def minimum(x: vectors, n):
    nf.atomic.min(x, 0, GRAVITY)


def fields_of_another(x: vectors, n):
    p = Particle(x[0], x[1], 1.0, 0)
    p.mass = 2.0


def changed_by_two_names(x: vectors, n):
    a = Hit(1.0, x[0])
    b = a
    b.t = 2.0
    x[0] *= a.t


@pytest.mark.parametrize(("kernel", "words"), [
    (a_quaternion, ("an element of 'x' is a vec3, got quat", "nf.vec3(...)")),
    (too_many, ("1 axes", "2")), (moving, ("0 to 2", "change a copy")),
    (no_field, ("a vec3 has no component 'w'",)),
    (overlapping, ("another part of it", "write a loop")),
    (minimum, ("add and sub take", "vec3")),
    (fields_of_another, ("a tuple cannot be changed", "_replace")),
    (changed_by_two_names, ("'a'", "'b'", "the same"))])
def test_refused(kernel, words):
    with refused(ScalarSyntaxError, "test_rawkernel_elements.py", *words):
        nf.rawkernel(kernel)[1, 1](np.ones((3, 3)), 1)


@pytest.mark.parametrize(("x", "words"), [
    (np.ones((3, 2)), ("'x' must be an array of vec3", "(3,)", "(3, 2)")),
    (np.ones((2, 3, 3)), ("'x' must have 1 dimensions of vec3, got 2",))])
def test_other_arrays_are_refused(x, words):
    kernel = nf.rawkernel(a_quaternion)
    kernel.annotations["x"] = nf.View[nf.vec3, 1]
    with refused(KernelTypeError, *words):
        kernel[1, 1](x, 1)


def test_other_structs_are_refused():
    place, speed, mass, kind, force = given()
    out = np.zeros_like(force)
    with refused(KernelTypeError, "'p' must have as many elements", "p.mass: (4,)"):
        stepped[1, 8](Particle(place, speed, mass[:4], kind), force, out, 0.1)
    with refused(KernelTypeError, "'p' must have the fields place, speed, mass, kind"):
        stepped[1, 8]({"place": place}, force, out, 0.1)
    with refused(KernelTypeError, "'p.mass' must be an array"):
        stepped[1, 8](Particle(place, speed, 1.0, kind), force, out, 0.1)
    bar = Particle(*(np.ones_like(f) for f in (place, speed, mass)), np.ones(5))
    with refused(NotDifferentiableError, "'p.kind'", "is a View"):
        stepped.bwd[1, 8]((Particle(place, speed, mass, kind), bar),
                          (force, out), (out.copy(), out.copy()), 0.1)


@nf.rawkernel(differentiable=True)
def lengths(p: nf.DiffView[Particle], x: vectors, y):
    i = nf.grid(1)
    y[i] = nf.length(x[i]) * p[i].mass


@lengths.defvjp
def _(p, x, y):
    """The parameters have the elements of the kernel's."""
    i = nf.grid(1)
    g = y.derivative[i]
    size = nf.length(x.primal[i])
    x.derivative[i] += x.primal[i] * (g * p.mass.primal[i] / size)
    p.mass.derivative[i] += g * size


def test_rules_by_hand_and_pickled_kernels(device):
    place, speed, mass, kind, x = given(4)
    kernel = pickle.loads(pickle.dumps(lengths))
    xs, ms, ys = (nf.Variable(nf.array(a, device=device), requires_grad=True)
                  for a in (x, mass, np.zeros(4)))
    out = ys * 1.0
    kernel.launch(Particle(*(nf.array(a, device=device) for a in (place, speed)), ms,
                           nf.array(kind, device=device)), xs, out, dim=4)
    out.sum().backward()
    size = np.linalg.norm(x, axis=1)
    np.testing.assert_allclose(nf.to_numpy(ms.grad), size)
    np.testing.assert_allclose(nf.to_numpy(xs.grad), x * (mass / size)[:, None])
