"""Row: a row is read once, reduced and mapped."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import nbfused as nf
from nbfused.demo import unfused

from .where import WHERE, copy_bandwidth, gradients, normal, place, rate

SHAPES = ((64, 256), (4096, 1024), (65536, 1024))
QUICK = ((8, 33),)


class LayerNorm:
    """Layer norm with weight and bias, float32."""

    param_names = ("where", "shape")
    params = (WHERE, SHAPES)
    quick = (WHERE, QUICK)

    forward: Callable[[], Any]
    both: Callable[[], Any]

    def setup(self, where: str, shape: tuple[int, int]) -> None:
        x, weight, bias, g, out = place(
            where, normal(*shape), *(normal(shape[1]),) * 2, *(normal(*shape),) * 2
        )
        if where == "numpy":
            self.forward = partial(unfused.layer_norm, x, weight, bias)
            self.both = partial(unfused.layer_norm_gradient, x, weight, bias, g)
        else:
            self.forward = partial(nf.ops.layer_norm, x, weight, bias, out=out)
            self.both = partial(gradients(nf.ops.layer_norm, x, weight, bias), g)
        self.forward()
        self.both()
        nf.synchronize()

    def time_forward(self, where: str, shape: tuple[int, int]) -> None:
        self.forward()
        nf.synchronize()

    def time_forward_backward(self, where: str, shape: tuple[int, int]) -> None:
        self.both()
        nf.synchronize()

    def track_bandwidth(self, where: str, shape: tuple[int, int]) -> float:
        return rate(self.forward, 8 * shape[0] * shape[1])

    track_bandwidth.unit = "GB/s"  # type: ignore[attr-defined]

    def track_share_of_copy(self, where: str, shape: tuple[int, int]) -> float:
        copied = copy_bandwidth(where, shape[0] * shape[1])
        return 100 * self.track_bandwidth(where, shape) / copied

    track_share_of_copy.unit = "%"  # type: ignore[attr-defined]


class CrossEntropy:
    """Mean cross entropy and its gradient, as many classes as columns."""

    param_names = ("where", "shape")
    params = (WHERE, SHAPES)
    quick = (WHERE, QUICK)

    both: Callable[[], Any]

    def setup(self, where: str, shape: tuple[int, int]) -> None:
        labels = np.random.default_rng(1).integers(shape[1], size=shape[0])
        x, y = place(where, normal(*shape), labels)
        if where == "numpy":
            self.both = partial(unfused.cross_entropy_gradient, x, y)
        else:
            run = gradients(lambda logits: nf.ops.cross_entropy(logits, y), x)
            self.both = partial(run, None)
        self.both()
        nf.synchronize()

    def time_forward_backward(self, where: str, shape: tuple[int, int]) -> None:
        self.both()
        nf.synchronize()
