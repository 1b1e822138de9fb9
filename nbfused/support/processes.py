"""Processes that answer calls, one connection to each.

On Linux they are forks of one process that has imported a compiler: sixteen processes
that each import it take twice as long as one (benchmarks/notes/host.md#first-calls).
None is a fork of the user's process, which may have threads, devices and memory that a
fork must not touch.

Messages are pickles after their lengths, and this side buffers none of them: the lock
of a buffered file, held by a thread that waits for an answer, would stay locked in a
fork, and what the file holds would be sent by both.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .forks import hold_in_forks

if TYPE_CHECKING:
    import socket
    import subprocess

__all__ = ["FORKS", "LOCK", "Job", "LostError", "Template", "Worker", "is_possible",
           "is_started", "packed", "pools_are_open", "received", "take_templates",
           "template"]

#: Whether workers are forks of a process that has imported their compiler.
FORKS = sys.platform == "linux"
#: Held while processes are started and noted.  A fork of this process at that moment
#: would keep the ends of their connections, and they would never see them closed.
LOCK = threading.RLock()
hold_in_forks(LOCK)
hold_in_forks()  # its own lock is taken before this one, as elsewhere

_ROOT = str(Path(__file__).parents[2])
_RUN = ("import sys; sys.path[:] = sys.argv[1:]; "
        "from nbfused.support.worker import main; main()")
_FORK = ("import sys; prepare, *sys.path[:] = sys.argv[1:]; "
         "from nbfused.support.worker import fork; fork(prepare)")
#: Options of this Python that another one is started with: what it leaves unread may be
#: what keeps that one from starting.
_OPTIONS = {"isolated": "-I", "ignore_environment": "-E", "no_user_site": "-s",
            "no_site": "-S", "dont_write_bytecode": "-B"}

_LENGTH = 8  # bytes before a message
_PIPE = -1  # subprocess's own number; importing it takes time

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
        try:
            self._channel: _Pipes | _Socket = (
                _Socket(template(prepare).connection()) if FORKS else
                _Pipes(_started(_RUN, stdin=_PIPE, stdout=_PIPE, bufsize=0)))
        except Exception as error:  # whatever it is, calls can do without
            raise LostError(f"no process to compile in: {error}") from error

    def run(self, job: Job) -> Any:
        """The result of a call; raises what it raised.

        Raises
        ------
        LostError
            The process ended before it answered; the worker is closed.
        """
        try:
            self._channel.write(packed(tuple(job)))
            done, found = received(self._channel.read)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            self.close()
            raise LostError(f"a process that compiled {job.function} ended before it "
                            "answered") from error
        if not done:
            raise found
        return found

    @property
    def alive(self) -> bool:
        """Whether the worker can be given a call."""
        return self._channel.alive

    def close(self) -> None:
        """Close the connection: the process ends when it has answered."""
        self._channel.close()

    def kill(self) -> None:
        """End the process at once; a fork ends with its `Template`.

        Who waits for its answer is told, and closes it.
        """
        self._channel.kill()

    def forget(self) -> None:
        """Let go of a process that another one has started, in a fork of that."""
        self._channel.forget()


class _Socket:
    """The connection to a fork of a `Template`."""

    def __init__(self, own: socket.socket) -> None:
        self._own = own
        self.read = own.recv

    def write(self, data: bytes) -> None:
        self._own.sendall(data, _flags("MSG_NOSIGNAL"))

    @property
    def alive(self) -> bool:
        try:
            return bool(self._own.recv(1, _flags("MSG_PEEK", "MSG_DONTWAIT")))
        except BlockingIOError:
            return True  # it has nothing to say
        except OSError:
            return False

    def close(self) -> None:
        self._own.close()

    forget = close

    def kill(self) -> None:
        with suppress(OSError):
            self._own.shutdown(2)


class _Pipes:
    """A process and its standard streams."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._target, self.read = process.stdin, process.stdout.read

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._target.write(rest):]

    @property
    def alive(self) -> bool:
        return not self._target.closed and self._process.poll() is None

    def close(self) -> None:
        self._release()
        _end(self._process)

    def kill(self) -> None:
        self._process.kill()

    def forget(self) -> None:
        self._release()
        self._process.returncode = 0  # it is not ours to wait for

    def _release(self) -> None:
        for file in (self._process.stdin, self._process.stdout):
            if file is not None:
                file.close()


class Template:
    """A process that has imported a compiler, and forks for each worker."""

    def __init__(self, prepare: str) -> None:
        self._control, theirs = _socket_pair()
        with theirs:
            try:
                self._process = _started(_FORK, prepare, stdin=theirs)
            except BaseException:
                self._control.close()
                raise

    @property
    def alive(self) -> bool:
        """Whether the process can fork."""
        return self._process.poll() is None

    def connection(self) -> socket.socket:
        """A connection to a new fork."""
        import array
        from socket import SCM_RIGHTS, SOL_SOCKET

        ours, theirs = _socket_pair()
        with theirs:
            sent = array.array("i", [theirs.fileno()])
            try:
                self._control.sendmsg([b"w"], [(SOL_SOCKET, SCM_RIGHTS, sent)],
                                      _flags("MSG_NOSIGNAL"))
            except BaseException:
                ours.close()
                raise
        return ours

    def close(self) -> None:
        """End the process and its forks, whose answers nobody waits for."""
        self._control.close()
        _end(self._process)

    def kill(self) -> None:
        """End the process and its forks at once."""
        group = self._process.pid
        with suppress(OSError):
            if self.alive:  # otherwise the number may be another's
                os.killpg(group, signal.SIGKILL)
                self._process.wait()
                while os.waitpid(-group, 0):
                    pass  # process 1 inherits the forks, and may be this one
        self.close()

    def forget(self) -> None:
        """Let go of the process, in a fork of the one that has started it."""
        self._control.close()
        self._process.returncode = 0


def is_possible() -> bool:
    """Whether this Python can start another one; a frozen program would run itself."""
    return (bool(sys.executable) and not getattr(sys, "frozen", False)
            and pools_are_open())


def pools_are_open() -> bool:
    """Whether pools of threads run calls: not when the main thread has ended."""
    return threading.main_thread().is_alive()


def template(prepare: str) -> Template:
    """The process whose forks answer calls after `prepare`, started if there is none.

    Raises
    ------
    OSError, ValueError
        It cannot be started.
    """
    with LOCK:
        found = _templates.get(prepare)
        if found is not None and not found.alive:
            found.close()
            found = None
        if found is None:
            found = _templates[prepare] = Template(prepare)
        return found


def is_started(prepare: str | None = None) -> bool:
    """Whether a `template` prepares, or has prepared; None: whether there is any."""
    return prepare in _templates if prepare is not None else bool(_templates)


def take_templates() -> list[Template]:
    """Hand over all templates, to be closed or forgotten."""
    with LOCK:
        found = list(_templates.values())
        _templates.clear()
    return found


def packed(message: Any) -> bytes:
    """The bytes to send for an object."""
    data = pickle.dumps(message)
    return len(data).to_bytes(_LENGTH, "little") + data


def received(read: Callable[[int], bytes | None]) -> Any:
    """The next object of a connection.

    Parameters
    ----------
    read
        Returns some bytes, at most as many as it is asked for, and none at the end.

    Raises
    ------
    EOFError
        The connection ended.
    """
    length = int.from_bytes(_exactly(read, _LENGTH), "little")
    return pickle.loads(_exactly(read, length))


def _exactly(read: Callable[[int], bytes | None], length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        part = read(min(length - len(found), 1 << 20))
        if not part:
            raise EOFError("the other process has ended")
        found += part
    return bytes(found)


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection that wait for as long as it takes."""
    import socket  # takes time

    pair = socket.socketpair()
    for each in pair:
        each.settimeout(None)  # whatever `socket.setdefaulttimeout` was told
    return pair


def _flags(*names: str) -> int:
    """Flags of sockets, which are not on all systems."""
    import socket

    return sum(getattr(socket, name) for name in names)


def _started(code: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """A new process of this Python, which finds the modules that this one finds."""
    import subprocess  # takes time

    flags = [option for flag, option in _OPTIONS.items() if getattr(sys.flags, flag)]
    path = [entry for entry in sys.path if entry and isinstance(entry, str)]
    if _ROOT not in path:
        path.insert(0, _ROOT)
    return subprocess.Popen(
        [sys.executable, *flags, "-c", code, *arguments, *path],
        start_new_session=True,  # Ctrl-C is for us
        env={**os.environ, "NBFUSED_DISABLE_PLUGINS": "1", "NBFUSED_BACKEND": "",
             # Whatever that Python runs when it starts, it starts no further ones.
             "NBFUSED_COMPILE_WORKERS": "1", "OPENBLAS_NUM_THREADS": "1"}, **options)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has ended, not long."""
    from subprocess import TimeoutExpired

    try:
        process.wait(1.0)
    except TimeoutExpired:
        process.kill()
        process.wait()
