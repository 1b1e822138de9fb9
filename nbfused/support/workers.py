"""Processes that compile side by side: compilers hold locks that threads wait for.

Workers are processes of this Python that know nothing of the user's program: no module
of it is imported, and a fork of this process shares none of them.  They are kept for
some seconds.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from . import processes
from .processes import LOCK, Job, LostError, Worker

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["Job", "LostError", "Workers", "close_idle", "prepare", "processors"]

#: Calls below which starting a process and importing a compiler in it takes longer than
#: it saves.
WORTH = 3
#: Seconds for which a worker waits for further calls, and a compiler for the first.
IDLE, EARLY = 10.0, 60.0

_alive: set[Worker] = set()
_idle: list[Worker] = []
#: When idle processes are ended, and a thread that waits, until then or not as long; by
#: `time.monotonic`.
_end = 0.0
_timer: tuple[float, threading.Timer] | None = None
#: What runs calls: no process is ended meanwhile.
_blocks: WeakSet[Workers] = WeakSet()


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
    if processes.FORKS and (most or processors()) > 1 and processes.is_possible():
        with suppress(Exception):  # whoever needs it says so
            processes.template(function)
        _close_later(EARLY)


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

    Attributes
    ----------
    most
        Processes at the same time.
    """

    def __init__(self, most: int | None, prepare: str) -> None:
        self.most, self._prepare = most or processors(), prepare
        self._waiting: list[tuple[Job, Future[Any]]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._busy: set[Worker] = set()
        self._stopped = False

    def __enter__(self) -> Workers:
        with LOCK:
            _blocks.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for _, future in self._waiting:
            future.cancel()
        try:
            if self._pool is not None:
                if kind is not None:
                    self._stop()
                self._pool.shutdown(cancel_futures=True)
        finally:
            with LOCK:
                _blocks.discard(self)
            _close_later()

    def submit(self, job: Job) -> Future[Any]:
        """Run a call; a future that is never done where it does not pay."""
        with LOCK:  # no fork while it is imported
            from concurrent.futures import Future  # takes time

        future: Future[Any] = Future()
        self._waiting.append((job, future))
        if self.running or self._pays():
            self._start()
        return future

    @property
    def running(self) -> bool:
        """Whether calls are run, as there are enough of them."""
        return self._pool is not None

    def _pays(self) -> bool:
        return self.most > 1 and processes.is_possible() and (
            len(self._waiting) >= WORTH or processes.is_started(self._prepare))

    def _start(self) -> None:
        with LOCK:
            from concurrent.futures import ThreadPoolExecutor

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.most, "nbfused-compile")
        for job, future in self._waiting:
            try:
                self._pool.submit(self._settle, job, future)
            except RuntimeError as error:
                future.set_exception(LostError(f"no thread to be had: {error}"))
        self._waiting.clear()

    def _settle(self, job: Job, future: Future[Any]) -> None:
        """Run a call in a worker, and tell its future."""
        if future.done() or not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._run(job))
        except BaseException as error:
            future.set_exception(error)

    def _run(self, job: Job) -> Any:
        worker = self._worker()
        try:
            return worker.run(job)
        finally:
            with LOCK:
                self._busy.discard(worker)
                again = worker in _alive and worker.alive
                if again:
                    _idle.append(worker)
                else:
                    _alive.discard(worker)
            if not again:
                worker.close()

    def _worker(self) -> Worker:
        """A worker that has nothing to do, or a new one."""
        with LOCK:
            if self._stopped or not processes.is_possible():
                raise LostError("no process to compile in while the program ends")
            worker = _take_idle(self._prepare) or Worker(self._prepare)
            _alive.add(worker)
            self._busy.add(worker)
        return worker

    def _stop(self) -> None:
        """End the calls at once, with those of nobody else."""
        assert self._pool is not None
        with LOCK:
            self._stopped = True
            busy = list(self._busy)
            alone = set(_blocks) <= {self}
        self._pool.shutdown(wait=False, cancel_futures=True)
        if alone:
            _close_all()
        for worker in busy:
            worker.kill()


def _take_idle(prepare: str) -> Worker | None:
    """A worker that has nothing to do, and has not been killed by anybody."""
    for worker in [each for each in _idle if each.prepare == prepare]:
        _idle.remove(worker)
        if worker.alive:
            return worker
        _alive.discard(worker)
        worker.close()
    return None


def _close_later(seconds: float | None = None) -> None:
    """End idle processes after a while, `IDLE` if not another.

    A thread that waits already is left to, if not for longer: to start one takes up to
    a millisecond.
    """
    global _end
    with LOCK:
        if not _alive and not processes.is_started():
            _cancel()
            return
        _end = time.monotonic() + (seconds or IDLE)
        if _timer is None or _timer[0] > _end:
            _cancel()
            _wait()


def _cancel() -> None:
    """Let no thread wait; `LOCK` is held."""
    global _timer
    if _timer is not None:
        _timer[1].cancel()
    _timer = None


def _wait() -> None:
    """Start a thread that waits for `_end`; `LOCK` is held."""
    global _timer
    thread = threading.Timer(max(_end - time.monotonic(), 0.0), _has_waited)
    thread.daemon = True
    with suppress(RuntimeError):  # no thread to be had: they end with this process
        thread.start()
        _timer = _end, thread


def _has_waited() -> None:
    """End idle processes, or wait on if `_end` has moved meanwhile."""
    global _timer
    with LOCK:
        if _timer is None or _timer[1] is not threading.current_thread():
            return
        _timer = None
        if _end > time.monotonic():
            _wait()
            return
    close_idle()


def close_idle() -> None:
    """End the processes that have nothing to do, unless calls are about to come."""
    with LOCK:
        if _blocks:
            return
        workers, _idle[:] = list(_idle), []
        _alive.difference_update(workers)
        templates = processes.take_templates()
    for worker in workers:
        worker.close()
    for each in templates:
        each.close()


def _close_all() -> None:
    """End all processes, busy or not."""
    with LOCK:
        idle, busy = list(_idle), _alive.difference(_idle)
        _idle.clear()
        _alive.clear()
        templates = processes.take_templates()
    for each in templates:
        each.kill()
    for worker in busy:
        worker.kill()
    for worker in idle:
        worker.kill()
        worker.close()


def _leave_to_parent() -> None:
    """Forget the processes in a forked child: they are its parent's."""
    global _timer
    _timer = None
    for worker in _alive:
        worker.forget()
    for each in processes.take_templates():
        each.forget()
    _idle.clear()
    _alive.clear()
    _blocks.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
