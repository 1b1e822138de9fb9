"""Devices of benchmarks: unfused NumPy, and nbfused on each kind of device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import nbfused as nf

__all__ = ["WHERE", "enabled", "gradients", "normal", "picoseconds", "place"]


#: Static, so that results of all machines have the same parameters.
WHERE = ("numpy", "cpu", "cuda:0", "rocm:0")


def enabled(where: str) -> None:
    """Skip the benchmark, as asv wants it, unless `where` is available."""
    kind = where.partition(":")[0]
    found = nf.backends().get(kind)
    if where != "numpy" and not (found and found.enabled and found.devices):
        raise NotImplementedError(f"{where}: {(found and found.why) or 'not enabled'}")


def normal(*shape: int) -> np.ndarray:
    """Reproducible normal float32 numbers."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def place(where: str, *arrays: np.ndarray) -> list[Any]:
    """Copy arrays to where the benchmark runs; skip it if that is unavailable."""
    enabled(where)
    if where == "numpy":
        return [np.copy(array) for array in arrays]
    return [nf.array(array, device=where) for array in arrays]


def gradients(op: Callable[..., Any], *arrays: Any) -> Callable[[Any], list[Any]]:
    """A function of the cotangent that runs `op` forward and backward."""

    def run(cotangent: Any) -> list[Any]:
        variables = [nf.Variable(array, requires_grad=True) for array in arrays]
        op(*variables).backward(cotangent)
        return [variable.grad for variable in variables]

    return run


def picoseconds(call: Callable[[], Any], work: int, calls: int = 10) -> float:
    """The time per byte or FLOP of a call that does `work` of them.

    The best of 5 series of `calls` launches, each series waited for once.
    """
    call()
    best = float("inf")
    for _ in range(5):
        nf.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        nf.synchronize()
        best = min(best, time.perf_counter() - begin)
    return 1e12 * best / (work * calls)
