"""Many bodies: grids of cells, trees, fluids and flocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import nbfused as nf

from .cases import case
from .plain import plain_case

RNG = np.random.default_rng(22)
vec3s, vec2s = nf.DiffView[nf.vec3], nf.DiffView[nf.vec2]
mat22s = nf.DiffView[nf.mat22]
N = 9
X = RNG.uniform(0.2, 2.8, (N, 3))
V = RNG.normal(size=(N, 3))
FLAT = RNG.uniform(1.2, 3.8, (N, 2))
CELLS = (np.floor(X).astype(int) * [1, 3, 9]).sum(1)
ORDER = np.argsort(CELLS, kind="stable")
STARTS = np.searchsorted(CELLS[ORDER], np.arange(28))


def norm(v):
    return np.sqrt((v * v).sum(-1))


def pairs_reference(x, starts, order, radius, density):
    d = norm(x[:, None] - x[None]) / radius
    return np.where(d < 1, (1 - d * d) ** 3, 0).sum(1)


@case(pairs_reference, "density", N, wrt="x", x=X, starts=STARTS, order=ORDER,
      radius=0.95, density=np.zeros(N))
def by_cells(x: vec3s, starts: nf.View, order: nf.View, radius, density):
    """Neighbours in 27 cells of a grid; the sum of a kernel."""
    i = nf.grid(1)
    p = x[i]
    cx, cy, cz = int(nf.floor(p.x)), int(nf.floor(p.y)), int(nf.floor(p.z))
    total = 0.0
    for a in range(max(cx - 1, 0), min(cx + 2, 3)):
        for b in range(max(cy - 1, 0), min(cy + 2, 3)):
            for c in range(max(cz - 1, 0), min(cz + 2, 3)):
                cell = a + 3 * b + 9 * c
                for k in range(starts[cell], starts[cell + 1]):
                    d = p - x[order[k]]
                    q = nf.dot(d, d) / (radius * radius)
                    if q >= 1.0:
                        continue
                    total += (1.0 - q) ** 3
    density[i] = total


@nf.func
def hashed(a, b, c):
    return ((a * 73856093) ^ (b * 19349663) ^ (c * 83492791)) % 16


@plain_case("table", N, x=X, table=np.zeros(16, int))
def counted_by_hash(x: nf.View[nf.vec3], table: nf.View):
    i = nf.grid(1)
    p = x[i] * 4.0
    nf.atomic.add(table, hashed(int(nf.floor(p.x)), int(nf.floor(p.y)),
                                int(nf.floor(p.z))), 1)


@plain_case("a", N, wrt="x v", x=X, v=V, a=np.zeros((N, 3)),
            weights=np.array([1.5, 0.6, 0.3]))
def flock(x: vec3s, v: vec3s, a: vec3s, weights: nf.View):
    """Separation, alignment, cohesion of those in sight."""
    i = nf.grid(1)
    apart, along, centre, seen = nf.vec3(0.0), nf.vec3(0.0), nf.vec3(0.0), 0
    for j in range(len(x)):
        d = x[i] - x[j]
        size = nf.length(d)
        if j == i or size > 1.8:
            continue
        if nf.dot(nf.normalize(v[i]), -d) < -0.5 * size:
            continue
        apart += d / (size * size + 0.01)
        along += v[j]
        centre += x[j]
        seen += 1
    if seen == 0:
        a[i] = nf.vec3(0.0)
        return
    count = float(seen)
    a[i] = (apart * weights[0] + (along / count - v[i]) * weights[1]
            + (centre / count - x[i]) * weights[2])


@plain_case("f", N, wrt="x v m", x=X, v=V, m=RNG.uniform(1, 2, N), rho=np.ones(N),
            f=np.zeros((N, 3)), mu=0.3, h=1.2)
def viscosity(x: vec3s, v: vec3s, m, rho: nf.View, f: vec3s, mu, h):
    i = nf.grid(1)
    total = nf.vec3()
    for j in range(x.shape[0]):
        d = x[i] - x[j]
        r = nf.length(d)
        if 0.0 < r < h:
            total += mu * m[j] / rho[j] * (h - r) * (v[j] - v[i])
    f[i] += total


@plain_case("lagrange", N, wrt="x mass", x=X, mass=RNG.uniform(1, 2, N),
            lagrange=np.zeros(N), h=1.3)
def fluid_multipliers(x: vec3s, mass, lagrange, h):
    """Position-based fluids: a constraint, and the squares of its gradients."""
    i = nf.grid(1)
    rho, own, squares = 0.0, nf.vec3(), 0.0
    for j in range(len(x)):
        d = x[i] - x[j]
        r = nf.length(d)
        if r >= h:
            continue
        rho += mass[j] * (h * h - r * r) ** 3
        if r > 1e-9:
            g = d * (-3.0 * mass[j] * (h - r) * (h - r) / r)
            squares += nf.dot(g, g)
            own = own + g
    c = rho / 4.0 - 1.0
    lagrange[i] = -c / (squares + nf.dot(own, own) + 0.1) if c > 0.0 else 0.0


class Grain(NamedTuple):
    place: nf.vec3
    speed: nf.vec3
    radius: float


@nf.func
def hertz(a, b, stiff, damp):
    d = a.place - b.place
    overlap = a.radius + b.radius - nf.length(d)
    if overlap <= 0.0:
        return nf.vec3(0.0)
    n = nf.normalize(d)
    closing = nf.dot(a.speed - b.speed, n)
    return n * (stiff * overlap ** 1.5 - damp * closing * nf.sqrt(overlap))


def hertz_reference(x, v, radius, f, stiff, damp):
    f = f.copy()
    for i in range(N):
        for j in range(N):
            d = x[i] - x[j]
            overlap = radius[i] + radius[j] - norm(d)
            if i != j and overlap > 0:
                n = d / norm(d)
                f[i] += n * (stiff * overlap**1.5 - damp * ((v[i] - v[j]) @ n)
                             * np.sqrt(overlap))
    return f


@case(hertz_reference, "f", N, wrt="x v radius", x=X, v=V,
      radius=RNG.uniform(0.4, 0.7, N), f=np.zeros((N, 3)), stiff=9.0, damp=0.4)
def grains(x: vec3s, v: vec3s, radius, f: vec3s, stiff, damp):
    i = nf.grid(1)
    mine = Grain(x[i], v[i], radius[i])
    for j in range(len(x)):
        if j != i:
            f[i] += hertz(mine, Grain(x[j], v[j], radius[j]), stiff, damp)


@nf.func
def quadratic(t):
    """Weights of three nodes around."""
    return nf.vec3(0.5 * (1.5 - t) ** 2, 0.75 - (t - 1.0) ** 2, 0.5 * (t - 0.5) ** 2)


@plain_case("momentum mass", N, wrt="x v c", x=FLAT, v=V[:, :2].copy(),
            c=RNG.normal(size=(N, 2, 2)), momentum=np.zeros((36, 2)),
            mass=np.zeros(36), h=1.0)
def affine_to_grid(x: vec2s, v: vec2s, c: mat22s, momentum: vec2s, mass, h):
    """Material points: the affine velocity of a particle on nine nodes."""
    p = nf.grid(1)
    bx, by = int(x[p].x / h - 0.5), int(x[p].y / h - 0.5)
    fx, fy = x[p].x / h - float(bx), x[p].y / h - float(by)
    wx, wy = quadratic(fx), quadratic(fy)
    for i in nf.unroll(range(3)):
        for j in nf.unroll(range(3)):
            w = wx[i] * wy[j]
            offset = nf.vec2((float(i) - fx) * h, (float(j) - fy) * h)
            node = (bx + i) * 6 + by + j
            nf.atomic.add(momentum, node, w * (v[p] + c[p] @ offset))
            nf.atomic.add(mass, node, w)


@plain_case("v c", N, wrt="grid_v", x=FLAT, grid_v=RNG.normal(size=(36, 2)),
            v=np.zeros((N, 2)), c=np.zeros((N, 2, 2)))
def affine_from_grid(x: nf.View[nf.vec2], grid_v: vec2s, v: vec2s, c: mat22s):
    p = nf.grid(1)
    bx, by = int(x[p].x - 0.5), int(x[p].y - 0.5)
    fx, fy = x[p].x - bx, x[p].y - by
    wx, wy = quadratic(fx), quadratic(fy)
    speed, affine = nf.vec2(), nf.mat22()
    for i in range(3):
        for j in range(3):
            w = wx[i] * wy[j]
            g = grid_v[(bx + i) * 6 + by + j]
            speed += w * g
            affine += nf.outer(g, nf.vec2(i - fx, j - fy)) * (4.0 * w)
    v[p], c[p] = speed, affine


def swirl_reference(x, gamma, u, core):
    d = x[:, None] - x[None]
    w = gamma[None] / (2 * np.pi * ((d * d).sum(-1) + core**2))
    return np.stack([(-d[..., 1] * w).sum(1), (d[..., 0] * w).sum(1)], 1)


@case(swirl_reference, "u", N, wrt="x gamma", x=FLAT, gamma=RNG.normal(size=N),
      u=np.zeros((N, 2)), core=0.2)
def vortices(x: vec2s, gamma, u: vec2s, core):
    i = nf.grid(1)
    total = nf.vec2(0.0, 0.0)
    for j in range(gamma.shape[0]):
        d = x[i] - x[j]
        w = gamma[j] / (2.0 * 3.141592653589793 * (nf.dot(d, d) + core * core))
        total = total + nf.vec2(-d.y, d.x) * w
    u[i] = total


def periodic_reference(x, box, e, epsilon, sigma, cut):
    d = x[:, None] - x[None]
    d -= box[None, None] * np.round(d / box[None, None])
    r2 = (d * d).sum(-1) + np.eye(N) * 1e9
    s = (sigma**2 / r2) ** 3
    return e + np.where(r2 < cut * cut, 2 * epsilon * (s * s - s), 0).sum(1)


@case(periodic_reference, "e", N, wrt="x box", x=X, box=np.array([2.9, 3.1, 3.0]),
      e=np.zeros(N), epsilon=0.3, sigma=0.35, cut=1.4)
def periodic(x: vec3s, box, e, epsilon, sigma, cut):
    i = nf.grid(1)
    size = nf.vec3(box[0], box[1], box[2])
    for j in range(len(x)):
        if i == j:
            continue
        d = x[i] - x[j]
        turns = nf.vec3(nf.rint(d.x / size.x), nf.rint(d.y / size.y),
                        nf.rint(d.z / size.z))
        d = d - size * turns
        r2 = nf.dot(d, d)
        if r2 < cut * cut:
            s = (sigma * sigma / r2) ** 3
            e[i] += 2.0 * epsilon * (s * s - s)


def tree(points):
    """Centres, masses, sizes, first children of a binary tree over points."""
    nodes = [[np.arange(len(points)), -1]]
    k = 0
    while k < len(nodes):
        members = nodes[k][0]
        if len(members) > 1:
            axis = np.ptp(points[members], axis=0).argmax()
            order = members[np.argsort(points[members, axis])]
            nodes[k][1] = len(nodes)
            nodes += [[part, -1] for part in np.array_split(order, 2)]
        k += 1
    centres = np.stack([points[m].mean(0) for m, _ in nodes])
    sizes = np.array([np.ptp(points[m], axis=0).max() for m, _ in nodes])
    return centres, np.array([float(len(m)) for m, _ in nodes]), sizes, np.array(
        [c for _, c in nodes])


CENTRES, MASSES, SIZES, CHILDREN = tree(X)


@plain_case("a", N, wrt="x centres masses", x=X + 0.05, centres=CENTRES, masses=MASSES,
            sizes=SIZES, children=CHILDREN, a=np.zeros((N, 3)), theta=0.6)
def far_fields(x: vec3s, centres: vec3s, masses, sizes: nf.View, children: nf.View,
               a: vec3s, theta):
    """A walk over a tree with a stack of its own."""
    i = nf.grid(1)
    stack = [0] * 16
    top = 1
    total = nf.vec3()
    while top > 0:
        top -= 1
        node = stack[top]
        d = centres[node] - x[i]
        r2 = nf.dot(d, d) + 0.01
        if children[node] < 0 or sizes[node] * sizes[node] < theta * theta * r2:
            total += d * (masses[node] / (r2 * nf.sqrt(r2)))
            continue
        stack[top] = children[node]
        stack[top + 1] = children[node] + 1
        top += 2
    a[i] = total


@dataclass
class Found:
    index: int
    distance: float


@nf.func
def nearer(best, index, distance):
    return Found(index, distance) if distance < best.distance else best


@plain_case("distance", 4, wrt="queries x", queries=RNG.uniform(0, 3, (4, 3)),
            x=X, place=np.zeros(4, int), distance=np.zeros((4, 2)))
def two_nearest(queries: vec3s, x: vec3s, place: nf.View, distance):
    q = nf.grid(1)
    first, second = Found(-1, 1e9), Found(-1, 1e9)
    for j in range(len(x)):
        d = nf.length(x[j] - queries[q])
        if d < first.distance:
            second = first
            first = Found(j, d)
        else:
            second = nearer(second, j, d)
    place[q] = first.index * 100 + second.index
    distance[q, 0], distance[q, 1] = first.distance, second.distance


@plain_case("x v", 5, wrt="force", x=X[:5].copy(), v=V[:5].copy(),
            force=RNG.normal(size=(6, 5, 3)), dt=0.1, walls=np.array([0.0, 3.0]))
def bounced(x: vec3s, v: vec3s, force: nf.DiffView[nf.vec3, 2], dt, walls: nf.View):
    """Steps in a box whose walls turn the speed around."""
    i = nf.grid(1)
    for t in range(6):
        speed = v[i] + force[t, i] * dt
        p = x[i] + speed * dt
        sign = nf.vec3(1.0)
        if p.x < walls[0] or p.x > walls[1]:
            sign = nf.vec3(-0.8, 1.0, 1.0)
        if p.y < walls[0] or p.y > walls[1]:
            sign = sign * nf.vec3(1.0, -0.8, 1.0)
        if p.z < walls[0] or p.z > walls[1]:
            sign *= nf.vec3(1.0, 1.0, -0.8)
        v[i] = speed * sign
        x[i] += v[i] * dt
