"""Rays, materials, textures and splats, as Slang's users write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import nbfused as nf

from .cases import case
from .plain import plain_case

RNG = np.random.default_rng(23)
vec3s, vec2s = nf.DiffView[nf.vec3], nf.DiffView[nf.vec2]
PI = 3.141592653589793
SPHERES = np.array([[0.0, 0.0, 4.0, 1.0], [1.2, 0.3, 5.0, 0.8],
                    [0.0, -101.0, 4.0, 100.0]])
COLOURS = RNG.uniform(0.2, 0.9, (3, 3))
DIRECTIONS = RNG.normal(scale=0.2, size=(6, 3)) + np.array([0, 0, 1.0])
NORMALS = RNG.normal(size=(6, 3)) + np.array([0, 0, 3.0])


class Hit(NamedTuple):
    t: float = 1e9
    sphere: int = -1


@nf.func
def closest_hit(origin, direction, spheres):
    """The first of all spheres along a ray, past a small distance."""
    hit = Hit()
    for k in range(spheres.shape[0]):
        c = nf.vec3(spheres[k, 0], spheres[k, 1], spheres[k, 2]) - origin
        b = nf.dot(c, direction)
        disc = b * b - nf.dot(c, c) + spheres[k, 3] * spheres[k, 3]
        if disc <= 0.0:
            continue
        root = nf.sqrt(disc)
        t = b - root
        if t < 1e-3:
            t = b + root
        if 1e-3 < t < hit.t:
            hit = Hit(t, k)
    return hit


@plain_case("radiance", 6, wrt="spheres colours directions", spheres=SPHERES,
            colours=COLOURS, directions=DIRECTIONS, radiance=np.zeros((6, 3)),
            bounces=3)
def mirrored(spheres, colours: vec3s, directions: vec3s, radiance: vec3s, bounces):
    """A path that is reflected until it leaves, its colours multiplied."""
    i = nf.grid(1)
    origin, direction = nf.vec3(), nf.normalize(directions[i])
    through, found = nf.vec3(1.0), nf.vec3(0.0)
    for _ in range(bounces):
        hit = closest_hit(origin, direction, spheres)
        if hit.sphere < 0:
            sky = 0.5 * (direction.y + 1.0)
            blue = nf.vec3(0.5, 0.7, 1.0)
            found += through * (nf.vec3(1.0) * (1.0 - sky) + blue * sky)
            break
        p = origin + direction * hit.t
        centre = nf.vec3(spheres[hit.sphere, 0], spheres[hit.sphere, 1],
                         spheres[hit.sphere, 2])
        n = nf.normalize(p - centre)
        through = through * colours[hit.sphere]
        origin = p + n * 1e-2
        direction = direction - n * (2.0 * nf.dot(direction, n))
    radiance[i] = found


@nf.func
def uniform(state):
    """A number below 1, and the next state."""
    state = (state * 1103515245 + 12345) % 2147483648
    return state / 2147483648.0, state


@plain_case("radiance", 6, wrt="colours light", spheres=SPHERES, colours=COLOURS,
            directions=DIRECTIONS, light=np.array([2.0, 1.8, 1.5]),
            radiance=np.zeros((6, 3)), samples=4)
def diffuse_paths(spheres: nf.View, colours: vec3s, directions: nf.View[nf.vec3], light,
                  radiance: vec3s, samples):
    """Paths of random directions; Russian roulette ends them."""
    i = nf.grid(1)
    state = i * 7919 + 13
    total = nf.vec3()
    for _ in range(samples):
        origin, direction = nf.vec3(0.0), nf.normalize(directions[i])
        through = nf.vec3(1.0)
        depth = 0
        while depth < 4:
            hit = closest_hit(origin, direction, spheres)
            if hit.sphere < 0:
                total += through * nf.vec3(light[0], light[1], light[2])
                break
            u, state = uniform(state)
            if depth > 1 and u < 0.25:
                break
            p = origin + direction * hit.t
            n = nf.normalize(p - nf.vec3(spheres[hit.sphere, 0], spheres[hit.sphere, 1],
                                         spheres[hit.sphere, 2]))
            a, state = uniform(state)
            b, state = uniform(state)
            z, phi = 2.0 * a - 1.0, 2.0 * PI * b
            r = nf.sqrt(1.0 - z * z)
            direction = nf.normalize(n + nf.vec3(r * nf.cos(phi), r * nf.sin(phi), z))
            origin = p + n * 1e-3
            through = through * colours[hit.sphere]
            depth += 1
    radiance[i] = total / float(samples)


@dataclass
class Material:
    base: nf.vec3
    roughness: float
    metallic: float = 0.0


@nf.func
def schlick(f0, cosine):
    return f0 + (nf.vec3(1.0) - f0) * (1.0 - cosine) ** 5


@nf.func
def smith(nv, nl, alpha):
    a2 = alpha * alpha
    return 0.5 / (nl * nf.sqrt(nv * nv * (1.0 - a2) + a2)
                  + nv * nf.sqrt(nl * nl * (1.0 - a2) + a2))


@nf.func
def reflected(m, n, v, lamp):
    """Trowbridge and Reitz's facets over a diffuse base."""
    h = nf.normalize(v + lamp)
    nl, nv = max(nf.dot(n, lamp), 0.0), max(nf.dot(n, v), 1e-4)
    nh, lh = max(nf.dot(n, h), 0.0), max(nf.dot(lamp, h), 0.0)
    alpha = m.roughness * m.roughness
    spread = nh * nh * (alpha * alpha - 1.0) + 1.0
    facets = alpha * alpha / (PI * spread * spread)
    f0 = nf.vec3(0.04) * (1.0 - m.metallic) + m.base * m.metallic
    f = schlick(f0, lh)
    rest = (nf.vec3(1.0) - f) * (1.0 - m.metallic)
    return (rest * m.base / PI + f * (facets * smith(nv, nl, alpha))) * nl


@plain_case("colour", 6, wrt="normals base rough lights", normals=NORMALS,
            base=RNG.uniform(0.1, 1, (6, 3)), rough=RNG.uniform(0.3, 0.9, (6, 2)),
            lights=RNG.normal(size=(3, 3)) + np.array([0, 0, 2]),
            colour=np.zeros((6, 3)))
def shaded(normals: vec3s, base: vec3s, rough, lights: vec3s, colour: vec3s):
    i = nf.grid(1)
    n, v = nf.normalize(normals[i]), nf.vec3(0.0, 0.0, 1.0)
    material = Material(base[i], rough[i, 0])
    if rough[i, 1] > 0.5:
        material.metallic = rough[i, 1]
    total = nf.vec3()
    for k in range(3):
        total += reflected(material, n, v, nf.normalize(lights[k]))
    colour[i] = nf.vec3(1.0) - nf.exp(-total)


def harmonics_reference(directions, c, y):
    d = directions / np.sqrt((directions**2).sum(1, keepdims=True))
    x, y_, z = d.T
    basis = np.stack([0.282095 + 0 * x, 0.488603 * y_, 0.488603 * z, 0.488603 * x,
                      1.092548 * x * y_, 1.092548 * y_ * z, 0.315392 * (3 * z * z - 1),
                      1.092548 * x * z, 0.546274 * (x * x - y_ * y_)], 1)
    return np.maximum(basis @ c + 0.5, 0)


@case(harmonics_reference, "y", 6, wrt="directions c", directions=DIRECTIONS,
      c=RNG.normal(size=(9, 3)), y=np.zeros((6, 3)))
def harmonics(directions: vec3s, c: vec3s, y: vec3s):
    i = nf.grid(1)
    d = nf.normalize(directions[i])
    found = c[0] * 0.282095 + 0.488603 * (d.y * c[1] + d.z * c[2] + d.x * c[3])
    found += 1.092548 * (d.x * d.y * c[4] + d.y * d.z * c[5] + d.x * d.z * c[7])
    found += c[6] * (0.315392 * (3.0 * d.z * d.z - 1.0))
    found += c[8] * (0.546274 * (d.x * d.x - d.y * d.y)) + nf.vec3(0.5)
    y[i] = nf.vec3(max(found.x, 0.0), max(found.y, 0.0), max(found.z, 0.0))


class Splat(NamedTuple):
    mean: nf.vec2
    conic: nf.vec3
    opacity: float


@nf.func
def coverage(s, p):
    d = p - s.mean
    power = -0.5 * (s.conic.x * d.x * d.x + s.conic.z * d.y * d.y)
    power -= s.conic.y * d.x * d.y
    if power > 0.0:
        return 0.0
    return min(0.99, s.opacity * nf.exp(power))


@plain_case("image", (4, 5), wrt="mean conic opacity colour", mean=RNG.uniform(
    0, 4, (7, 2)), conic=np.stack([RNG.uniform(0.5, 2, 7), RNG.uniform(-0.3, 0.3, 7),
                                  RNG.uniform(0.5, 2, 7)], 1),
            opacity=RNG.uniform(0.3, 0.95, 7), colour=RNG.uniform(0, 1, (7, 3)),
            image=np.zeros((4, 5, 3)))
def splats(mean: vec2s, conic: vec3s, opacity, colour: vec3s,
           image: nf.DiffView[nf.vec3, 2]):
    """Front to back, until nothing shines through any more."""
    i, j = nf.grid(2)
    p = nf.vec2(float(j), float(i))
    through, found = 1.0, nf.vec3(0.0)
    for k in range(opacity.shape[0]):
        alpha = coverage(Splat(mean[k], conic[k], opacity[k]), p)
        if alpha < 1.0 / 255.0:
            continue
        rest = through * (1.0 - alpha)
        if rest < 1e-2:
            break
        found += colour[k] * (alpha * through)
        through = rest
    image[i, j] = found + nf.vec3(0.1) * through


@nf.func
def texel(texture, u, v):
    h, w = texture.shape[0], texture.shape[1]
    return texture[min(max(u, 0), h - 1), min(max(v, 0), w - 1)]


@nf.func
def bilinear(texture, x, y):
    """With its edges repeated."""
    u, v = int(nf.floor(x)), int(nf.floor(y))
    a, b = x - u, y - v
    top = texel(texture, u, v) * (1.0 - b) + texel(texture, u, v + 1) * b
    low = texel(texture, u + 1, v) * (1.0 - b) + texel(texture, u + 1, v + 1) * b
    return top * (1.0 - a) + low * a


@plain_case("y", 6, wrt="fine coarse at", fine=RNG.normal(size=(8, 8)),
            coarse=RNG.normal(size=(4, 4)), at=RNG.uniform(-0.9, 8, (6, 3)),
            y=np.zeros(6))
def mipmapped(fine, coarse, at, y):
    """Between two levels."""
    i = nf.grid(1)
    u, v, level = at[i, 0], at[i, 1], 0.5 + 0.4 * nf.sin(at[i, 2])
    y[i] = (1.0 - level) * bilinear(fine, u, v) + level * bilinear(
        coarse, 0.5 * u - 0.25, 0.5 * v - 0.25)


def edge(a, b, p):
    return (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x)


@plain_case("image", (5, 5), wrt="x shade",
            x=np.array([[0.3, 0.2], [4.1, 0.7], [2.0, 4.3]]),
            shade=RNG.normal(size=3), image=np.zeros((5, 5)), sharp=4.0)
def soft_triangle(x: vec2s, shade, image, sharp):
    """Barycentric coordinates, and a border that is soft."""
    i, j = nf.grid(2)
    p = nf.vec2(j + 0.5, i + 0.5)
    a, b, c = x[0], x[1], x[2]
    area = edge(a, b, c)
    w = nf.vec3(edge(b, c, p) / area, edge(c, a, p) / area, edge(a, b, p) / area)
    inside = 1.0
    for k in range(3):
        inside *= 1.0 / (1.0 + nf.exp(-sharp * w[k]))
    image[i, j] = inside * (w.x * shade[0] + w.y * shade[1] + w.z * shade[2])


@plain_case("p", 6, wrt="q k", q=RNG.uniform(-0.6, 0.6, (6, 2)),
            k=np.array([0.1, -0.05, 0.02]), p=np.zeros((6, 2)))
def undistorted(q: vec2s, k, p: vec2s):
    """Newton's steps against a lens, as many as it takes."""
    i = nf.grid(1)
    found = q[i]
    for _ in range(20):
        r2 = nf.dot(found, found)
        radial = 1.0 + r2 * (k[0] + r2 * (k[1] + r2 * k[2]))
        slope = 2.0 * (k[0] + r2 * (2.0 * k[1] + r2 * 3.0 * k[2]))
        error = found * radial - q[i]
        jacobian = nf.diagonal(nf.vec2(radial, radial)) + nf.outer(found, found) * slope
        step = nf.inverse(jacobian) @ error
        found -= step
        if nf.length(step) < 1e-12:
            break
    p[i] = found


@plain_case("y", 6, wrt="directions probe", directions=DIRECTIONS,
            probe=RNG.uniform(0, 1, (4, 8, 3)), y=np.zeros((6, 3)))
def from_probe(directions: vec3s, probe: nf.DiffView[nf.vec3, 2], y: vec3s):
    """A map of latitudes and longitudes, around which it goes on."""
    i = nf.grid(1)
    d = nf.normalize(directions[i])
    u = (0.5 + nf.atan2(d.x, -d.z) / (2.0 * PI)) * 8.0 - 0.5
    v = nf.acos(min(max(d.y, -1.0), 1.0)) / PI * 4.0 - 0.5
    u0, v0 = int(nf.floor(u)), int(nf.floor(v))
    a, b = u - u0, v - v0
    total = nf.vec3(0.0)
    for r in range(2):
        row = min(max(v0 + r, 0), 3)
        for s in range(2):
            w = (b if r == 1 else 1.0 - b) * (a if s == 1 else 1.0 - a)
            total += probe[row, (u0 + s) % 8] * w
    y[i] = total


@nf.func
def smooth_union(a, b, k):
    h = min(max(0.5 + 0.5 * (b - a) / k, 0.0), 1.0)
    return b * (1.0 - h) + a * h - k * h * (1.0 - h)


@nf.func
def scene(p, size, k):
    box = nf.vec3(abs(p.x) - size, abs(p.y) - size, abs(p.z - 3.0) - size)
    out = nf.vec3(max(box.x, 0.0), max(box.y, 0.0), max(box.z, 0.0))
    a = nf.length(out + nf.vec3(1e-9)) + min(max(box.x, max(box.y, box.z)), 0.0)
    return smooth_union(a, nf.length(p - nf.vec3(0.6, 0.6, 2.6)) - 0.5, k)


@plain_case("light", 6, wrt="directions size", directions=DIRECTIONS * [0.5, 0.5, 1],
            size=np.array([0.7]), light=np.zeros(6), k=0.2)
def soft_shadows(directions: vec3s, size, light, k):
    """Spheres traced to a surface, then to a lamp, with the nearest miss."""
    i = nf.grid(1)
    d, t = nf.normalize(directions[i]), 0.0
    for _ in range(40):
        step = scene(d * t, size[0], k)
        t += step
        if step < 1e-7 or t > 8.0:
            break
    if t > 8.0:
        light[i] = 0.0
        return
    p = d * t
    lamp = nf.normalize(nf.vec3(0.4, 1.0, -0.8))
    found, s = 1.0, 0.05
    while s < 3.0:
        h = scene(p + lamp * s, size[0], k)
        found = min(found, 8.0 * h / s)
        if found < 1e-3:
            break
        s += max(h, 0.05)
    light[i] = max(found, 0.0)
