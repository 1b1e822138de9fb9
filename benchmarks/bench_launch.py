"""Benchmarks of launch overhead on the host, with other libraries for comparison."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import nbfused as nf

from .where import WHERE, enabled, normal

__all__ = ["Launch", "LaunchBesideTheirs", "microseconds"]

ELEMENTS = 1024
CALLS = 2000
SERIES = 5


def microseconds(call: Callable[[], Any], calls: int = CALLS) -> float:
    """Host time of a call that is not waited for, the best of some series."""
    for _ in range(10):
        call()
    best = float("inf")
    for _ in range(SERIES):
        nf.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter_ns() - begin)
    nf.synchronize()
    return best / calls / 1e3


def installed(name: str) -> Any:
    """Import a library; skip the benchmark, as asv wants it, if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise NotImplementedError(f"{name} is not installed") from None


def array_of(library: str, where: str) -> Any:
    """Convert the elements to an array of a library."""
    host = normal(ELEMENTS)
    if library == "numpy":
        return host
    if library == "torch":
        return installed("torch").asarray(host, device=where)
    if library == "cupy":
        return installed("cupy").asarray(host)
    from nbfused.arrays import DeviceArray  # no matter whether CuPy is installed
    from nbfused.registry.backends import backend_for

    made = backend_for(where).from_host(host, where)
    assert isinstance(made, DeviceArray)
    return made


def pairs() -> list[str]:
    """Pairs of a library and a device on which it has arrays."""
    found = ["numpy cpu", "torch cpu"]
    for where in WHERE[2:]:
        found += [f"{library} {where}" for library in ("cupy", "torch", "nbfused")
                  if library == "nbfused" or where.startswith("cuda")]
    return found


def theirs(library: str, x: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The library's own swish, into an array and to a new one."""
    if library == "numpy":
        out = np.empty_like(x)
        return (lambda: np.divide(x, 1 + np.exp(-x), out=out),
                lambda: x / (1 + np.exp(-x)))
    if library == "cupy":
        cupy = installed("cupy")
        kernel = cupy.ElementwiseKernel("T x", "T y", "y = x/(1 + exp(-x))", "swish")
        out = cupy.empty_like(x)
        return lambda: kernel(x, out), lambda: kernel(x)
    if library == "torch":
        torch = installed("torch")
        silu, out = torch.nn.functional.silu, torch.empty_like(x)
        return lambda: torch._C._nn.silu(x, out=out), lambda: silu(x)
    raise NotImplementedError("arrays of our own have no arithmetic to compare with")


class Launch:
    """Launch overhead of swish: into `out`, allocating, forward and backward."""

    param_names = ("arrays",)
    params = (pairs(),)
    quick = (["numpy cpu"],)

    def setup(self, arrays: str) -> None:
        enabled(arrays.split()[1])
        self.x = array_of(*arrays.split())
        self.out = nf.ops.empty_like(self.x)
        self.leaf = nf.Variable(self.x, requires_grad=True)
        nf.ops.swish(self.x, out=self.out)

    def _both(self) -> None:
        self.leaf.grad = None
        nf.ops.swish(self.leaf).sum().backward()

    def track_out(self, arrays: str) -> float:
        return microseconds(lambda: nf.ops.swish(self.x, out=self.out))

    def track_new(self, arrays: str) -> float:
        return microseconds(lambda: nf.ops.swish(self.x))

    def track_forward_backward(self, arrays: str) -> float:
        return microseconds(self._both, CALLS // 10)

    for _method in (track_out, track_new, track_forward_backward):
        _method.unit = "us"  # type: ignore[attr-defined]


class LaunchBesideTheirs(Launch):
    """Our launch overhead over that of the arrays' own library."""

    def setup(self, arrays: str) -> None:
        super().setup(arrays)
        self.theirs = theirs(arrays.split()[0], self.x)

    def track_out(self, arrays: str) -> float:
        return super().track_out(arrays) / microseconds(self.theirs[0])

    def track_new(self, arrays: str) -> float:
        return super().track_new(arrays) / microseconds(self.theirs[1])

    def track_forward_backward(self, arrays: str) -> float:
        """Forward and backward; only PyTorch has a tape."""
        torch = installed("torch")
        leaf = torch.asarray(nf.to_numpy(self.x), device=arrays.split()[1])
        leaf.requires_grad_()

        def both() -> None:
            leaf.grad = None
            torch.nn.functional.silu(leaf).sum().backward()

        return super().track_forward_backward(arrays) / microseconds(both, CALLS // 10)

    for _method in (track_out, track_new, track_forward_backward):
        _method.unit = "times theirs"  # type: ignore[attr-defined]
