"""Benchmarks of `nf.fuse` against the same function unfused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import nbfused as nf

from .where import WHERE, normal, place

ROWS = (1 << 8, 1 << 14)
COLUMNS = 1024


def chain(x: Any, y: Any) -> Any:
    """Six steps and a sum of squares along the rows."""
    ops = nf.ops
    z = ops.multiply(ops.add(x, y), ops.sigmoid(ops.subtract(x, y)))
    z = ops.add(ops.square(z), 0.5)
    return ops.sqrt(ops.sum(z, axis=-1))


class Chain:
    """An elementwise chain that ends in a reduction, forward and gradient."""

    param_names = ("where", "rows")
    params = (tuple(w for w in WHERE if w != "numpy"), ROWS)
    quick = (params[0], (8,))

    fused: Callable[[], Any]
    unfused: Callable[[], Any]

    def setup(self, where: str, rows: int) -> None:
        x, y = place(where, *(normal(rows, COLUMNS),) * 2)
        self.function = nf.fuse(chain)
        self.fused, self.unfused = partial(self.function, x, y), partial(chain, x, y)
        self.both = partial(self._gradient, self.function, x, y)
        self.both_unfused = partial(self._gradient, chain, x, y)
        for call in (self.fused, self.unfused, self.both, self.both_unfused):
            call()
        nf.synchronize()

    @staticmethod
    def _gradient(function: Callable[..., Any], x: Any, y: Any) -> Any:
        variables = [nf.Variable(v, requires_grad=True) for v in (x, y)]
        function(*variables).sum().backward()
        return [v.grad for v in variables]

    def time_fused(self, where: str, rows: int) -> None:
        self.fused()
        nf.synchronize()

    def time_unfused(self, where: str, rows: int) -> None:
        self.unfused()
        nf.synchronize()

    def time_fused_gradient(self, where: str, rows: int) -> None:
        self.both()
        nf.synchronize()

    def time_unfused_gradient(self, where: str, rows: int) -> None:
        self.both_unfused()
        nf.synchronize()

    def track_launches(self, where: str, rows: int) -> int:
        with nf.trace_launches() as launches:
            self.fused()
        return len(launches)

    track_launches.unit = "launches"  # type: ignore[attr-defined]
