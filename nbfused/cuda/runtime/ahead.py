"""Kernels of calls to come: compiled in other processes, and loaded side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import NamedTuple

import nbfused.cache as cache

from ...backend import Foreseen
from ...config import config, logger
from ...support.workers import Job, LostError, Workers, prepare, processors
from . import compile
from .assemble import Assembly, asked
from .driver import Device, device
from .notes import Launched, noted

__all__ = ["compile_ahead", "expect_kernels", "launches_of"]

_log = logger("compile")
_COMPILE = "nbfused.cuda.runtime.compile:compiled"
_PREPARE = "nbfused.cuda.runtime.compile:prepare_compiler"
#: Kernels that are loaded at the same time: the driver assembles them in these threads.
_LOADERS = 16


def compile_ahead(calls: Sequence[Foreseen]) -> None:
    """Compile and load what calls launch, as far as that pays.

    Raises
    ------
    CompileError
        Numba or the driver refuses a kernel.
    """
    waiting: dict[Future[Assembly], list[_Load]] = {}
    with (cache.held(), Workers(config.compile_workers, _PREPARE) as workers,
          ThreadPoolExecutor(min(processors(), _LOADERS), "nbfused-load") as pool):
        loads: list[Callable[[], None]] = []
        missing: dict[str, list[_Load]] = {}
        later: list[list[_Load]] = []
        for load in _loads(calls):
            key = compile.key_of(load.launched.program.kernel, load.device)
            if key in missing:
                missing[key].append(load)
            elif cache.has(key):
                loads.append(_start(load, pool))
            elif len(waiting) < workers.most:  # none waits for another
                alike = missing[key] = [load]
                waiting[workers.submit(load.job())] = alike
            else:
                later.append(missing.setdefault(key, [load]))
        # The longest first: they decide when the last one is done.
        for alike in sorted(later, key=_Load.length_of, reverse=True):
            waiting[workers.submit(alike[0].job())] = alike
        loads += [_start(load, pool) for load in _compiled(waiting, workers)]
        for finish in loads:
            finish()


def expect_kernels() -> None:
    """Let the compiler be imported beside what comes before a function's kernels."""
    if "numba.cuda.compiler" not in sys.modules:
        prepare(_PREPARE, config.compile_workers)


class _Load(NamedTuple):
    """Loads a kernel on a device."""

    launched: Launched
    device: Device

    @staticmethod
    def length_of(alike: Sequence[_Load]) -> int:
        """The length of the text of kernels that are the same."""
        return len(alike[0].launched.program.kernel.text)

    def job(self) -> Job:
        """The call that compiles it."""
        return Job(_COMPILE, (self.launched.program.kernel, self.device.arch,
                              self.device.cuda, asked()))

    def run(self) -> None:
        """Load it."""
        with self.device.current():
            self.launched.program.function(self.device, self.launched.shared)


def _start(load: _Load, pool: ThreadPoolExecutor) -> Callable[[], None]:
    """Let a kernel be loaded; returns what waits for it."""
    try:
        return pool.submit(load.run).result
    except RuntimeError:  # no thread to be had
        return load.run


def _loads(calls: Sequence[Foreseen]) -> Iterator[_Load]:
    """The kernels of calls, each once."""
    seen = set()
    for call in calls:
        for launched in launches_of(call):
            if launched.program not in seen:
                seen.add(launched.program)
                yield _Load(launched, device(call.call.device))


def _compiled(waiting: Mapping[Future[Assembly], Sequence[_Load]], workers: Workers,
              ) -> Iterator[_Load]:
    """The kernels that were compiled, as they come."""
    for future in as_completed(waiting) if workers.running else ():
        loads = waiting[future]
        kernel = loads[0].launched.program.kernel
        try:
            compile.keep(kernel, loads[0].device, future.result())
        except LostError as error:
            _log.warning("%s; %s is compiled in this one", error, kernel.name)
            continue
        yield from loads


def launches_of(call: Foreseen) -> list[Launched]:
    """Launches of a call to come; none where only the call itself can tell."""
    try:
        with noted() as notes:
            call.launcher()(call.call)
    except Exception as error:
        _log.debug("not compiled ahead: %s", error)
        return []
    return list(notes)
