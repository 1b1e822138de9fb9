"""Deep recursion for long or nested programs, such as generated ones."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["TOO_DEEP", "deep_recursion"]

#: Of a function for which even that is not enough.
TOO_DEEP = ("nested too deeply for Python's stack; compute parts of it in statements "
            "of their own, or in a loop")

#: Python calls inside one another while a program is read.  One of 3.11 takes about
#: 0.1 KB of C's stack, and one that goes through C less than 1 KB of its 8 MB or more:
#: what is beyond is an error, not a crash.
_CALLS = 6000
_LOCK = threading.Lock()
_usual, _open = 0, 0


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise the recursion limit in a ``with`` block; the last to leave restores it."""
    global _usual, _open
    with _LOCK:
        if not _open:
            _usual = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_usual, _CALLS))
        _open += 1
    try:
        yield
    finally:
        with _LOCK:
            _open -= 1
            if not _open:
                sys.setrecursionlimit(_usual)
