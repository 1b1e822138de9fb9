"""The line of the user's code that an error, or a call, of a trace comes from."""

from __future__ import annotations

import linecache
import os
import re
import sysconfig
from functools import lru_cache
from types import FrameType, TracebackType

import numpy as np

from ....support.generated import PREFIX

__all__ = ["add_line", "is_library", "is_ours", "user_frame", "with_line"]

#: Parts of nbfused that are programs of users.
_PROGRAMS = ("nbfused.examples", "nbfused.demo")
#: Folders of Python, of its packages, and of NumPy, which may lie anywhere.
_INSTALLED = tuple(os.path.join(folder, "") for folder in {
    os.path.dirname(np.__file__), *map(sysconfig.get_path, (
        "stdlib", "platstdlib", "purelib", "platlib"))})
#: A folder of packages of another environment, or of the user's.
_PACKAGES = re.compile(r"[\\/](site|dist)-packages[\\/]")


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return (file.startswith(("<frozen", *_INSTALLED))
            or _PACKAGES.search(file) is not None)


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of nbfused."""
    if frame.f_code.co_filename.startswith(PREFIX):  # generated
        return True
    name = str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] == "nbfused" and not name.startswith(_PROGRAMS)


def user_frame(frame: FrameType | None, *, behind_ours: bool) -> FrameType | None:
    """The innermost frame of a user's code, from `frame` outwards.

    Parameters
    ----------
    behind_ours
        Whether to look for it behind frames of nbfused, and of imports.
    """
    while frame is not None:
        ours = is_ours(frame)
        if not behind_ours and (ours or frame.f_code.co_filename.startswith(
                "<frozen importlib")):
            return None
        if not ours and not is_library(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def with_line(message: str, frame: FrameType | None, line: int = 0) -> str:
    """A message with the source and the place of the line that a frame is at."""
    if frame is None:
        return message
    file, number = frame.f_code.co_filename, line or frame.f_lineno
    text = linecache.getline(file, number, frame.f_globals).strip()
    return f"{message}\n    {text}\n ({file}:{number})"


def add_line(error: BaseException) -> None:
    """Add to a refusal the innermost line of a user's code that led to it."""
    if getattr(error, "has_line", False) or len(error.args) != 1 or not isinstance(
            error.args[0], str):
        return
    found: tuple[FrameType, int] | None = None
    step: TracebackType | None = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        if not is_ours(frame) and not is_library(frame.f_code.co_filename):
            found = frame, step.tb_lineno
        step = step.tb_next
    if found is not None:
        error.args = (with_line(error.args[0], *found),)
        error.has_line = True  # type: ignore[attr-defined]


