"""Meshes, rays, distances and points, each by brute force."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import nbfused as nf

from .cases import case

RNG = np.random.default_rng(3)
vec3s, vec2s = nf.DiffView[nf.vec3], nf.DiffView[nf.vec2]
X = RNG.standard_normal((6, 3))
FACES = np.array([[0, 1, 2], [2, 3, 4], [0, 2, 5], [1, 4, 5]])
POINTS = RNG.standard_normal((4, 3)) * 2
TARGETS = X[FACES].mean(1)[[0, 1, 2, 3, 0]]
START = np.array([0.0, 0.0, 9.0]) + RNG.standard_normal((5, 3)) * 0.1
TOWARDS = TARGETS - START


def corners(x, faces):
    return [x[faces[:, k]] for k in range(3)]


def norm(v):
    return np.sqrt((v * v).sum(-1))


@dataclass
class Nearest:
    distance: float
    place: nf.vec3


@nf.func
def on_triangle(p, a, b, c):
    """The closest point of a triangle, by its seven regions."""
    ab, ac, ap = b - a, c - a, p - a
    d1, d2 = nf.dot(ab, ap), nf.dot(ac, ap)
    d3, d4 = nf.dot(ab, p - b), nf.dot(ac, p - b)
    d5, d6 = nf.dot(ab, p - c), nf.dot(ac, p - c)
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    if d1 <= 0.0 and d2 <= 0.0:
        return a
    if d3 >= 0.0 and d4 <= d3:
        return b
    if d6 >= 0.0 and d5 <= d6:
        return c
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        return a + ab * (d1 / (d1 - d3))
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        return a + ac * (d2 / (d2 - d6))
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        return b + (c - b) * ((d4 - d3) / ((d4 - d3) + (d5 - d6)))
    return a + (ab * vb + ac * vc) / (va + vb + vc)


def by_projection(p, a, b, c):
    """Inside: onto the plane; else onto the nearest of three segments."""
    basis = np.stack([b - a, c - a], axis=1)
    s, t = np.linalg.lstsq(basis, p - a, rcond=None)[0]
    if s >= 0 and t >= 0 and s + t <= 1:
        return a + basis @ [s, t]
    ends = [(a, b), (b, c), (c, a)]
    found = [u + np.clip((p - u) @ (v - u) / ((v - u) @ (v - u)), 0, 1) * (v - u)
             for u, v in ends]
    return min(found, key=lambda q: ((p - q)**2).sum())


def closest_reference(p, x, faces, out):
    best = [min((by_projection(q, *(x[k] for k in f)) for f in faces),
                key=lambda r: ((q - r)**2).sum()) for q in p]
    return np.concatenate([best, norm(p - best)[:, None]], axis=1)


@case(closest_reference, "out", len(POINTS), wrt="p x", p=POINTS, x=X, faces=FACES,
      out=np.zeros((4, 4)))
def closest(p: vec3s, x: vec3s, faces: nf.View, out: nf.DiffView[nf.vec4]):
    i = nf.grid(1)
    best = Nearest(1e30, nf.vec3(0.0, 0.0, 0.0))
    for f in range(faces.shape[0]):
        q = on_triangle(p[i], x[faces[f, 0]], x[faces[f, 1]], x[faces[f, 2]])
        d = nf.length(p[i] - q)
        if d < best.distance:
            best.distance = d
            best.place = q
    out[i] = nf.vec4(best.place.x, best.place.y, best.place.z, best.distance)


def hits_reference(o, d, x, faces, out):
    found = np.full((len(o), 3), [1e3, 0, 0])
    for i, (p, v) in enumerate(zip(o, d, strict=True)):
        for f in faces:
            a, b, c = x[f]
            t, s, r = np.linalg.solve(np.stack([-v, b - a, c - a], axis=1), p - a)
            if s > 0 and r > 0 and s + r < 1 and 0 < t < found[i, 0]:
                found[i] = t, s, r
    return found


@case(hits_reference, "out", 5, wrt="o d x", o=START, d=TOWARDS, x=X, faces=FACES,
      out=np.zeros((5, 3)))
def hits(o: vec3s, d: vec3s, x: vec3s, faces: nf.View, out: vec3s):
    """Möller and Trumbore's test of each ray with each triangle."""
    i = nf.grid(1)
    found = nf.vec3(1e3, 0.0, 0.0)
    for f in range(faces.shape[0]):
        a = x[faces[f, 0]]
        ab, ac = x[faces[f, 1]] - a, x[faces[f, 2]] - a
        h = nf.cross(d[i], ac)
        scale = 1.0 / nf.dot(ab, h)
        s = o[i] - a
        u = scale * nf.dot(s, h)
        q = nf.cross(s, ab)
        v = scale * nf.dot(d[i], q)
        t = scale * nf.dot(ac, q)
        if u > 0.0 and v > 0.0 and u + v < 1.0 and t > 0.0 and t < found.x:
            found = nf.vec3(t, u, v)
    out[i] = found


def shade_reference(d, centre, light, out):
    d = d / norm(d)[:, None]
    b = d @ centre[0]
    t = b - np.sqrt(np.maximum(b**2 - centre[0] @ centre[0] + 1, 1e-9))
    n = t[:, None] * d - centre[0]
    r = 2 * (n @ light[0])[:, None] * n - light[0]
    spec = np.maximum(-(r * d).sum(1), 0)**8
    return np.where(b**2 - centre[0] @ centre[0] + 1 > 0,
                    np.maximum(n @ light[0], 0) + 0.5 * spec, 0.1)


LIGHT = np.array([[0.36, 0.48, 0.8]])


@case(shade_reference, "out", 6, wrt="d centre", centre=np.array([[0.1, 0.2, -3.0]]),
      d=np.stack([RNG.uniform(-0.3, 0.3, 6), RNG.uniform(-0.3, 0.3, 6), -np.ones(6)],
                 axis=1), light=LIGHT, out=np.zeros(6))
def shade(d: vec3s, centre: vec3s, light: nf.View[nf.vec3], out):
    """A ray from the origin to a lit sphere, with a highlight."""
    i = nf.grid(1)
    ray = nf.normalize(d[i])
    b = nf.dot(ray, centre[0])
    inside = b * b - nf.dot(centre[0], centre[0]) + 1.0
    colour = 0.1
    if inside > 0.0:
        n = ray * (b - nf.sqrt(inside)) - centre[0]
        mirrored = 2.0 * nf.dot(n, light[0]) * n - light[0]
        spec = max(-nf.dot(mirrored, ray), 0.0)
        colour = max(nf.dot(n, light[0]), 0.0) + 0.5 * spec**8
    out[i] = colour


@nf.func
def scene(p, size, blend):
    ball = nf.length(p - nf.vec3(0.3, 0.0, 0.0)) - size
    q = nf.vec2(nf.length(p.xz) - 1.0, p.y)
    ring = nf.length(q) - 0.3
    h = min(max(0.5 + 0.5 * (ring - ball) / blend, 0.0), 1.0)
    return ring * (1.0 - h) + ball * h - blend * h * (1.0 - h)


def scene_reference(p, size, blend):
    ball = norm(p - np.array([0.3, 0, 0])) - size
    ring = np.hypot(np.hypot(p[:, 0], p[:, 2]) - 1, p[:, 1]) - 0.3
    h = np.clip(0.5 + (ring - ball) / (2*blend), 0, 1)
    return ring + (ball - ring) * h - blend * h * (1 - h)


@case(lambda p, size, out, blend: scene_reference(p, size, blend), "out", 4,
      wrt="p size", p=POINTS, size=np.array([0.8]), out=np.zeros(4), blend=0.4)
def distances(p: vec3s, size, out, blend):
    i = nf.grid(1)
    out[i] = scene(p[i], size[0], blend)


def march_reference(o, d, size, out, blend):
    d, t = d / norm(d)[:, None], np.zeros(len(o))
    for _ in range(6):
        t = t + scene_reference(o + t[:, None] * d, size, blend)
    return t


@case(march_reference, "out", 5, wrt="o d size", o=START / 3, d=-START,
      size=np.array([0.8]), out=np.zeros(5), blend=0.4)
def march(o: vec3s, d: vec3s, size, out, blend):
    i = nf.grid(1)
    ray, t = nf.normalize(d[i]), 0.0
    for _ in range(6):
        t += scene(o[i] + t * ray, size[0], blend)
    out[i] = t


def normals_reference(x, faces, n):
    n = n.copy()
    a, b, c = corners(x, faces)
    for k in range(3):
        np.add.at(n, faces[:, k], np.cross(b - a, c - a))
    return n


@case(normals_reference, "n", len(FACES), wrt="x", x=X, faces=FACES, n=0 * X)
def normals(x: vec3s, faces: nf.View[np.int64, 2], n: vec3s):
    f = nf.grid(1)
    face = faces[f]
    a = x[face[0]]
    across = nf.cross(x[face[1]] - a, x[face[2]] - a)
    for k in range(3):
        nf.atomic.add(n, face[k], across)


def volume_reference(x, faces, out):
    a, b, c = corners(x, faces)
    return out + (np.cross(a, b) * c).sum() / 6


@case(volume_reference, "out", len(FACES), wrt="x", x=X, faces=FACES, out=np.zeros(1))
def volume(x: vec3s, faces: nf.View, out):
    f = nf.grid(1)
    m = nf.matrix_from_rows(x[faces[f, 0]], x[faces[f, 1]], x[faces[f, 2]])
    nf.atomic.add(out, 0, nf.determinant(m) / 6.0)


ROWS, COLUMNS = np.array([0, 2, 5, 7, 9, 10, 12]), RNG.integers(0, 6, 12)


def smooth_reference(x, rows, columns, out, rate):
    means = np.array([x[columns[a:b]].mean(0) for a, b in
                      pairwise(rows)])
    return (1 - rate) * x + rate * means


@case(smooth_reference, "out", 6, wrt="x", x=X, rows=ROWS, columns=COLUMNS, out=0 * X,
      rate=0.4)
def smooth(x: vec3s, rows: nf.View, columns: nf.View, out: vec3s, rate):
    i = nf.grid(1)
    mean = nf.vec3(0.0, 0.0, 0.0)
    for k in range(rows[i], rows[i + 1]):
        mean += x[columns[k]]
    out[i] = x[i] + rate * (mean / float(rows[i + 1] - rows[i]) - x[i])


def chamfer_reference(p, q, out):
    return ((p[:, None] - q[None])**2).sum(-1).min(1)


@case(chamfer_reference, "out", 4, wrt="p q", p=POINTS, q=X, out=np.zeros(4))
def chamfer(p: vec3s, q: vec3s, out):
    """The squared distance to the nearest neighbour."""
    i = nf.grid(1)
    best, which = 1e30, 0
    for j in range(len(q)):
        d = p[i] - q[j]
        if nf.dot(d, d) < best:
            best, which = nf.dot(d, d), j
    d = p[i] - q[which]
    out[i] = nf.dot(d, d)


@case(lambda x, low, high: (x.min(0), x.max(0)), "low high", 6, wrt="x", x=X,
      low=np.full(3, 1e9), high=np.full(3, -1e9))
def bounds(x: vec3s, low, high):
    i = nf.grid(1)
    for k in nf.unroll(range(3)):
        nf.atomic.min(low, k, x[i][k])
        nf.atomic.max(high, k, x[i][k])


RING = np.stack([np.cos(np.arange(7)), np.sin(np.arange(7))], axis=1) * 2
SPOTS = RNG.uniform(-2.5, 2.5, (9, 2))


def winding_reference(p, ring, out):
    z = ring[:, 0] + 1j * ring[:, 1]
    w = p[:, :1] + 1j * p[:, 1:]
    turns = np.angle((np.roll(z, -1) - w) / (z - w)).sum(1) / (2 * np.pi)
    return np.rint(turns).astype(int)


@case(winding_reference, "out", 9, p=SPOTS, ring=RING, out=np.zeros(9, int))
def winding(p: nf.View[nf.vec2], ring: nf.View[nf.vec2], out: nf.View):
    i = nf.grid(1)
    turns = 0
    for k in range(len(ring)):
        a, b = ring[k] - p[i], ring[(k + 1) % len(ring)] - p[i]
        left = a.x * b.y - a.y * b.x
        if a.y <= 0.0 and b.y > 0.0 and left > 0.0:
            turns += 1
        elif a.y > 0.0 and b.y <= 0.0 and left < 0.0:
            turns -= 1
    out[i] = turns


CAMERA = np.array([[1.2, 0.1, 0.0, 0.3], [0.0, 1.1, 0.2, -0.1],
                   [0.1, 0.0, 1.0, 6.0], [0.0, 0.1, 0.3, 5.0]])


@case(lambda p, camera, out: (lambda w: w[:, :2] / w[:, 3:])(
    np.c_[p, np.ones(len(p))] @ camera[0].T), "out", 4, wrt="p camera", p=POINTS,
      camera=CAMERA[None], out=np.zeros((4, 2)))
def projected_points(p: vec3s, camera: nf.DiffView[nf.mat44], out: vec2s):
    i = nf.grid(1)
    clip = camera[0] @ nf.vec4(p[i].x, p[i].y, p[i].z, 1.0)
    out[i] = clip.xy / clip.w
