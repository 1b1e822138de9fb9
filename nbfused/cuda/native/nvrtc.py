"""CUDA C++ to machine code, by NVRTC; needs no device."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import nbfused.cache as cache

from ...backend import Native
from ...config import logger
from ...errors import BackendNotAvailableError, CompileError
from ...support.records import record
from ..runtime.compile import Arch

__all__ = ["Machine", "compile_native"]

_log = logger("compile")
_ELF = b"\x7fELF"


@record(frozen=True)
class Machine:
    """Machine code, and the mangled name of each expression that was asked for."""

    code: bytes
    names: dict[str, str]


@lru_cache(maxsize=1)
def _nvrtc() -> Any:
    """The bindings of NVRTC, and that it is there.

    Raises
    ------
    BackendNotAvailableError
        If the bindings or the library are missing.
    """
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as error:  # the bindings raise errors of several packages
        raise BackendNotAvailableError(
            "CUDA C++ needs NVRTC, which cannot be loaded; install nbfused[cuda13] or "
            f"nbfused[cuda12] ({error})") from error
    return nvrtc


def _check(answer: tuple[Any, ...]) -> Any:
    """Give what a call of NVRTC returned besides its status."""
    if int(answer[0]):
        raise CompileError(f"NVRTC says {answer[0].name}")
    return answer[1] if len(answer) == 2 else None


def compile_native(native: Native, arch: Arch) -> Machine:
    """Machine code for `arch`, from the cache or compiled now.

    What the text includes from folders of the user's own is not part of the cache's
    key, so that such text is compiled anew in each process.

    Raises
    ------
    CompileError
        With the compiler's log, which names the line.
    BackendNotAvailableError
        Without NVRTC.
    """
    assert isinstance(native.code, str)
    if _includes(native.options):
        return _compile(native, arch)
    key = cache.digest("nvrtc", native.code, *native.options, "names", *native.names,
                       f"sm_{arch[0]}{arch[1]}", _version())
    found = cache.get(key, partial(_unpack, native))
    if found is not None:
        return found
    machine = _compile(native, arch)
    cache.put(key, json.dumps(machine.names).encode() + b"\n" + machine.code)
    return machine


def _unpack(native: Native, stored: bytes) -> Machine:
    """The contents of an artefact; a ValueError if it is not of this text."""
    line, _, code = stored.partition(b"\n")
    names = {str(name): str(mangled) for name, mangled in json.loads(line).items()}
    if names.keys() != set(native.names) or not code.startswith(_ELF):
        raise ValueError("no machine code, or of other kernels")
    return Machine(code, names)


def _version() -> str:
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


def _includes(options: tuple[str, ...]) -> bool:
    return any(o.startswith(("-I", "--include-path", "-include", "--pre-include"))
               for o in options)


def _compile(native: Native, arch: Arch) -> Machine:
    nvrtc = _nvrtc()
    options = [o.encode() for o in _options(native.options, arch)]
    with _program(native) as program:
        for name in native.names:
            _check(nvrtc.nvrtcAddNameExpression(program, name.encode()))
        status, *_ = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(status):
            raise _refused(native, status.name, _text_log(program))
        names = {n: _check(nvrtc.nvrtcGetLoweredName(program, n.encode())).decode()
                 for n in native.names}
        code = b" " * _check(nvrtc.nvrtcGetCUBINSize(program))
        _check(nvrtc.nvrtcGetCUBIN(program, code))
    _log.debug("compiled %s for sm_%d%d: %d bytes", native.label, *arch, len(code))
    return Machine(code, names)


@contextmanager
def _program(native: Native) -> Iterator[Any]:
    nvrtc = _nvrtc()
    assert isinstance(native.code, str)
    program = _check(nvrtc.nvrtcCreateProgram(
        native.code.encode(), native.label.encode(), 0, [], []))
    try:
        yield program
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text_log(program: Any) -> str:
    nvrtc = _nvrtc()
    log = b" " * _check(nvrtc.nvrtcGetProgramLogSize(program))
    _check(nvrtc.nvrtcGetProgramLog(program, log))
    return log.rstrip(b"\0 \n").decode(errors="replace")


def _refused(native: Native, status: str, log: str) -> CompileError:
    return CompileError(
        f"NVRTC does not compile {native.label} (options {native.options}): {status}\n"
        f"{log}", source=str(native.code), log=log)


_ARCHITECTURE = ("-arch", "--gpu-architecture")


def _options(given: tuple[str, ...], arch: Arch) -> tuple[str, ...]:
    """The user's options, the device's architecture, the toolkit's headers."""
    if any(o.startswith(_ARCHITECTURE) for o in given):
        raise CompileError(f"options: {given} name an architecture; it follows from "
                           "the device, leave it out")
    return (*given, f"--gpu-architecture=sm_{arch[0]}{arch[1]}",
            *(f"--include-path={folder}" for folder in _headers()))


@lru_cache(maxsize=1)
def _headers() -> tuple[str, ...]:
    """The folders of ``cuda_fp16.h`` and its kind, if they are installed."""
    found = []
    try:
        from cuda.pathfinder import find_nvidia_header_directory

        found = [find_nvidia_header_directory(part) for part in ("cudart", "cccl")]
    except Exception as error:  # an old package without it: the toolkit may be there
        _log.debug("no headers of packages: %s", error)
    found += [os.path.join(os.environ[name], "include")
              for name in ("CUDA_PATH", "CUDA_HOME") if name in os.environ]
    return tuple(dict.fromkeys(f for f in found if f and Path(f).is_dir()))
