"""Fields on grids: heat, waves, fluids, reactions, and levels in them."""

from __future__ import annotations

import numpy as np

import nbfused as nf

from .cases import case

RNG = np.random.default_rng(2)
SHAPE = 5, 6
U, W, P, Q = RNG.standard_normal((4, *SHAPE))
DIM = SHAPE[::-1]
FLOW = RNG.uniform(-0.8, 0.8, (*SHAPE, 2))
vec2s = nf.DiffView[nf.vec2]


def rolled(u):
    return [np.roll(u, s, a) for a in (0, 1) for s in (1, -1)]


@nf.func
def wrapped(k, n):
    return (k + n) % n


@nf.func
def laplacian(u, i, j):
    n, m = u.shape
    return (u[wrapped(i - 1, n), j] + u[wrapped(i + 1, n), j]
            + u[i, wrapped(j - 1, m)] + u[i, wrapped(j + 1, m)] - 4.0 * u[i, j])


def heat_reference(u, v, c):
    found = v.copy()
    lap = sum(rolled(u)) - 4 * u
    found[1:-1, 1:-1] = (u + c * lap)[1:-1, 1:-1]
    return found


@case(heat_reference, "v", DIM, wrt="u", u=U, v=W, c=0.2)
def heat(u, v, c):
    j, i = nf.grid(2)
    n, m = u.shape
    if i > 0 and j > 0 and i < n - 1 and j < m - 1:
        v[i, j] = u[i, j] + c * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1]
                                 + u[i, j + 1] - 4.0 * u[i, j])


def wave_reference(old, now, speed, dt):
    return 2 * now - old + (speed * dt)**2 * (sum(rolled(now)) - 4 * now)


@case(wave_reference, "old", DIM, wrt="now speed", old=U, now=W, speed=abs(P), dt=0.5)
def wave(old, now, speed, dt):
    j, i = nf.grid(2)
    c = speed[i, j] * dt
    old[i, j] = 2.0 * now[i, j] - old[i, j] + c * c * laplacian(now, i, j)


def advect_reference(q, flow, out, dt):
    i, j = np.indices(q.shape)
    y, x = i - dt * flow[..., 1], j - dt * flow[..., 0]
    y, x = np.clip(y, 0, q.shape[0] - 1.001), np.clip(x, 0, q.shape[1] - 1.001)
    a, b = y.astype(int), x.astype(int)
    s, t = y - a, x - b
    low = q[a, b] * (1 - t) + q[a, b + 1] * t
    return low * (1 - s) + (q[a + 1, b] * (1 - t) + q[a + 1, b + 1] * t) * s


@case(advect_reference, "out", DIM, wrt="q flow", q=Q, flow=FLOW, out=0 * Q, dt=0.7)
def advect(q, flow: vec2s, out, dt):
    j, i = nf.grid(2)
    n, m = q.shape
    at = nf.vec2(float(j), float(i)) - dt * flow[i, j]
    x, y = min(max(at.x, 0.0), m - 1.001), min(max(at.y, 0.0), n - 1.001)
    a, b = int(y), int(x)
    s, t = y - a, x - b
    out[i, j] = ((q[a, b] * (1.0 - t) + q[a, b + 1] * t) * (1.0 - s)
                 + (q[a + 1, b] * (1.0 - t) + q[a + 1, b + 1] * t) * s)


def divergence_reference(flow, out):
    return (np.roll(flow[..., 0], -1, 1) - np.roll(flow[..., 0], 1, 1)
            + np.roll(flow[..., 1], -1, 0) - np.roll(flow[..., 1], 1, 0)) / 2


@case(divergence_reference, "out", DIM, wrt="flow", flow=FLOW, out=0 * U)
def divergence(flow: vec2s, out):
    j, i = nf.grid(2)
    n, m = flow.shape
    out[i, j] = 0.5 * (flow[i, wrapped(j + 1, m)].x - flow[i, wrapped(j - 1, m)].x
                       + flow[wrapped(i + 1, n), j].y - flow[wrapped(i - 1, n), j].y)


def jacobi_reference(p, div, out):
    return (sum(rolled(p)) - div) / 4


@case(jacobi_reference, "out", DIM, wrt="p div", p=P, div=U, out=0 * U)
def jacobi(p, div, out):
    j, i = nf.grid(2)
    out[i, j] = p[i, j] + 0.25 * (laplacian(p, i, j) - div[i, j])


def reaction_reference(a, b, out, feed, kill, dt):
    meet = a * b * b
    a_rate = 0.2 * (sum(rolled(a)) - 4 * a) - meet + feed * (1 - a)
    b_rate = 0.1 * (sum(rolled(b)) - 4 * b) + meet - (kill + feed) * b
    return np.stack([a + dt * a_rate, b + dt * b_rate], axis=-1)


@case(reaction_reference, "out", DIM, wrt="a b", a=abs(U), b=abs(W),
      out=np.zeros((*SHAPE, 2)), feed=0.04, kill=0.06, dt=0.5)
def reaction(a, b, out: vec2s, feed, kill, dt):
    j, i = nf.grid(2)
    now = nf.vec2(a[i, j], b[i, j])
    spread = nf.vec2(0.2, 0.1) * nf.vec2(laplacian(a, i, j), laplacian(b, i, j))
    meet = now.x * now.y * now.y
    grow = nf.vec2(feed * (1.0 - now.x) - meet, meet - (kill + feed) * now.y)
    out[i, j] = now + dt * (spread + grow)


def to_grid_reference(x, q, out):
    out = out.copy()
    for (a, b), v in zip(x, q, strict=True):
        i, j = int(a), int(b)
        s, t = a - i, b - j
        out[i:i + 2, j:j + 2] += v * np.outer([1 - s, s], [1 - t, t])
    return out


SPOTS = RNG.uniform(0.1, 3.9, (7, 2))


@case(to_grid_reference, "out", 7, wrt="x q", x=SPOTS, q=RNG.standard_normal(7), out=U)
def to_grid(x: vec2s, q, out):
    k = nf.grid(1)
    i, j = int(x[k].x), int(x[k].y)
    part = x[k] - nf.vec2(float(i), float(j))
    for a in nf.unroll(range(2)):
        for b in nf.unroll(range(2)):
            w = (part.x if a else 1.0 - part.x) * (part.y if b else 1.0 - part.y)
            nf.atomic.add(out, (i + a, j + b), w * q[k])


def from_grid_reference(x, u, out):
    return np.array([u[int(a):int(a) + 2, int(b):int(b) + 2].T.ravel() @ np.outer(
        [1 - b % 1, b % 1], [1 - a % 1, a % 1]).ravel() for a, b in x])


@case(from_grid_reference, "out", 7, wrt="x u", x=SPOTS, u=U, out=np.zeros(7))
def from_grid(x: vec2s, u, out):
    k = nf.grid(1)
    i, j = int(x[k].x), int(x[k].y)
    s, t = x[k].x - i, x[k].y - j
    corners = nf.mat22(u[i, j], u[i, j + 1], u[i + 1, j], u[i + 1, j + 1])
    out[k] = nf.dot(nf.vec2(1.0 - s, s), corners @ nf.vec2(1.0 - t, t))


EVENTS = [(0, 1), (1, 2), (2, 3), (3, 0)]


def squares_reference(u, level, points):
    (n, m), points = u.shape, points.copy()
    place = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    for i in range(n - 1):
        for j in range(m - 1):
            v = u[[i, i, i + 1, i + 1], [j, j + 1, j + 1, j]] - level
            for k, (a, b) in enumerate(EVENTS):
                if (v[a] > 0) != (v[b] > 0):
                    t = v[a] / (v[a] - v[b])
                    points[i, j, k] = [i, j] + (1 - t) * place[a] + t * place[b]
    return points


@case(squares_reference, "points", (SHAPE[1] - 1, SHAPE[0] - 1), wrt="u", u=U,
      level=0.1,
      points=np.zeros((SHAPE[0] - 1, SHAPE[1] - 1, 4, 2)))
def marching_squares(u, level, points: vec2s):
    """Where the level crosses the four edges of each cell."""
    j, i = nf.grid(2)
    v = nf.vec4(u[i, j], u[i, j + 1], u[i + 1, j + 1], u[i + 1, j]) - level
    corner = nf.vec2(float(i), float(j))
    for k in nf.unroll(range(4)):
        a, b = v[k], v[(k + 1) % 4]
        if (a > 0.0) != (b > 0.0):
            one = nf.vec2(float(k > 1), float(k == 1 or k == 2))
            other = nf.vec2(float(k == 1 or k == 2), float(k < 2))
            t = a / (a - b)
            points[i, j, k] = corner + (1.0 - t) * one + t * other


BOX = RNG.standard_normal((3, 4, 3))


def cubes_reference(u, codes, counts):
    n, m, o = (s - 1 for s in u.shape)
    codes = sum((u[a:n + a, b:m + b, c:o + c] > 0) << (4*a + 2*b + c)
                for a in (0, 1) for b in (0, 1) for c in (0, 1))
    return codes, np.bincount([bin(x).count("1") for x in codes.ravel()], minlength=9)


@case(cubes_reference, "codes counts", (2, 3, 2), u=BOX, codes=np.zeros((2, 3, 2), int),
      counts=np.zeros(9, int))
def marching_cubes(u: nf.View, codes: nf.View, counts: nf.View):
    """The case of each cube, and how many cubes have so many corners inside."""
    k, j, i = nf.grid(3)
    code, inside = 0, 0
    for c in nf.unroll(range(8)):
        if u[i + c // 4, j + c // 2 % 2, k + c % 2] > 0.0:
            code |= 1 << c
            inside += 1
    codes[i, j, k] = code
    nf.atomic.add(counts, inside, 1)


def eikonal_reference(u, out, h):
    a = np.minimum(np.roll(u, 1, 0), np.roll(u, -1, 0))
    b = np.minimum(np.roll(u, 1, 1), np.roll(u, -1, 1))
    near = abs(a - b) < h
    both = (a + b + np.sqrt(np.where(near, 2*h*h - (a - b)**2, 1))) / 2
    return np.minimum(u, np.where(near, both, np.minimum(a, b) + h))


@case(eikonal_reference, "out", DIM, wrt="u", u=U, out=0 * U, h=0.8)
def eikonal(u, out, h):
    j, i = nf.grid(2)
    n, m = u.shape
    a = min(u[wrapped(i - 1, n), j], u[wrapped(i + 1, n), j])
    b = min(u[i, wrapped(j - 1, m)], u[i, wrapped(j + 1, m)])
    if abs(a - b) < h:
        t = 0.5 * (a + b + nf.sqrt(2.0 * h * h - (a - b) ** 2))
    else:
        t = min(a, b) + h
    out[i, j] = min(u[i, j], t)
