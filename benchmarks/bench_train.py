"""Benchmark of a training step of the demo's network."""

from __future__ import annotations

import numpy as np

import nbfused as nf
from nbfused.demo.network import Adam, Perceptron, initial

from .where import WHERE, normal, place


class TrainStep:
    """A training step: forward, backward and Adam on a batch of pictures."""

    param_names = ("where", "batch")
    params = (WHERE[1:], (64, 4096))
    quick = (WHERE[1:], (16,))

    def setup(self, where: str, batch: int) -> None:
        labels = np.random.default_rng(1).integers(10, size=batch)
        self.pictures, self.labels = place(where, normal(batch, 64), labels)
        self.network = Perceptron(initial(0), where)
        self.adam = Adam(self.network.parameters, where, weight_decay=0.01)
        self.time_step(where, batch)

    def time_step(self, where: str, batch: int) -> None:
        loss = nf.ops.cross_entropy(self.network(self.pictures), self.labels)
        loss.backward()
        self.adam.step(1e-3)
        nf.synchronize()
