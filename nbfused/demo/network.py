"""The demo's network and optimiser, made of fused ops only."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import nbfused as nf

__all__ = ["WIDTHS", "Adam", "Perceptron", "initial"]

WIDTHS = (64, 256, 128, 10)


def initial(seed: int) -> dict[str, np.ndarray]:
    """Initial float32 parameters: random weights by fan-in, neutral offsets."""
    rng = np.random.default_rng(seed)
    values: dict[str, np.ndarray] = {}
    for layer, (fan_in, width) in enumerate(pairwise(WIDTHS), 1):
        scale = np.sqrt(2 / fan_in)
        values[f"w{layer}"] = rng.standard_normal((fan_in, width)) * scale
        values[f"b{layer}"] = np.zeros(width)
    values["gain"] = np.ones(WIDTHS[1])
    values["shift"] = np.zeros(WIDTHS[1])
    return {name: value.astype(np.float32) for name, value in values.items()}


class Perceptron:
    """A multilayer perceptron: linear + gelu, layer norm, linear + swish, linear.

    Parameters
    ----------
    values
        What `initial` returns.
    device
        Where the parameters live.
    """

    def __init__(self, values: dict[str, np.ndarray], device: str) -> None:
        self.parameters = {
            name: nf.Variable(nf.array(value, device=device), requires_grad=True)
            for name, value in values.items()
        }

    def __call__(self, pictures: Any) -> nf.Variable:
        """Compute the logits, of shape (pictures, 10)."""
        p = self.parameters
        hidden = nf.ops.linear(pictures, p["w1"], p["b1"], activation="gelu")
        hidden = nf.ops.layer_norm(hidden, p["gain"], p["shift"])
        hidden = nf.ops.linear(hidden, p["w2"], p["b2"], activation="swish")
        return nf.ops.linear(hidden, p["w3"], p["b3"])


class Adam:
    """The Adam optimiser with decoupled weight decay: one launch for each parameter.

    Only weight matrices decay, as is usual.
    """

    def __init__(
        self, parameters: dict[str, nf.Variable], device: str, weight_decay: float
    ) -> None:
        self.parameters = parameters
        self.weight_decay = weight_decay
        self.count = 0
        self.moments = {
            name: tuple(
                nf.zeros(value.shape, dtype="float32", device=device) for _ in range(2)
            )
            for name, value in parameters.items()
        }

    def step(self, lr: float) -> None:
        """Update every parameter in place and clear the gradients."""
        self.count += 1
        for name, parameter in self.parameters.items():
            decay = self.weight_decay if name.startswith("w") else 0.0
            nf.ops.adam_step(
                parameter, parameter.grad, *self.moments[name],
                lr=lr, beta1=0.9, beta2=0.999, eps=1e-8,
                step=self.count, weight_decay=decay,
            )
            parameter.grad = None
