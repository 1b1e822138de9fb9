"""A few kernels against a device-to-device copy of the same run, in one minute.

``python -m benchmarks.gpu_smoke [name ...]`` on a machine with an NVIDIA GPU and
PyTorch or CuPy.  Times are medians between CUDA events, on the GPU alone; every call
is preceded by a write of more than the L2 cache, so that nothing is read from there.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import nbfused as nf
from nbfused import ops

__all__ = ["CASES", "Case", "Timer", "main"]

CALLS = 20
FLUSH = 1 << 28  # bytes


class Timer:
    """Events, arrays and the copy of whichever library is there."""

    event: Callable[[], Any]
    wait: Callable[[], Any]
    elapsed: Callable[[Any, Any], float]
    put: Callable[[np.ndarray], Any]
    copy: Callable[[Any, Any], Any]
    clear: Callable[[], Any]

    def __init__(self) -> None:
        try:
            import torch

            self._torch()
            self.copy = lambda out, x: out.copy_(x)
            self.flush = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
            self.clear = self.flush.zero_
        except ImportError:
            import cupy

            self._cupy()
            self.copy = cupy.copyto
            self.flush = cupy.empty(FLUSH, cupy.uint8)
            self.clear = lambda: self.flush.fill(0)

    def _torch(self) -> None:
        import torch

        def event() -> Any:
            made = torch.cuda.Event(enable_timing=True)
            made.record()
            return made

        self.event, self.wait = event, torch.cuda.synchronize
        self.elapsed = lambda a, b: a.elapsed_time(b)
        self.put = lambda x: torch.from_numpy(x).cuda()

    def _cupy(self) -> None:
        import cupy

        def event() -> Any:
            made = cupy.cuda.Event()
            made.record()
            return made

        self.event, self.wait = event, cupy.cuda.Device().synchronize
        self.elapsed = cupy.cuda.get_elapsed_time
        self.put = cupy.asarray

    def seconds(self, call: Callable[[], Any]) -> float:
        """The median time of a call on the GPU."""
        for _ in range(3):
            call()
        pairs = []
        for _ in range(CALLS):
            self.clear()
            begin = self.event()
            call()
            pairs.append((begin, self.event()))
        self.wait()
        return statistics.median(self.elapsed(a, b) for a, b in pairs)/1e3

    def host(self, call: Callable[[], Any], calls: int = 300) -> float:
        """Seconds that a call takes of the host."""
        for _ in range(10):
            call()
        self.wait()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        end = time.perf_counter()
        self.wait()
        return (end - begin)/calls


@dataclass(frozen=True)
class Case:
    """What to run; `work` is bytes read and written, or FLOP."""

    name: str
    make: Callable[[Timer], Callable[[], Any]]
    work: float
    unit: str = "GB/s"


def normal(*shape: int) -> np.ndarray:
    """Reproducible float32 numbers."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def both_ways(op: Callable[..., Any], timer: Timer, *arrays: np.ndarray,
              ) -> Callable[[], Any]:
    """A call that runs `op` and its derivative, the cotangent being the first array."""
    given = [timer.put(a) for a in arrays]

    def call() -> None:
        v = [nf.Variable(a, requires_grad=True) for a in given]
        op(*v).backward(given[0])

    return call


def forward(op: Callable[..., Any], *shapes: tuple[int, ...], **kwargs: Any,
            ) -> Callable[[Timer], Callable[[], Any]]:
    """A maker of calls of `op`."""
    def make(timer: Timer) -> Callable[[], Any]:
        arrays = [timer.put(normal(*s)) for s in shapes]
        return lambda: op(*arrays, **kwargs)

    return make


N = 1 << 26
ROWS = (8192, 4096)
WEIGHT = (4096,)
CASES = (
    Case("swish 67M", forward(ops.swish, (N,)), 8*N),
    Case("swish 67M, misaligned", lambda t: (
        lambda x: lambda: ops.swish(x[1:]))(t.put(normal(N))), 8*N),
    Case("add bias 8192x4096", forward(ops.add, ROWS, WEIGHT), 4*N),
    Case("swish 67M, both ways", lambda t: both_ways(ops.swish, t, normal(N)), 20*N),
    Case("layer_norm 8192x4096", forward(ops.layer_norm, ROWS, WEIGHT, WEIGHT), 4*N),
    Case("layer_norm 8192x8192", forward(ops.layer_norm, (8192, 8192)), 8*N),
    Case("layer_norm 8192x4096, both ways", lambda t: both_ways(
        ops.layer_norm, t, normal(*ROWS), normal(*WEIGHT), normal(*WEIGHT)), 10*N),
    Case("rms_norm 32768x1024", forward(ops.rms_norm, (32768, 1024), (1024,)), 4*N),
    Case("softmax 8192x4096", forward(ops.softmax, ROWS), 4*N),
    Case("softmax 4096x32768", forward(ops.softmax, (4096, 32768)), 16*N),
    Case("softmax 131072x256", forward(ops.softmax, (131072, 256)), 4*N),
    Case("sum 2**28", forward(ops.sum, (1 << 28,)), 16*N),
    Case("sum axis 0, 8192x8192", forward(ops.sum, (8192, 8192), axis=0), 4*N),
    Case("sum axis 1, 8192x8192", forward(ops.sum, (8192, 8192), axis=1), 4*N),
    Case("argmax axis 1, 8192x8192", forward(ops.argmax, (8192, 8192), axis=1), 4*N),
    Case("matmul 4096^3", forward(ops.matmul, (4096, 4096), (4096, 4096)),
         2*4096.0**3, "GFLOP/s"),
    Case("matmul 1000x999x1001", forward(ops.matmul, (1000, 999), (999, 1001)),
         2.0*1000*999*1001, "GFLOP/s"),
)


def copied(timer: Timer) -> float:
    """Bytes per second of a copy of 256 MiB, read and written."""
    x = timer.put(normal(N))
    out = timer.put(normal(N))
    return 8*N/timer.seconds(lambda: timer.copy(out, x))


def lines(names: tuple[str, ...]) -> Iterator[str]:
    """The report, line by line."""
    timer = Timer()
    ceiling = copied(timer)
    yield f"{'copy 67M float32':34} {8*N/ceiling*1e6:9.1f} us {ceiling/1e9:9.0f} GB/s"
    for case in CASES:
        if names and not any(name in case.name for name in names):
            continue
        begin = time.perf_counter()
        call = case.make(timer)
        call()
        timer.wait()
        first = time.perf_counter() - begin
        took = timer.seconds(call)
        share = f"{100*case.work/took/ceiling:6.1f} % of copy" \
            if case.unit == "GB/s" else ""
        yield (f"{case.name:34} {took*1e6:9.1f} us {case.work/took/1e9:9.0f} "
               f"{case.unit:7} {share:18} first call {first:.2f} s")
    small = timer.put(normal(1000))
    out = timer.put(normal(1000))
    host = timer.host(lambda: ops.swish(small, out=out))
    yield f"{'host time of a small swish':34} {host*1e6:9.1f} us"


def main() -> None:
    """Print the report."""
    for line in lines(tuple(sys.argv[1:])):
        print(line, flush=True)


if __name__ == "__main__":
    main()
