"""Test kernels in HIP, built for the emulation, and the ways in which they may run.

`sanitized` starts a Python in which they, and what emulates the device, are built with
the sanitizers of addresses and of undefined behaviour.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from nbfused.config import config
from nbfused.rocm.build import toolchain
from nbfused.rocm.build.kernel import HIP
from nbfused.rocm.runtime import device as runtime

HERE = Path(__file__).parent
#: Where a process with sanitizers finds its libraries.
SANITIZED = os.environ.get("NBFUSED_TEST_SANITIZED")
_SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O0")

#: Sizes of waves and who runs first; a kernel that is right runs under each of them.
WAYS = [(wave, schedule) for wave in (32, 64) for schedule in ("step", "first", "last")]

_folder = tempfile.TemporaryDirectory(prefix="nbfused_")


def find() -> toolchain.Toolchain:
    """The compiler of the emulation, or a skipped test."""
    if config.rocm_emulate != "1":
        pytest.skip("kernels of the emulation's own tests run on nothing else")
    return toolchain.find()


def compiled(chain: toolchain.Toolchain, path: Path, sources: list[Path],
             *flags: str) -> Path:
    """A library; what the compiler says of it fails the test."""
    done = chain.compile(sources, path, flags)
    assert done.returncode == 0, done.stdout
    assert not done.stdout
    return path


def kernels(chain: toolchain.Toolchain, name: str, folder: Path, *flags: str) -> Path:
    """A library of the test kernels of one file."""
    return compiled(chain, folder / f"{name}.so", [HERE / f"{name}.hip"],
                    *chain.flags(()), "-Wall", "-Wextra", *flags)


@cache
def _runtime() -> ctypes.CDLL:
    if not SANITIZED:
        return runtime.runtime()
    return ctypes.CDLL(f"{SANITIZED}/runtime.so", mode=ctypes.RTLD_GLOBAL)


@cache
def _library(name: str) -> ctypes.CDLL:
    _runtime()
    return ctypes.CDLL(f"{SANITIZED}/{name}.so" if SANITIZED
                       else str(kernels(find(), name, Path(_folder.name))))


def start(file: str, kernel: str, *arguments: object) -> int:
    """Run a test kernel on arrays (whose addresses it gets) and ctypes; its code."""
    return int(getattr(_library(file), kernel)(*(
        ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a
        for a in arguments)))


def said(code: int) -> str:
    """What the runtime says of an error that the calling thread has met."""
    text = _runtime().nbf_error_string
    text.argtypes, text.restype = (ctypes.c_int,), ctypes.c_char_p
    return str(text(code).decode())


def run(file: str, kernel: str, *arguments: object) -> None:
    """Run a test kernel that is right."""
    code = start(file, kernel, *arguments)
    assert code == 0, said(code)


@cache
def _sanitized_libraries() -> str:
    """The folder that they are in."""
    chain, folder = find(), Path(_folder.name) / "sanitized"
    folder.mkdir()
    compiled(chain, folder / "runtime.so", [HIP / n for n in chain.runtime_sources()],
             *chain.runtime_flags(), *_SANITIZERS)
    for name in ("planted", "blocks"):
        kernels(chain, name, folder, *_SANITIZERS)
    return str(folder)


def sanitized(*command: str) -> subprocess.CompletedProcess[str]:
    """A Python that loads sanitized libraries runs `command`."""
    compiler = find().compiler
    paths = [subprocess.run([compiler, f"-print-file-name=lib{name}.so"],
                            capture_output=True, text=True, check=True).stdout.strip()
             for name in ("asan", "ubsan")]
    if not all(Path(path).is_absolute() for path in paths):
        pytest.skip(f"{compiler} has no sanitizers")
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False,
        timeout=300, cwd=HERE.parent.parent,
        env={**os.environ, "NBFUSED_TEST_SANITIZED": _sanitized_libraries(),
             "LD_PRELOAD": ":".join(paths), "ASAN_OPTIONS": "detect_leaks=0"})
