"""Contract: matrix products with an epilogue."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import nbfused as nf
from nbfused.demo import unfused

from .where import WHERE, normal, place, rate


class Linear:
    """``gelu(x @ weight + bias)`` of square float32 matrices."""

    param_names = ("where", "size")
    params = (WHERE, (64, 512, 2048))
    quick = (WHERE, (33,))

    forward: Callable[[], Any]

    def setup(self, where: str, size: int) -> None:
        x, weight, bias = place(where, *(normal(size, size),) * 2, normal(size))
        self.forward = (
            partial(unfused.linear_gelu, x, weight, bias)
            if where == "numpy"
            else partial(nf.ops.linear, x, weight, bias, activation="gelu")
        )
        self.forward()
        nf.synchronize()

    def time_forward(self, where: str, size: int) -> None:
        self.forward()
        nf.synchronize()

    def track_gflops(self, where: str, size: int) -> float:
        return rate(self.forward, 2 * size**3)

    track_gflops.unit = "GFLOP/s"  # type: ignore[attr-defined]


class BatchedMatmul:
    """``relu(a @ b + bias)``, 16 products, the bias shared by all."""

    param_names = ("where", "size")
    params = (WHERE, (32, 256))
    quick = (WHERE, (17,))

    forward: Callable[[], Any]

    def setup(self, where: str, size: int) -> None:
        a, b, bias = place(where, *(normal(16, size, size),) * 2, normal(size))
        self.forward = (
            (lambda: np.maximum(a @ b + bias, 0))
            if where == "numpy"
            else partial(nf.ops.matmul_add_relu, a, b, bias)
        )
        self.forward()
        nf.synchronize()

    def time_forward(self, where: str, size: int) -> None:
        self.forward()
        nf.synchronize()
