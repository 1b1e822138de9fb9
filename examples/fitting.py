"""Gradient descent on one vector of parameters: what all the examples do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import nbfused as nf

__all__ = ["Fit", "fit"]


@dataclass
class Fit:
    """How a fit went.

    Attributes
    ----------
    params
        The parameters at the end.
    loss
        Before each step.
    """

    params: np.ndarray
    loss: list[float] = field(default_factory=list)


def fit(loss: Callable[[nf.Variable], nf.Variable], start: np.ndarray, *, steps: int,
        lr: float, device: str = "cpu") -> Fit:
    """Minimise `loss` by Adam.

    Parameters
    ----------
    loss
        The scalar to minimise, of a Variable of the shape of `start`.
    start
        The first guess.
    steps, lr
        Number and size of the steps; the size falls along a cosine.
    device
        Where the parameters are.
    """
    params = nf.Variable(nf.array(start, device=device), requires_grad=True)
    moments: list[Any] = [nf.array(np.zeros_like(start), device=device)
                          for _ in range(2)]
    history = []
    for step in range(1, steps + 1):
        value = loss(params)
        value.backward()
        history.append(float(value.to_numpy()))
        rate = lr * 0.5 * (1 + np.cos(np.pi * step / steps))
        nf.ops.adam_step(params, params.grad, *moments, lr=float(rate), step=step)
        params.grad = None
    return Fit(params.to_numpy(), history)
