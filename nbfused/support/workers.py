"""Processes that compile side by side: compilers hold locks that threads wait for.

Workers are processes of this Python that know nothing of the user's program: no module
of it is imported, and a fork of this process shares none of them.  They are kept for
some seconds, as each has to import a compiler first.
"""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import subprocess
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["Job", "LostError", "Workers", "close_idle", "processors"]

#: Calls below which starting a process and importing a compiler in it takes longer than
#: it saves.
WORTH = 3
#: Seconds for which a worker waits for further calls.
IDLE = 10.0

_ROOT = str(Path(__file__).parents[2])
_RUN = ("import sys; sys.path[:] = sys.argv[1:]; "
        "from nbfused.support.worker import main; main()")

_lock = threading.Lock()
_alive: set[_Worker] = set()
_idle: list[_Worker] = []
_timer: threading.Timer | None = None


def processors() -> int:
    """Number of processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LostError(Exception):
    """A worker ended before it answered, or did not start."""


class Job(NamedTuple):
    """A call: ``"module:function"``, and arguments that can be pickled."""

    function: str
    arguments: tuple[Any, ...]


class _Worker:
    """One process."""

    def __init__(self) -> None:
        import subprocess  # takes time

        # The interpreter's own path, so that it finds what this process finds.
        path = [_ROOT, *(entry for entry in sys.path if entry and entry != _ROOT)]
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-c", _RUN, *path], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, start_new_session=True,  # Ctrl-C is for us
                env={**os.environ, "NBFUSED_DISABLE_PLUGINS": "1",
                     "NBFUSED_BACKEND": ""})
        except (OSError, ValueError) as error:
            raise LostError(f"no process to compile in: {error}") from error
        with _lock:
            _alive.add(self)

    def run(self, job: Job) -> Any:
        """The result of a call; raises what it raised."""
        source, target = self._process.stdout, self._process.stdin
        assert source is not None
        assert target is not None
        try:
            target.write(pickle.dumps(tuple(job)))
            target.flush()
            done, found = pickle.load(source)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            self.close(kill=True)
            raise LostError(f"a process that compiled {job.function} ended with "
                            f"status {self._process.returncode}") from error
        if not done:
            raise found
        return found

    def close(self, kill: bool = False) -> None:
        """End the process, and wait until it has ended."""
        from subprocess import TimeoutExpired

        with _lock:
            _alive.discard(self)
        self._release()
        if kill:
            self._process.kill()
        try:
            self._process.wait(1.0)
        except TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """Let go of a process that another one has started, in a fork of that."""
        self._release()
        self._process.returncode = 0  # it is not ours to wait for

    def _release(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


class Workers:
    """Runs calls in worker processes while a ``with`` block goes on.

    Nothing is started before there are `WORTH` calls, and none at all for `most` of 1.

    Parameters
    ----------
    most
        Processes at the same time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: list[tuple[Job, Future[Any]]] = []
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
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
                self.running or len(self._waiting) >= WORTH):
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
            self._pool.submit(_settle, job, future)
        self._waiting.clear()


def _settle(job: Job, future: Future[Any]) -> None:
    """Run a call in a worker, and tell its future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        with _lock:
            worker = _idle.pop() if _idle else None
        worker = worker or _Worker()
        try:
            found = worker.run(job)
        finally:
            with _lock:
                if worker in _alive:
                    _idle.append(worker)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(found)


def _close_later() -> None:
    """End idle workers after a while."""
    global _timer
    with _lock:
        if _timer is not None:
            _timer.cancel()
        _timer = threading.Timer(IDLE, close_idle)
        _timer.daemon = True
        _timer.start()


def close_idle() -> None:
    """End the workers that have nothing to do."""
    with _lock:
        workers, _idle[:] = list(_idle), []
    for worker in workers:
        worker.close()


def _close_all() -> None:
    """End all workers, busy or not."""
    with _lock:
        workers, _idle[:] = list(_alive), []
    for worker in workers:
        worker.close(kill=True)


def _leave_to_parent() -> None:
    """Forget the workers in a forked child: they are its parent's."""
    global _lock, _timer
    _lock, _timer = threading.Lock(), None
    _idle.clear()
    for worker in list(_alive):
        worker.forget()
    _alive.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
