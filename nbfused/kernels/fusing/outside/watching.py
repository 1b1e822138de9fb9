"""Calls that give something else each time, noticed while `fuse` traces a function.

A number that a function draws, or reads from a clock or a file, would be a constant of
what is traced.  Python tells of each call of a function written in C
(`sys.setprofile`); NumPy's and PyTorch's global generators, which it does not see, are
asked whether they have moved on.
"""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from .lines import user_frame

__all__ = ["Watch", "unwatched"]

#: Modules of functions in C of which each gives something else each time.
_MODULES = {"time": "the time", "_socket": "a socket", "io": "a file",
            "_io": "a file", "_datetime": "the time"}
_NAMES = {"urandom": "random numbers", "getrandom": "random numbers",
          "input": "what is typed", "getrandbits": "random numbers",
          "now": "the time", "utcnow": "the time", "today": "the time",
          "open": "a file", "fromfile": "a file", "getpid": "the process"}
#: By name, but only of these.
_RANDOM = frozenset({"random", "getrandbits"})
_ENVIRONMENT = {os._Environ.__getitem__.__code__, os.getenv.__code__}
#: Functions in Python, by the beginning of their module's name.
_GENERATORS = ("cupy.random", "random", "secrets", "uuid")
#: Functions of `time` that only take time.
_HARMLESS = frozenset({"sleep"})


def _source(function: Any) -> str | None:
    """Name what a function in C gives, if that may be another each time."""
    name = function.__name__
    if isinstance(getattr(function, "__self__", None), random.Random):
        return "random numbers"
    module = getattr(function, "__module__", None)
    if name in _NAMES and name not in _RANDOM:
        owner = getattr(function, "__self__", None)
        dated = isinstance(owner, type) and owner.__module__ == "datetime"
        return _NAMES[name] if module is not None or dated else None
    return None if name in _HARMLESS else _MODULES.get(str(module))


class Watch:
    """Watches what a function calls in a ``with`` block.

    Attributes
    ----------
    found
        What it called, with the line.
    """

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    def __enter__(self) -> Watch:
        self._states, self._collecting = _states(), False
        gc.callbacks.insert(0, self._collects)
        gc.callbacks.append(self._collected)
        self._before = sys.getprofile()
        if self._before is None:  # or a profiler is at work, which is left alone
            sys.setprofile(self._notice)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is None:
            sys.setprofile(None)
        gc.callbacks.remove(self._collects)
        gc.callbacks.remove(self._collected)
        for name, state, _ in _states():
            if any(name == other and not _equal(state, old)
                   for other, old, _ in self._states):
                self.found[f"random numbers of {name}"] = None
        self._kept = self._states

    def rewind(self) -> None:
        """Set the generators back to where they were."""
        for _, state, restore in self._kept:
            restore(state)

    def _collects(self, phase: str, info: Any) -> None:
        """Look away while garbage is collected: others' callbacks take the time."""
        self._collecting = True

    def _collected(self, phase: str, info: Any) -> None:
        self._collecting = phase == "start"

    def _notice(self, frame: FrameType, event: str, function: Any) -> None:
        if self._collecting:
            return
        if event == "c_call":
            what = _source(function)
            if what is not None:
                self._note(what, frame)
        elif event == "call":
            if frame.f_code in _ENVIRONMENT:
                self._note("the environment", frame)
            elif str(frame.f_globals.get("__name__", "")).startswith(_GENERATORS):
                self._note("random numbers", frame)

    def _note(self, what: str, frame: FrameType) -> None:
        caller = user_frame(frame, behind_ours=False)
        if caller is not None:
            place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
            self.found[f"{what} ({place})"] = None


@contextmanager
def unwatched() -> Iterator[None]:
    """A context for what runs as in every call, such as compiling."""
    before = sys.getprofile()
    ours = isinstance(getattr(before, "__self__", None), Watch)
    if ours:
        sys.setprofile(None)
    try:
        yield
    finally:
        if ours:
            sys.setprofile(before)


def _states() -> list[tuple[str, Any, Callable[[Any], None]]]:
    """The global generators, and how to set them back."""
    found: list[tuple[str, Any, Callable[[Any], None]]] = [
        ("numpy.random", np.random.get_state(),  # noqa: NPY002
         np.random.set_state)]
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        found.append(("torch", torch.get_rng_state(), torch.set_rng_state))
    return found


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    same = a == b
    return bool(same.all()) if hasattr(same, "all") else bool(same)
