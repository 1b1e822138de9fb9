"""Rows of the table for the host: call overhead, and start of a process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from .. import bench_launch  # not `Launch` itself: asv would run it here once more
from ..bench_cold import STARTS, start
from ..bench_launch import array_of, microseconds, theirs
from .table import Row

__all__ = ["Measure", "measures", "rows"]

#: The column of a time that must not be exceeded, whatever others take.
LIMIT = "limit"
#: Processes that fill the caches, and processes that are timed.
FILLING, TIMED = 2, 3

Seconds = Callable[[], float]


@dataclass(frozen=True)
class Measure:
    """Functions that measure the seconds of each library."""

    name: str
    bar: float
    seconds: dict[str, Seconds]


def rows(wanted: Sequence[Measure], names: Sequence[str]) -> Iterator[Row]:
    """Measure the rows of the host, for the libraries in `names` and fixed limits."""
    for measure in wanted:
        found = {name: seconds() for name, seconds in measure.seconds.items()
                 if name in names or name == LIMIT}
        yield Row(measure.name, "float32", dict(found), measure.bar)


def measures(device: str) -> list[Measure]:
    """Measures for ``"cuda"`` or ``"cpu"`` that can be taken here."""
    found = [_limited("import nbfused, beyond NumPy", "import", device, 0.2)]
    if device == "cpu":
        return [*found, _limited("cold start, warm cache", "nf.array", device, 0.6)]
    if find_spec("cupy") is not None:
        found += _cupy(f"{device}:0")
    if find_spec("torch") is not None:
        found += _torch(f"torch {device}:0")
    return found


def _limited(name: str, how: str, where: str, most: float) -> Measure:
    return Measure(name, 1.0, {"nbfused": partial(_cold, how, where),
                               LIMIT: lambda: most})


def _cold(how: str, where: str) -> float:
    """Cold start of a new process: the best of some, after warm-ups."""
    first, program = STARTS[how]
    with tempfile.TemporaryDirectory() as folder:
        times = [start(first, program.format(where=where), folder)[0]
                 for _ in range(FILLING + TIMED)]
    return min(times[FILLING:])


def _cupy(where: str) -> list[Measure]:
    def starts(name: str, ours: str, peer: str) -> Measure:
        return Measure(name, 1.0, {"nbfused": partial(_cold, ours, where),
                                   "cupy": partial(_cold, peer, where)})

    arrays = f"cupy {where}"
    return [
        starts("cold start, warm cache", "nf.array", "CuPy alone"),
        starts("cold start, CuPy imported", "after CuPy", "CuPy after CuPy"),
        Measure("launch, CuPy arrays, out=", 1.0, {
            "nbfused": partial(_ours, arrays, "track_out"),
            "cupy": partial(_theirs, arrays, 0)}),
        Measure("launch, CuPy arrays, allocating", 1.0, {
            "nbfused": partial(_ours, arrays, "track_new"),
            "cupy": partial(_theirs, arrays, 1)}),
    ]


def _torch(arrays: str) -> list[Measure]:
    return [
        Measure("launch, torch tensors, allocating", 1/1.6, {
            "nbfused": partial(_ours, arrays, "track_new"),
            "torch": partial(_theirs, arrays, 1)}),
        Measure("launch, swish sum, both ways", 1.0, {
            "nbfused": partial(_ours, arrays, "track_forward_backward"),
            "torch": partial(_both, arrays)}),
    ]


def _ours(arrays: str, method: str) -> float:
    launch = bench_launch.Launch()
    launch.setup(arrays)
    return float(getattr(launch, method)(arrays))/1e6


def _theirs(arrays: str, which: int) -> float:
    library, where = arrays.split()
    return microseconds(theirs(library, array_of(library, where))[which])/1e6


def _both(arrays: str) -> float:
    import torch

    leaf: Any = array_of(*arrays.split()).requires_grad_()

    def call() -> None:
        leaf.grad = None
        torch.nn.functional.silu(leaf).sum().backward()

    return microseconds(call, 200)/1e6
