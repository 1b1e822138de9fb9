"""Checks and timings of all libraries on all workloads."""

from __future__ import annotations

import logging
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..clock import Clock
from .inputs import copies, inputs_of
from .libraries import Call, Library
from .reference import Reference
from .table import Row
from .workload import Workload

__all__ = ["Compared", "Lost", "ceilings", "compare", "fault_of", "measure",
           "prepared"]

_log = logging.getLogger(__name__)


class Lost(RuntimeError):
    """The GPU's context was broken by a library: nothing more can be measured."""


@dataclass
class Compared:
    """What libraries took for one workload.

    Attributes
    ----------
    samples
        Seconds of each library's calls.
    faults
        What is wrong with each of the others' results, or why there are none.
    spent
        Seconds until each library had been checked, and of the clock.
    """

    samples: dict[str, list[float]]
    faults: dict[str, str]
    spent: dict[str, float]


def compare(work: Workload, libraries: Sequence[Library], clock: Clock, device: str,
            turns: int, share: float = 1.0) -> Compared:
    """Check the libraries' results on a workload, then time the right ones in turns.

    `share` of the usual number of calls is timed.

    Raises
    ------
    NotImplementedError
        There is nothing to check the results with.
    Lost
        The GPU is not usable any more.
    """
    arrays = inputs_of(work, device)
    reference = Reference(work, arrays)
    found = Compared({}, {}, {})
    calls: dict[Library, Call] = {}
    for library in libraries:
        begin = time.perf_counter()
        call, fault = _checked(library, work, arrays, reference, device)
        if fault is not None:
            found.faults[library.name] = fault
        elif call is not None:
            calls[library] = call
        found.spent[library.name] = time.perf_counter() - begin
    del reference
    begin = time.perf_counter()
    found.samples = _samples(calls, clock, turns, share)
    found.spent["the clock"] = time.perf_counter() - begin
    return found


def fault_of(library: Library, work: Workload, device: str) -> str | None:
    """Describe what is wrong with a library's results on a workload, or None.

    Raises
    ------
    NotImplementedError
        There is nothing to check the results with.
    Lost
        The GPU is not usable any more.
    """
    arrays = inputs_of(work, device)
    return _checked(library, work, arrays, Reference(work, arrays), device)[1]


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
        try:
            found = compare(work, libraries, clock, device, clock.turns)
        except NotImplementedError as why:
            _log.warning("%s, %s: %s", work.name, work.dtype, why)
            continue
        for name, fault in found.faults.items():
            _log.warning("%s %s, %s: %s", name, work.name, work.dtype, fault)
        for name, seconds in found.spent.items():
            spent[name] += seconds
        medians = {k: statistics.median(s) for k, s in found.samples.items() if s}
        yield Row(work.name, work.dtype,
                  {x.name: medians.get(x.name) for x in libraries},
                  work.bar, work.work, work.unit,
                  rates["B" if work.unit == "B" else work.dtype], work.against)
    _log.info("seconds: %s", ", ".join(f"{k} {s:.0f}" for k, s in spent.items()))


def prepared(library: Library, work: Workload, arrays: Sequence[Any], device: str,
             ) -> Call | None:
    """Prepare the call of `library`, on its own copies if it changes them."""
    return library.prepare(work, copies(arrays) if work.in_place else arrays,
                           device)


def _checked(library: Library, work: Workload, arrays: Sequence[Any],
             reference: Reference, device: str) -> tuple[Call | None, str | None]:
    """The prepared call, if there is one, and what is wrong with it."""
    try:
        call = prepared(library, work, arrays, device)
        return call, None if call is None else reference.fault(call())
    except Exception as error:
        _alive(device, library)
        said = str(error).strip().partition("\n")[0]
        return None, f"cannot do it: {said or type(error).__name__}"


def _alive(device: str, library: Library) -> None:
    if device == "cpu":
        return
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise Lost(f"{library.name} broke the GPU's context: {error}") from error


def _samples(calls: dict[Library, Call], clock: Clock, turns: int, share: float,
             ) -> dict[str, list[float]]:
    """Seconds; libraries take turns, every other time in reverse order."""
    samples: dict[str, list[float]] = {library.name: [] for library in calls}
    for turn in range(turns):
        for library in list(calls)[::-1 if turn % 2 else 1]:
            samples[library.name] += clock.samples(calls[library], share/turns,
                                                   library.own_streams)
    return samples


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
