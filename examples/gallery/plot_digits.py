"""
Handwritten digits
==================

A small network learns 8 x 8 pictures of digits.  Its activation is a scalar function,
which becomes the epilogue of the matrix products; each layer is one kernel, and its
backward kernels are derived.  ``python -m nbfused demo`` trains a larger one and times
its kernels.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import nbfused as nf

EPOCHS = 30  # passes over the digits
WIDTH = 96  # of the hidden layers
BATCH = 64  # pictures
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# Any scalar function is an activation.


@nf.elementwise
def bump(x):
    """Smooth, and not monotonous: x·tanh(log(1 + exp(x)))."""
    return x * nf.tanh(nf.softplus(x))


def network(pictures, weights):
    """The logits of ten digits, from pictures of 64 pixels."""
    hidden = nf.ops.linear(pictures, weights[0], weights[1], activation=bump)
    hidden = nf.ops.linear(hidden, weights[2], weights[3], activation=bump)
    return nf.ops.linear(hidden, weights[4], weights[5])


# %%
# Three digits of four are for training.

rng = np.random.default_rng(0)
digits = load_digits()
order = rng.permutation(len(digits.target))
pictures = (digits.data[order] / 8 - 1).astype(np.float32)
labels = digits.target[order].astype(np.int64)
train = len(labels) * 3 // 4

weights, moments = [], []
for inputs, outputs in ((64, WIDTH), (WIDTH, WIDTH), (WIDTH, 10)):
    scale = math.sqrt(2 / inputs)
    for start in (scale * rng.standard_normal((inputs, outputs)), np.zeros(outputs)):
        weight = nf.array(start.astype(np.float32), device=DEVICE)
        weights.append(nf.Variable(weight, requires_grad=True))
        moments.append((nf.zeros_like(weight), nf.zeros_like(weight)))

# %%
# Noise on the pictures keeps so few of them from being learnt by heart.

losses = []
for epoch in range(EPOCHS):
    for batch in np.split(rng.permutation(train), range(BATCH, train, BATCH)):
        noise = 0.3 * rng.standard_normal((len(batch), 64), np.float32)
        shown = nf.array(pictures[batch] + noise, device=DEVICE)
        logits = network(shown, weights)
        loss = nf.ops.cross_entropy(logits, nf.array(labels[batch], device=DEVICE))
        loss.backward()
        losses.append(float(loss.to_numpy()))
        rate = 0.0015 * (1 + math.cos(math.pi * epoch / EPOCHS))
        for weight, (m, v) in zip(weights, moments, strict=True):
            nf.ops.adam_step(weight, weight.grad, m, v, lr=rate, step=len(losses))
            weight.grad = None

# %%
# What it makes of the digits that it has not seen.

with nf.no_grad():
    logits = network(nf.array(pictures[train:], device=DEVICE), weights)
logits = logits.to_numpy()
guesses = logits.argmax(axis=1)
right = guesses == labels[train:]
print(f"{right.mean():.1%} of {len(right)} unseen digits are read as what they are")

# %%
# The 24 that it is least sure of, each with its guess; wrong ones in orange.

sure = np.sort(logits, axis=1)
doubtful = np.argsort(sure[:, -1] - sure[:, -2])[:24]
figure, axes = plt.subplots(3, 8, figsize=(9, 4.2), layout="constrained")
for panel, which in zip(axes.flat, doubtful, strict=True):
    panel.imshow(pictures[train + which].reshape(8, 8), cmap="gray_r")
    panel.set_title(f"{guesses[which]}", color="#0072b2" if right[which] else "#d55e00",
                    fontweight="bold")
    panel.set_axis_off()
plt.show()
