"""A process that runs functions for the one that started it: see `workers`.

It reads calls from a connection, writes their results to it, and ends with it, so that
it never outlives who asked.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from .processes import packed, received

__all__ = ["fork", "main"]


def main() -> None:
    """Answer calls from the standard input on the standard output, until it ends."""
    source, target = _take_streams()
    with os.fdopen(target, "wb") as file:

        def write(data: bytes) -> None:
            file.write(data)
            file.flush()

        _serve(lambda length: os.read(source, length), write)


def fork(prepare: str) -> None:
    """Prepare, then fork for each connection that is sent over the standard input.

    Parameters
    ----------
    prepare
        ``"module:function"``; its errors are left to who needs what it imports.
    """
    control, _ = _take_streams()
    # Imports make no cycles worth a tenth of their time, and SciPy is what Numba asks
    # for a BLAS, a quarter: benchmarks/notes/host.md#first-calls.
    gc.disable()
    sys.modules.setdefault("scipy", None)  # type: ignore[arg-type]
    with suppress(Exception):
        _find(prepare)()
    if sys.modules["scipy"] is None:
        del sys.modules["scipy"]
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a fork ended
    with socket.socket(fileno=control) as parent:
        own = _fork_for_each(parent)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.enable()
    with socket.socket(fileno=own) as connection:
        _serve(connection.recv, connection.sendall)


def _fork_for_each(parent: socket.socket) -> int:
    """Fork for each connection sent by `parent`; returns it in the fork, only."""
    while True:
        _, sent, *_ = socket.recv_fds(parent, 1, 1)
        if not sent:
            break
        with suppress(OSError):  # no fork to be had: who has sent it sees it closed
            if not os.fork():
                return sent[0]
        os.close(sent[0])
    # Nobody waits for answers.  Left behind, forks would be given to process 1, which
    # may be a user's, and keep the standard error open for as long as they compile.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    with suppress(ChildProcessError):
        os.wait()  # for all
    os._exit(0)


def _take_streams() -> tuple[int, int]:
    """Duplicate the standard input and output, and let nobody else use them.

    What a compiler prints is not read as an answer, and nothing is read by it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who asks
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    while nothing <= 2:  # a standard stream that is closed
        nothing = os.dup(nothing)
    taken = os.dup(0), os.dup(1)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return taken


def _serve(read: Callable[[int], bytes], write: Callable[[bytes], object]) -> None:
    """Answer calls until the input ends."""
    with suppress(EOFError, OSError):
        while True:
            function, arguments = received(read)
            write(_answer(function, arguments))
    os._exit(0)  # nobody is there, and nothing is left to be tidied up


def _answer(function: str, arguments: tuple[Any, ...]) -> bytes:
    try:
        return packed((True, _find(function)(*arguments)))
    except Exception as error:
        return _failure(error)


def _find(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def _failure(error: Exception) -> bytes:
    """A failure; only its text where the error cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return packed((False, error))
