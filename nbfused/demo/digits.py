"""Handwritten digits from scikit-learn, split for training and testing."""

from __future__ import annotations

import numpy as np

from ..support.records import record

__all__ = ["Digits", "load"]


@record(frozen=True)
class Digits:
    """Pictures of 8 × 8 pixels in [-1, 1], one per row, and the digits they show."""

    train: np.ndarray
    train_labels: np.ndarray
    held_out: np.ndarray
    held_out_labels: np.ndarray


def load(seed: int, limit: int | None = None) -> Digits:
    """Load the 1,797 digits, or `limit` of them, with a quarter held out.

    Parameters
    ----------
    seed
        Decides which pictures are held out.
    limit
        How many pictures to use, the first ones of the data set.

    Returns
    -------
    Digits
        float32 pictures and int64 labels.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data = load_digits()
    pixels = (data.data[:limit] / 8 - 1).astype(np.float32)
    labels = data.target[:limit].astype(np.int64)
    train, held_out, train_labels, held_out_labels = train_test_split(
        pixels, labels, test_size=0.25, stratify=labels, random_state=seed
    )
    return Digits(train, train_labels, held_out, held_out_labels)
