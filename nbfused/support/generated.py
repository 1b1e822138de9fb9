"""Functions whose text is made at run time, as the package's own code.

Their file name begins with the package's folder: tools that pass over the code of a
package, such as PyTorch's compiler and debuggers, pass over them too.  Compilers of
kernels, and traces, run in `fewer_collections`.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

__all__ = ["PREFIX", "compiled", "define", "fewer_collections"]

#: How the file names of generated code begin.
PREFIX = f"{Path(__file__).parent.parent}/<"


def compiled(text: str, what: str) -> CodeType:
    """Code of a text; `what` it is tracebacks show as its file."""
    return compile(text, f"{PREFIX}{what}>", "exec")


def define(text: str, what: str, names: dict[str, Any]) -> None:
    """Add what a text defines to `names`, which it reads."""
    exec(compiled(text, what), names)


#: New objects between two looks for cycles; 700 is Python's own, a twentieth slower.
_OBJECTS = 50_000
_lock = threading.Lock()
#: How often Python looked for cycles, and how often it does in ``with`` blocks.
_usual = _seldom = gc.get_threshold()
#: The thread of each of these blocks.
_threads: list[int] = []


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Let Python look for cycles less often: a compiler's records live until its end.

    The last of several ``with`` blocks to leave restores how often that is, unless
    somebody else has set it meanwhile.
    """
    thread = threading.get_ident()
    with _lock:
        if not _threads:
            _begin()
        _threads.append(thread)
    try:
        yield
    finally:
        with _lock:
            _threads.remove(thread)
            _end()


def _begin() -> None:
    global _usual, _seldom
    _usual = gc.get_threshold()
    if _usual[0]:
        gc.set_threshold(max(_usual[0], _OBJECTS), *_usual[1:])
    _seldom = gc.get_threshold()


def _end() -> None:
    if not _threads and gc.get_threshold() == _seldom:
        gc.set_threshold(*_usual)


def _leave_to_parent() -> None:
    """End the blocks of other threads in a forked child, which has none of these."""
    global _lock
    _lock = threading.Lock()
    _threads[:] = [each for each in _threads if each == threading.get_ident()]
    _end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
