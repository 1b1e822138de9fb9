"""Benchmarks of reductions over rows, columns and everything."""

from __future__ import annotations

from functools import partial

import numpy as np

import nbfused as nf

from .where import WHERE, normal, picoseconds, place

SHAPES = ((64, 256), (4096, 1024), (65536, 1024))
QUICK = ((8, 33),)
AXES = (None, 0, 1)


def unfused_logsumexp(x: np.ndarray, axis: int | None) -> np.ndarray:
    top = x.max(axis=axis, keepdims=True)
    total = np.exp(x - top).sum(axis=axis, keepdims=True)
    return np.squeeze(np.log(total) + top, axis=axis)


class Reduction:
    """Sum, variance, argmax and logsumexp of float32 arrays."""

    param_names = ("where", "shape", "axis")
    params = (WHERE, SHAPES, AXES)
    quick = (WHERE, QUICK, AXES)

    def setup(self, where: str, shape: tuple[int, int], axis: int | None) -> None:
        (x,) = place(where, normal(*shape))
        plain = where == "numpy"
        ops = np if plain else nf.ops
        self.sum = partial(ops.sum, x, axis=axis)
        self.var = partial(ops.var, x, axis=axis)
        self.argmax = partial(ops.argmax, x, axis=axis)
        logsumexp = unfused_logsumexp if plain else nf.ops.logsumexp
        self.logsumexp = partial(logsumexp, x, axis=axis)
        for call in (self.sum, self.var, self.argmax, self.logsumexp):
            call()
        nf.synchronize()

    def time_sum(self, *params: object) -> None:
        self.sum()
        nf.synchronize()

    def time_var(self, *params: object) -> None:
        self.var()
        nf.synchronize()

    def time_argmax(self, *params: object) -> None:
        self.argmax()
        nf.synchronize()

    def time_logsumexp(self, *params: object) -> None:
        self.logsumexp()
        nf.synchronize()

    def track_sum(
        self, where: str, shape: tuple[int, int], axis: int | None
    ) -> float:
        return picoseconds(self.sum, 4 * shape[0] * shape[1])

    track_sum.unit = "ps/B"  # type: ignore[attr-defined]
