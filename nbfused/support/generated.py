"""Functions whose text is made at run time, as the package's own code.

Their file name begins with the package's folder: tools that pass over the code of a
package, such as PyTorch's compiler and debuggers, pass over them too.  Compilers of
kernels, and traces, run in `fewer_collections`.
"""

from __future__ import annotations

import gc
from pathlib import Path
from types import CodeType
from typing import Any

from .forks import SharedBlock

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
#: How often Python looked for cycles, and how often it does in ``with`` blocks.
_usual = _seldom = gc.get_threshold()


def _begin() -> None:
    global _usual, _seldom
    _usual = gc.get_threshold()
    if _usual[0]:
        gc.set_threshold(max(_usual[0], _OBJECTS), *_usual[1:])
    _seldom = gc.get_threshold()


def _end() -> None:
    if gc.get_threshold() == _seldom:
        gc.set_threshold(*_usual)


_FEWER = SharedBlock(_begin, _end)


def fewer_collections() -> SharedBlock:
    """Let Python look for cycles less often: a compiler's records live until its end.

    The last of several ``with`` blocks to leave restores how often that is, unless
    somebody else has set it meanwhile.
    """
    return _FEWER
