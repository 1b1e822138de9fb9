"""Checks of programs against float64, their first calls, and their times."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nbfused as nf

from .program import Program
from .ways import WAYS, Step, exact

__all__ = ["Found", "measure"]

CHECKED = 4  # steps of which the losses are compared
TURNS = 7  # in each of which every way has its own
#: By dtype: how far losses and gradients may be from float64, relatively.
BOUNDS = {"float32": 1e-4, "bfloat16": 0.03}
#: Variables of the folders in which compilers keep what they made.
CACHES = ("NBFUSED_CACHE_DIR", "CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR",
          "TRITON_CACHE_DIR")


class Found(NamedTuple):
    """A way that gives what it should: seconds of its first call, its peak of memory.

    `peak` is in bytes beyond what was there before; 0 on the host.
    """

    name: str
    step: Step
    first: float
    peak: int


def number(x: Any) -> np.ndarray:
    """An array of any library in float64; waits for it."""
    if hasattr(x, "detach"):
        return x.detach().double().cpu().numpy()
    if hasattr(x, "block_until_ready"):
        return np.asarray(x.astype("float32"), np.float64)
    return np.asarray(nf.to_numpy(x), np.float64)


def first_call(program: Program, device: str, name: str) -> float:
    """Seconds of the first step, the result waited for, after all imports."""
    step = WAYS[name][0](program, device)
    start = time.perf_counter()
    number(step()[0])
    return time.perf_counter() - start


def checked(program: Program, device: str, names: Sequence[str]) -> Iterator[Found]:
    """The ways that are there and right."""
    step = exact(program, device)
    expected = [[number(x) for x in (value, *gradients)]
                for value, gradients in (step() for _ in range(_steps(program)))]
    del step
    for name, (make, where) in WAYS.items():
        if device not in where.split() or (names and name not in names):
            continue
        try:
            before = _start_peak(device, name)
            step = make(program, device)
            start = time.perf_counter()
            value, gradients = step()
            losses = [[number(value), *map(number, gradients)]]
            first = time.perf_counter() - start
            for _ in range(_steps(program) - 1):
                value, gradients = step()
                losses.append([number(value), *map(number, gradients)])
        except Exception as error:  # the others are measured all the same
            text = str(error).strip().splitlines() or [""]
            print(f"  {name}: {type(error).__name__}: {text[0][:150]}", flush=True)
            continue
        far = max(map(_far, losses, expected))
        if not far <= BOUNDS[program.dtype]:
            print(f"  {name}: WRONG by {far:.2g}", flush=True)
            continue
        peak = max(_peak(device, name) - before, 0)
        print(f"  {name:30} first call {first:6.2f} s, {peak / 1e9:6.2f} GB, "
              f"within {far:.1g} of float64", flush=True)
        yield Found(name, step, first, peak)


def _steps(program: Program) -> int:
    return CHECKED if program.trains else 1


def _far(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The distance from what is expected, relative to its length."""
    return max(float(np.linalg.norm(x - y)) / (float(np.linalg.norm(y)) or 1.0)
               for x, y in zip(found, expected, strict=True))


def _start_peak(device: str, name: str) -> int:
    if device == "cpu" or name == "jax":
        return 0
    import torch

    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return int(torch.cuda.memory_allocated())


def _peak(device: str, name: str) -> int:
    if device == "cpu":
        return 0
    if name == "jax":
        import jax

        return int((jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0))
    import torch

    return int(torch.cuda.max_memory_allocated())


def measure(program: Program, device: str, names: Sequence[str] = (),
            ) -> tuple[dict[str, float], list[Found]]:
    """Seconds of a step, the medians of turns, and what the checks found."""
    ways = list(checked(program, device, names))
    times: dict[str, list[float]] = {way.name: [] for way in ways}
    for _ in range(TURNS):
        for way in ways:
            times[way.name].append(_turn(way.step, device))
    return {name: statistics.median(each) for name, each in times.items()}, ways


def _turn(step: Step, device: str, seconds: float = 0.15) -> float:
    """Seconds a step, of as many as take `seconds`."""
    _wait(device, step())
    count, start = 0, time.perf_counter()
    while count < 3 or time.perf_counter() - start < seconds:
        made = step()
        count += 1
    _wait(device, made)
    return (time.perf_counter() - start) / count


def _wait(device: str, made: Any) -> None:
    """Wait for all that was started."""
    if hasattr(made[0], "block_until_ready"):
        made[0].block_until_ready()
    elif device != "cpu":
        import torch

        torch.cuda.synchronize()


def in_processes(program: str, device: str, name: str) -> tuple[float, float]:
    """Seconds of the first step in two processes that share caches, first empty."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {key: str(Path(folder, key)) for key in CACHES}
        times = []
        for _ in range(2):
            made = subprocess.run(
                [sys.executable, "-m", "benchmarks.programs", "--device", device,
                 "--only", f"^{program}$", "--first", name], env=environment,
                capture_output=True, text=True, check=False, timeout=150)
            lines = made.stdout.split()
            times.append(float(lines[-1]) if made.returncode == 0 and lines
                         else float("nan"))
    return times[0], times[1]
