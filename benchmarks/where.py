"""Where a benchmark runs: unfused NumPy, and nbfused on each kind of device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import nbfused as nf

__all__ = ["WHERE", "copy_bandwidth", "gradients", "normal", "place", "rate"]


def devices() -> list[str]:
    """The first device of every enabled backend."""
    return [i.devices[0] for i in nf.backends().values() if i.enabled and i.devices]


WHERE = ("numpy", *devices())


def normal(*shape: int) -> np.ndarray:
    """Reproducible float32 numbers."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def place(where: str, *arrays: np.ndarray) -> list[Any]:
    """Copies of `arrays` where the benchmark runs."""
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


def rate(call: Callable[[], Any], work: int, calls: int = 10) -> float:
    """What a call gets done in 1e9 a second, where it does `work` bytes or FLOP.

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
    return work * calls / best / 1e9


def copy_bandwidth(where: str, elements: int) -> float:
    """GB/s of a plain copy of float32 `elements`, read and written; NaN if unknown."""
    source, target = place(where, *(np.zeros(elements, np.float32),) * 2)
    if isinstance(source, np.ndarray):
        return rate(lambda: np.copyto(target, source), 8 * elements)
    if not where.startswith("cuda"):
        return float("nan")
    from cuda.bindings import driver

    to, origin = (a.__cuda_array_interface__["data"][0] for a in (target, source))

    def copy() -> None:
        driver.cuMemcpyDtoDAsync(to, origin, 4 * elements, 0)

    return rate(copy, 8 * elements)
