"""Compilation of all kernels in parallel before any of them is timed.

What they leave is in the libraries' own caches on disk.  Nothing that is chosen by
timing is kept: these processes disturb one another.
"""

from __future__ import annotations

import logging
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context

from nbfused.support.progress import progress

from .inputs import inputs_of
from .libraries import Library, available
from .measure import prepared
from .workload import Workload

__all__ = ["build"]

_log = logging.getLogger(__name__)

#: Rows below which starting processes takes longer than compiling in this one.
WORTH = 10
#: Seconds after which what is left is compiled where it is measured.
LONG = 120
#: PyTorch's compiler starts no processes of its own, here or there.
ALONE = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
#: Nothing of ours is tuned in processes that disturb one another.
UNTUNED = {"NBFUSED_AUTOTUNE": "readonly"}


def build(tasks: Sequence[tuple[Workload, Sequence[Library]]], device: str,
          jobs: int | None = None) -> None:
    """Call the slowly compiling libraries of each workload once; ignore failures.

    `jobs` processes; as many as there are cores for many workloads on a GPU by default.
    """
    if jobs is None:
        jobs = 0 if device == "cpu" or len(tasks) < WORTH else (os.cpu_count() or 2) - 1
    names = [[x.name for x in libraries if x.slow] for _, libraries in tasks]
    if not jobs or not any(names):
        return
    os.environ.update(ALONE)
    begin = time.perf_counter()
    spent: defaultdict[str, float] = defaultdict(float)
    with (ProcessPoolExecutor(jobs, get_context("spawn"), _start) as pool,
          progress("compiling", len(tasks)) as advance):
        pending = [pool.submit(_compile, work, slow, device)
                   for (work, _), slow in zip(tasks, names, strict=True)]
        try:
            for done in as_completed(pending, LONG):
                for name, seconds in done.result().items():
                    spent[name] += seconds
                advance("all libraries")
        except (BrokenProcessPool, TimeoutError) as why:
            _log.warning("%s: the rest is compiled later", type(why).__name__)
            pool.shutdown(cancel_futures=True)
    _log.info("compiled ahead in %.0f s; of all processes %s",
              time.perf_counter() - begin,
              ", ".join(f"{name} {s:.0f} s" for name, s in spent.items()))


def _start() -> None:
    os.environ.update(UNTUNED)


def _compile(work: Workload, names: Sequence[str], device: str) -> dict[str, float]:
    """Compile a workload in a pool process; seconds for each library."""
    import torch

    torch._inductor.config.autotune_local_cache = False
    spent = {}
    arrays = inputs_of(work, device)
    for library in available(device, names):
        begin = time.perf_counter()
        with suppress(Exception):
            call = prepared(library, work, arrays, device)
            call and call()
        spent[library.name] = time.perf_counter() - begin
    if device != "cpu":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    return spent
