"""Kernel text to machine code: libraries, built once and found again.

A kernel's symbol is the hash of everything that it is made of, so that a library is
known by its symbols.  It is looked up among the libraries loaded, then in the index of
those built ahead, then under its own name in the cache; only then a compiler is called.
"""

from __future__ import annotations

import _ctypes
import ctypes
import hashlib
import re
import shlex
import struct
import threading
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import nbfused.cache as cache

from ...config import dump_source, logger
from ...errors import CompileError
from ...support.forks import hold_in_forks
from ...support.temporary import temporary_folder
from . import index
from .kernel import HIP, Kernel
from .toolchain import Toolchain, find

__all__ = ["build", "key_of", "load", "load_many", "runtime_library", "symbol", "unit"]

_log = logger("compile")
_lock = threading.RLock()
hold_in_forks(_lock)  # another thread may be compiling during a fork

#: Addresses of entries, by symbol and by what they were compiled for.
_entries: dict[tuple[str, str], int] = {}
#: The libraries loaded, by path; none is ever closed.
_loaded: dict[Path, ctypes.CDLL] = {}

#: What compilers say of an architecture that is too new for them, or none at all.
_UNKNOWN_ARCH = r"cannot find ROCm device library|[Ii]nvalid target ID|nvcc fatal.*arch"
_COMMENT = re.compile(r"^ *//.*\n", re.MULTILINE)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


@lru_cache(maxsize=64)
def _included(name: str) -> frozenset[str]:
    """The files that `name` includes, and itself."""
    path = HIP / name
    found = {name}
    if path.exists():
        for other in _INCLUDE.findall(path.read_text("utf-8")):
            if other not in found:
                found |= _included(other)
    return frozenset(found)


@lru_cache(maxsize=64)
def _digest(name: str) -> str:
    """Digest of a file's text and of what it includes."""
    texts = ((HIP / n) for n in sorted(_included(name)))
    return hashlib.sha256(b"\0".join(
        path.read_bytes() for path in texts if path.exists())).hexdigest()


def symbol(kernel: Kernel) -> str:
    """The name of the kernel's entry: readable, and the hash of its content.

    Comments have the numbers of the source's lines, and those move when it is edited.
    """
    text = _COMMENT.sub("", kernel.text)
    content = "\0".join((text, *kernel.parameters, str(kernel.threads),
                         _digest(f"{kernel.skeleton}.hip")))
    return f"k_{kernel.name}_{hashlib.sha256(content.encode()).hexdigest()[:20]}"


def unit(kernels: Iterable[Kernel]) -> str:
    """One translation unit of several kernels, each in a namespace of its own."""
    kernels = list(kernels)
    skeletons = sorted({kernel.skeleton for kernel in kernels})
    parts = [f'#include "{skeleton}.hip"\n' for skeleton in skeletons]
    for kernel in kernels:
        name = symbol(kernel)
        parts.append(
            f"namespace {name} {{\n#define NBF_SYMBOL {name}\n"
            f'#line 1 "{name}"\n{kernel.text}\n#undef NBF_SYMBOL\n}}\n')
    return "".join(parts)


def _target(toolchain: Toolchain, archs: Sequence[str]) -> str:
    """All that machine code depends on besides the text."""
    return "\n".join((toolchain.name, toolchain.version, *toolchain.flags(archs)))


def key_of(toolchain: Toolchain, symbols: Sequence[str], archs: Sequence[str]) -> str:
    """The cache's key of the library of these symbols."""
    return cache.digest("rocm library", _target(toolchain, archs), *sorted(symbols))


def load(kernel: Kernel, archs: tuple[str, ...]) -> int:
    """The address of the kernel's entry, from a library found or built now.

    Parameters
    ----------
    kernel
        What is to run.
    archs
        What it is to run on; the first of them is the device's.

    Raises
    ------
    CompileError
        The compiler refuses the kernel.
    """
    name = symbol(kernel)
    with _lock:
        found = _entries.get((name, archs[0]))
        if found is None:
            found = _found(name, archs) or _built(kernel, name, archs)
            _entries[name, archs[0]] = found
        return found


def _found(name: str, archs: tuple[str, ...]) -> int | None:
    """Without a compiler: built ahead, or by an earlier process."""
    toolchain = find()
    ahead = index.read(_target(toolchain, archs[:1])).get(name)
    for key in filter(None, (ahead, key_of(toolchain, (name,), archs))):
        path = cache.get_file(key, _whole)
        entry = None if path is None else _entry(path, name)
        if entry is not None:
            return entry
        if path is not None:
            _log.warning("%s is no library with the kernel %s and will be made again",
                         path, name)
            cache.discard(key)
    return None


def _whole(data: bytes) -> None:
    """Raise a ValueError for half a library, with which the loader ends the process.

    The last thing in an ELF file is the table of its sections.
    """
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<2H", data, 58)
    if not data.startswith(b"\x7fELF") or not 0 < table <= len(data) - size*count:
        raise ValueError("no whole library")


def _built(kernel: Kernel, name: str, archs: tuple[str, ...]) -> int:
    path = build((kernel,), archs)
    entry = _entry(path, name)
    if entry is None:
        raise CompileError(
            f"the library of the kernel {kernel.name!r} does not load, although it has "
            f"just been built: {path}", source=kernel.text)
    return entry


def _entry(path: Path, name: str) -> int | None:
    """The address of a symbol; None if it is not there, or it is no library at all."""
    try:
        library = _loaded.get(path) or ctypes.CDLL(str(path))
    except OSError as error:
        _log.debug("%s: %s", path, error)
        return None
    try:
        found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except AttributeError:
        if path not in _loaded:  # else the loader takes what replaces the file for it
            _ctypes.dlclose(library._handle)
        return None
    _loaded[path] = library
    return found


def build(kernels: Sequence[Kernel], archs: Sequence[str]) -> Path:
    """Compile kernels into one library and store it; its path.

    Raises
    ------
    CompileError
        With the text, the compiler's messages and, where one kernel is at fault, the
        lines of Python that it comes from.
    """
    toolchain, text = find(), unit(kernels)
    key = key_of(toolchain, [symbol(kernel) for kernel in kernels], archs)
    label = kernels[0].name if len(kernels) == 1 else f"{len(kernels)} kernels"
    dump_source(f"rocm_{label.replace(' ', '_')}_{key[:12]}.hip", text)
    library = _compiled(toolchain, (text,), toolchain.flags(archs), label, kernels)
    return cache.put_file(key, library)


def load_many(kernels: Sequence[Kernel], archs: Sequence[str]) -> None:
    """Build kernels into one library, if there is none yet, that later `load`s find.

    Raises
    ------
    CompileError
        Of the first kernel that the compiler refuses; the others are there.
    """
    toolchain, names = find(), [symbol(kernel) for kernel in kernels]
    key = key_of(toolchain, names, archs)
    try:
        if cache.get_file(key, _whole) is None:
            build(kernels, archs)
    except CompileError as error:
        if len(kernels) == 1 or not re.search(r"^k_\w+[:(]\d", error.log, re.MULTILINE):
            raise  # no kernel is at fault, but the call
        middle = len(kernels)//2
        try:
            load_many(kernels[:middle], archs)
        finally:
            load_many(kernels[middle:], archs)
        return
    for arch in archs:
        index.add(_target(toolchain, (arch,)), dict.fromkeys(names, key))


def _compiled(toolchain: Toolchain, texts: Sequence[str], flags: Sequence[str],
              label: str, kernels: Sequence[Kernel] = ()) -> bytes:
    """The content of a library of these translation units."""
    start = time.perf_counter()
    with temporary_folder() as folder:
        library = folder / "kernels.so"
        sources = [folder / f"unit{k}.hip" for k in range(len(texts))]
        for source, text in zip(sources, texts, strict=True):
            source.write_text(text, encoding="utf-8")
        done = toolchain.compile(sources, library, flags)
        if done.returncode or not library.exists():
            log = done.stdout or f"it said nothing; its status was {done.returncode}\n"
            raise _refusal(shlex.join(done.args), log, label, kernels)
        _log.info("%s: %s, %.2f s", Path(toolchain.compiler).name, label,
                  time.perf_counter() - start)
        return library.read_bytes()


def _refusal(command: str, log: str, label: str,
             kernels: Sequence[Kernel]) -> CompileError:
    source = "".join(kernel.text for kernel in kernels)
    shown = kernels[0].numbered() if len(kernels) == 1 else ""
    lines = "".join(f"\n  line {line}" for line in _python_lines(log, kernels))
    cause = f"\nfrom the Python text:{lines}" if lines else ""
    if re.search(_UNKNOWN_ARCH, log):
        cause = ("\nthe compiler does not know the architecture; install a newer ROCm, "
                 "or choose another one by NBFUSED_ROCM_ARCH")
    message = f"{label}: the compiler refuses it:{cause}\n{log}\n{shown}{command}"
    return CompileError(message, source=source, log=log, command=command)


def _python_lines(log: str, kernels: Sequence[Kernel]) -> list[str]:
    """The lines of Python, as the printed comments have them, that errors are in."""
    found: dict[str, None] = {}
    for kernel in kernels:
        errors = rf"^{re.escape(symbol(kernel))}[:(](\d+)[:)].*error"
        for number in map(int, re.findall(errors, log, re.MULTILINE)):
            line = kernel.python_line(number)
            if line is not None:
                found[line] = None
    return list(found)


def runtime_library() -> ctypes.CDLL:
    """The runtime's functions; every later library finds what it needs there.

    Raises
    ------
    CompileError
        The compiler refuses it, or makes what does not load.
    """
    toolchain = find()
    sources = toolchain.runtime_sources()
    flags = toolchain.runtime_flags()
    key = cache.digest("rocm runtime", toolchain.name, toolchain.version, *flags,
                       *map(_digest, sources))
    with _lock:
        found = cache.get_file(key, _whole)
        if found is not None:
            try:
                return _loaded_runtime(found)
            except OSError as error:
                _log.warning("%s does not load and will be made again: %s",
                             found, error)
                cache.discard(key)
        texts = [f'#include "{source}"\n' for source in sources]
        path = cache.put_file(key, _compiled(toolchain, texts, flags, "the runtime"))
        try:
            return _loaded_runtime(path)
        except OSError as error:
            cache.discard(key)
            raise CompileError(
                f"the runtime's library, just built by {toolchain.compiler}, does not "
                f"load: {error}; expected a compiler for C++ that links its libraries, "
                "and a HIP runtime of its version") from error


def _loaded_runtime(path: Path) -> ctypes.CDLL:
    """The library, if it is the runtime's; else an OSError."""
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    if not hasattr(library, "nbf_launch"):
        _ctypes.dlclose(library._handle)  # or it is taken for what replaces the file
        raise OSError("another library")
    return library
