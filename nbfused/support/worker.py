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
from typing import Any, BinaryIO

__all__ = ["fork", "main"]


def main() -> None:
    """Answer calls from the standard input on the standard output, until it ends."""
    with os.fdopen(os.dup(0), "rb") as source, os.fdopen(os.dup(1), "wb") as target:
        _keep_quiet()
        _serve(source, target)


def fork(prepare: str, control: int) -> None:
    """Prepare, then fork for each connection that is sent over another one.

    Parameters
    ----------
    prepare
        ``"module:function"``; its errors are left to who needs what it imports.
    control
        The descriptor of a socket.
    """
    _keep_quiet()
    gc.disable()  # imports make no cycles that are worth a tenth of their time
    # Numba imports it, a quarter of a second, to see whether there is a BLAS.
    sys.modules["scipy"] = None  # type: ignore[assignment]
    with suppress(Exception):
        _find(prepare)()
    del sys.modules["scipy"]
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a fork ended
    with socket.socket(fileno=control) as parent:
        while True:
            _, sent, *_ = socket.recv_fds(parent, 1, 1)
            if not sent:
                os._exit(0)
            if not os.fork():
                break
            os.close(sent[0])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.enable()
    with socket.socket(fileno=sent[0]) as own:
        _serve(own.makefile("rb"), own.makefile("wb"))


def _keep_quiet() -> None:
    """Keep what a compiler prints from being read as an answer; it reads nothing."""
    os.dup2(2, 1)
    sys.stdin = open(os.devnull)  # noqa: SIM115


def _serve(source: BinaryIO, target: BinaryIO) -> None:
    """Answer calls until the input ends."""
    with suppress(EOFError, OSError):
        while True:
            function, arguments = pickle.load(source)
            target.write(_answer(function, arguments))
            target.flush()
    os._exit(0)  # nobody is there, and nothing is left to be tidied up


def _answer(function: str, arguments: tuple[Any, ...]) -> bytes:
    try:
        return pickle.dumps((True, _find(function)(*arguments)))
    except Exception as error:
        return _packed(error)


def _find(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def _packed(error: Exception) -> bytes:
    """A failure; only its text where the error cannot be sent."""
    try:
        data = pickle.dumps((False, error))
        pickle.loads(data)
    except Exception:
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return data
