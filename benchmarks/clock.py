"""Clocks for calls: GPU time alone, or wall time on the cpu.

On a GPU by events around the call.  What runs on streams that only its library knows is
timed by CUPTI instead, from its first kernel's start to its last one's end.  Events see
more: the launch itself, some microseconds.  So a kernel of PyTorch is timed both ways,
once, and the difference is added to what CUPTI says: all calls are measured alike.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol

__all__ = ["Clock", "clock"]

_log = logging.getLogger(__name__)

#: Bytes that are written before each call, more than any L2 cache.
FLUSH = 1 << 28
CALLS = 20
#: Clock cycles that the GPU idles before a call, about half a millisecond; more where
#: the host needs longer to launch: it is ahead then, and is not measured.
AHEAD = 1_000_000
#: Clock cycles a second, no GPU has more; and how much slower a later launch may be.
FREQUENCY, SLOWER = 2.0e9, 3
#: Bytes a second that no memory reaches: what writes FLUSH slower is the flush.
SWIFT = 20e12
#: Turns of the two ways to time one kernel, to compare them.
COMPARED = 3
#: Seconds that a workload is measured on the cpu.
LONG = 0.5

Call = Callable[[], Any]


class Clock(Protocol):
    """A clock for calls that have been made before.

    Attributes
    ----------
    turns
        In how many parts what is compared should be timed, one after the other.
    """

    turns: int

    def samples(self, call: Call, share: float = 1, own_streams: bool = False,
                ) -> list[float]:
        """Seconds of several calls, `share` of the usual number.

        `own_streams`: the call launches on streams that nobody else knows, and waits.
        """

    def seconds(self, call: Call) -> float:
        """The median of the samples."""


class CudaClock:
    """A clock by CUDA events on PyTorch's current stream, with the L2 cache flushed."""

    turns = 2

    def __init__(self) -> None:
        import torch

        self._torch, self._cuda = torch, torch.cuda
        self._flush = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")

    def samples(self, call: Call, share: float = 1, own_streams: bool = False,
                ) -> list[float]:
        """Seconds of several calls: see `Clock`."""
        launching = min(self._launching(call) for _ in range(3))
        calls = max(1, round(CALLS*share))
        if own_streams:
            return [s + self.outside for s in self._profiled(call, calls)]
        return self._between(call, calls, max(AHEAD, int(SLOWER*FREQUENCY*launching)))

    @cached_property
    def outside(self) -> float:
        """Overhead of events: seconds beyond what CUPTI sees of a kernel."""
        events: list[float] = []
        spans: list[float] = []
        self._one_kernel()
        for _ in range(COMPARED):
            events += self._between(self._one_kernel, CALLS, AHEAD)
            spans += self._profiled(self._one_kernel, CALLS)
        whole, within = statistics.median(events), statistics.median(spans)
        _log.info("one kernel: %.2f us by events, %.2f us by CUPTI; what CUPTI times "
                  "gets %.2f us more", 1e6*whole, 1e6*within, 1e6*(whole - within))
        return whole - within

    def _one_kernel(self) -> None:
        """Launch a kernel that moves an eighth of what flushes the cache."""
        eighth = self._flush[:FLUSH//8].view(self._torch.float32)
        self._torch.neg(eighth, out=eighth)

    def _launching(self, call: Call) -> float:
        """Seconds of the host for a call while the GPU idles."""
        self._cuda.synchronize()
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    def seconds(self, call: Call) -> float:
        """The median of the samples."""
        return statistics.median(self.samples(call))

    def _event(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, call: Call, calls: int, ahead: int) -> list[float]:
        """Seconds between two events, queued behind `ahead` cycles."""
        pairs = []
        for _ in range(calls):
            self._flush.zero_()
            self._cuda._sleep(ahead)
            begin = self._event()
            call()
            pairs.append((begin, self._event()))
        self._cuda.synchronize()
        return [a.elapsed_time(b)/1e3 for a, b in pairs]

    def _profiled(self, call: Call, calls: int) -> list[float]:
        """Seconds from the first kernel's start to the last one's end, by CUPTI."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            for _ in range(calls):
                self._flush.zero_()
                self._cuda.synchronize()
                call()
            self._flush.zero_()
            self._cuda.synchronize()
        return list(_spans(seen.events()))


class CpuClock:
    """A clock by `time.perf_counter` over several calls.

    A computer that others share may be half as fast for a second: hence many turns.
    """

    turns = 20

    def samples(self, call: Call, share: float = 1, own_streams: bool = False,
                ) -> list[float]:
        """Seconds of several calls: see `Clock`."""
        call()
        times: list[float] = []
        while len(times) < 3 or (sum(times) < LONG*share and len(times) < 200):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        return times

    def seconds(self, call: Call) -> float:
        """The median of the samples."""
        return statistics.median(self.samples(call))


def _spans(events: Any) -> Iterator[float]:
    """Seconds of the kernels between two flushes of the cache."""
    ran = sorted((e.time_range.start, e.time_range.end, e.name) for e in events
                 if str(e.device_type).endswith("CUDA"))
    first = last = None
    for start, end, name in ran:
        flush = "Memset" in name or "FillFunctor" in name
        if flush and end - start > FLUSH*1e6/SWIFT:
            if first is not None and last is not None:
                yield (last - first)/1e6
            first = last = None
        else:
            first = start if first is None else first
            last = end if last is None else max(end, last)


def clock(device: str) -> Clock:
    """The clock for ``"cuda"`` or ``"cpu"``."""
    return CudaClock() if device.startswith("cuda") else CpuClock()
