"""
A language model of Python's own words
======================================

A network reads the last letters of a word and guesses the next one.  It learns from the
words of Python's language reference, which every Python has with it, and then writes
words of its own.  A step of its training is one plan; the same function, not fused,
gives the same losses.
"""

import math
import re
import time
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

STEPS = 1200  # of the optimiser
EAGER = 60  # of them once more, without nf.fuse
BATCH = 256  # letters
CONTEXT = 5  # letters that are read
EMBEDDING = 16  # numbers for each letter
WIDTH = 128  # of the hidden layer
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# Every word once, as the letters before each letter; a dot is before and after a word.
# One word of ten is kept apart.

LETTERS = ".abcdefghijklmnopqrstuvwxyz"
words = sorted(set(re.findall(r"\b[a-z]{3,14}\b", " ".join(topics.values()))))
rng = np.random.default_rng(0)
rng.shuffle(words)


def examples(words):
    """Contexts of shape (letters, CONTEXT), and the letter that follows each."""
    contexts, following = [], []
    for word in words:
        codes = [0] * CONTEXT + [LETTERS.index(letter) for letter in word] + [0]
        for k in range(len(word) + 1):
            contexts.append(codes[k : k + CONTEXT])
            following.append(codes[k + CONTEXT])
    return np.array(contexts), np.array(following)


seen, unseen = examples(words[len(words) // 10 :]), examples(words[: len(words) // 10])

# %%
# The model: a row of numbers for each letter, a hidden layer with gelu in its epilogue,
# layer norm, and a logit for each letter.


def model(contexts, weights):
    """The logits of the next letter."""
    table, w1, b1, gain, shift, w2, b2 = weights
    letters = nf.ops.embedding(table, contexts)
    flat = nf.ops.reshape(letters, (contexts.shape[0], CONTEXT * EMBEDDING))
    hidden = nf.ops.linear(flat, w1, b1, activation="gelu")
    return nf.ops.linear(nf.ops.layer_norm(hidden, gain, shift), w2, b2)


def normal(rows, columns, scale):
    """Random numbers to start from."""
    return scale * rng.standard_normal((rows, columns))


start = [normal(27, EMBEDDING, 1.0),
         normal(CONTEXT * EMBEDDING, WIDTH, math.sqrt(1 / (CONTEXT * EMBEDDING))),
         np.zeros(WIDTH), np.ones(WIDTH), np.zeros(WIDTH),
         normal(WIDTH, 27, 0.3 * math.sqrt(1 / WIDTH)), np.zeros(27)]

# %%
# How many bits a letter of an unseen word takes says what the model knows.


def logits(contexts, weights):
    """The logits as an array of NumPy."""
    return nf.to_numpy(model(nf.array(contexts, device=DEVICE), weights))


def bits(pairs, weights):
    """The mean number of bits for a letter, of contexts and what follows."""
    contexts, following = pairs
    scores = logits(contexts, weights).astype(np.float64)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return -scores[np.arange(len(following)), following].mean() / math.log(2)


# %%
# A step: the loss, its gradients, Adam for each array, in place.  `nf.fuse` traces all
# of it once; from the third step on it runs by a plan.


def loss(contexts, following, *weights):
    """The cross entropy of the letters that follow."""
    return nf.ops.cross_entropy(model(contexts, weights), following)


def step(weights, moments, contexts, following, rate, count):
    """One step of Adam; the loss before it."""
    places = tuple(range(2, 2 + len(weights)))
    value, gradients = nf.value_and_grad(loss, argnums=places)(
        contexts, following, *weights)
    for weight, gradient, (m, v) in zip(weights, gradients, moments, strict=True):
        nf.ops.adam_step(weight, gradient, m, v, lr=rate, step=count)
    return value


# %%
# Training: random batches, and a rate that falls to zero.


def train(step, count, seed=1):
    """The weights, the losses in bits, bits of unseen words, and a step's seconds."""
    rng = np.random.default_rng(seed)
    weights = [nf.array(each.astype(np.float32), device=DEVICE) for each in start]
    moments = [(nf.zeros_like(w), nf.zeros_like(w)) for w in weights]
    losses, tests, times = [], [], []
    for k in range(1, count + 1):
        batch = rng.integers(len(seen[0]), size=BATCH)
        contexts, following = (nf.array(each[batch], device=DEVICE) for each in seen)
        rate = 0.002 * (1 + math.cos(math.pi * k / STEPS))
        began = time.perf_counter()
        value = step(weights, moments, contexts, following, rate, k)
        losses.append(float(nf.to_numpy(value)) / math.log(2))
        times.append(time.perf_counter() - began)
        if k % 20 == 0:
            tests.append((k, bits(unseen, weights)))
    return weights, losses, tests, np.median(times)


weights, losses, tests, fused_time = train(nf.fuse(step), STEPS)
_, eager_losses, _, eager_time = train(step, EAGER)
print("largest difference of the losses, in bits:",
      f"{np.abs(np.subtract(losses[:EAGER], eager_losses)).max():.0e}")
print(f"a step takes {1e3 * fused_time:.2f} ms by a plan and {1e3 * eager_time:.2f} ms "
      f"eagerly: {eager_time / fused_time:.1f} times as fast")

# %%
# Counts of pairs of letters are a model too.

pairs = np.ones((27, 27))
np.add.at(pairs, (seen[0][:, -1], seen[1]), 1)
pairs /= pairs.sum(axis=1, keepdims=True)
by_pairs = -np.log2(pairs[unseen[0][:, -1], unseen[1]]).mean()
print(f"bits a letter of unseen words: {tests[-1][1]:.2f}, by pairs {by_pairs:.2f}")

# %%
# New words, all of them at once and a letter at a time: Gumbel's noise on the logits
# picks each letter with its probability.


def write(count):
    """Words that follow the model's probabilities, a little sharpened."""
    codes = np.zeros((count, CONTEXT + 14), np.int64)
    for k in range(14):
        scores = logits(codes[:, k : k + CONTEXT], weights) / 0.8
        codes[:, k + CONTEXT] = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    texts = ("".join(LETTERS[code] for code in row[CONTEXT:]) for row in codes)
    return [text.partition(".")[0] for text in texts]


print("new words:", " ".join(sorted({*write(60)} - {*words})[:24]))

# %%
# What it expects after each letter of a word; the letter that comes has a ring.

contexts, following = examples(["exception"])
chances = np.exp(logits(contexts, weights))
chances /= chances.sum(axis=1, keepdims=True)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5), layout="constrained",
                                     width_ratios=(1, 1.4))
left.imshow(chances.T, cmap="Blues", aspect="auto", vmin=0, vmax=1)
left.plot(following, "o", color="#d55e00", markersize=11, fillstyle="none",
          markeredgewidth=1.5)
left.set_xticks(range(len(following)), ["", *"exception"])
left.set_yticks(range(27), LETTERS, fontsize=8)
left.set_title("the next letter")
smooth = np.convolve(losses, np.ones(25) / 25, "valid")
right.plot(np.arange(len(smooth)) + 25, smooth, color="#999999", linewidth=1.5,
           label="in training")
right.plot(*np.transpose(tests), color="#0072b2", linewidth=2.5, label="unseen words")
right.axhline(by_pairs, color="#d55e00", linewidth=2, label="pairs of letters")
right.set_title("bits a letter, over the steps")
right.grid(alpha=0.3)
right.legend(frameon=False)
plt.show()
