"""The disk cache of compiled kernels, keyed by a hash of all that they depend on.

Many processes may share the folder: a file appears by one atomic rename, and a file
that does not match its own checksum, or that others than this user and root could have
written, counts as absent (`files`).  Nothing here may stop a program: a folder
that cannot be written to makes a process slower, not wrong.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, overload

from ..config import config, logger
from ..errors import NbFusedPerformanceWarning, SettingError
from ..support.forks import SharedBlock, free_in_child
from ..support.records import record
from ..support.temporary import own_folder
from .files import (
    LIBRARY,
    SEAL,
    DamagedError,
    UntrustedError,
    read_sealed,
    remove,
    scan,
    write_sealed,
)
from .keys import digest, file_name

__all__ = ["Stats", "clear", "digest", "discard", "folder", "get", "get_file",
           "has", "held",
           "libraries", "note", "noted", "put", "put_file", "stats"]

T = TypeVar("T")

_log = logger("cache")
_lock = free_in_child(threading.Lock())

_SUFFIX, _NOTE = ".bin", ".note"
_unusable: set[str] = set()  # folders of which there has been a warning
#: Seconds after which a temporary file has no writer any more.
_ABANDONED = 3600.0
#: Seconds for which a library that was stored, or looked up, is about to be opened.
_FRESH = 60.0


@record(frozen=True)
class Stats:
    """Counters of the cache in this process, and its size on disk.

    Attributes
    ----------
    hits, misses
        Look-ups that found, or did not find, an artefact.
    compilations
        Artefacts that this process had to make and handed to `put`.
    entries, bytes
        Number and total size of the artefacts on disk.
    folder
        Where they are.
    """

    hits: int
    misses: int
    compilations: int
    entries: int
    bytes: int
    folder: str


@record
class _Counters:
    hits: int = 0
    misses: int = 0
    compilations: int = 0
    size: int | None = None  # of the folder: an estimate that this process keeps


_counters = _Counters()


def folder() -> Path:
    """The cache folder: ``NBFUSED_CACHE_DIR`` or the user's own."""
    if config.cache_dir is not None:
        try:
            return Path(config.cache_dir).expanduser()
        except RuntimeError as error:
            raise SettingError(
                f"NBFUSED_CACHE_DIR={config.cache_dir!r}: {error} expected a folder; "
                "spell it without ~") from error
    try:
        from platformdirs import user_cache_dir  # only now: importing it takes time
    except ImportError:  # a source tree on a machine where nothing is installed
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "nbfused"
    return Path(user_cache_dir("nbfused", appauthor=False))


@overload
def get(key: bytes | str) -> bytes | None: ...


@overload
def get(key: bytes | str, parse: Callable[[bytes], T]) -> T | None: ...


def get(key: bytes | str, parse: Callable[[bytes], T] | None = None) -> T | None:
    """The artefact stored under `key`, or None.

    Parameters
    ----------
    parse
        Makes of the data what is wanted.  What it refuses is removed, counts as absent
        and is made again.
    """
    path = _path(key)
    held_data = _made.get(path)
    found = _read(path, parse or bytes) if held_data is None else \
        (parse or bytes)(held_data)
    _count(key, found is not None)
    return found  # type: ignore[return-value]


#: What was made in `held` blocks.
_made: dict[Path, bytes] = {}
_HELD = SharedBlock(_made.clear, _made.clear)


def held() -> SharedBlock:
    """Keep in memory what `put` is given in a ``with`` block, for `get`, until its end.

    What was made ahead is there when it is asked for, also without a folder.
    """
    return _HELD


def has(key: bytes | str) -> bool:
    """Whether `get` is going to find something; counts nothing."""
    path = _path(key)
    return path in _made or (not config.cache_disable and path.is_file())


def get_file(key: bytes | str,
             check: Callable[[bytes], object] = bytes) -> Path | None:
    """The file of a library stored by `put_file` under `key`, or None.

    The loader can open it: the checksum is behind what it reads.  `check` raises
    what it likes if the data are no library.
    """
    path = _path(key, LIBRARY)
    found = _read(path, lambda data: (check(data),)) is not None
    _count(key, found)
    return path if found else None


def put(key: bytes | str, data: bytes) -> None:
    """Store `data` under `key`, for this and later processes."""
    path = _path(key)
    with _lock:
        _counters.compilations += 1
        if _HELD.is_open:
            _made[path] = data
    _store(path, data)


@overload
def noted(key: bytes | str) -> bytes | None: ...


@overload
def noted(key: bytes | str, parse: Callable[[bytes], T]) -> T | None: ...


def noted(key: bytes | str, parse: Callable[[bytes], T] | None = None) -> T | None:
    """Read the note stored by `note` under `key`, or None; `parse` as in `get`."""
    return _read(_path(key, _NOTE), parse or bytes)  # type: ignore[return-value]


def note(key: bytes | str, data: bytes) -> None:
    """Store a small note under `key`, which does not count as an artefact."""
    _store(_path(key, _NOTE), data)


def put_file(key: bytes | str, data: bytes) -> Path:
    """Store a shared library under `key`, and return a path to open it by.

    That is in the cache or, where there is no writing to it, in a folder that this
    process removes when it ends.
    """
    with _lock:
        _counters.compilations += 1
    path = _path(key, LIBRARY)
    if _store(path, data):
        return path
    # A name of its own: to write over a file that is loaded ends the process.
    handle, name = tempfile.mkstemp(suffix=LIBRARY, dir=own_folder())
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return Path(name)


def discard(key: bytes | str) -> None:
    """Remove an artefact that proved wrong."""
    for suffix in (_SUFFIX, LIBRARY):
        remove(_path(key, suffix))


def libraries() -> list[Path]:
    """Paths of all cached shared libraries."""
    return sorted(path for path, _ in _entries(LIBRARY))


def _count(key: bytes | str, hit: bool) -> None:
    with _lock:
        if hit:
            _counters.hits += 1
        else:
            _counters.misses += 1
    _log.debug("%s %s", "hit" if hit else "miss", file_name(key))


def _store(path: Path, data: bytes) -> bool:
    """Write a file to the cache; False if that was impossible."""
    if config.cache_disable:
        return False
    try:
        write_sealed(path, data)
    except OSError as error:
        _log.warning("cannot store %s in %s: %s", path.name, folder(), error)
        _warn(error)
        return False
    _bound(SEAL + len(data))
    return True


def _warn(error: OSError) -> None:
    """Warn once for each folder that kernels cannot be kept in it."""
    where = str(folder())
    if where not in _unusable:
        _unusable.add(where)
        warnings.warn(
            f"compiled kernels cannot be kept in {where} ({error}): every process will "
            "compile them again; set NBFUSED_CACHE_DIR to a folder that only you can "
            "write to", NbFusedPerformanceWarning, stacklevel=2)


def stats() -> Stats:
    """Count hits, misses and compilations, and what is on disk."""
    sizes = [status.st_size for _, status in _entries()]
    return Stats(
        _counters.hits, _counters.misses, _counters.compilations,
        len(sizes), sum(sizes), str(folder()),
    )


def clear() -> int:
    """Remove all artefacts, and nothing else; return how many."""
    removed = sum(remove(path) for path, _ in list(_entries()))
    for path, _ in list(_entries(_NOTE)):
        remove(path)
    _sweep(0.0)
    with _lock:
        _counters.size = None
    return removed


def _path(key: bytes | str, suffix: str = _SUFFIX) -> Path:
    name = file_name(key)
    return Path(os.path.realpath(folder()), name[:2], name[2:] + suffix)


def _read(path: Path, parse: Callable[[bytes], T]) -> T | None:
    if config.cache_disable:
        return None
    try:
        found = _parsed(read_sealed(path), parse)
    except DamagedError as error:
        _log.warning("%s is damaged and will be made again: %s", path, error)
        remove(path)
        return None
    except UntrustedError as error:
        _log.warning("%s is passed over: %s", path, error)
        _warn(error)
        return None
    except OSError:
        return None
    _touch(path)
    return found


def _parsed(data: bytes, parse: Callable[[bytes], T]) -> T:
    try:
        return parse(data)
    except Exception as error:  # stored whole, but not what it should be
        raise DamagedError(f"{type(error).__name__}: {error}") from error


def _touch(path: Path) -> None:
    """Mark a file as just used: eviction removes the oldest first."""
    try:
        os.utime(path)
    except OSError:
        _log.debug("cannot mark %s as used", path)


def _files(*folders: str) -> Iterator[tuple[Path, os.stat_result]]:
    """All files in the cache's own folders; others may belong to the user."""
    try:
        for inner in scan(folder()):
            if re.fullmatch("|".join(folders), inner.name):
                for entry in scan(Path(inner.path)):
                    with suppress(OSError):  # another process has removed it
                        yield Path(entry.path), entry.stat(follow_symlinks=False)
    except OSError as error:
        _warn(error)


def _entries(*suffixes: str) -> Iterator[tuple[Path, os.stat_result]]:
    for path, status in _files("[0-9a-f]{2}"):
        if (path.suffix in (suffixes or (_SUFFIX, LIBRARY)) and len(path.stem) == 62
                and stat.S_ISREG(status.st_mode)):
            yield path, status


def _sweep(age: float) -> None:
    """Remove temporary files of writers that died."""
    for path, status in list(_files("[0-9a-f]{2}", "tuned")):
        if re.fullmatch(r"tmp.*\.tmp", path.name) and (
                time.time() - status.st_mtime >= age):
            remove(path)


def _bound(added: int) -> None:
    """Keep the folder below its size limit, counting only a full one again."""
    with _lock:
        if _counters.size is None:
            _sweep(_ABANDONED)
            _counters.size = sum(status.st_size for _, status in _entries())
        else:
            _counters.size += added
        if _counters.size > config.cache_size:
            _counters.size = _evict(config.cache_size * 4 // 5)


def _evict(target: int) -> int:
    """Remove the least recently used entries until `target` bytes are left.

    Not a library that was stored or looked up just now, by any process: it is going to
    be opened by its name.
    """
    entries = sorted(_entries(), key=lambda entry: entry[1].st_mtime)
    total = sum(status.st_size for _, status in entries)
    fresh = time.time() - _FRESH
    for path, status in entries:
        if total <= target:
            break
        if path.suffix != LIBRARY or status.st_mtime < fresh:
            total -= status.st_size if remove(path) else 0
    _sweep(_ABANDONED)
    _log.debug("evicted down to %d bytes", total)
    return total
