"""Reading and writing of cache files: atomic, sealed by a checksum, checked for owner.

Code is run from them, so that nobody else may be able to change one.  As ssh asks of
its keys, the file, its folders and what these are in belong to this user or to root,
and no group and nobody else may write there; a folder such as ``/tmp``, in which others
cannot rename what is not theirs, will do on the way.

A file begins with a seal, a checksum of its content and of its own name: one that was
damaged, or put into another's place, is not used.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["LIBRARY", "SEAL", "DamagedError", "UntrustedError", "check_folder",
           "locked", "read", "read_sealed", "remove", "replace", "scan", "write_sealed"]

_MAGIC = b"nbfused2"
#: Bytes of a seal.
SEAL = len(_MAGIC) + 32
#: Ending of libraries: their seal is behind the data, where the loader takes it.
LIBRARY = ".so"
#: What is said where a link, a socket or a folder is opened.
_NO_FILE = (errno.ELOOP, errno.ENXIO, errno.EISDIR)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class UntrustedError(PermissionError):
    """A file that another user could have written or could change."""


class DamagedError(OSError):
    """A file whose contents do not match its checksum."""


def check_folder(folder: Path) -> None:
    """Check that only this user, or root, can change a folder's contents.

    Raises
    ------
    UntrustedError
        With who can, and the way out.
    OSError
        It is not there.
    """
    real = Path(os.path.realpath(folder))
    _check(real, os.stat(real))
    for parent in real.parents:
        _check(parent, os.stat(parent), on_the_way=True)


def _check(path: Path, status: os.stat_result, on_the_way: bool = False) -> None:
    if not hasattr(os, "geteuid"):  # a system with other rules
        return
    trusted = {os.geteuid(), 0}
    if on_the_way:  # in a container, root may go by another number
        trusted.add(os.stat("/").st_uid)
    if status.st_uid not in trusted:
        raise UntrustedError(f"{path} belongs to user {status.st_uid}, not to user "
                             f"{os.geteuid()} who would run code from there")
    if not status.st_mode & _OTHERS_WRITE or _own_group(status):
        return
    if not (on_the_way and status.st_mode & stat.S_ISVTX):
        raise UntrustedError(
            f"{path} may be written to by others, mode {stat.S_IMODE(status.st_mode):o}"
            f", and code is run from there: chmod go-w {path}")


def _own_group(status: os.stat_result) -> bool:
    """Whether only the owner is in the group, and nobody else may write.

    Many systems give each user a group, and let it write to all that the user makes.
    """
    if status.st_mode & stat.S_IWOTH:
        return False
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return (user.pw_gid == group.gr_gid and user.pw_name == group.gr_name
            and set(group.gr_mem) <= {user.pw_name})


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """Open a regular file, checked that only this user or root can write it.

    Opening waits for nobody, as it would for the other end of a pipe, and follows no
    link; what is opened is looked at, not what has its name a moment before.
    """
    try:
        handle = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW,
                         0o600)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise DamagedError("no regular file") from error
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError("no regular file")
        _check(path, status)
        yield handle
    finally:
        os.close(handle)


def read(path: Path) -> bytes:
    """Read a file, checked for its owner.

    Raises
    ------
    UntrustedError
        Others could have written it.
    DamagedError
        It is a pipe, a folder, a link, or the like.
    FileNotFoundError, OSError
        It is not there, or cannot be read.
    """
    check_folder(path.parent)
    with _opened(path, os.O_RDONLY) as handle, open(handle, "rb", closefd=False) as f:
        return f.read()


def replace(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file atomically, creating its folders.

    Raises
    ------
    OSError
        There is no writing there.
    """
    _make(path.parent)
    handle, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if mode != 0o600:
            os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        remove(Path(temporary))
        raise


def _make(folder: Path) -> None:
    """Create a folder and its parents, accessible to this user only."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an inter-process lock; its file stays.

    Raises
    ------
    OSError
        There is no writing there, something else is there, or it is another user's.
    """
    import fcntl

    _make(path.parent)
    check_folder(path.parent)
    with _opened(path, os.O_RDWR | os.O_CREAT) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _seal(path: Path, data: bytes) -> bytes:
    name = f"{path.parent.name}/{path.name}\0".encode()
    return _MAGIC + hashlib.sha256(name + data).digest()


def read_sealed(path: Path) -> bytes:
    """Read a file of `write_sealed` and verify its checksum."""
    content = read(path)
    behind = path.suffix == LIBRARY
    data, seal = (content[:-SEAL], content[-SEAL:]) if behind else (
        content[SEAL:], content[:SEAL])
    if seal != _seal(path, data):
        raise DamagedError("its checksum is of other content, or of another name")
    return data


def write_sealed(path: Path, data: bytes) -> None:
    """Write a file with a checksum, atomically.

    Raises
    ------
    OSError
        There is no writing there, or others could change the file.
    """
    _make(path.parent)
    check_folder(path.parent)
    seal = _seal(path, data)
    replace(path, data + seal if path.suffix == LIBRARY else seal + data)


def remove(path: Path) -> bool:
    """Remove a file; False if another process was first."""
    try:
        path.unlink()
    except OSError:
        with suppress(OSError):  # an empty folder; one with something in it stays
            path.rmdir()
            return True
        return False
    return True


def scan(folder: Path) -> list[os.DirEntry[str]]:
    """List a folder; empty if it does not exist.

    Raises
    ------
    OSError
        It cannot be read, or no folder can have such a name.
    """
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
