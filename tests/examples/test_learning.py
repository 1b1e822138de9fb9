"""Programs that learn: their networks are those of NumPy, and know something."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nbfused as nf


def test_digits_are_read(run):
    pytest.importorskip("sklearn")
    found = run("digits", epochs=8, width=48)
    assert found.right.mean() > 0.93
    assert np.mean(found.losses[-20:]) < 0.2 * np.mean(found.losses[:5])
    w = [weight.to_numpy().astype(np.float64) for weight in found.weights]

    def bump(x):
        return x * np.tanh(np.logaddexp(0, x))

    hidden = bump(found.pictures[found.train:] @ w[0] + w[1])
    expected = bump(hidden @ w[2] + w[3]) @ w[4] + w[5]
    np.testing.assert_allclose(found.logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.variants
def test_language_model_knows_more_than_single_letters(run):
    special = pytest.importorskip("scipy.special")
    found = run("language_model", steps=150, eager=20, width=64)
    np.testing.assert_allclose(found.losses[:20], found.eager_losses, rtol=1e-4)
    table, w1, b1, gain, shift, w2, b2 = (
        nf.to_numpy(weight).astype(np.float64) for weight in found.weights)
    contexts, following = found.unseen
    hidden = table[contexts].reshape(len(contexts), -1) @ w1 + b1
    hidden = hidden * special.ndtr(hidden)
    hidden = hidden - hidden.mean(axis=1, keepdims=True)
    hidden = hidden / np.sqrt((hidden**2).mean(axis=1, keepdims=True) + 1e-5)
    scores = (hidden * gain + shift) @ w2 + b2
    np.testing.assert_allclose(found.logits(contexts, found.weights), scores,
                               rtol=1e-4, atol=1e-4)
    chances = special.log_softmax(scores, axis=1) / np.log(2)
    bits = -chances[np.arange(len(following)), following].mean()
    assert found.bits(found.unseen, found.weights) == pytest.approx(
        bits, rel=1e-5)
    counts = np.bincount(following, minlength=27) / len(following)
    assert bits < -(counts[counts > 0] * np.log2(counts[counts > 0])).sum() - 0.2
    assert re.fullmatch("([a-z]{0,14} ){9}", " ".join([*found.write(9), ""]))
    # A word's letters, each with those before it; the dot ends it.
    contexts, following = found.examples(["if"])
    assert ["".join(found.LETTERS[code] for code in row) for row in contexts] == [
        ".....", "....i", "...if"]
    assert [found.LETTERS[code] for code in following] == ["i", "f", "."]
