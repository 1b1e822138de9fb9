"""Benchmarks of the workloads of `benchmarks.peers` with nbfused: time and memory."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import nbfused as nf

from .clock import clock
from .peers.inputs import inputs_of
from .peers.libraries import Nbfused
from .peers.measure import prepared
from .peers.workload import Workload
from .peers.workloads import workloads
from .where import enabled

DEVICES = ("cpu", "cuda")


def _named(quick: bool) -> dict[str, tuple[str, Workload]]:
    """Workloads with their device, by device, name and dtype."""
    size = "small " if quick else ""
    return {f"{device}: {size}{w.name}, {w.dtype}": (device, w)
            for device in DEVICES for w in workloads(device, quick)}


ALL, QUICK = _named(False), _named(True)


#: What the tests run: the table of peers has the rest.
FEW = tuple(name for name in QUICK
            if re.search("sum of|adam|matmul 24.* float32", name))

#: One of each kind: a process for each, which takes seconds.
KINDS = tuple(name for name in ALL if re.search(
    "cpu: |swish 67.1 M, float|sum of|adam|relu 512x512x512, bf|4096.3, both ways"
    r"|(layer_norm .8192, 4096|cross_entropy .*128256)., both ways, bf", name))


def _of(unit: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of all workloads, and of the few measured in `unit`."""
    return (tuple(name for name, (_, w) in ALL.items() if w.unit == unit),
            tuple(name for name in FEW if QUICK[name][1].unit == unit))


def call_of(name: str) -> tuple[str, Workload, Callable[[], Any]]:
    """Prepare a workload's call by name; returns its device and workload too.

    Raises
    ------
    NotImplementedError
        It cannot run here.
    """
    device, work = {**ALL, **QUICK}[name]
    enabled(device)
    if device == "cuda" and find_spec("torch") is None:
        raise NotImplementedError("the arrays are PyTorch's")
    call = prepared(Nbfused(), work, inputs_of(work, device), device)
    if call is None:
        raise NotImplementedError(f"nbfused has no {work.family}")
    call()
    nf.synchronize()
    return device, work, call


def _measured(names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Picoseconds per byte or FLOP, and MB allocated, of all workloads."""
    found = {}
    for name in names:
        with suppress(NotImplementedError):
            device, work, call = call_of(name)
            time = 1e12*clock(device).seconds(call)/work.work
            found[name] = time, _allocated(call, device)/1e6
    return found


def _allocated(call: Callable[[], Any], device: str) -> int:
    """Peak bytes allocated for results and workspaces by the array library."""
    if device == "cpu":
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak
    import torch

    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    return torch.cuda.max_memory_allocated() - before


class _Measured:
    """Base class of suites measured together in one process."""

    param_names = ("workload",)
    params: tuple[tuple[str, ...]]
    timeout = 900

    def setup_cache(self, names: Sequence[str] | None = None,
                    ) -> dict[str, tuple[float, float]]:
        """Measure everything: asv asks once for all inheriting classes."""
        return _measured(tuple(ALL) if names is None else names)

    def setup(self, measured: dict[str, tuple[float, float]], name: str) -> None:
        if name not in measured:
            raise NotImplementedError("not here")

    def track_allocated(self, measured: dict[str, tuple[float, float]], name: str,
                        ) -> float:
        return measured[name][1]

    track_allocated.unit = "MB"  # type: ignore[attr-defined]


class Bytes(_Measured):
    """Memory-bound workloads: time over least bytes; 1 ps/B is 1 TB/s."""

    params, quick = ((names,) for names in _of("B"))

    def track_time(self, measured: dict[str, tuple[float, float]], name: str) -> float:
        return measured[name][0]

    track_time.unit = "ps/B"  # type: ignore[attr-defined]


class Products(_Measured):
    """Compute-bound workloads: 1 ps/FLOP is 1 TFLOP/s."""

    params, quick = ((names,) for names in _of("FLOP"))

    def track_time(self, measured: dict[str, tuple[float, float]], name: str) -> float:
        return measured[name][0]

    track_time.unit = "ps/FLOP"  # type: ignore[attr-defined]


class Calls:
    """Whole calls, host work and waiting included, and memory of the host."""

    param_names = ("workload",)
    params = (KINDS,)
    quick = (FEW,)
    rounds = 1
    name: str | None = None

    def setup(self, name: str) -> None:
        if self.name != name:  # asv sets up again before every sample
            (_, _, self.call), self.name = call_of(name), name

    def time_call(self, name: str) -> None:
        self.call()
        nf.synchronize()

    def peakmem_call(self, name: str) -> None:
        self.call()
        nf.synchronize()
