"""Rows of the host: what a call costs beside the GPU's work, and a process's start."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from .table import Row

__all__ = ["Measure", "measures", "rows"]

#: Elements of the arrays: their kernels take less than a launch.
SMALL = 1024


@dataclass(frozen=True)
class Measure:
    """Seconds by library; `needs` names the packages of each."""

    name: str
    bar: float
    seconds: dict[str, Callable[[], float]]


def rows(wanted: Sequence[Measure], names: Sequence[str]) -> Iterator[Row]:
    """Measured, of the libraries in `names` and of fixed limits."""
    for measure in wanted:
        found = {name: seconds() for name, seconds in measure.seconds.items()
                 if name in names or name == LIMIT}
        yield Row(measure.name, "float32", dict(found), measure.bar)


#: The column of a time that must not be exceeded whatever others take.
LIMIT = "limit"


def measures(device: str) -> list[Measure]:
    """Those of ``"cuda"`` or ``"cpu"`` that can be taken here."""
    start = [Measure("import nbfused, beyond NumPy", 1.0,
                     {"nbfused": _import, LIMIT: lambda: 0.2})]
    if device == "cpu":
        return [*start, Measure("cold start, warm cache", 1.0, {
            "nbfused": lambda: _process(_OURS_CPU), LIMIT: lambda: 0.6})]
    if find_spec("cupy") is not None:
        start += _cupy()
    if find_spec("torch") is not None:
        start += _torch()
    return start


def _import() -> float:
    return _process("import numpy, nbfused") - _process("import numpy")


def _process(code: str, repeat: int = 3) -> float:
    """Seconds of a new Python that runs `code`, which has run before."""
    times = []
    for _ in range(repeat + 1):
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], check=True, text=True,
                              capture_output=True)
        took = time.perf_counter() - begin
        times.append(float(done.stdout) if done.stdout else took)
    return statistics.median(times[1:])


_OURS_CPU = f"""
import numpy as np
import nbfused as nf
nf.ops.swish(np.ones({SMALL}, np.float32))
"""
_OURS = f"""
import numpy as np
import nbfused as nf
x = nf.array(np.ones({SMALL}, np.float32), device="cuda")
nf.to_numpy(nf.ops.swish(x))
"""
_CUPY = f"""
import cupy
x = cupy.ones({SMALL}, cupy.float32)
cupy.ElementwiseKernel("T x", "T y", "y = x/(1 + exp(-x))", "swish")(x).get()
"""
#: The same after CuPy's own import, which both need: the program prints the seconds.
_AFTER = f"""
import cupy, time
begin = time.perf_counter()
x = cupy.ones({SMALL}, cupy.float32)
%s
print(time.perf_counter() - begin)
"""
_OURS_AFTER = _AFTER % "import nbfused as nf; nf.ops.swish(x).get()"
_CUPY_AFTER = _AFTER % ('cupy.ElementwiseKernel("T x", "T y", "y = x/(1 + exp(-x))", '
                        '"swish")(x).get()')


def _cupy() -> list[Measure]:
    return [
        Measure("cold start, warm cache", 1.0, {
            "nbfused": lambda: _process(_OURS), "cupy": lambda: _process(_CUPY)}),
        Measure("cold start, CuPy imported", 1.0, {
            "nbfused": lambda: _process(_OURS_AFTER),
            "cupy": lambda: _process(_CUPY_AFTER)}),
        Measure("launch, CuPy arrays, out=", 1.0, {
            "nbfused": lambda: _with_cupy(True, True),
            "cupy": lambda: _with_cupy(False, True)}),
        Measure("launch, CuPy arrays, allocating", 1.0, {
            "nbfused": lambda: _with_cupy(True, False),
            "cupy": lambda: _with_cupy(False, False)}),
    ]


def _with_cupy(ours: bool, into: bool) -> float:
    import cupy

    from nbfused import ops

    x = cupy.ones(SMALL, cupy.float32)
    y = cupy.empty_like(x)
    kernel = cupy.ElementwiseKernel("T x", "T y", "y = x/(1 + exp(-x))", "swish")
    calls: dict[tuple[bool, bool], Callable[[], Any]] = {
        (True, True): lambda: ops.swish(x, out=y),
        (True, False): lambda: ops.swish(x),
        (False, True): lambda: kernel(x, y),
        (False, False): lambda: kernel(x),
    }
    return per_call(calls[ours, into], cupy.cuda.Device().synchronize)


def _torch() -> list[Measure]:
    return [
        Measure("launch, torch tensors", 1/1.6, {
            "nbfused": lambda: _with_torch(True, False),
            "torch": lambda: _with_torch(False, False)}),
        Measure("launch, swish sum, both ways", 1.0, {
            "nbfused": lambda: _with_torch(True, True),
            "torch": lambda: _with_torch(False, True)}),
    ]


def _with_torch(ours: bool, both: bool) -> float:
    import torch

    import nbfused as nf

    x = torch.ones(SMALL, device="cuda")
    leaf = x.clone().requires_grad_()

    def ours_both() -> None:
        nf.ops.swish(nf.Variable(x, requires_grad=True)).sum().backward()

    def theirs_both() -> None:
        leaf.grad = None
        torch.nn.functional.silu(leaf).sum().backward()

    calls: dict[tuple[bool, bool], Callable[[], Any]] = {
        (True, False): lambda: nf.ops.swish(x), (True, True): ours_both,
        (False, False): lambda: torch.nn.functional.silu(x), (False, True): theirs_both,
    }
    return per_call(calls[ours, both], torch.cuda.synchronize)


def per_call(call: Callable[[], Any], wait: Callable[[], Any], calls: int = 300,
             ) -> float:
    """Seconds of the host for a call: the median of several series."""
    for _ in range(20):
        call()
    series = []
    for _ in range(9):
        wait()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        series.append((time.perf_counter() - begin)/calls)
    wait()
    return statistics.median(series)
