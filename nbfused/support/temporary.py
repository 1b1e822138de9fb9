"""Temporary folders, and removal of those that killed processes left behind."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

__all__ = ["own_folder", "temporary_folder"]

_NAME = re.compile(r"nbfused_(\d+)_\w+")
#: Seconds after which a folder of a process that is not there is nobody's.  A process
#: of another container may have such a number: what it has loaded from there stays.
_ABANDONED = 3600.0


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that exists inside the ``with`` block."""
    made = _new_folder()
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def own_folder() -> Path:
    """The temporary folder of this process, removed when it ends."""
    found = _own(os.getpid())
    if not found.is_dir():
        _own.cache_clear()
        found = _own(os.getpid())
    return found


@lru_cache(maxsize=1)
def _own(process: int) -> Path:
    made = _new_folder()
    atexit.register(_leave, process, made)
    return made


def _leave(process: int, folder: Path) -> None:
    """Remove the folder, but only in the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _new_folder() -> Path:
    _sweep(tempfile.gettempdir())
    return Path(tempfile.mkdtemp(prefix=f"nbfused_{os.getpid()}_"))


@lru_cache(maxsize=1)
def _sweep(where: str) -> None:
    """Remove, once, folders that dead processes of this user left behind."""
    with suppress(OSError):
        for entry in os.scandir(where):
            found = _NAME.fullmatch(entry.name)
            if found and _is_abandoned(entry, int(found[1])):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_abandoned(entry: os.DirEntry[str], process: int) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    old = time.time() - status.st_mtime >= _ABANDONED
    return stat.S_ISDIR(status.st_mode) and own and old and not _lives(process)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True
