"""The gallery's networks on several ranks: their losses are those of one process."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from examples.programs import programs
from nbfused import distributed as nd
from nbfused import ops
from tests.distributed.programs import alone, program

STEPS, BATCH = 20, 64


@program
def digits_are_learnt(r):
    pytest.importorskip("sklearn")
    found = gallery("digits", epochs=1, width=16)
    start = [nf.to_numpy(w.data) for w in found.weights]

    def loss(weights, pictures, labels):
        return ops.cross_entropy(found.network(pictures, weights), labels)

    same_losses(r, loss, start, (found.pictures, found.labels))


@program
def the_language_model_is_learnt(r):
    found = gallery("language_model", steps=20, eager=1, width=32)

    def loss(weights, contexts, following):
        return found.loss(contexts, following, *weights)

    same_losses(r, loss, found.start, found.seen)


def gallery(name, **chosen):
    """A program of the gallery: its network, and its data."""
    pytest.importorskip("matplotlib").use("agg")
    with alone():
        return programs()[name].run(device="cpu", **chosen)


def same_losses(r, loss, start, data):
    """Train in this process with whole batches, and on all ranks with parts of them."""
    rng = np.random.default_rng(0)
    batches = [[x[chosen] for x in data] for chosen in
               rng.integers(len(data[0]), size=(STEPS, BATCH))]
    with alone():
        expected = losses(nf.value_and_grad(loss), start, batches, np.copy)
    parts = [[np.split(x, r.size)[r.rank] for x in batch] for batch in batches]
    averaged = nd.value_and_grad(loss, r.comm, bucket=1024)
    together = losses(averaged, start, parts, r.put)
    fused = losses(nf.fuse(averaged), start, parts, r.put)
    assert np.mean(expected[-5:]) < 0.9*np.mean(expected[:5])
    np.testing.assert_allclose(together, expected, rtol=1e-9)
    np.testing.assert_allclose(fused, expected, rtol=1e-9)


def losses(gradients, start, batches, put):
    """The loss of each step of Adam, in float64."""
    weights = [put(np.asarray(w, np.float64)) for w in start]
    moments = [[put(np.zeros(w.shape)) for w in start] for _ in range(2)]
    found = []
    for k, (x, y) in enumerate(batches, 1):
        x = x.astype(np.float64) if x.dtype.kind == "f" else x
        value, each = gradients(weights, put(x), put(y))
        for w, g, m, v in zip(weights, each, *moments, strict=True):
            ops.adam_step(w, g, m, v, lr=1e-2, step=k)
        found.append(float(nf.to_numpy(value)))
    return found
