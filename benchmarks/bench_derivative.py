"""Benchmarks of scalar derivatives: the cost of a gradient over its function."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import nbfused as nf

from .where import WHERE, gradients, place

#: Elements times iterations: what a run computes.
WORK = 1 << 20


def straight(x: Any, y: Any, n: Any) -> Any:
    """A function without loops."""
    a = x * y + 0.3
    b = nf.tanh(a) * x
    c = nf.exp(-b * b) + nf.sin(a)
    return c * b + a / (1.5 + c * c)


def static(x: Any, y: Any, n: Any) -> Any:
    """A function with a loop whose iterations are all recorded."""
    p = x
    for _ in range(20):
        p = p * y + 0.1 * nf.sin(p)
    return p


def dynamic(x: Any, y: Any, n: Any) -> Any:
    """A function with a loop that is checkpointed."""
    p = x
    for _ in range(n):
        p = p * y + 0.1 * nf.sin(p)
    return p


#: The functions by name, with the number of iterations.
PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {
    "straight": (straight, 1),
    "static 20": (static, 20),
    "dynamic 8": (dynamic, 8),
    "dynamic 1000": (dynamic, 1000),
}


class Gradient:
    """A gradient in two float64 arguments, and the function alone."""

    param_names = ("where", "program")
    params = (tuple(w for w in WHERE if w != "numpy"), tuple(PROGRAMS))
    quick = (tuple(w for w in WHERE if w != "numpy"), ("static 20",))

    forward: Callable[..., Any]
    both: Callable[[Any], Any]

    def setup(self, where: str, program: str) -> None:
        function, n = PROGRAMS[program]
        op = nf.elementwise(function)
        numbers = np.random.default_rng(0).uniform(0.5, 0.9, (2, WORK // n))
        self.x, self.y, self.g = place(where, *numbers, np.ones(WORK // n))
        self.forward = lambda x, y: op(x, y, n)
        self.both = gradients(self.forward, self.x, self.y)
        self.both(self.g)
        self.forward(self.x, self.y)
        nf.synchronize()

    def time_forward(self, where: str, program: str) -> None:
        self.forward(self.x, self.y)
        nf.synchronize()

    def time_forward_backward(self, where: str, program: str) -> None:
        self.both(self.g)
        nf.synchronize()

    def track_gradient_over_function(self, where: str, program: str) -> float:
        """The backward kernel's time over the forward's."""
        alone = _best(lambda: self.forward(self.x, self.y))
        return (_best(lambda: self.both(self.g)) - alone) / alone

    track_gradient_over_function.unit = "x"  # type: ignore[attr-defined]


def _best(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of 20 calls."""
    best = float("inf")
    for _ in range(20):
        begin = time.perf_counter()
        call()
        nf.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best
