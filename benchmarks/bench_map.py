"""Map: one read and one write of each element."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import nbfused as nf
from nbfused.demo import unfused

from .where import WHERE, copy_bandwidth, gradients, normal, place, rate

SIZES = (1 << 14, 1 << 20, 1 << 26)


class Swish:
    """``x·sigmoid(x)`` of float32."""

    param_names = ("where", "elements")
    params = (WHERE, SIZES)
    quick = (WHERE, (1000,))

    forward: Callable[[], Any]
    both: Callable[[], Any]

    def setup(self, where: str, elements: int) -> None:
        x, g, out = place(where, *(normal(elements),) * 3)
        if where == "numpy":
            self.forward = partial(unfused.swish, x)
            self.both = partial(unfused.swish_gradient, x, g)
        else:
            self.forward = partial(nf.ops.swish, x, out=out)
            self.both = partial(gradients(nf.ops.swish, x), g)
        self.forward()
        self.both()
        nf.synchronize()

    def time_forward(self, where: str, elements: int) -> None:
        self.forward()
        nf.synchronize()

    def time_forward_backward(self, where: str, elements: int) -> None:
        self.both()
        nf.synchronize()

    def track_bandwidth(self, where: str, elements: int) -> float:
        return rate(self.forward, 8 * elements)

    track_bandwidth.unit = "GB/s"  # type: ignore[attr-defined]

    def track_share_of_copy(self, where: str, elements: int) -> float:
        copied = copy_bandwidth(where, elements)
        return 100 * self.track_bandwidth(where, elements) / copied

    track_share_of_copy.unit = "%"  # type: ignore[attr-defined]


class AdamStep:
    """Parameter and two moments updated in place: four reads, three writes."""

    param_names = ("where", "elements")
    params = (WHERE, SIZES)
    quick = (WHERE, (1000,))

    step: Callable[[], Any]

    def setup(self, where: str, elements: int) -> None:
        x = normal(elements)
        arrays = place(where, x, x, x, np.square(x))
        if where == "numpy":
            self.step = partial(unfused.adam_step, *arrays, lr=1e-3, step=10)
        else:
            self.step = partial(
                nf.ops.adam_step, *arrays,
                lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, step=10,
            )
        self.step()
        nf.synchronize()

    def time_step(self, where: str, elements: int) -> None:
        self.step()
        nf.synchronize()

    def track_bandwidth(self, where: str, elements: int) -> float:
        return rate(self.step, 28 * elements)

    track_bandwidth.unit = "GB/s"  # type: ignore[attr-defined]
