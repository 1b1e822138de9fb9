"""Choosing among kernels that give the same result, by rules or measurements.

A launcher knows *candidates*: plans that differ in tile, stages, elements of a thread
or cuts, the first of them by a rule.  What is launched is, in this order,

1. under ``NBFUSED_DETERMINISTIC=1`` or ``NBFUSED_AUTOTUNE=0`` the rule's;
2. what was measured and kept on this machine, then what came with the package, for this
   model of GPU (`choices`);
3. under ``NBFUSED_AUTOTUNE=1`` the fastest, measured now and kept;
4. the rule's.

Measuring launches the call itself several times with each candidate, on its own stream.
So a call whose output is an input too is not measured, nor is one that a graph records.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from ...backend import Call, Signature
from ...config import config, logger
from ...errors import NbFusedError
from ..runtime.driver import Device
from ..runtime.notes import NOTES
from . import choices
from .bounded_cache import BoundedCache
from .timer import is_capturing, timing

__all__ = ["Tuner", "kernel_text", "layout_of", "measuring"]

_log = logger("autotune")
#: Measurements would disturb one another.
_alone = threading.RLock()

#: Seconds for compiling the candidates of a call, and for launching them.
COMPILING, LAUNCHING = 60.0, 1.0
#: Launches of each candidate; after the first few the slow ones are dropped.
ROUNDS, QUALIFYING = 15, 3
SLOW = 1.25
#: The rule's candidate stays unless another takes less than this share of its time:
#: below that, two measurements of the same kernel differ.
BETTER = 0.98
#: Bytes that no access exceeds.
ALIGN = 16
#: Keys that a launcher remembers.
_MOST = 4096

C = TypeVar("C", bound=Hashable)


def kernel_text(kind: str, name: str, signature: Signature) -> str:
    """The text that choices are kept under, ``"map swish float32 -> float32"``."""
    types = (" ".join(map(str, group)) for group in (signature.inputs,
                                                     signature.outputs))
    return f"{kind} {name} {' -> '.join(types)}"


def layout_of(call: Call) -> Hashable:
    """A key for kernels that depend on all but addresses: these by alignment."""
    return call.shape, call.strides, tuple([p % ALIGN for p in call.pointers])


def measuring() -> bool:
    """Whether a call that has no choice yet is measured."""
    return config.autotune == "1" and not config.deterministic


class Tuner(Generic[C]):
    """Chooses for one launcher, once for each key.

    Parameters
    ----------
    kernel
        Choices are kept under it: `kernel_text`.
    candidates
        The plans that can run a call, the rule's first.  Their texts (`str`) tell them
        apart on disk.
    program
        Compiles and loads the kernels of a plan, on a device.
    launch
        Runs a call by a plan; for the same call it may be repeated.
    """

    def __init__(self, kernel: str, candidates: Callable[[Call, Device], Sequence[C]],
                 program: Callable[[C, Device], object],
                 launch: Callable[[C, Call, Device], object]) -> None:
        self._kernel = kernel
        self._candidates, self._program, self._launch = candidates, program, launch
        self._made: BoundedCache[tuple[str, int, Hashable], C] = BoundedCache(_MOST)

    def __call__(self, key: Hashable, call: Call, device: Device, outputs: int) -> C:
        """The plan for a call.

        Parameters
        ----------
        key
            What the best candidate depends on, such as extents, dtypes and layout:
            calls with equal keys have the same candidates.  Its text is kept on disk.
        outputs
            How many of the call's pointers, the last ones, are written to.
        """
        mode = "0" if config.deterministic else config.autotune
        found = self._made.get((mode, device.ordinal, key))
        return found if found is not None else self._choose(
            mode, key, call, device, outputs)

    def _choose(self, mode: str, key: Hashable, call: Call, device: Device,
                outputs: int) -> C:
        candidates = self._candidates(call, device)
        if mode == "0" or len(candidates) == 1:
            return self._remember(candidates[0], device, key, mode)
        found = self._known(candidates, key, device)
        if found is None and mode == "1" and _measurable(call, device, outputs):
            found = self._measured(candidates, key, call, device)
        if found is not None:
            return self._remember(found, device, key, "1", "readonly")
        if mode == "readonly":
            self._remember(candidates[0], device, key, mode)
        return candidates[0]  # where measuring is on, a later call may allow it

    def _remember(self, plan: C, device: Device, key: Hashable, *modes: str) -> C:
        for mode in modes:
            self._made.remember((mode, device.ordinal, key), plan)
        return plan

    def _known(self, candidates: Sequence[C], key: Hashable, device: Device,
               ) -> C | None:
        """The choice on disk, if it still is a candidate."""
        text = _table(device).find(self._kernel, str(key))
        return next((c for c in candidates if str(c) == text), None)

    def _measured(self, candidates: Sequence[C], key: Hashable, call: Call,
                  device: Device) -> C | None:
        with _alone, device.current():
            _table(device).refresh()
            found = self._known(candidates, key, device)
            if found is not None:  # another thread or process has, meanwhile
                return found
            times = self._times(self._ready(candidates, device), call, device)
            if candidates[0] not in times:  # no call would do without it
                return None
            best = min(times, key=times.__getitem__)
            if times[best] > BETTER*times[candidates[0]]:
                best = candidates[0]
            _log.info("%s %s: %s, %.1f us, by rule %.1f us", self._kernel, key, best,
                      times[best], times[candidates[0]])
            _table(device).keep(self._kernel, str(key), choices.Choice(
                str(best), {str(c): t for c, t in times.items()}))
            return best

    def _ready(self, candidates: Sequence[C], device: Device) -> list[C]:
        """The candidates that compile in time; only assemblers work side by side."""
        from concurrent.futures import ThreadPoolExecutor, wait  # takes time

        from ...support.progress import progress

        def compiled(plan: C) -> None:
            with device.current():
                self._program(plan, device)

        pool = ThreadPoolExecutor(min(len(candidates), os.cpu_count() or 1),
                                  "nbfused-tune")
        futures = {pool.submit(compiled, plan): plan for plan in candidates}
        end = time.monotonic() + COMPILING
        with progress(f"tuning {self._kernel}", len(futures)) as advance:
            for future, plan in futures.items():
                wait((future,), max(end - time.monotonic(), 0.0))
                advance(str(plan))
        done = {future for future in futures if future.done()}
        pool.shutdown(wait=False, cancel_futures=True)
        return [plan for future, plan in futures.items()
                if future in done and _worked(future.exception(), self._kernel, plan)]

    def _times(self, plans: Sequence[C], call: Call, device: Device) -> dict[C, float]:
        """Median microseconds, measured in turns: what disturbs, disturbs all."""
        times: dict[C, list[float]] = {}
        for plan in plans:  # the first launch is slower, and shows what cannot be
            try:
                self._launch(plan, call, device)
                times[plan] = []
            except NbFusedError as error:
                _worked(error, self._kernel, plan)
        end = time.monotonic() + LAUNCHING
        running = list(times)
        with timing(device, call.stream) as timer:
            for turn in range(ROUNDS):
                for plan in running:
                    times[plan].append(timer.microseconds(
                        self._launch, plan, call, device))
                if turn == QUALIFYING - 1:
                    running = _qualified(times)
                if time.monotonic() > end:
                    break
        return {plan: _median(found) for plan, found in times.items()}


def _table(device: Device) -> choices.Table:
    return choices.table(device.name, device.cuda[0])


def _measurable(call: Call, device: Device, outputs: int) -> bool:
    """Whether launching a call again gives the same, and may be done now."""
    inputs = len(call.pointers) - outputs
    return set(call.pointers[:inputs]).isdisjoint(call.pointers[inputs:]) \
        and NOTES.get() is None and not is_capturing(device, call.stream)


def _worked(error: BaseException | None, kernel: str, plan: object) -> bool:
    """Whether there is no error; one of ours rules out the candidate, no more."""
    if error is None:
        return True
    if not isinstance(error, NbFusedError):
        raise error
    _log.warning("%s: the candidate %s is left out: %s", kernel, plan, error)
    return False


def _qualified(times: dict[Any, list[float]]) -> list[Any]:
    limit = SLOW*min(map(_median, times.values()))
    return [plan for plan, found in times.items() if _median(found) <= limit]


def _median(times: Sequence[float]) -> float:
    """The middle time; of two, the lower."""
    return sorted(times)[(len(times) - 1)//2]
