"""How long a call takes: of the GPU alone, or of the cpu."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

__all__ = ["Clock", "clock"]

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
#: Seconds that a workload is measured on the cpu.
LONG = 0.5

Call = Callable[[], Any]


class Clock(Protocol):
    """Times calls that have been made before."""

    def samples(self, call: Call, share: float = 1, own_streams: bool = False,
                ) -> list[float]:
        """Seconds of several calls, of so many as `share` of the usual number.

        `own_streams`: the call launches on streams that nobody else knows, and waits.
        """

    def seconds(self, call: Call) -> float:
        """The median."""


class CudaClock:
    """CUDA events of PyTorch's current stream; nothing is read from the L2 cache."""

    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda
        self._flush = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")

    def samples(self, call: Call, share: float = 1, own_streams: bool = False,
                ) -> list[float]:
        """See `Clock`."""
        launching = min(self._launching(call) for _ in range(3))
        calls = max(1, round(CALLS*share))
        if own_streams:
            return self._profiled(call, calls)
        return self._between(call, calls, max(AHEAD, int(SLOWER*FREQUENCY*launching)))

    def _launching(self, call: Call) -> float:
        """Seconds of the host for a call, while the GPU idles."""
        self._cuda.synchronize()
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    def seconds(self, call: Call) -> float:
        """See `Clock`."""
        return statistics.median(self.samples(call))

    def _event(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, call: Call, calls: int, ahead: int) -> list[float]:
        """Between two events, after `ahead` cycles."""
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
        """From the first kernel's start to the last one's end, as CUPTI saw them."""
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
    """`time.perf_counter`, several calls."""

    def samples(self, call: Call, share: float = 1, own_streams: bool = False,
                ) -> list[float]:
        """See `Clock`."""
        call()
        times: list[float] = []
        while len(times) < 5 or (sum(times) < LONG*share and len(times) < 200):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        return times

    def seconds(self, call: Call) -> float:
        """See `Clock`."""
        return statistics.median(self.samples(call))


def _spans(events: Any) -> Iterator[float]:
    """Seconds of what ran between two flushes of the cache."""
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
