"""Particles, cloth and rigid bodies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

import nbfused as nf

from .cases import case

RNG = np.random.default_rng(1)
N = 5
X, V, F = RNG.standard_normal((3, N, 3))
MASS = RNG.uniform(1, 2, N)
GRAVITY = nf.vec3(0.0, -9.8, 0.0)
vec3s, mat33s, quats = nf.DiffView[nf.vec3], nf.DiffView[nf.mat33], nf.DiffView[nf.quat]
EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [0, 4], [1, 3]])
FACES = np.array([[0, 1, 2], [2, 3, 4], [0, 2, 4]])
UNIT = RNG.standard_normal((N, 4))
UNIT /= np.linalg.norm(UNIT, axis=1, keepdims=True)
H = 0.1


def norm(v):
    return np.sqrt((v * v).sum(-1))


def integrate_reference(x, v, f, mass, h):
    drag = (1 + 0.05 * norm(v))[:, None]
    v = (v + h * (f / mass[:, None] + np.array(GRAVITY))) / drag
    return x + h * v, v


@case(integrate_reference, "x v", N, wrt="f mass", x=X, v=V, f=F, mass=MASS, h=H)
def integrate(x: vec3s, v: vec3s, f: vec3s, mass, h):
    i = nf.grid(1)
    drag = 1.0 + 0.05 * nf.length(v[i])
    v[i] = (v[i] + h * (f[i] / mass[i] + GRAVITY)) / drag
    x[i] += h * v[i]


def springs_reference(x, v, edges, rest, f, stiff, damp):
    f = f.copy()
    for k, (i, j) in enumerate(edges):
        d = x[j] - x[i]
        n = d / norm(d)
        pull = (stiff * (norm(d) - rest[k]) + damp * (n @ (v[j] - v[i]))) * n
        f[i] += pull
        f[j] -= pull
    return f


@case(springs_reference, "f", len(EDGES), wrt="x v rest", x=X, v=V, edges=EDGES,
      rest=RNG.uniform(0.5, 1, len(EDGES)), f=F, stiff=3.0, damp=0.2)
def springs(x: vec3s, v: vec3s, edges: nf.View, rest, f: vec3s, stiff, damp):
    e = nf.grid(1)
    i, j = edges[e, 0], edges[e, 1]
    d = x[j] - x[i]
    n = nf.normalize(d)
    c = nf.length(d) - rest[e]
    pull = n * (stiff * c + damp * nf.dot(n, v[j] - v[i]))
    nf.atomic.add(f, i, pull)
    nf.atomic.sub(f, j, pull)


def pressure_reference(x, faces, f, p):
    f = f.copy()
    a, b, c = (x[faces[:, k]] for k in range(3))
    for k in range(3):
        np.add.at(f, faces[:, k], p * np.cross(b - a, c - a) / 6)
    return f


@case(pressure_reference, "f", len(FACES), wrt="x", x=X, faces=FACES, f=F, p=2.5)
def pressure(x: vec3s, faces: nf.View, f: vec3s, p):
    t = nf.grid(1)
    a, b, c = x[faces[t, 0]], x[faces[t, 1]], x[faces[t, 2]]
    push = p * nf.cross(b - a, c - a) / 6.0
    for k in nf.unroll(range(3)):
        nf.atomic.add(f, faces[t, k], push)


def ground_reference(x, v, f, stiff, friction):
    depth = np.minimum(x[:, 1], 0)
    slip = v * [1, 0, 1]
    size = norm(slip)[:, None]
    hit = (x[:, 1:2] < 0) * 1.0
    up = (-stiff * depth)[:, None] * np.array([0, 1, 0])
    return f + hit * (up - friction * (-stiff * depth)[:, None] * slip / size)


@case(ground_reference, "f", N, wrt="x v", x=X, v=V, f=F, stiff=7.0, friction=0.3)
def ground(x: vec3s, v: vec3s, f: vec3s, stiff, friction):
    i = nf.grid(1)
    depth = x[i].y
    if depth < 0.0:
        slip = v[i]
        slip.y = 0.0
        push = -stiff * depth
        f[i] += nf.vec3(0.0, push, 0.0) - friction * push * nf.normalize(slip)


def contacts_reference(x, r, f, stiff):
    f = f.copy()
    for i in range(len(x)):
        for j in range(len(x)):
            d = x[i] - x[j]
            gap = r[i] + r[j] - norm(d)
            if i != j and gap > 0:
                f[i] += stiff * gap**1.5 * d / norm(d)
    return f


@case(contacts_reference, "f", N, wrt="x r", x=X, r=np.full(N, 0.9), f=F, stiff=2.0)
def contacts(x: vec3s, r, f: vec3s, stiff):
    i = nf.grid(1)
    total = nf.vec3(0.0, 0.0, 0.0)
    for j in range(x.shape[0]):
        d = x[i] - x[j]
        gap = r[i] + r[j] - nf.length(d)
        if j != i and gap > 0.0:
            total += stiff * gap * nf.sqrt(gap) * nf.normalize(d)
    f[i] += total


def nbody_reference(x, m, a, soft):
    d = x[None] - x[:, None]
    return ((m[None, :] / ((d**2).sum(-1) + soft)**1.5)[..., None] * d).sum(1)


@case(nbody_reference, "a", N, wrt="x m", x=X, m=MASS, a=0 * X, soft=0.1)
def nbody(x: vec3s, m, a: vec3s, soft):
    i = nf.grid(1)
    p, found = x[i], nf.vec3(0.0, 0.0, 0.0)
    for j in range(len(x)):
        d = x[j] - p
        s = nf.dot(d, d) + soft
        found += d * (m[j] / (s * nf.sqrt(s)))
    a[i] = found


def density_reference(x, m, rho, h):
    d2 = ((x[:, None] - x[None])**2).sum(-1)
    w = 315 / (64 * np.pi * h**9) * np.maximum(h*h - d2, 0)**3
    return w @ m


@case(density_reference, "rho", N, wrt="x m", x=X, m=MASS, rho=np.zeros(N), h=2.0)
def sph_density(x: vec3s, m, rho, h):
    i = nf.grid(1)
    total = 0.0
    for j in range(len(x)):
        d = x[i] - x[j]
        left = h * h - nf.dot(d, d)
        if left > 0.0:
            total += m[j] * left**3
    rho[i] = total * 315.0 / (64.0 * np.pi * h**9)


def spiky_reference(x, rho, f, h, k):
    p = k * (rho - 1)
    d = x[:, None] - x[None]
    r = norm(d) + np.eye(len(x))
    grad = 45 / (np.pi * h**6) * np.maximum(h - r, 0)**2 / r * (1 - np.eye(len(x)))
    return ((grad * (p[:, None] + p[None]) / (2 * rho[None]))[..., None] * d).sum(1)


@case(spiky_reference, "f", N, wrt="x rho", x=X, rho=MASS, f=0 * X, h=2.0, k=1.5)
def sph_pressure(x: vec3s, rho, f: vec3s, h, k):
    i = nf.grid(1)
    mine = k * (rho[i] - 1.0)
    total = nf.vec3(0.0, 0.0, 0.0)
    for j in range(len(x)):
        if j == i:
            continue
        d = x[i] - x[j]
        r = nf.length(d)
        if r < h:
            both = (mine + k * (rho[j] - 1.0)) / (2.0 * rho[j])
            total += nf.normalize(d) * both * (h - r)**2
    f[i] = total * (45.0 / (np.pi * h**6))


class Body(NamedTuple):
    place: nf.vec3
    turn: nf.quat
    speed: nf.vec3
    spin: nf.vec3


INERTIA = np.eye(3) * RNG.uniform(1, 2, (N, 1, 3)) + 0.1


def rigid_reference(b, torque, inertia, h):
    turn = Rotation.from_quat(b.turn)
    r = turn.as_matrix()
    world = r @ inertia @ r.transpose(0, 2, 1)
    back = np.linalg.inv(r @ inertia @ r.transpose(0, 2, 1))
    gyro = np.cross(b.spin, (world @ b.spin[..., None])[..., 0])
    spin = b.spin + h * (back @ (torque - gyro)[..., None])[..., 0]
    w = np.concatenate([spin, np.zeros((len(spin), 1))], axis=1)
    x, y, z, s = w.T
    left = np.stack([[s, -z, y, x], [z, s, -x, y], [-y, x, s, z], [-x, -y, -z, s]])
    turn = b.turn + 0.5 * h * np.einsum("ijn,nj->ni", left, b.turn)
    return b.place + h * b.speed, turn / norm(turn)[:, None], b.speed, spin


@case(rigid_reference, "b", N, wrt="torque", torque=F, inertia=INERTIA, h=H,
      b=Body(X, UNIT, V, F[::-1].copy()))
def rigid(b: nf.DiffView[Body], torque: vec3s, inertia: nf.View[nf.mat33], h):
    i = nf.grid(1)
    r = nf.quat_to_matrix(nf.normalize(b[i].turn))
    world = r @ inertia[i] @ nf.transpose(r)
    w = b[i].spin
    w += h * (nf.inverse(world) @ (torque[i] - nf.cross(w, world @ w)))
    q = b[i].turn
    q += 0.5 * h * (nf.quat(w.x, w.y, w.z, 0.0) * q)
    b[i].spin = w
    b[i].turn = nf.normalize(q)
    b[i].place += h * b[i].speed


def chain_reference(angles, lengths, tips):
    made = []
    for row in angles:
        place, turn = np.zeros(3), Rotation.identity()
        for a, size in zip(row, lengths, strict=True):
            turn = turn * Rotation.from_rotvec([0, a * 0.6, a * 0.8])
            place = place + turn.apply([size, 0, 0])
        made.append(place)
    return np.array(made)


@case(chain_reference, "tips", 2, wrt="angles lengths", tips=np.zeros((2, 3)),
      angles=RNG.standard_normal((2, 4)), lengths=RNG.uniform(1, 2, 4))
def chain(angles, lengths, tips: vec3s):
    i = nf.grid(1)
    place, turn = nf.vec3(0.0, 0.0, 0.0), nf.quat_identity()
    for k in range(angles.shape[1]):
        turn = turn * nf.quat_from_axis_angle(nf.vec3(0.0, 0.6, 0.8), angles[i, k])
        place += nf.rotate(turn, nf.vec3(lengths[k], 0.0, 0.0))
    tips[i] = place


def covariance_reference(x, rest, w, out):
    return out + np.einsum("n,ni,nj->ij", w, x, rest)


@case(covariance_reference, "out", N, wrt="x w", x=X, rest=V, w=MASS,
      out=np.zeros((1, 3, 3)))
def covariance(x: vec3s, rest: vec3s, w, out: mat33s):
    i = nf.grid(1)
    nf.atomic.add(out, 0, nf.outer(x[i], rest[i]) * w[i])


def projected_reference(x, pairs, rest, w):
    x = x.copy()
    for k, (i, j) in enumerate(pairs):
        d = x[i] - x[j]
        move = (norm(d) - rest[k]) / (w[i] + w[j]) * d / norm(d)
        x[i], x[j] = x[i] - w[i] * move, x[j] + w[j] * move
    return x


@case(projected_reference, "x", 2, wrt="rest", x=X, pairs=EDGES[[0, 2]],
      rest=np.array([0.5, 1.5]), w=MASS)
def projected(x: vec3s, pairs: nf.View, rest, w: nf.View):
    c = nf.grid(1)
    i, j = pairs[c, 0], pairs[c, 1]
    d = x[i] - x[j]
    move = (nf.length(d) - rest[c]) / (w[i] + w[j]) * nf.normalize(d)
    x[i] -= w[i] * move
    x[j] += w[j] * move


def pendulum_reference(state, size, h, n):
    angle, speed = state.T
    for _ in range(n):
        speed = speed - h * 9.8 / size * np.sin(angle)
        angle = angle + h * speed
    return np.stack([angle, speed], axis=1)


@case(pendulum_reference, "state", 4, wrt="size", state=RNG.standard_normal((4, 2)),
      size=RNG.uniform(1, 2, 4), h=0.05, n=6)
def pendulum(state: nf.DiffView[nf.vec2], size, h, n):
    i = nf.grid(1)
    for _ in range(n):
        state[i].y -= h * 9.8 / size[i] * nf.sin(state[i].x)
        state[i].x += h * state[i].y


def skinned_reference(x, bones, which, weight, out):
    ones = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    placed = np.einsum("nkij,nj->nki", bones[which], ones)
    return np.einsum("nk,nki->ni", weight, placed)[:, :3]


@case(skinned_reference, "out", N, wrt="x bones weight", x=X, out=0 * X,
      bones=RNG.standard_normal((3, 4, 4)), which=RNG.integers(0, 3, (N, 2)),
      weight=RNG.uniform(0, 1, (N, 2)))
def skinned(x: vec3s, bones: nf.DiffView[nf.mat44], which: nf.View, weight,
            out: vec3s):
    i = nf.grid(1)
    p = x[i]
    whole = nf.vec4(p.x, p.y, p.z, 1.0)
    found = nf.vec4(0.0, 0.0, 0.0, 0.0)
    for k in range(which.shape[1]):
        found += weight[i, k] * (bones[which[i, k]] @ whole)
    out[i] = found.xyz


def keyed_reference(keys, t, out):
    k = np.floor(t).astype(int)
    a, b, s = keys[k], keys[k + 1], (t - k)[:, None]
    c = (a * b).sum(1, keepdims=True)
    b, c = b * np.sign(c), np.abs(c)
    angle = np.arccos(c)
    return (np.sin((1 - s) * angle) * a + np.sin(s * angle) * b) / np.sin(angle)


@case(keyed_reference, "out", 3, wrt="keys t", keys=UNIT, t=np.array([0.3, 2.6, 3.1]),
      out=np.zeros((3, 4)))
def keyed(keys: quats, t, out: quats):
    i = nf.grid(1)
    k = int(t[i])
    out[i] = nf.slerp(keys[k], keys[k + 1], t[i] - k)
