"""How long a call takes: of the GPU alone, between events, or of the cpu."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Clock", "clock"]

#: Bytes that are written before each call, more than any L2 cache.
FLUSH = 1 << 28
CALLS = 20
#: Clock cycles that the GPU idles before each call, about half a millisecond: the host
#: is ahead by then, and what it takes to launch is not measured.
AHEAD = 1_000_000
#: Seconds that a workload is measured on the cpu.
LONG = 0.5


class Clock(Protocol):
    """Times calls."""

    def seconds(self, call: Callable[[], Any]) -> float:
        """The median time of a call that has been made before."""


class CudaClock:
    """CUDA events of PyTorch's current stream; nothing is read from the L2 cache."""

    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda
        self._flush = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")

    def _event(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, call: Callable[[], Any]) -> float:
        """See `Clock`."""
        for _ in range(3):
            call()
        pairs = []
        for _ in range(CALLS):
            self._flush.zero_()
            self._cuda._sleep(AHEAD)
            begin = self._event()
            call()
            pairs.append((begin, self._event()))
        self._cuda.synchronize()
        return statistics.median(a.elapsed_time(b) for a, b in pairs)/1e3


class CpuClock:
    """`time.perf_counter`, several calls."""

    def seconds(self, call: Callable[[], Any]) -> float:
        """See `Clock`."""
        call()
        times: list[float] = []
        while len(times) < 5 or (sum(times) < LONG and len(times) < 200):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        return statistics.median(times)


def clock(device: str) -> Clock:
    """The clock for ``"cuda"`` or ``"cpu"``."""
    return CudaClock() if device.startswith("cuda") else CpuClock()
