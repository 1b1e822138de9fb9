"""Programs with derivatives, as people write them with NumPy: sciences and statistics.

Each takes a NumPy-like module, and gives a loss and its arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as onp

__all__ = ["STATISTICS"]


def _set(np: Any, x: Any, index: Any, value: Any) -> Any:
    """`x` with other elements: in place, but for arrays of JAX."""
    if np is not onp:
        return x.at[index].set(value)
    x = x.copy()
    x[index] = value
    return x


def wave(np: Any) -> Any:
    """The wave equation with changes in place: speeds from a start."""
    def loss(speed, start):
        u, before = start + 0.0 * speed, start
        for _ in range(4):
            inside = 2 * u[1:-1] - before[1:-1] + 0.1 * speed[1:-1] ** 2 * (
                u[2:] - 2 * u[1:-1] + u[:-2])
            u, before = _set(np, u, slice(1, -1), inside), u
            u = _set(np, u, 0, u[1])
            u = _set(np, u, -1, 0.0)
        return (u ** 2).sum() + abs(u).max()

    rng = onp.random.default_rng(30)
    return loss, [rng.normal(size=8), rng.normal(size=8)]


def quantum(np: Any) -> Any:
    """A wave packet in a potential, by split steps of complex numbers."""
    x = onp.linspace(-3, 3, 16)
    k = onp.fft.fftfreq(16, 6 / 16) * 2 * onp.pi

    def loss(potential, width):
        psi = np.exp(-x ** 2 * width + 1j * x)
        for _ in range(3):
            psi = psi * np.exp(-0.05j * (potential + 0.5 * x ** 2))
            psi = np.fft.ifft(np.fft.fft(psi) * np.exp(-0.05j * k ** 2))
        density = np.abs(psi) ** 2
        return np.sum(density * x) / np.sum(density) + np.imag(
            np.vdot(psi, np.roll(psi, 1))) + np.angle(psi[5])

    return loss, [onp.random.default_rng(31).normal(size=16), onp.array(0.7)]


def survival(np: Any) -> Any:
    """Cox's and Weibull's likelihoods of times, some of which were cut off."""
    rng = onp.random.default_rng(32)
    times, dead = rng.uniform(1, 3, size=7), rng.integers(0, 2, 7)
    x = rng.normal(size=(7, 2))
    order = onp.argsort(-times)

    def loss(b, shape):
        eta = x @ b
        risk = np.log(np.cumsum(np.exp(eta[order])))
        cox = -np.sum(dead[order] * (eta[order] - risk))
        k = np.exp(shape)
        weibull = -np.sum(dead * (np.log(k) - k * eta + (k - 1) * np.log(times))) + \
            np.sum((times / np.exp(eta)) ** k)
        left = np.cumprod(1 - 0.5 * np.tanh(eta) ** 2)
        return cox + weibull + left[-1] + np.sinc(eta[0]) + np.logaddexp.reduce(eta)

    return loss, [rng.normal(size=2), onp.array(0.2)]


def ridge(np: Any) -> Any:
    """Errors of ridge regression with each sample left out, and its evidence."""
    rng = onp.random.default_rng(33)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=8)

    def loss(log_penalty, weight):
        a = np.transpose(x) @ x + np.diag(np.exp(log_penalty))
        hat = x @ np.linalg.inv(a) @ x.T
        errors = (y - hat @ y) / (1 - np.diagonal(hat))
        sign, logdet = np.linalg.slogdet(a)
        return np.mean(errors ** 2) + 0.1 * sign * logdet + np.median(
            np.abs(errors)) + weight * np.quantile(errors, 0.3)

    return loss, [rng.normal(size=3), onp.array(0.4)]


def sequence_labels(np: Any) -> Any:
    """A conditional random field, and its best path's score."""
    labels = onp.array([0, 2, 1, 1, 0])

    def logsumexp(x, axis):
        top = x.max(axis, keepdims=True)
        return (top + np.log(np.exp(x - top).sum(axis, keepdims=True))).squeeze(axis)

    def loss(unary, change):
        score = unary[onp.arange(5), labels].sum() + change[
            labels[:-1], labels[1:]].sum()
        alpha, best = unary[0], unary[0]
        for k in range(1, 5):
            alpha = logsumexp(alpha[:, None] + change, 0) + unary[k]
            best = np.max(best[:, None] + change, axis=0) + unary[k]
        return logsumexp(alpha, 0) - score + 0.1 * best.max()

    rng = onp.random.default_rng(34)
    return loss, [rng.normal(size=(5, 3)), rng.normal(size=(3, 3))]


def asian_option(np: Any) -> Any:
    """A price by simulation: payoffs on means, a barrier that is smooth."""
    z = onp.random.default_rng(35).normal(size=(30, 5))

    def loss(start, sigma, rate):
        steps = (rate - 0.5 * sigma ** 2) * 0.2 + sigma * np.sqrt(0.2) * z
        path = start * np.exp(np.cumsum(steps, axis=1))
        mean = np.average(path, axis=1, weights=onp.arange(1.0, 6.0))
        pay = np.maximum(mean - 1.0, 0.0)
        above = 1 / (1 + np.exp(-20 * (path.min(axis=1) - 0.7)))
        low, high = np.percentile(mean, onp.array([25, 75]))
        return np.exp(-rate) * np.mean(pay * above) + np.std(pay, ddof=1) + high - low

    return loss, [onp.array(1.1), onp.array(0.4), onp.array(0.05)]


def image_filter(np: Any) -> Any:
    """A filter of an image by slices, its variation and its spectrum."""
    rng = onp.random.default_rng(36)
    image = rng.uniform(size=(6, 6))

    def loss(kernel, gain):
        padded = np.pad(image * gain, ((1, 1), (1, 1)), mode="reflect")
        out = sum(kernel[i, j] * padded[i:i + 6, j:j + 6]
                  for i in range(3) for j in range(3))
        pooled = out.reshape(3, 2, 3, 2).mean(axis=(1, 3))
        up = np.repeat(np.repeat(pooled, 2, axis=0), 2, axis=1)
        varied = np.abs(np.diff(out, axis=0)).sum() + np.abs(np.diff(out, axis=1)).sum()
        spectrum = np.abs(np.fft.fftshift(np.fft.fft2(out)))
        return np.mean((up - image) ** 2) + 0.01 * varied + spectrum[1:3, 2:].mean()

    return loss, [rng.normal(size=(3, 3)), rng.uniform(0.5, 1, size=(6, 6))]


def normalizing_flow(np: Any) -> Any:
    """Densities through planar maps and couplings, axes permuted."""
    rng = onp.random.default_rng(37)
    x = rng.normal(size=(5, 4))

    def loss(w, u, b, mix):
        z, logdet = x, np.zeros(5)
        for k in range(2):
            a = np.tanh(z @ w[k] + b[k])
            z = z + np.outer(a, u[k])
            logdet = logdet + np.log(np.abs(1 + ((1 - a ** 2)[:, None] * w[k]) @ u[k]))
            first, second = np.hsplit(z, 2)
            scale = np.tanh(first @ mix[:2, :2])
            moved = second * np.exp(scale) + first @ mix[2:, 2:]
            z = np.column_stack([moved, first])[:, [2, 0, 3, 1]]
            logdet += scale.sum(axis=1)
        return -np.mean(-0.5 * (z ** 2).sum(1) + logdet) + np.linalg.cond(
            np.eye(4) + 0.1 * mix)

    return loss, [rng.normal(size=(2, 4)), rng.normal(size=(2, 4)), rng.normal(size=2),
                  rng.normal(size=(4, 4))]


STATISTICS = (wave, quantum, survival, ridge, sequence_labels, asian_option,
              image_filter, normalizing_flow)
