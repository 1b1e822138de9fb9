"""Elastic solids, cloth, rods and joints; finite elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import nbfused as nf

from .plain import plain_case

RNG = np.random.default_rng(21)
vec3s, vec2s = nf.DiffView[nf.vec3], nf.DiffView[nf.vec2]
quats, mat33s = nf.DiffView[nf.quat], nf.DiffView[nf.mat33]
REST = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1.0]])
X = REST + RNG.normal(scale=0.1, size=REST.shape)
V = RNG.normal(size=X.shape)
TETS = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
POSES = np.stack([np.linalg.inv((REST[t[1:]] - REST[t[0]]).T) for t in TETS])
TURNS = RNG.normal(size=(4, 4))
TURNS /= np.linalg.norm(TURNS, axis=1, keepdims=True)
TRIANGLES = np.array([[0, 1, 2], [1, 4, 2], [0, 2, 3]])
FLAT = RNG.normal(size=(5, 2)) + np.array([[0, 0], [2, 0], [1, 2], [-1, 2], [3, 2]])
COLUMNS = np.array([[3 * k + j for j in range(9)] for k in range(3)]).reshape(3, 9) % 11


@nf.func
def deformation(x0, x1, x2, x3, pose):
    return nf.matrix_from_cols(x1 - x0, x2 - x0, x3 - x0) @ pose


@plain_case("energy", 2, wrt="x pose", x=X, tets=TETS, pose=POSES, energy=np.zeros(1),
            mu=1.3, lam=0.7)
def neo_hookean(x: vec3s, tets: nf.View, pose: mat33s, energy, mu, lam):
    t = nf.grid(1)
    f = deformation(x[tets[t, 0]], x[tets[t, 1]], x[tets[t, 2]], x[tets[t, 3]], pose[t])
    j = nf.determinant(f)
    squares = nf.dot(f[0], f[0]) + nf.dot(f[1], f[1]) + nf.dot(f[2], f[2])
    volume = 1.0 / (6.0 * nf.determinant(pose[t]))
    logj = nf.log(j)
    nf.atomic.add(energy, 0, volume * (
        0.5 * mu * (squares - 3.0) - mu * logj + 0.5 * lam * logj * logj))


@plain_case("f", 2, wrt="x", x=X, tets=TETS, pose=POSES, f=np.zeros_like(X), mu=1.3,
            lam=0.7)
def elastic_forces(x: vec3s, tets: nf.View, pose: nf.View[nf.mat33], f: vec3s, mu, lam):
    """Stable neo-Hookean stress, spread over four corners."""
    t = nf.grid(1)
    i, j, k, m = tets[t, 0], tets[t, 1], tets[t, 2], tets[t, 3]
    d = nf.matrix_from_cols(x[j] - x[i], x[k] - x[i], x[m] - x[i]) @ pose[t]
    cofactor = nf.transpose(nf.inverse(d)) * nf.determinant(d)
    stress = mu * d + (lam * (nf.determinant(d) - 1.0) - mu) * cofactor
    h = -(stress @ nf.transpose(pose[t])) / (6.0 * nf.determinant(pose[t]))
    f1, f2, f3 = nf.transpose(h)[0], nf.transpose(h)[1], nf.transpose(h)[2]
    nf.atomic.sub(f, i, f1 + f2 + f3)
    nf.atomic.add(f, j, f1)
    nf.atomic.add(f, k, f2)
    nf.atomic.add(f, m, f3)


@plain_case("r", 2, wrt="x", x=X, tets=TETS, pose=POSES, r=np.zeros((2, 3, 3)))
def polar_rotation(x: vec3s, tets: nf.View, pose: nf.View[nf.mat33], r: mat33s):
    """Higham's iteration, as long as it moves."""
    t = nf.grid(1)
    a = deformation(x[tets[t, 0]], x[tets[t, 1]], x[tets[t, 2]], x[tets[t, 3]], pose[t])
    moved = 1.0
    while moved > 1e-9:
        b = 0.5 * (a + nf.transpose(nf.inverse(a)))
        moved = 0.0
        for k in range(3):
            moved += nf.dot(b[k] - a[k], b[k] - a[k])
        a = b
    r[t] = a


@plain_case("energy", 1, wrt="x rest", x=X, hinges=np.array([[0, 1, 2, 4]]),
            rest=np.array([0.3]), energy=np.zeros(1), stiff=2.0)
def bending(x: vec3s, hinges: nf.View, rest, energy, stiff):
    """The angle between two triangles that share an edge."""
    h = nf.grid(1)
    a, b, c, d = x[hinges[h, 0]], x[hinges[h, 1]], x[hinges[h, 2]], x[hinges[h, 3]]
    edge = c - b
    n1 = nf.normalize(nf.cross(edge, a - b))
    n2 = nf.normalize(nf.cross(d - b, edge))
    sine = nf.dot(nf.cross(n1, n2), nf.normalize(edge))
    angle = nf.atan2(sine, nf.dot(n1, n2)) - rest[h]
    nf.atomic.add(energy, 0, 0.5 * stiff * angle * angle * nf.length(edge))


@plain_case("energy", 3, wrt="x", x=X, faces=TRIANGLES, pose=np.tile(
    np.eye(2).ravel(), (3, 1)).reshape(3, 2, 2), energy=np.zeros(3), mu=0.8, lam=0.4)
def membrane(x: vec3s, faces: nf.View, pose: nf.View[nf.mat22], energy, mu, lam):
    """Green's strain of a triangle in space."""
    t = nf.grid(1)
    e1, e2 = x[faces[t, 1]] - x[faces[t, 0]], x[faces[t, 2]] - x[faces[t, 0]]
    p = pose[t]
    u = e1 * p[0, 0] + e2 * p[1, 0]
    v = e1 * p[0, 1] + e2 * p[1, 1]
    g = nf.mat22(nf.dot(u, u) - 1.0, nf.dot(u, v), nf.dot(v, u), nf.dot(v, v) - 1.0)
    trace = 0.5 * (g[0, 0] + g[1, 1])
    total = 0.0
    for i in range(2):
        for j in range(2):
            total += 0.25 * g[i, j] * g[j, i]
    energy[t] = mu * total + 0.5 * lam * trace * trace


@plain_case("values", 3, wrt="x k", x=FLAT, faces=TRIANGLES, slots=COLUMNS,
            k=RNG.uniform(1, 2, 3), values=np.zeros(11))
def stiffness(x: vec2s, faces: nf.View, slots: nf.View, k, values):
    """Gradients of linear shape functions, added where a sparse matrix has them."""
    t = nf.grid(1)
    a, b, c = x[faces[t, 0]], x[faces[t, 1]], x[faces[t, 2]]
    area = 0.5 * ((b.x - a.x) * (c.y - a.y) - (c.x - a.x) * (b.y - a.y))
    g = [nf.vec2(b.y - c.y, c.x - b.x), nf.vec2(c.y - a.y, a.x - c.x),
         nf.vec2(a.y - b.y, b.x - a.x)]
    for i in range(3):
        for j in range(3):
            nf.atomic.add(values, slots[t, 3 * i + j],
                          k[t] * nf.dot(g[i], g[j]) / (4.0 * abs(area)))


@plain_case("m load", 3, wrt="x s", x=FLAT, faces=TRIANGLES, s=RNG.normal(size=5),
            m=np.zeros(5), load=np.zeros(5))
def lumped(x: vec2s, faces: nf.View, s, m, load):
    """Masses of corners, and a source by three points of quadrature."""
    t = nf.grid(1)
    i, j, k = faces[t, 0], faces[t, 1], faces[t, 2]
    d1, d2 = x[j] - x[i], x[k] - x[i]
    area = 0.5 * abs(d1.x * d2.y - d1.y * d2.x)
    for corner in range(3):
        nf.atomic.add(m, faces[t, corner], area / 3.0)
    for q in range(3):
        n = nf.vec3(1.0 / 6.0)
        if q == 0:
            n += nf.vec3(0.5, 0.0, 0.0)
        elif q == 1:
            n += nf.vec3(0.0, 0.5, 0.0)
        else:
            n += nf.vec3(0.0, 0.0, 0.5)
        value = n.x * s[i] + n.y * s[j] + n.z * s[k]
        nf.atomic.add(load, i, area / 3.0 * n.x * value * value)
        nf.atomic.add(load, j, area / 3.0 * n.y * value * value)
        nf.atomic.add(load, k, area / 3.0 * n.z * value * value)


@plain_case("x lagrange", 2, wrt="w rest", x=X, w=RNG.uniform(0.5, 1, 5),
            edges=np.array([[0, 3], [1, 4]]), rest=RNG.uniform(0.5, 1, 2),
            lagrange=np.zeros(2), compliance=0.01)
def constraints(x: vec3s, w, edges: nf.View, rest, lagrange, compliance):
    """One colour of position-based dynamics, in place, four times."""
    e = nf.grid(1)
    i, j = edges[e, 0], edges[e, 1]
    for _ in range(4):
        d = x[i] - x[j]
        size = nf.length(d)
        c = size - rest[e]
        step = (-c - compliance * lagrange[e]) / (w[i] + w[j] + compliance)
        lagrange[e] += step
        n = d / size
        x[i] += n * (step * w[i])
        x[j] -= n * (step * w[j])


@plain_case("f torque", 3, wrt="x q stiff", x=X, q=TURNS, rest=TURNS[[1, 2, 3]],
            stiff=np.array([1.5, 0.4, 0.9]), f=np.zeros_like(X),
            torque=np.zeros((4, 3)))
def rod(x: vec3s, q: quats, rest: nf.View[nf.quat], stiff, f: vec3s, torque: vec3s):
    """Stretch along the third director, bending by Darboux's vector."""
    s = nf.grid(1)
    director = nf.rotate(q[s], nf.vec3(0.0, 0.0, 1.0))
    stretch = (x[s + 1] - x[s]) / 0.7 - director
    nf.atomic.add(f, s, stretch * stiff[0])
    nf.atomic.sub(f, s + 1, stretch * stiff[0])
    nf.atomic.add(torque, s, nf.cross(director, stretch) * stiff[1])
    darboux = nf.conjugate(q[s]) * q[s + 1]
    d = darboux - rest[s] if nf.dot(darboux, rest[s]) > 0.0 else darboux + rest[s]
    bend = nf.vec3(d.x, d.y, d.z) * stiff[2]
    nf.atomic.add(torque, s, nf.rotate(q[s], bend))
    nf.atomic.sub(torque, s + 1, nf.rotate(q[s], bend))


@plain_case("w energy", 4, wrt="q moments", q=TURNS, w=RNG.normal(size=(4, 3)),
            moments=RNG.uniform(0.5, 2, (4, 3)), energy=np.zeros(4), h=0.05)
def gyroscopes(q: quats, w: vec3s, moments: vec3s, energy, h):
    """World inertia from a rotation matrix; torque-free precession in place."""
    i = nf.grid(1)
    r = nf.quat_to_matrix(nf.normalize(q[i]))
    inertia = r @ nf.diagonal(moments[i]) @ nf.transpose(r)
    for _ in range(3):
        spin = w[i]
        momentum = inertia @ spin
        w[i] = spin - h * (nf.inverse(inertia) @ nf.cross(spin, momentum))
    energy[i] = 0.5 * nf.dot(w[i], inertia @ w[i])


@plain_case("error", 3, wrt="q axis", q=TURNS, axis=RNG.normal(size=(3, 3)),
            error=np.zeros((3, 3)))
def hinge_error(q: quats, axis: vec3s, error: vec3s):
    """The logarithm of a relative turn, without what the hinge allows."""
    i = nf.grid(1)
    d = nf.conjugate(q[i]) * q[i + 1]
    if d.w < 0.0:
        d = -d
    v = nf.vec3(d.x, d.y, d.z)
    size = nf.length(v)
    angle = 2.0 * nf.atan2(size, d.w)
    log = v * (angle / size) if size > 1e-6 else v * 2.0
    a = nf.normalize(axis[i])
    error[i] = log - a * nf.dot(a, log)


UP = nf.vec3(0.0, 1.0, 0.0)


@dataclass
class Contact:
    depth: float = 0.0
    normal: nf.vec3 = UP


@nf.func
def against_box(p, half):
    """The way out of a box, through its nearest face."""
    found = Contact()
    inside = nf.vec3(half.x - abs(p.x), half.y - abs(p.y), half.z - abs(p.z))
    if inside.x < 0.0 or inside.y < 0.0 or inside.z < 0.0:
        return found
    if inside.x < inside.y and inside.x < inside.z:
        found = Contact(inside.x, nf.vec3(nf.sign(p.x), 0.0, 0.0))
    elif inside.y < inside.z:
        found = Contact(inside.y, nf.vec3(0.0, nf.sign(p.y), 0.0))
    else:
        found = Contact(inside.z, nf.vec3(0.0, 0.0, nf.sign(p.z)))
    return found


@plain_case("f", 5, wrt="x v half", x=X - 0.4, v=V, half=np.array([0.8, 0.9, 0.7]),
            f=np.zeros_like(X), stiff=10.0, mu=0.5)
def box_contacts(x: vec3s, v: vec3s, half, f: vec3s, stiff, mu):
    """Friction that is Coulomb's, smoothed where a body rests."""
    i = nf.grid(1)
    hit = against_box(x[i], nf.vec3(half[0], half[1], half[2]))
    if hit.depth <= 0.0:
        return
    push = stiff * hit.depth
    slip = v[i] - hit.normal * nf.dot(v[i], hit.normal)
    speed = nf.sqrt(nf.dot(slip, slip) + 1e-4)
    f[i] = hit.normal * push - slip * (min(mu * push, 2.0 * speed) / speed)


@plain_case("x v", 4, wrt="target", x=X[:4].copy(), v=V[:4].copy(),
            target=RNG.normal(size=(4, 3)), gains=np.array([4.0, 0.5]), h=0.02)
def steered(x: vec3s, v: vec3s, target: vec3s, gains: nf.View, h):
    """A controller with a limit, stepped until it is near or ten times."""
    i = nf.grid(1)
    steps = 0
    while steps < 10:
        error = target[i] - x[i]
        if nf.length(error) < 0.05:
            break
        a = error * gains[0] - v[i] * gains[1]
        size = nf.length(a)
        if size > 3.0:
            a = a * (3.0 / size)
        v[i] += a * h
        x[i] += v[i] * h
        steps += 1
