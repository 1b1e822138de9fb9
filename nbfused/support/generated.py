"""Functions whose text is made at run time, as the package's own code.

Their file name begins with the package's folder: tools that pass over the code of a
package, such as PyTorch's compiler and debuggers, pass over them too.  Compilers of
kernels, and traces, run in `fewer_collections`.
"""

from __future__ import annotations

import gc
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
_LOCK = threading.Lock()
_usual, _open = gc.get_threshold(), 0


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Let Python look for cycles less often: a compiler's records live until its end.

    The last of several ``with`` blocks to leave restores how often that is.
    """
    global _usual, _open
    with _LOCK:
        if not _open:
            _usual = gc.get_threshold()
            if _usual[0]:
                gc.set_threshold(max(_usual[0], _OBJECTS), *_usual[1:])
        _open += 1
    try:
        yield
    finally:
        with _LOCK:
            _open -= 1
            if not _open:
                gc.set_threshold(*_usual)
