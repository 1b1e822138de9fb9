"""Checks and timings of all libraries on all workloads."""

from __future__ import annotations

import logging
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..clock import Clock
from .inputs import copies, inputs_of
from .libraries import Call, Library
from .reference import Reference
from .table import Row
from .workload import Workload

__all__ = ["Lost", "ceilings", "measure", "prepared"]

_log = logging.getLogger(__name__)


class Lost(RuntimeError):
    """The GPU's context was broken by a library: nothing more can be measured."""


def measure(works: Sequence[Workload], libraries: Sequence[Library], clock: Clock,
            device: str) -> Iterator[Row]:
    """Measure the rows of the table one after another.

    Raises
    ------
    Lost
        The GPU is not usable any more.
    """
    rates = ceilings(clock, device, {w.dtype for w in works if w.unit == "FLOP"})
    spent: defaultdict[str, float] = defaultdict(float)
    for work in works:
        arrays = inputs_of(work, device)
        try:
            reference = Reference(work, arrays)
        except NotImplementedError as why:
            _log.warning("%s, %s: %s", work.name, work.dtype, why)
            continue
        calls = {}
        for library in libraries:
            begin = time.perf_counter()
            call = _checked(library, work, arrays, reference, device)
            if call is not None:
                calls[library] = call
            spent[library.name] += time.perf_counter() - begin
        del reference
        begin = time.perf_counter()
        found = _timed(calls, clock)
        spent["the clock"] += time.perf_counter() - begin
        yield Row(work.name, work.dtype, {x.name: found.get(x.name) for x in libraries},
                  work.bar, work.work, work.unit,
                  rates["B" if work.unit == "B" else work.dtype], work.against)
    _log.info("seconds: %s", ", ".join(f"{k} {s:.0f}" for k, s in spent.items()))


def prepared(library: Library, work: Workload, arrays: Sequence[Any], device: str,
             ) -> Call | None:
    """Prepare the call of `library`, on its own copies if it changes them."""
    return library.prepare(work, copies(arrays) if work.in_place else arrays,
                           device)


def _checked(library: Library, work: Workload, arrays: Sequence[Any],
             reference: Reference, device: str) -> Call | None:
    """The prepared call, or None if its results are wrong."""
    try:
        call = prepared(library, work, arrays, device)
        fault = call and reference.fault(call())
    except Exception as error:
        _log.warning("%s cannot do %s, %s: %s", library.name, work.name, work.dtype,
                     str(error).strip().partition("\n")[0] or type(error).__name__)
        _alive(device, library)
        return None
    if fault:
        _log.warning("%s, %s, %s: %s", library.name, work.name, work.dtype, fault)
        return None
    return call


def _alive(device: str, library: Library) -> None:
    if device == "cpu":
        return
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise Lost(f"{library.name} broke the GPU's context: {error}") from error


def _timed(calls: dict[Library, Call], clock: Clock) -> dict[str, float]:
    """Median seconds; libraries take turns, every other time in reverse order."""
    samples: dict[str, list[float]] = {library.name: [] for library in calls}
    for turn in range(clock.turns):
        for library in list(calls)[::-1 if turn % 2 else 1]:
            samples[library.name] += clock.samples(calls[library], 1/clock.turns,
                                                   library.own_streams)
    return {name: statistics.median(s) for name, s in samples.items() if s}


def ceilings(clock: Clock, device: str, dtypes: set[str]) -> dict[str, float]:
    """The GPU's measured limits: bytes/s of a copy, FLOP/s of products."""
    if device != "cpu":
        return _of_gpu(clock, device, dtypes)
    source, target = np.zeros(1 << 24, np.float32), np.zeros(1 << 24, np.float32)
    a = np.ones((1024, 1024), np.float32)
    return {**dict.fromkeys(dtypes, float("nan")),
            "B": 8*source.size/clock.seconds(lambda: np.copyto(target, source)),
            "float32": 2.0*1024**3/clock.seconds(lambda: a @ a)}


def _of_gpu(clock: Clock, device: str, dtypes: set[str]) -> dict[str, float]:
    import torch

    x = torch.zeros(1 << 27, device=device)
    y = torch.empty_like(x)
    rates = {"B": 8*x.numel()/clock.seconds(lambda: y.copy_(x))}
    for dtype in sorted(dtypes):
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tfloat32"
        storage, edge = (torch.float32, 4096) if dtype.endswith("float32") \
            else (getattr(torch, dtype), 8192)
        b = torch.randn(edge, edge, device=device).to(storage)
        rates[dtype] = 2.0*edge**3/clock.seconds(partial(torch.matmul, b, b))
    return rates
