"""Compiled kernels on disk, under the hash of everything that they depend on.

Many processes may share the folder: a file appears by one atomic rename, and a file
that does not match its own checksum counts as absent.  Nothing here may stop a program:
a folder that cannot be written to makes a process slower, not wrong.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from .config import config, logger
from .errors import NbFusedPerformanceWarning, SettingError
from .records import record
from .version import __version__

__all__ = ["Stats", "clear", "digest", "discard", "folder", "get", "get_file", "note",
           "noted", "put", "put_file", "stats"]

_log = logger("cache")
_lock = threading.Lock()

_MAGIC = b"nbfused1"
_HEADER = len(_MAGIC) + 32
_SUFFIX = ".bin"
_NOTE = ".note"
_LIBRARY = ".so"  # the checksum is behind the data: the loader takes such a file
_unusable: set[str] = set()  # folders of which there has been a warning
_ABANDONED = 3600.0  # seconds after which a temporary file has no writer any more


@record(frozen=True)
class Stats:
    """What the cache did in this process, and what it holds on disk.

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
    """The folder of the artefacts: ``NBFUSED_CACHE_DIR`` or the user's cache folder."""
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


@lru_cache(maxsize=1)
def _toolchain() -> tuple[str, ...]:
    """Versions of what turns generated text into machine code."""
    installed = _installed()
    return (f"nbfused {__version__}", *(
        f"{name} {installed.get(name.replace('-', '_')) or _version(name)}"
        for name in ("numba", "llvmlite", "numba-cuda")))


def _installed() -> dict[str, str]:
    """Versions of packages by their folders' names: a hundredth of what asking takes.

    ``numba_cuda-0.30.4.dist-info``: the name has no other hyphens.
    """
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:  # an archive, or nothing
            continue
        for name in names:
            if name.endswith(".dist-info"):
                package, _, version = name.removesuffix(".dist-info").partition("-")
                found.setdefault(package.lower(), version)
    return found


def _version(package: str) -> str:
    if find_spec(package.replace("-", "_")) is None:
        return "absent"
    from importlib import metadata  # 20 ms

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def digest(*parts: str | bytes) -> str:
    """The key of an artefact that depends on `parts` and on the compilers' versions.

    Parts are told apart: ``digest("ab", "c") != digest("a", "bc")``.

    Examples
    --------
    >>> import nbfused as nf
    >>> nf.cache.digest("source", "sm_90") == nf.cache.digest("source", "sm_90")
    True
    """
    total = hashlib.sha256()
    for part in (*_toolchain(), *parts):
        data = part.encode() if isinstance(part, str) else part
        kind = b"s" if isinstance(part, str) else b"b"
        total.update(kind + len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def get(key: bytes | str) -> bytes | None:
    """The artefact stored under `key`, or None."""
    data = None if config.cache_disable else _read(_path(key))
    _count(key, data is not None)
    return data


def get_file(key: bytes | str) -> Path | None:
    """The file of a library stored by `put_file` under `key`, or None.

    The loader can open it: the checksum is behind what it reads.
    """
    path = _path(key, _LIBRARY)
    found = not config.cache_disable and _read(path) is not None
    _count(key, found)
    return path if found else None


def put(key: bytes | str, data: bytes) -> None:
    """Store `data` under `key`, for this and later processes."""
    with _lock:
        _counters.compilations += 1
    if not config.cache_disable:
        _store(_path(key), data)


def noted(key: bytes | str) -> bytes | None:
    """What `note` kept under `key`, or None."""
    return None if config.cache_disable else _read(_path(key, _NOTE))


def note(key: bytes | str, data: bytes) -> None:
    """Keep something small about artefacts, which is none itself and not counted."""
    if not config.cache_disable:
        _store(_path(key, _NOTE), data)


def put_file(key: bytes | str, data: bytes) -> Path:
    """Store a shared library under `key`; where it can be opened.

    That is in the cache or, where there is no writing to it, in a folder that this
    process removes when it ends.
    """
    with _lock:
        _counters.compilations += 1
    path = _path(key, _LIBRARY)
    if not config.cache_disable and _store(path, data):
        return path
    # A name of its own: to write over a file that is loaded ends the process.
    handle, name = tempfile.mkstemp(suffix=_LIBRARY, dir=_own_folder())
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return Path(name)


def discard(key: bytes | str) -> None:
    """Remove the library stored under `key`: it does not do what it should."""
    _remove(_path(key, _LIBRARY))


@lru_cache(maxsize=1)
def _own_folder() -> Path:
    made = tempfile.mkdtemp(prefix="nbfused_")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def _count(key: bytes | str, hit: bool) -> None:
    with _lock:
        if hit:
            _counters.hits += 1
        else:
            _counters.misses += 1
    _log.debug("%s %s", "hit" if hit else "miss", _name(key))


def _store(path: Path, data: bytes) -> bool:
    """Whether it could be written."""
    try:
        _write(path, data)
    except OSError as error:
        _log.warning("cannot store %s in %s: %s", path.name, folder(), error)
        _warn(error)
        return False
    _bound(_HEADER + len(data))
    return True


def _warn(error: OSError) -> None:
    """Say once of a folder that every process will compile everything again."""
    where = str(folder())
    if where not in _unusable:
        _unusable.add(where)
        warnings.warn(
            f"compiled kernels cannot be kept in {where} ({error}): every process will "
            "compile them again; set NBFUSED_CACHE_DIR to a folder that can be written "
            "to", NbFusedPerformanceWarning, stacklevel=2)


def stats() -> Stats:
    """Hits, misses and compilations of this process, and what is on disk."""
    sizes = [size for _, _, size in _entries()]
    return Stats(
        _counters.hits, _counters.misses, _counters.compilations,
        len(sizes), sum(sizes), str(folder()),
    )


def clear() -> int:
    """Remove every artefact, and nothing else, from the folder; returns how many."""
    removed = sum(_remove(path) for path, _, _ in list(_entries()))
    for path, _, _ in list(_entries(_NOTE)):
        _remove(path)
    _sweep(0.0)
    with _lock:
        _counters.size = None
    return removed


def _name(key: bytes | str) -> str:
    """Keys made by `digest` name their file; any other text or bytes is hashed."""
    if isinstance(key, str) and len(key) == 64 and set(key) <= set("0123456789abcdef"):
        return key
    return hashlib.sha256(key.encode() if isinstance(key, str) else key).hexdigest()


def _path(key: bytes | str, suffix: str = _SUFFIX) -> Path:
    name = _name(key)
    return folder() / name[:2] / (name[2:] + suffix)


def _sealed(path: Path, data: bytes) -> bytes:
    """The content of the file of `data`: with its checksum."""
    seal = _MAGIC + hashlib.sha256(data).digest()
    return data + seal if path.suffix == _LIBRARY else seal + data


def _opened(path: Path, content: bytes) -> bytes:
    """The data in the content of a file."""
    return content[:-_HEADER] if path.suffix == _LIBRARY else content[_HEADER:]


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    data = _opened(path, content)
    if content != _sealed(path, data):
        _log.warning("%s is damaged and will be made again", path)
        _remove(path)
        return None
    _touch(path)
    return data


def _touch(path: Path) -> None:
    """Mark as used just now: the oldest marks are removed first."""
    try:
        os.utime(path)
    except OSError:
        _log.debug("cannot mark %s as used", path)


def _write(path: Path, data: bytes) -> None:
    # Native code is loaded from here: nobody else may be able to write to it.
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_sealed(path, data))
        os.replace(temporary, path)
    except BaseException:
        _remove(Path(temporary))
        raise


def _remove(path: Path) -> bool:
    """Whether this call removed it; another process may have been first."""
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _files(pattern: str) -> Iterator[tuple[Path, os.stat_result]]:
    """Files of ours: the folder may be one where the user keeps other things too."""
    for path in folder().glob(pattern):
        try:
            yield path, path.stat()
        except OSError:
            continue


def _entries(*suffixes: str) -> Iterator[tuple[Path, float, int]]:
    for suffix in suffixes or (_SUFFIX, _LIBRARY):
        for path, status in _files("[0-9a-f][0-9a-f]/*" + suffix):
            if len(path.stem) == 62:
                yield path, status.st_mtime, status.st_size


def _sweep(age: float) -> None:
    """Remove what writers that died left behind."""
    for path, status in list(_files("[0-9a-f][0-9a-f]/tmp*.tmp")):
        if time.time() - status.st_mtime >= age:
            _remove(path)


def _bound(added: int) -> None:
    """Keep the folder below its bound; only a full folder is read again."""
    with _lock:
        if _counters.size is None:
            _counters.size = sum(size for _, _, size in _entries())
        else:
            _counters.size += added
        if _counters.size > config.cache_size:
            _counters.size = _evict(config.cache_size * 4 // 5)


def _evict(target: int) -> int:
    """Remove the entries unused for longest until `target` bytes are left."""
    entries = sorted(_entries(), key=lambda entry: entry[1])
    total = sum(size for _, _, size in entries)
    for path, _, size in entries:
        if total <= target:
            break
        total -= size if _remove(path) else 0
    _sweep(_ABANDONED)
    _log.debug("evicted down to %d bytes", total)
    return total
