"""Programs with derivatives, as people write them with NumPy: learning."""

from __future__ import annotations

from typing import Any

import numpy as onp

__all__ = ["LEARNING"]


def _sigmoid(np: Any, x: Any) -> Any:
    return 0.5 * (np.tanh(x / 2.0) + 1.0)


def _logsumexp(np: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    found = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return found if keepdims else np.reshape(found, np.sum(x, axis=axis).shape)


def rnn(np: Any) -> Any:
    """A recurrent network that predicts letters."""
    rng = onp.random.default_rng(10)
    letters = onp.eye(5)[rng.integers(0, 5, (6, 3))]

    def concat_and_multiply(weights, *args):
        cat_state = np.hstack((*args, np.ones((args[0].shape[0], 1))))
        return np.dot(cat_state, weights)

    def loss(start, change, predict):
        hiddens = np.repeat(start, letters.shape[1], axis=0)
        total = 0.0
        for t in range(letters.shape[0] - 1):
            hiddens = np.tanh(concat_and_multiply(change, letters[t], hiddens))
            output = concat_and_multiply(predict, hiddens)
            output = output - _logsumexp(np, output, axis=1, keepdims=True)
            total += np.sum(output * letters[t + 1])
        return -total / (letters.shape[0] - 1)

    return loss, [rng.normal(size=(1, 4)), rng.normal(size=(10, 4)),
                  rng.normal(size=(5, 5))]


def lstm(np: Any) -> Any:
    """Long short-term memory with parameters in a dict."""
    rng = onp.random.default_rng(11)
    inputs = rng.normal(size=(4, 2, 3))
    gates = ("change", "forget", "ingate", "outgate")

    def update(x, hiddens, cells, params):
        both = np.concatenate([x, hiddens, np.ones((2, 1))], axis=1)
        change = np.tanh(both @ params["change"])
        forget, ingate, outgate = (_sigmoid(np, both @ params[g]) for g in gates[1:])
        cells = cells * forget + ingate * change
        return outgate * np.tanh(cells), cells

    def loss(*weights):
        params = dict(zip((*gates, "cells", "hiddens"), weights, strict=True))
        hiddens = np.tile(params["hiddens"], (2, 1))
        cells = np.tile(params["cells"], (2, 1))
        outputs = [hiddens]
        for x in inputs:
            hiddens, cells = update(x, hiddens, cells, params)
            outputs.append(hiddens)
        return np.mean(np.square(outputs[-1] - 0.3)) + 0.1 * np.var(
            np.stack(outputs))

    return loss, [*(rng.normal(size=(8, 4)) for _ in gates), rng.normal(size=4),
                  rng.normal(size=4)]


def gaussian_process(np: Any) -> Any:
    """The marginal likelihood of a Gaussian process, and its prediction."""
    rng = onp.random.default_rng(12)
    x, y = rng.normal(size=(7, 1)), rng.normal(size=7)

    def kernel(scales, a, b):
        diffs = np.expand_dims(a / scales, 1) - np.expand_dims(b / scales, 0)
        return np.exp(-0.5 * np.sum(diffs ** 2, axis=2))

    def loss(params):
        mean, noise = params[0], np.exp(params[1]) + 0.01
        scale, lengths = np.exp(params[2]), np.exp(params[3:])
        cov = scale * kernel(lengths, x, x) + noise * np.eye(len(y))
        root = np.linalg.cholesky(cov)
        solved = np.linalg.solve(root, y - mean)
        test = onp.linspace(-1, 1, 3)[:, None]
        cross = scale * kernel(lengths, test, x)
        predicted = mean + np.dot(cross, np.linalg.solve(cov, y - mean))
        return 0.5 * np.dot(solved, solved) + np.sum(np.log(np.diag(root))) + np.sum(
            predicted ** 2)

    return loss, [onp.array([0.2, -1.0, 0.3, 0.1])]


def autoencoder(np: Any) -> Any:
    """A variational autoencoder's bound, with a list of layers."""
    rng = onp.random.default_rng(13)
    data = (rng.uniform(size=(4, 6)) > 0.5).astype(float)
    noise = rng.normal(size=(4, 2))

    def network(params, x):
        for weights, bias in params:
            outputs = np.dot(x, weights) + bias
            x = np.maximum(outputs, 0.1 * outputs)
        return outputs

    def loss(w1, b1, w2, b2, w3, b3):
        found = network([(w1, b1), (w2, b2)], data)
        mean, log_std = found[:, :2], found[:, 2:]
        z = mean + noise * np.exp(log_std)
        logits = network([(w3, b3)], z)
        likelihood = np.sum(-np.logaddexp(0, -logits * (data * 2 - 1)), axis=-1)
        prior = np.sum(-0.5 * z ** 2, axis=-1)
        entropy = np.sum(log_std, axis=-1)
        return -np.mean(likelihood + prior + entropy)

    shapes = [(6, 5), 5, (5, 4), 4, (2, 6), 6]
    return loss, [0.5 * rng.normal(size=s) for s in shapes]


def variational(np: Any) -> Any:
    """Black-box variational inference of a curved density."""
    rng = onp.random.default_rng(14)
    noise = rng.normal(size=(20, 2))

    def log_normal(x, mean, log_std):
        return -0.5 * ((x - mean) / np.exp(log_std)) ** 2 - log_std - 0.5 * np.log(
            2 * np.pi)

    def log_density(x):
        mu, log_sigma = x[:, 0], x[:, 1]
        return log_normal(log_sigma, 0, np.log(1.35)) + log_normal(mu, 0, log_sigma)

    def loss(params):
        mean, log_std = params[:2], params[2:]
        samples = noise * np.exp(log_std) + mean
        entropy = 0.5 * 2 * (1.0 + np.log(2 * np.pi)) + np.sum(log_std)
        return -(entropy + np.mean(log_density(samples)))

    return loss, [onp.array([-1.0, 0.5, -0.7, -0.4])]


def hidden_markov(np: Any) -> Any:
    """The likelihood of a chain of hidden states, on logarithms."""
    rng = onp.random.default_rng(15)
    seen = rng.integers(0, 4, 8)

    def normalized(logits):
        return logits - _logsumexp(np, logits, axis=-1, keepdims=True)

    def loss(initial, transition, emission):
        pi, a, b = map(normalized, (initial, transition, emission))
        alpha = pi + b[:, seen[0]]
        for symbol in seen[1:]:
            alpha = _logsumexp(np, alpha[:, None] + a, axis=0) + b[:, symbol]
        return -_logsumexp(np, alpha) / len(seen)

    return loss, [rng.normal(size=3), rng.normal(size=(3, 3)), rng.normal(size=(3, 4))]


def mixture(np: Any) -> Any:
    """A mixture of Gaussians whose covariances are triangular roots."""
    rng = onp.random.default_rng(16)
    data = rng.normal(size=(6, 2))

    def loss(log_proportions, means, roots):
        logs = log_proportions - _logsumexp(np, log_proportions)
        parts = []
        for log, mean, root in zip(logs, means, roots, strict=True):
            lower = np.tril(root, -1) + np.diag(np.exp(np.diag(root)))
            scaled = np.linalg.solve(lower, (data - mean).T)
            parts.append(log - 0.5 * np.sum(scaled ** 2, axis=0) - np.trace(
                np.diag(np.diag(root))))
        return -np.sum(_logsumexp(np, np.vstack(parts), axis=0))

    return loss, [rng.normal(size=3), rng.normal(size=(3, 2)),
                  rng.normal(size=(3, 2, 2))]


def natural_gradient(np: Any) -> Any:
    """The loss after a step of natural gradient, Fisher's matrix solved."""
    rng = onp.random.default_rng(17)
    x, y = rng.normal(size=(8, 3)), rng.integers(0, 2, 8)

    def loss(w):
        p = _sigmoid(np, x @ w)
        gradient = x.T @ (p - y) / len(y)
        fisher = np.einsum("n,ni,nj->ij", p * (1 - p), x, x) / len(y)
        moved = w - 0.5 * np.linalg.solve(fisher + 0.1 * np.eye(3), gradient)
        logits = np.matmul(x, moved)
        return np.mean(np.where(y == 1, np.log1p(np.exp(-logits)),
                                np.log1p(np.exp(logits))))

    return loss, [rng.normal(size=3)]


def rosenbrock(np: Any) -> Any:
    """The curved valley, after Newton's and plain steps of descent."""
    def valley(x):
        return 100 * np.sum((x[1:] - x[:-1] ** 2) ** 2) + np.sum((1 - x[:-1]) ** 2)

    def loss(x):
        for _ in range(2):
            inner = x[1:] - x[:-1] ** 2
            slope = np.append(-400 * x[:-1] * inner - 2 * (1 - x[:-1]), 0.0) + \
                np.insert(200 * inner, 0, 0.0)
            x = x - 1e-3 * slope
        return valley(x)

    return loss, [onp.array([0.2, -0.3, 0.5, 0.1])]


def augmentation(np: Any) -> Any:
    """Inputs that are learned: a gradient through the steps of descent."""
    rng = onp.random.default_rng(18)
    x, y = rng.normal(size=(6, 4)), onp.eye(3)[rng.integers(0, 3, 6)]

    def softmax(logits):
        e = np.exp(logits - logits.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def loss(learned, log_rates, start):
        labels = onp.eye(3)
        w, v = start, np.zeros(start.shape)
        for k in range(3):
            rate = np.exp(log_rates[k])
            grad = learned.T @ (softmax(learned @ w) - labels) / 3 + 0.1 * w
            v = 0.9 * v - rate * grad
            w = w + v
        return -np.mean(np.sum(y * np.log(softmax(x @ w)), axis=1))

    return loss, [rng.normal(size=(3, 4)), rng.normal(size=3) - 1,
                  rng.normal(size=(4, 3))]


def convolutional(np: Any) -> Any:
    """A network of convolutions by einsum over windows, pooled."""
    rng = onp.random.default_rng(19)
    images, labels = rng.normal(size=(2, 1, 8, 8)), onp.eye(3)[[0, 2]]

    def windows(x, size):
        count = x.shape[2] - size + 1
        rows = onp.arange(count)[:, None] + onp.arange(size)
        return x[:, :, rows[:, None, :, None], rows[None, :, None, :]]

    def pooled(x):
        n, c, h, w = x.shape
        return np.max(np.reshape(x, (n, c, h // 2, 2, w // 2, 2)), axis=(3, 5))

    def loss(w1, b1, w2, b2):
        h = np.einsum("nchwij,ocij->nohw", windows(images, 3), w1) + b1[:, None, None]
        h = pooled(np.tanh(h))
        logits = np.tensordot(h, w2, axes=([1, 2, 3], [0, 1, 2])) + b2
        return -np.sum(labels * (logits - _logsumexp(np, logits, 1, True)))

    return loss, [rng.normal(size=(2, 1, 3, 3)), rng.normal(size=2),
                  0.3 * rng.normal(size=(2, 3, 3, 3)), rng.normal(size=3)]


def bayesian_network(np: Any) -> Any:
    """A network whose weights are one vector, unpacked, many samples at once."""
    shapes = [(1, 4), (4, 1)]
    count = sum((m + 1) * n for m, n in shapes)
    rng = onp.random.default_rng(20)
    x, y, noise = rng.normal(size=(5, 1)), rng.normal(size=(5, 1)), rng.normal(
        size=(3, count))

    def unpack(weights):
        samples = len(weights)
        for m, n in shapes:
            yield (weights[:, :m * n].reshape((samples, m, n)),
                   weights[:, m * n:m * n + n].reshape((samples, 1, n)))
            weights = weights[:, (m + 1) * n:]

    def loss(mean, log_std):
        samples = mean + np.exp(log_std) * noise
        inputs = np.expand_dims(x, 0)
        for w, b in unpack(samples):
            outputs = np.einsum("mnd,mdo->mno", inputs, w) + b
            inputs = np.exp(-(outputs ** 2))
        prior = -np.sum(samples ** 2, axis=1) / 20
        likelihood = -np.sum((outputs - y) ** 2, axis=1)[:, 0] / 0.2
        return -np.mean(prior + likelihood) - np.sum(log_std)

    return loss, [0.3 * rng.normal(size=count), rng.normal(size=count) - 2]


def adversarial(np: Any) -> Any:
    """A generator against a critic, with a penalty on the critic's slopes."""
    rng = onp.random.default_rng(21)
    real, noise = rng.normal(size=(5, 2)) + 2, rng.normal(size=(5, 3))

    def loss(g1, g2, d1, d2):
        fake = np.maximum(noise @ g1, 0) @ g2
        mixed = 0.3 * real + 0.7 * fake
        hidden = np.tanh(mixed @ d1)
        slopes = np.einsum("nh,h,ih->ni", 1 - hidden ** 2, d2, d1)
        penalty = np.mean((np.linalg.norm(slopes, axis=1) - 1) ** 2)

        def critic(x):
            return np.inner(np.tanh(x @ d1), d2)

        return np.mean(critic(fake)) - critic(real).mean() + 10 * penalty

    return loss, [rng.normal(size=(3, 4)), rng.normal(size=(4, 2)),
                  rng.normal(size=(2, 4)), rng.normal(size=4)]


def attention(np: Any) -> Any:
    """Several heads that attend, masked, with norms of layers."""
    rng = onp.random.default_rng(22)
    x = rng.normal(size=(2, 4, 6))
    mask = onp.triu(onp.full((4, 4), -1e9), 1)

    def norm(x, gain):
        centred = x - np.mean(x, axis=-1, keepdims=True)
        return gain * centred / np.sqrt(np.mean(centred ** 2, -1, keepdims=True) + 1e-5)

    def loss(queries, keys, values, out, gain):
        h = norm(x, gain)
        q, k, v = (np.swapaxes(np.reshape(h @ w, (2, 4, 3, 2)), 1, 2)
                   for w in (queries, keys, values))
        scores = q @ np.moveaxis(k, -1, -2) / np.sqrt(2.0) + mask
        weights = np.exp(scores - np.max(scores, -1, keepdims=True))
        weights = weights / np.sum(weights, -1, keepdims=True)
        joined = np.reshape(np.transpose(weights @ v, (0, 2, 1, 3)), (2, 4, 6))
        return np.mean(np.abs(joined @ out + x)) + np.std(weights)

    return loss, [*(rng.normal(size=(6, 6)) for _ in range(4)), rng.normal(size=6)]


def factorization(np: Any) -> Any:
    """A matrix of which some entries are known, and its spectrum."""
    rng = onp.random.default_rng(23)
    known = rng.normal(size=(4, 5))
    rows, columns = onp.nonzero(rng.uniform(size=(4, 5)) > 0.4)

    def loss(u, v):
        product = np.outer(u[:, 0], v[:, 0]) + u[:, 1:] @ v[:, 1:].T
        error = product[rows, columns] - known[rows, columns]
        values = np.linalg.eigvalsh(u.T @ u + np.diag(onp.arange(3.0)))
        spread = np.linalg.svd(v, compute_uv=False)
        return np.sum(np.where(np.abs(error) < 1, 0.5 * error ** 2,
                               np.abs(error) - 0.5)) + np.log(values).sum() + \
            np.linalg.det(v.T @ v) * 0.01 + spread[0]

    return loss, [rng.normal(size=(4, 3)), rng.normal(size=(5, 3))]


def series(np: Any) -> Any:
    """Sine by its series, with a loop until terms are small; quantiles of it."""
    def sine(x):
        term, total, i = x, x, 0
        while np.abs(onp.asarray(0.8 ** (2 * i + 1))) > 0.05:
            term = -term * x * x / ((2 * i + 3) * (2 * i + 2))
            total = total + term
            i += 1
        return total

    def loss(x):
        y = sine(x)
        low, high = np.percentile(y, 30), np.median(y)
        running = np.cumsum(np.sort(y)) / np.arange(1, len(y) + 1)
        return np.sum(np.diff(running) ** 2) + high * low + np.prod(y + 2) * 1e-3 + \
            np.trapezoid(y ** 2, dx=0.1) + np.interp(0.3, onp.linspace(0, 1, 6), y)

    return loss, [onp.random.default_rng(24).normal(size=6)]


def clustering(np: Any) -> Any:
    """Soft assignments, a graph's Laplacian, and a regularized regression."""
    rng = onp.random.default_rng(25)
    x = rng.normal(size=(7, 3))

    def loss(centres, temperature):
        distances = np.sqrt(np.sum((x[:, None] - centres) ** 2, -1) + 1e-6)
        scores = -distances * np.exp(temperature)
        soft = np.exp(scores) / np.sum(np.exp(scores), axis=1)[:, None]
        graph = soft @ soft.T
        laplacian = np.diag(np.sum(graph, axis=0)) - graph
        smooth = np.einsum("ij,ik,jk->", laplacian, x, x)
        entropy = -np.sum(soft * np.log(soft + 1e-9))
        hat = np.linalg.lstsq(soft, x, rcond=None)[0]
        return smooth + 0.1 * entropy + np.sum(np.nan_to_num(hat) ** 2) * 0.1

    return loss, [rng.normal(size=(3, 3)), onp.array(0.2)]


LEARNING = (rnn, lstm, gaussian_process, autoencoder, variational, hidden_markov,
            mixture, natural_gradient, rosenbrock, augmentation, convolutional,
            bayesian_network, adversarial, attention, factorization, series, clustering)
