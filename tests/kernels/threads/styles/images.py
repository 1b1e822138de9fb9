"""Images: filters, splats, rays through volumes, small networks."""

from __future__ import annotations

import numpy as np
import scipy.ndimage as ndi

import nbfused as nf

from .cases import case

RNG = np.random.default_rng(4)
SHAPE = 6, 7
DIM = SHAPE[::-1]
IMAGE, OUT = RNG.uniform(0, 1, SHAPE), np.zeros(SHAPE)
COLOURS = RNG.uniform(0.1, 1, (*SHAPE, 3))
vec3s, vec2s = nf.DiffView[nf.vec3], nf.DiffView[nf.vec2]
WEIGHTS = np.exp(-np.arange(-2, 3)**2 / 2.0)


@nf.func
def near(k, n):
    return min(max(k, 0), n - 1)


@case(lambda u, w, out: ndi.correlate1d(u, w / w.sum(), axis=1, mode="nearest"), "out",
      DIM, wrt="u w", u=IMAGE, w=WEIGHTS, out=OUT)
def blurred(u, w, out):
    j, i = nf.grid(2)
    total, weight = 0.0, 0.0
    for k in range(w.shape[0]):
        total += w[k] * u[i, near(j + k - w.shape[0] // 2, u.shape[1])]
        weight += w[k]
    out[i, j] = total / weight


@case(lambda u, out: np.hypot(ndi.sobel(u, 0, mode="nearest"),
                              ndi.sobel(u, 1, mode="nearest")), "out", DIM, wrt="u",
      u=IMAGE, out=OUT)
def sobel(u, out):
    j, i = nf.grid(2)
    g = nf.vec2(0.0, 0.0)
    for a in nf.unroll(range(-1, 2)):
        for b in nf.unroll(range(-1, 2)):
            x = u[near(i + a, u.shape[0]), near(j + b, u.shape[1])]
            g += x * nf.vec2(float(a * (2 - abs(b))), float(b * (2 - abs(a))))
    out[i, j] = nf.length(g)


def bilateral_reference(u, out, space, tone):
    wide = np.pad(u, 1, mode="edge")
    n, m = u.shape
    total, weight = np.zeros_like(u), np.zeros_like(u)
    for a in range(3):
        for b in range(3):
            x = wide[a:a + n, b:b + m]
            w = np.exp(-((a - 1)**2 + (b - 1)**2) / space - (x - u)**2 / tone)
            total, weight = total + w * x, weight + w
    return total / weight


@case(bilateral_reference, "out", DIM, wrt="u", u=IMAGE, out=OUT, space=2.0, tone=0.1)
def bilateral(u, out, space, tone):
    j, i = nf.grid(2)
    total, weight = 0.0, 0.0
    for a in range(-1, 2):
        for b in range(-1, 2):
            x = u[near(i + a, u.shape[0]), near(j + b, u.shape[1])]
            w = nf.exp(-(a * a + b * b) / space - (x - u[i, j])**2 / tone)
            total += w * x
            weight += w
    out[i, j] = total / weight


@case(lambda u, out: ndi.median_filter(u, 3, mode="nearest"), "out", DIM, wrt="u",
      u=IMAGE, out=OUT)
def median(u, out):
    j, i = nf.grid(2)
    v = nf.local(9)
    for k in nf.unroll(range(9)):
        v[k] = u[near(i + k // 3 - 1, u.shape[0]), near(j + k % 3 - 1, u.shape[1])]
    for a in nf.unroll(range(5)):
        for b in nf.unroll(range(a + 1, 9)):
            low, high = min(v[a], v[b]), max(v[a], v[b])
            v[a], v[b] = low, high
    out[i, j] = v[4]


CENTRES = RNG.uniform(0, 6, (4, 2))


def splat_reference(centre, shape, opacity, colour, out):
    y, x = np.indices(out.shape[:2])
    left, found = np.ones(out.shape[:2]), np.zeros(out.shape)
    for c, s, o, rgb in zip(centre, shape, opacity, colour, strict=True):
        d = np.stack([x - c[0], y - c[1]], axis=-1)
        alpha = o * np.exp(-0.5 * np.einsum("ijk,kl,ijl->ij", d, np.linalg.inv(s), d))
        found += (left * alpha)[..., None] * rgb
        left = left * (1 - alpha)
    return found


@case(splat_reference, "out", DIM, wrt="centre shape opacity colour", centre=CENTRES,
      shape=np.eye(2) * 2 + 0.3 * RNG.uniform(-1, 1, (4, 1, 1)),
      opacity=RNG.uniform(0.3, 0.9, 4), colour=RNG.uniform(0, 1, (4, 3)),
      out=np.zeros((*SHAPE, 3)))
def splat(centre: vec2s, shape: nf.DiffView[nf.mat22], opacity, colour: vec3s,
          out: vec3s):
    """Gaussians from front to back, each covering what lies behind."""
    j, i = nf.grid(2)
    at, left, found = nf.vec2(float(j), float(i)), 1.0, nf.vec3(0.0, 0.0, 0.0)
    for k in range(len(centre)):
        d = at - centre[k]
        alpha = opacity[k] * nf.exp(-0.5 * nf.dot(d, nf.inverse(shape[k]) @ d))
        found += left * alpha * colour[k]
        left *= 1.0 - alpha
    out[i, j] = found


def tone_reference(c, out, gain):
    bright = (c @ [0.2126, 0.7152, 0.0722])[..., None]
    return (c * gain / (1 + gain * bright))**(1 / 2.2)


@case(tone_reference, "out", DIM, wrt="c", c=COLOURS, out=0 * COLOURS, gain=1.7)
def tone(c: vec3s, out: vec3s, gain):
    j, i = nf.grid(2)
    bright = nf.dot(c[i, j], nf.vec3(0.2126, 0.7152, 0.0722))
    out[i, j] = nf.exp(nf.log(c[i, j] * gain / (1.0 + gain * bright)) / 2.2)


HOMOGRAPHY = np.array([[[0.9, 0.05, 0.4], [-0.04, 0.8, 0.6], [0.001, 0.002, 1.0]]])


def warped_reference(u, h, out):
    i, j = np.indices(out.shape)
    x, y, w = np.einsum("ab,bij->aij", h[0], np.stack([j, i, np.ones_like(i)]))
    return ndi.map_coordinates(u, [y / w, x / w], order=1)


@case(warped_reference, "out", DIM, wrt="u h", u=IMAGE, h=HOMOGRAPHY, out=OUT)
def warped(u, h: nf.DiffView[nf.mat33], out):
    j, i = nf.grid(2)
    p = h[0] @ nf.vec3(float(j), float(i), 1.0)
    x, y = p.x / p.z, p.y / p.z
    a, b = int(y), int(x)
    s, t = y - a, x - b
    low = nf.vec2(u[a, b], u[a, b + 1])
    high = nf.vec2(u[a + 1, b], u[a + 1, b + 1])
    both = low * (1.0 - s) + high * s
    out[i, j] = both.x * (1.0 - t) + both.y * t


def soft_reference(u, out):
    place = u.ravel() * 4
    return out + np.maximum(1 - abs(place[:, None] - np.arange(6)), 0).sum(0)


@case(soft_reference, "out", DIM, wrt="u", u=IMAGE, out=np.zeros(6))
def soft_histogram(u, out):
    j, i = nf.grid(2)
    place = u[i, j] * 4.0
    k = int(place)
    nf.atomic.add(out, k, 1.0 - (place - k))
    nf.atomic.add(out, k + 1, place - k)


def volume_reference(density, colour, out, step):
    alpha = 1 - np.exp(-step * density)
    left = np.cumprod(np.concatenate([np.ones((len(alpha), 1)), 1 - alpha], 1), 1)
    return np.einsum("rs,rs,rsc->rc", left[:, :-1], alpha, colour)


@case(volume_reference, "out", 3, wrt="density colour",
      density=RNG.uniform(0, 2, (3, 5)), colour=RNG.uniform(0, 1, (3, 5, 3)),
      out=np.zeros((3, 3)), step=0.3)
def through_volume(density, colour: vec3s, out: vec3s, step):
    """Light along a ray, sample by sample, until little is left."""
    r = nf.grid(1)
    left, found = 1.0, nf.vec3(0.0, 0.0, 0.0)
    for s in range(density.shape[1]):
        alpha = 1.0 - nf.exp(-step * density[r, s])
        found += left * alpha * colour[r, s]
        left *= 1.0 - alpha
        if left < 1e-6:
            break
    out[r] = found


W1, W2 = RNG.standard_normal((8, 3)), RNG.standard_normal((2, 8))


@case(lambda x, w1, w2, out: np.maximum(x @ w1.T, 0) @ w2.T, "out", 4, wrt="x w1 w2",
      x=RNG.standard_normal((4, 3)), w1=W1, w2=W2, out=np.zeros((4, 2)))
def network(x: vec3s, w1: vec3s, w2, out: vec2s):
    """Two layers, a sample to each thread."""
    i = nf.grid(1)
    found = nf.vec2(0.0, 0.0)
    for k in range(len(w1)):
        h = max(nf.dot(w1[k], x[i]), 0.0)
        found += h * nf.vec2(w2[0, k], w2[1, k])
    out[i] = found


def encoded_reference(x, table, out):
    scaled = x[:, None] * [4, 8]
    k = scaled.astype(int)
    t = scaled - k
    level = [0, 1]
    return table[level, k % 5] * (1 - t) + table[level, (k + 1) % 5] * t


@case(encoded_reference, "out", 6, wrt="x table", x=RNG.uniform(0, 1, 6),
      table=RNG.standard_normal((2, 5)), out=np.zeros((6, 2)))
def encoded(x, table, out):
    """Features of two levels from tables that places share."""
    i = nf.grid(1)
    for level in nf.unroll(range(2)):
        scaled = x[i] * (4.0 * 2.0**level)
        k = int(scaled)
        t = scaled - k
        out[i, level] = table[level, k % 5] * (1.0 - t) + table[level, (k + 1) % 5] * t
