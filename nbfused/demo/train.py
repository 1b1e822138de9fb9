"""The training loop: cosine learning rate, noise on the pictures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import field

import numpy as np

import nbfused as nf

from ..support.records import record
from .digits import Digits
from .network import Adam, Perceptron, initial

__all__ = ["History", "accuracy", "train"]

BATCH = 64
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 0.01
# Gaussian noise on the pixels keeps so small a data set from being learnt by heart.
NOISE = 0.3


@record
class History:
    """Losses and accuracies after each epoch, and the total seconds."""

    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    seconds: float = 0.0


def accuracy(
    network: Perceptron, pictures: np.ndarray, labels: np.ndarray, device: str
) -> float:
    """The share of `pictures` whose largest logit is that of their label."""
    with nf.no_grad():
        logits = network(nf.array(pictures, device=device))
    guesses = nf.to_numpy(logits.data).argmax(axis=1)
    return float((guesses == labels).mean())


def batches(
    data: Digits, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The training pictures in random order, with noise, and their labels."""
    order = rng.permutation(len(data.train))
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        pictures = data.train[chosen]
        noise = rng.standard_normal(pictures.shape, dtype=np.float32)
        yield pictures + np.float32(NOISE) * noise, data.train_labels[chosen]


def train(
    data: Digits,
    *,
    epochs: int,
    seed: int,
    device: str,
    after_epoch: Callable[[History], None] = lambda history: None,
) -> History:
    """Train a `Perceptron` on `data`.

    Parameters
    ----------
    data
        The digits; its held-out part is only looked at to report the accuracy.
    epochs, seed
        How often every picture is shown; what random numbers are drawn.
    device
        ``"cpu"`` or a device of another backend.
    after_epoch
        Called with the history so far.

    Returns
    -------
    History
        Mean training loss and held-out accuracy after each epoch.
    """
    rng = np.random.default_rng(seed)
    network = Perceptron(initial(seed), device)
    optimizer = Adam(network.parameters, device, WEIGHT_DECAY)
    total = epochs * math.ceil(len(data.train) / BATCH)
    history = History()
    begin = time.perf_counter()
    for _ in range(epochs):
        losses = []
        for pictures, labels in batches(data, rng):
            logits = network(nf.array(pictures, device=device))
            loss = nf.ops.cross_entropy(logits, nf.array(labels, device=device))
            loss.backward()
            angle = math.pi * optimizer.count / total
            optimizer.step(LEARNING_RATE * (1 + math.cos(angle)) / 2)
            losses.append(loss.data)
        # One copy to the host an epoch, so that a device is not kept waiting.
        history.loss.append(float(np.mean([nf.to_numpy(loss) for loss in losses])))
        history.accuracy.append(
            accuracy(network, data.held_out, data.held_out_labels, device)
        )
        history.seconds = time.perf_counter() - begin
        after_epoch(history)
    return history
