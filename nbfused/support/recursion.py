"""Deep recursion for long or nested programs, such as generated ones."""

from __future__ import annotations

import sys

from .forks import SharedBlock

__all__ = ["TOO_DEEP", "deep_recursion"]

#: Of a function for which even that is not enough.
TOO_DEEP = ("nested too deeply for Python's stack; compute parts of it in statements "
            "of their own, or in a loop")

#: Python calls inside one another while a program is read.  One of 3.11 takes about
#: 0.1 KB of C's stack, and one that goes through C less than 1 KB of its 8 MB or more:
#: what is beyond is an error, not a crash.
_CALLS = 6000
_usual = 0


def _raise_limit() -> None:
    global _usual
    _usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(_usual, _CALLS))


def _restore_limit() -> None:
    sys.setrecursionlimit(_usual)


_DEEP = SharedBlock(_raise_limit, _restore_limit)


def deep_recursion() -> SharedBlock:
    """Raise the recursion limit in a ``with`` block; the last to leave restores it."""
    return _DEEP
