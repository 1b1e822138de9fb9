"""Warning about one line of a program that makes kernel after kernel."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ..errors import NbFusedPerformanceWarning

__all__ = ["count_kernel", "counting_decorator"]

K = TypeVar("K")

#: How many kernels a line may make: what a program defines once in a function that it
#: calls for a handful of constants is no loop.
MOST = 32

#: The modules through which a program makes kernels.
_DEFINING = frozenset(f"nbfused.{name}" for name in (
    "op.kernel_counts", "op.func", "op.elementwise", "op.reduction", "op.row",
    "op.contraction", "kernels.threads.rawkernel",
    "kernels.cupy.elementwise_kernel", "kernels.cupy.reduction_kernel"))

#: By the code that made kernels, how many each of its lines has.
_MADE: WeakKeyDictionary[CodeType, Counter[int]] = WeakKeyDictionary()


def counting_decorator(make: Callable[..., K]) -> Callable[..., K]:
    """Make a decorator of `make` that counts the kernels of each line."""
    def decorate(pyfunc: Callable[..., Any]) -> K:
        made = make(pyfunc)
        count_kernel(getattr(pyfunc, "__name__", "kernel"))
        return made

    return decorate


def count_kernel(name: str) -> None:
    """Count a kernel for the line of the program that makes it.

    Warns
    -----
    NbFusedPerformanceWarning
        Once, where it has made `MOST`.
    """
    frame = _program()
    if frame is None:
        return
    try:
        counts = _MADE.setdefault(frame.f_code, Counter())
    except TypeError:  # code of PyTorch's compiler may have constants without a hash
        return
    counts[frame.f_lineno] += 1
    if counts[frame.f_lineno] == MOST:
        warnings.warn_explicit(
            f"{MOST} kernels were made by this line, the last one {name}; each is "
            "parsed and compiled anew, and keeps memory after it is deleted: make it "
            "once, outside of the function or loop, and pass what differs as an "
            "argument", NbFusedPerformanceWarning, frame.f_code.co_filename,
            frame.f_lineno, frame.f_globals.get("__name__"))


def _program() -> FrameType | None:
    """The frame of the program that makes a kernel; None for nbfused itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in _DEFINING:
        frame = frame.f_back
    if frame is None or str(frame.f_globals.get("__name__")).startswith("nbfused."):
        return None
    return frame
