"""Processes that compile side by side: compilers hold locks that threads wait for.

Workers are processes of this Python that know nothing of the user's program: no module
of it is imported, and a fork of this process shares none of them.  They are kept for
some seconds.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .processes import (
    FORKS,
    Job,
    LostError,
    Worker,
    is_started,
    take_templates,
    template,
)

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["Job", "LostError", "Workers", "close_idle", "prepare", "processors"]

#: Calls below which starting a process and importing a compiler in it takes longer than
#: it saves.
WORTH = 3
#: Seconds for which a worker waits for further calls.
IDLE = 10.0

_lock = threading.Lock()
_alive: set[Worker] = set()
_idle: list[Worker] = []
_timer: threading.Timer | None = None
#: Blocks of `Workers` that run calls, whose processes are not ended meanwhile.
_blocks = 0


def processors() -> int:
    """Number of processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def prepare(function: str, most: int | None) -> None:
    """Let a compiler be imported, in another process, for calls that may come soon.

    Parameters
    ----------
    function, most
        As of `Workers`.
    """
    if not FORKS or (most or processors()) < 2 or not sys.executable:
        return
    try:
        template(function)
    except (OSError, ValueError):
        return  # whoever needs it says so
    _close_later()


class Workers:
    """Runs calls in worker processes while a ``with`` block goes on.

    Nothing is started before there are `WORTH` calls, unless a process has prepared
    for them, and none at all for `most` of 1.

    Parameters
    ----------
    most
        Processes at the same time; None: as many as there are processors.
    prepare
        ``"module:function"`` that imports what the calls need.
    """

    def __init__(self, most: int | None, prepare: str) -> None:
        self._most, self._prepare = most or processors(), prepare
        self._waiting: list[tuple[Job, Future[Any]]] = []
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        _count(1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        _count(-1)
        for _, future in self._waiting:
            future.cancel()
        if self._pool is None:
            return
        if kind is not None:
            _close_all()  # whoever waits for them is told at once
        self._pool.shutdown(cancel_futures=True)
        _close_later()

    def submit(self, job: Job) -> Future[Any]:
        """Run a call; a future that is never done where it does not pay."""
        from concurrent.futures import Future  # takes time

        future: Future[Any] = Future()
        self._waiting.append((job, future))
        if self._most > 1 and sys.executable and (
                self.running or len(self._waiting) >= WORTH
                or is_started(self._prepare)):
            self._start()
        return future

    @property
    def running(self) -> bool:
        """Whether calls are run, as there are enough of them."""
        return self._pool is not None

    def _start(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, "nbfused-compile")
        for job, future in self._waiting:
            self._pool.submit(_settle, job, future, self._prepare)
        self._waiting.clear()


def _settle(job: Job, future: Future[Any], prepare: str) -> None:
    """Run a call in a worker, and tell its future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        worker = _worker(prepare)
        try:
            found = worker.run(job)
        finally:
            with _lock:
                if worker in _alive and worker.alive:
                    _idle.append(worker)
                else:
                    _alive.discard(worker)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(found)


def _worker(prepare: str) -> Worker:
    """A worker that has nothing to do, or a new one."""
    with _lock:
        for k, worker in enumerate(_idle):
            if worker.prepare == prepare:
                return _idle.pop(k)
    worker = Worker(prepare)
    with _lock:
        _alive.add(worker)
    return worker


def _count(change: int) -> None:
    global _blocks
    with _lock:
        _blocks += change


def _close_later() -> None:
    """End idle processes after a while."""
    global _timer
    with _lock:
        if _timer is not None:
            _timer.cancel()
        _timer = threading.Timer(IDLE, close_idle)
        _timer.daemon = True
        _timer.start()


def close_idle() -> None:
    """End the processes that have nothing to do, unless calls are about to come."""
    with _lock:
        if _blocks:
            return
        workers, _idle[:] = list(_idle), []
        _alive.difference_update(workers)
    for worker in workers:
        worker.close()
    for each in take_templates():
        each.close()


def _close_all() -> None:
    """End all processes, busy or not."""
    with _lock:
        workers = list(_alive)
        _idle.clear()
        _alive.clear()
    for each in take_templates():
        each.kill()
    for worker in workers:
        worker.kill()


def _leave_to_parent() -> None:
    """Forget the processes in a forked child: they are its parent's."""
    global _lock, _timer, _blocks
    _lock, _timer, _blocks = threading.Lock(), None, 0
    for worker in _alive:
        worker.forget()
    for each in take_templates():
        each.forget()
    _idle.clear()
    _alive.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
