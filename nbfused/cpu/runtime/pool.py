"""The thread pool: a calling thread and helpers share the pieces of a launch.

Kernels run without the GIL, so plain Python threads are enough.  A launch never waits
for a busy pool: the calling thread works through its own pieces and others help, so
any number of Python threads may launch at once.  Pieces are shared by a `Team`, without
Python; a queue wakes threads that sleep.

Helpers stay away from the processor that calls.  Where all others have been busy, Linux
wakes a helper on the caller's processor and leaves both there until its next tick, four
milliseconds later: longer than most launches.
"""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import suppress
from functools import cache
from queue import SimpleQueue

from ...config import config
from ...support.workers import processors
from .objects import Entry
from .team import Order, Team, current_processor

__all__ = ["POOL", "Pool", "thread_count"]

def thread_count() -> int:
    """Number of threads that a launch may use.

    ``config.num_threads``, else ``NUMBA_NUM_THREADS``, else the processors that this
    process may run on.
    """
    return config.num_threads or _default_count()


@cache
def _default_count() -> int:
    text = os.environ.get("NUMBA_NUM_THREADS", "")
    if text.isdecimal() and int(text):
        return int(text)
    return processors()


class Pool:
    """A thread pool of the caller and ``threads - 1`` helpers, started when needed.

    Parameters
    ----------
    threads
        Default: `thread_count`, asked at every launch.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._wanted = threads
        self._team = Team()
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Forget the helpers, which do not exist after a fork."""
        self._queue: SimpleQueue[None] = SimpleQueue()
        self._team.reset()
        self._helpers: list[threading.Thread] = []
        self._masks: dict[int, tuple[set[int], set[int]]] = {}
        self._lock = threading.Lock()
        self._moving = threading.Lock()

    @property
    def threads(self) -> int:
        """Number of threads that a launch uses, the caller among them."""
        return self._wanted or thread_count()

    def share(self, entry: Entry, block: bytes, units: int, step: int,
              first: int = 0) -> None:
        """Run a kernel on the units ``first … units - 1``, `step` at a time."""
        order = self.order(entry, units, step, first)
        if order is None:
            entry(block, first, units)
        else:
            self.launch(order[0] + block, order[1])

    def order(self, entry: Entry, units: int, step: int, first: int = 0,
              lead: int = 0, turns: bool = False) -> tuple[Order, int] | None:
        """Prepare an order for `launch`, for many calls with as many threads.

        Parameters
        ----------
        lead
            Units from 0 on that the caller does before the others.
        turns
            Whether every other launch may take its last piece first: see `team`.

        Returns
        -------
        tuple or None
            What to `launch`, before the kernel's arguments, and how many may help.
            None if nobody will.
        """
        helpers = min(self.threads, -(-(units - first) // step)) - 1
        if helpers < 1:
            return None
        order = self._team.order(entry, first, units, step, helpers, lead, turns)
        return order, helpers

    @property
    def program(self) -> Entry:
        """The machine code of a launch; 0 unless `launch` has to wake helpers."""
        return self._team.program

    def launch(self, order: bytes, helpers: int) -> None:
        """Run an order, waking helpers if need be."""
        if self._team.launch(order):  # somebody has to be woken, or sent away
            useful = min(helpers, self._prepare(max(helpers, self.threads - 1)))
            for _ in range(useful - self._team.lingering - self._queue.qsize()):
                self._queue.put(None)
            self._team.launch(order, anyway=True)

    def dismiss(self) -> None:
        """Stop helpers from waiting for work in machine code."""
        self._team.dismiss()

    def _prepare(self, wanted: int) -> int:
        """Start helpers, move them off this processor, and count them."""
        if len(self._helpers) < wanted:
            self._start(wanted)
        if current_processor is not None:
            processor = current_processor()
            if processor != self._team.avoided:
                self._avoid(processor)
        return len(self._helpers)

    def _start(self, wanted: int) -> None:
        with self._lock:
            self._team.patient = wanted < processors()
            while len(self._helpers) < wanted:
                helper = threading.Thread(
                    target=_help, args=(self._queue, self._team), daemon=True,
                    name=f"nbfused-{len(self._helpers) + 1}")
                try:
                    helper.start()
                except RuntimeError:  # no more threads here, or at exit: fewer will do
                    break
                self._helpers.append(helper)
                self._team.avoided = -1

    def _avoid(self, processor: int) -> None:
        """Restrict helpers to processors other than this one.

        Where somebody else has chosen others meanwhile, those are the ones: so two
        callers must not do this at once, and the second one leaves it.
        """
        if not self._moving.acquire(blocking=False):
            return
        try:
            self._team.avoided = processor
            self._move(processor)
        finally:
            self._moving.release()

    def _move(self, processor: int) -> None:
        for number in (helper.native_id for helper in self._helpers):
            if number is None:
                continue
            with suppress(OSError):  # the processors have changed this moment
                found = os.sched_getaffinity(number)
                whole, left = self._masks.get(number, (found, found))
                if found != left:
                    whole = found
                left = whole - {processor} or whole
                os.sched_setaffinity(number, left)
                self._masks[number] = whole, left


def _help(queue: SimpleQueue[None], team: Team) -> None:
    while True:
        team.serve()
        queue.get()


#: The pool of the `cpu` backend.
POOL = Pool()
atexit.register(POOL.dismiss)
