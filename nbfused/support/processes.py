"""Processes that answer calls, one connection to each.

On Linux they are forks of one process that has imported a compiler: sixteen processes
that each import it take twice as long as one (benchmarks/notes/host.md#first-calls).
None is a fork of the user's process, which may have threads, devices and memory that a
fork must not touch.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import socket
    import subprocess

__all__ = ["FORKS", "Job", "LostError", "Template", "Worker", "is_started",
           "take_templates", "template"]

#: Whether workers are forks of a process that has imported their compiler.
FORKS = sys.platform == "linux"

_ROOT = str(Path(__file__).parents[2])
_RUN = ("import sys; sys.path[:] = sys.argv[1:]; "
        "from nbfused.support.worker import main; main()")
_FORK = ("import sys; prepare, control, *sys.path[:] = sys.argv[1:]; "
         "from nbfused.support.worker import fork; fork(prepare, int(control))")

_PIPE, _NULL = -1, -3  # subprocess's own numbers; importing it takes time

_lock = threading.Lock()
_templates: dict[str, Template] = {}


class LostError(Exception):
    """A worker ended before it answered, or did not start."""


class Job(NamedTuple):
    """A call: ``"module:function"``, and arguments that can be pickled."""

    function: str
    arguments: tuple[Any, ...]


class Worker:
    """A process that answers calls.

    Parameters
    ----------
    prepare
        ``"module:function"`` that imports what its calls need.

    Raises
    ------
    LostError
        There is no process to be had.
    """

    def __init__(self, prepare: str) -> None:
        self.prepare = prepare
        self._process: subprocess.Popen[bytes] | None = None
        self._own: socket.socket | None = None
        try:
            if FORKS:
                self._own = template(prepare).connection()
                self._source: IO[bytes] = self._own.makefile("rb")
                self._target: IO[bytes] = self._own.makefile("wb")
            else:
                self._process = _started(_RUN, stdin=_PIPE, stdout=_PIPE)
                assert self._process.stdout is not None
                assert self._process.stdin is not None
                self._source = self._process.stdout
                self._target = self._process.stdin
        except (OSError, ValueError) as error:
            raise LostError(f"no process to compile in: {error}") from error

    def run(self, job: Job) -> Any:
        """The result of a call; raises what it raised.

        Raises
        ------
        LostError
            The process ended before it answered; the worker is closed.
        """
        try:
            self._target.write(pickle.dumps(tuple(job)))
            self._target.flush()
            done, found = pickle.load(self._source)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            self.close()
            raise LostError(f"a process that compiled {job.function} ended before it "
                            "answered") from error
        if not done:
            raise found
        return found

    @property
    def alive(self) -> bool:
        """Whether the worker answers calls."""
        return not self._target.closed

    def close(self) -> None:
        """Close the connection: the process ends when it has answered."""
        self._release()
        if self._process is not None:
            _end(self._process)

    def kill(self) -> None:
        """End the process at once; a fork ends with its `Template`."""
        if self._process is not None:
            self._process.kill()
        if self._own is not None:
            with suppress(OSError):
                self._own.shutdown(2)  # who waits for an answer is told
        self.close()

    def forget(self) -> None:
        """Let go of a process that another one has started, in a fork of that."""
        self._release()
        if self._process is not None:
            self._process.returncode = 0  # it is not ours to wait for

    def _release(self) -> None:
        for file in (self._target, self._source, self._own):
            with suppress(OSError):
                if file is not None:
                    file.close()


class Template:
    """A process that has imported a compiler, and forks for each worker."""

    def __init__(self, prepare: str) -> None:
        import socket  # takes time

        self._control, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _started(_FORK, prepare, f"{theirs.fileno()}",
                                         stdin=_NULL, pass_fds=[theirs.fileno()])
            except BaseException:
                self._control.close()
                raise

    @property
    def alive(self) -> bool:
        """Whether the process can fork."""
        return self._process.poll() is None

    def connection(self) -> socket.socket:
        """A connection to a new fork."""
        import socket

        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"w"], [theirs.fileno()])
        return ours

    def close(self) -> None:
        """End the process when it has forked as often as it was asked; forks go on."""
        self._control.close()
        _end(self._process)

    def kill(self) -> None:
        """End the process and its forks at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.close()

    def forget(self) -> None:
        """Let go of the process, in a fork of the one that has started it."""
        self._control.close()
        self._process.returncode = 0


def template(prepare: str) -> Template:
    """The process whose forks answer calls after `prepare`, started if there is none.

    Raises
    ------
    OSError, ValueError
        It cannot be started.
    """
    with _lock:
        found = _templates.get(prepare)
        if found is None or not found.alive:
            found = _templates[prepare] = Template(prepare)
        return found


def is_started(prepare: str) -> bool:
    """Whether a `template` prepares, or has prepared."""
    return prepare in _templates


def take_templates() -> list[Template]:
    """Hand over all templates, to be closed or forgotten."""
    with _lock:
        found = list(_templates.values())
        _templates.clear()
    return found


def _started(code: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """A new process of this Python, which finds the modules that this one finds."""
    import subprocess  # takes time

    path = [_ROOT, *(entry for entry in sys.path if entry and entry != _ROOT)]
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments, *path],
        start_new_session=True,  # Ctrl-C is for us
        env={**os.environ, "NBFUSED_DISABLE_PLUGINS": "1", "NBFUSED_BACKEND": "",
             "OPENBLAS_NUM_THREADS": "1"}, **options)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has ended, not long."""
    from subprocess import TimeoutExpired

    try:
        process.wait(1.0)
    except TimeoutExpired:
        process.kill()
        process.wait()
