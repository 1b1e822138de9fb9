"""A process that runs functions for the one that started it: see `workers`.

It reads calls from its standard input, writes their results to its standard output, and
ends with that input, so that it never outlives who asked.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO

__all__ = ["main"]


def main() -> None:
    """Answer calls until the input ends."""
    with os.fdopen(os.dup(0), "rb") as source, os.fdopen(os.dup(1), "wb") as target:
        os.dup2(2, 1)  # what a compiler prints is no answer
        sys.stdin = open(os.devnull)  # noqa: SIM115
        try:
            while _answer(source, target):
                pass
        except (EOFError, BrokenPipeError):
            os._exit(0)  # nobody is there, and nothing is left to be tidied up


def _answer(source: BinaryIO, target: BinaryIO) -> bool:
    function, arguments = pickle.load(source)
    try:
        answer = True, _find(function)(*arguments)
        data = pickle.dumps(answer)
    except Exception as error:
        data = _packed(error)
    target.write(data)
    target.flush()
    return True


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
