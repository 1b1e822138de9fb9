"""Programs with derivatives, as people write them with NumPy: simulations.

Each takes a NumPy-like module, and gives a loss and its arguments.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as onp

__all__ = ["SIMULATIONS"]


def fluid(np: Any) -> Any:
    """Incompressible flow in a box that is periodic, steered to an image."""
    def project(vx, vy):
        p = np.zeros(vx.shape)
        h = 1.0 / vx.shape[0]
        div = -0.5 * h * (np.roll(vx, -1, axis=0) - np.roll(vx, 1, axis=0)
                          + np.roll(vy, -1, axis=1) - np.roll(vy, 1, axis=1))
        for _ in range(4):
            p = (div + np.roll(p, 1, axis=0) + np.roll(p, -1, axis=0)
                 + np.roll(p, 1, axis=1) + np.roll(p, -1, axis=1)) / 4.0
        vx = vx - 0.5 * (np.roll(p, -1, axis=0) - np.roll(p, 1, axis=0)) / h
        vy = vy - 0.5 * (np.roll(p, -1, axis=1) - np.roll(p, 1, axis=1)) / h
        return vx, vy

    def advect(f, vx, vy):
        rows, cols = f.shape
        cell_ys, cell_xs = onp.meshgrid(onp.arange(rows), onp.arange(cols))
        center_xs = (cell_xs - vx).ravel()
        center_ys = (cell_ys - vy).ravel()
        left, top = np.floor(center_xs), np.floor(center_ys)
        rw, bw = center_xs - left, center_ys - top
        left_ix = np.mod(left.astype(int), rows)
        right_ix = np.mod(left_ix + 1, rows)
        top_ix = np.mod(top.astype(int), cols)
        bot_ix = np.mod(top_ix + 1, cols)
        flat = (1 - rw) * ((1 - bw) * f[left_ix, top_ix] + bw * f[left_ix, bot_ix]) \
            + rw * ((1 - bw) * f[right_ix, top_ix] + bw * f[right_ix, bot_ix])
        return np.reshape(flat, (rows, cols))

    rng = onp.random.default_rng(0)
    smoke = rng.uniform(size=(6, 6))
    target = rng.uniform(size=(6, 6))

    def loss(vx, vy):
        s = np.asarray(smoke)
        for _ in range(3):
            vx_new, vy_new = advect(vx, vx, vy), advect(vy, vx, vy)
            vx, vy = project(vx_new, vy_new)
            s = advect(s, vx, vy)
        return np.mean((target - s) ** 2)

    return loss, [0.3 * rng.normal(size=(6, 6)), 0.3 * rng.normal(size=(6, 6))]


def wing(np: Any) -> Any:
    """Lift over drag of an occluded flow."""
    rows, cols = 6, 8

    def occlude(f, occlusion):
        return f * (1 - occlusion)

    def simulate(vx, vy, occlusion):
        for _ in range(3):
            vx = 0.5 * vx + 0.125 * (np.roll(vx, 1, 0) + np.roll(vx, -1, 0)
                                     + np.roll(vx, 1, 1) + np.roll(vx, -1, 1))
            vy = vy - 0.2 * vx * np.gradient(vy, axis=1) + 0.1 * np.gradient(vx)[0]
            vx, vy = occlude(vx, occlusion), occlude(vy, occlusion)
        return vx, vy

    def loss(params):
        shape = 1.0 / (1.0 + np.exp(-params.reshape((rows, cols))))
        border = onp.pad(onp.ones((rows - 2, cols - 2)), 1)
        occlusion = shape * border
        vx, vy = simulate(np.ones((rows, cols)), np.zeros((rows, cols)), occlusion)
        drag = np.mean((1.0 - vx) ** 2)
        lift = np.mean(vy * onp.linspace(-1, 1, rows)[:, None])
        return -lift / drag

    return loss, [onp.random.default_rng(1).normal(size=rows * cols)]


def ode_net(np: Any) -> Any:
    """A network as the right side of an equation, by Runge and Kutta."""
    def dynamics(y, t, params):
        for weights, bias in params[:-1]:
            y = np.tanh(y @ weights + bias + t)
        weights, bias = params[-1]
        return y @ weights + bias

    def step(y, t, h, params):
        k1 = dynamics(y, t, params)
        k2 = dynamics(y + h * k1 / 2, t + h / 2, params)
        k3 = dynamics(y + h * k2 / 2, t + h / 2, params)
        k4 = dynamics(y + h * k3, t + h, params)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    rng = onp.random.default_rng(2)
    times = onp.linspace(0.0, 1.0, 5)
    true = onp.stack([onp.cos(times), onp.sin(times)], axis=1)

    def loss(w1, b1, w2, b2):
        y = np.array([1.0, 0.0])
        path = [y]
        for start, end in pairwise(times):
            y = step(y, start, end - start, [(w1, b1), (w2, b2)])
            path.append(y)
        return np.sum(np.abs(np.stack(path) - true) ** 1.5)

    return loss, [rng.normal(size=(2, 4)), rng.normal(size=4), rng.normal(size=(4, 2)),
                  rng.normal(size=2)]


def bodies(np: Any) -> Any:
    """Masses that attract one another, by the leapfrog scheme."""
    def acceleration(x, m):
        apart = x[None, :, :] - x[:, None, :]
        inverse = (np.sum(apart ** 2, axis=-1) + 0.05) ** -1.5
        return np.einsum("ij,ijk,j->ik", inverse, apart, m)

    def loss(x, v, m):
        start = x
        for _ in range(4):
            v = v + 0.05 * acceleration(x, m)
            x = x + 0.1 * v
            v = v + 0.05 * acceleration(x, m)
        energy = 0.5 * np.dot(m, np.sum(v * v, -1))
        return energy + np.linalg.norm(x - start, axis=1).max()

    rng = onp.random.default_rng(3)
    return loss, [rng.normal(size=(4, 3)), rng.normal(size=(4, 3)),
                  rng.uniform(0.5, 1.5, 4)]


def heat(np: Any) -> Any:
    """The heat equation by Fourier transforms: conductivity from measurements."""
    n = 12
    waves = onp.fft.fftfreq(n, 1 / n)
    rng = onp.random.default_rng(4)
    measured = rng.normal(size=n)

    def loss(start, logs):
        frequencies = np.fft.fft(start)
        for k in range(3):
            frequencies = frequencies * np.exp(-np.exp(logs[k]) * waves ** 2 * 0.02)
        end = np.real(np.fft.ifft(frequencies))
        half = np.fft.rfft(end)
        return np.sum((end - measured) ** 2) + 1e-2 * np.sum(np.abs(half) ** 2)

    return loss, [rng.normal(size=n), rng.normal(size=3)]


def kalman(np: Any) -> Any:
    """The likelihood of a linear system, by Kalman's filter."""
    rng = onp.random.default_rng(5)
    seen = rng.normal(size=(5, 2))

    def loss(a, q, r):
        c = onp.eye(2, 3)
        mean, cov = np.zeros(3), np.eye(3)
        noise = q @ q.T + 0.1 * np.eye(3)
        total = 0.0
        for y in seen:
            mean, cov = a @ mean, a @ cov @ a.T + noise
            s = c @ cov @ c.T + np.diag(np.exp(r))
            gain = np.linalg.solve(s, c @ cov).T
            error = y - c @ mean
            _, logdet = np.linalg.slogdet(s)
            total = total - 0.5 * (error @ np.linalg.inv(s) @ error + logdet)
            mean, cov = mean + gain @ error, cov - gain @ s @ gain.T
        return -total

    return loss, [0.5 * rng.normal(size=(3, 3)), 0.3 * rng.normal(size=(3, 2)),
                  rng.normal(size=2)]


def camera(np: Any) -> Any:
    """Points seen by turned cameras: rotations by Rodrigues' formula."""
    rng = onp.random.default_rng(6)
    seen = rng.normal(size=(2, 5, 2))

    def rotate(axis, points):
        angle = np.sqrt(np.sum(axis ** 2))
        unit = axis / angle
        along = np.dot(points, unit)[:, None] * unit
        return along + np.cos(angle) * (points - along) + np.sin(angle) * np.cross(
            unit, points)

    def loss(points, axes, shifts):
        errors = []
        for k in range(2):
            x = rotate(axes[k], points) + shifts[k]
            flat = x[:, :2] / (x[:, 2:] + 5.0)
            errors.append((flat - seen[k]).ravel())
        return np.sum(np.log1p(np.hstack(errors) ** 2))

    return loss, [rng.normal(size=(5, 3)), rng.normal(size=(2, 3)),
                  rng.normal(size=(2, 3))]


def transport(np: Any) -> Any:
    """Optimal transport by Sinkhorn's iteration on logarithms."""
    rng = onp.random.default_rng(7)
    weights = rng.dirichlet(onp.ones(4))

    def logsumexp(x, axis):
        top = np.max(x, axis=axis, keepdims=True)
        return np.squeeze(top, axis) + np.log(np.sum(np.exp(x - top), axis=axis))

    def loss(x, y):
        cost = np.sum((x[:, np.newaxis] - y[np.newaxis]) ** 2, axis=2)
        f, g = np.zeros(5), np.zeros(4)
        for _ in range(6):
            f = -0.5 * logsumexp((g - cost) / 0.5 + np.log(weights), 1)
            g = -0.5 * logsumexp((f[:, None] - cost) / 0.5 - np.log(5.0), 0)
        plan = np.exp((f[:, None] + g - cost) / 0.5) * weights / 5.0
        return np.sum(plan * cost)

    return loss, [rng.normal(size=(5, 2)), rng.normal(size=(4, 2))]


SIMULATIONS = (fluid, wing, ode_net, bodies, heat, kalman, camera, transport)
