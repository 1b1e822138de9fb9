"""PTX to machine code by ptxas, where one is installed that the driver can follow.

The driver assembles one kernel at a time, whichever threads ask; each process that
compiles has a ptxas of its own (benchmarks/notes/host.md#first-calls).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from os.path import realpath
from pathlib import Path

from ...config import config, logger
from ...errors import CompileError
from ...support.records import record

__all__ = ["DRIVER", "Assembly", "Version", "asked", "assemble", "installed",
           "target_version"]

_log = logger("compile")
#: Major and minor of CUDA.
Version = tuple[int, int]
#: The value of ``NBFUSED_PTXAS`` that leaves all to the driver.
DRIVER = "driver"
_NONE: Version = (0, 0)
_RELEASE = re.compile(r"release (\d+)\.(\d+)")
_VERSION = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)


@record(frozen=True)
class Assembly:
    """The code of one kernel.

    Attributes
    ----------
    ptx
        What any driver can assemble.
    machine
        Machine code for one architecture; empty without ptxas.
    cuda
        The version of CUDA that `machine` is of.
    """

    ptx: str
    machine: bytes = b""
    cuda: Version = _NONE

    def packed(self) -> bytes:
        """The bytes to keep."""
        head = "{} {} {}\n".format(*self.cuda, len(self.machine))
        return head.encode() + self.machine + self.ptx.encode()

    @staticmethod
    def unpacked(name: str, data: bytes) -> Assembly:
        """The code that was kept of the kernel `name`; a ValueError if it is none."""
        head, _, rest = data.partition(b"\n")
        major, minor, length = map(int, head.split())
        ptx = rest[length:].decode()
        if not re.search(rf"\.entry\s+{re.escape(name)}\b", ptx):
            raise ValueError(f"no kernel {name!r}")
        return Assembly(ptx, rest[:length], (major, minor))


def asked() -> str | None:
    """``NBFUSED_PTXAS``, for workers too, which may be in another folder."""
    text = config.ptxas
    return os.path.abspath(text) if text and os.sep in text else text


def assemble(ptx: str, name: str, target: str, cuda: Version,
             ptxas: str | None) -> Assembly:
    """Machine code beside the PTX of the kernel `name`, as far as it can be had.

    Parameters
    ----------
    target
        The architecture, ``"sm_90a"``.
    cuda
        The newest CUDA version that the driver supports.
    ptxas
        As `asked`.

    Raises
    ------
    CompileError
        The ptxas of the settings does not run.
    """
    found = _chosen(cuda, ptxas)
    if found is None:
        return Assembly(ptx)
    from subprocess import SubprocessError  # takes time

    version, path = found
    try:
        machine = _run(path, target_version(ptx, min(version, cuda)), target)
    except (OSError, SubprocessError) as error:
        # An architecture that it does not know, no memory: the driver is asked.
        said = getattr(error, "stdout", None) or error
        _log.debug("%s does not assemble %s: %s", path, name, said)
        return Assembly(ptx)
    return Assembly(ptx, machine, version)


def _run(path: str, ptx: str, target: str) -> bytes:
    import subprocess

    from ...support.temporary import temporary_folder  # takes time

    with temporary_folder() as folder:
        source, made = folder / "kernel.ptx", folder / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        subprocess.run([path, f"-arch={target}", "-o", str(made), str(source)],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, check=True)
        return made.read_bytes()


def _chosen(cuda: Version, ptxas: str | None) -> tuple[Version, str] | None:
    """The ptxas to use, and its version.

    A newer one may write what the driver cannot load, and one of another major version
    other code than the kernels were measured with.
    """
    if ptxas == DRIVER:
        return None
    if ptxas is not None:
        version = _version(ptxas)
        if version is None:
            raise CompileError(f"NBFUSED_PTXAS={ptxas}: no ptxas that runs is there; "
                               f"set it to the path of one, to {DRIVER!r}, or unset it")
        return version, ptxas
    return max((found for found in installed()
                if found[0][0] == cuda[0] and found[0] <= cuda), default=None)


@lru_cache(maxsize=1)
def installed() -> tuple[tuple[Version, str], ...]:
    """The versions and paths of each ptxas that is found and runs."""
    paths = dict.fromkeys(map(realpath, _paths()))
    return tuple((version, path) for path in paths if (version := _version(path)))


def _paths() -> Iterator[str]:
    """Files that may be a ptxas: of CUDA's packages and toolkits, the path, others."""
    from shutil import which

    try:
        from cuda.pathfinder import find_nvidia_binary_utility

        found = find_nvidia_binary_utility("ptxas")
    except Exception as error:  # a package without it, or none
        _log.debug("no ptxas of CUDA's packages: %s", error)
        found = None
    for path in (found, which("ptxas")):
        if path:
            yield path
    for package, place in (("triton", "backends/nvidia/bin"), ("torch", "bin")):
        for folder in _folders(package):
            if Path(folder, place, "ptxas").is_file():
                yield str(Path(folder, place, "ptxas"))


def _folders(package: str) -> Iterable[str]:
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):  # a module made by a program stands in for it
        return ()
    return (spec and spec.submodule_search_locations) or ()


@lru_cache
def _version(path: str) -> Version | None:
    """The version of a ptxas; None if it is none, or does not run."""
    import subprocess

    try:
        said = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, check=True, timeout=10).stdout
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        _log.debug("%s does not run: %s", path, error)
        return None
    found = _RELEASE.search(said)
    return (int(found[1]), int(found[2])) if found else None


#: The newest PTX version of each CUDA version; from 13.0 on it is (minor of) 9.
_PTX_VERSIONS = {(12, 0): (8, 0), (12, 1): (8, 1), (12, 2): (8, 2), (12, 3): (8, 3),
                 (12, 4): (8, 4), (12, 5): (8, 5), (12, 6): (8, 5), (12, 7): (8, 6),
                 (12, 8): (8, 7), (12, 9): (8, 8)}


def target_version(code: str, cuda: tuple[int, int]) -> str:
    """PTX that says it is no newer than what CUDA `cuda` understands.

    NVVM writes its own newest version whatever the code needs, so a driver that is
    older than the installed libnvvm would refuse everything.  The kernels use nothing
    younger than PTX 7.8, those with a `feature` nothing younger than 8.0.
    """
    newest = _PTX_VERSIONS.get(cuda, (cuda[0] - 4, cuda[1]))
    found = _VERSION.search(code)
    if found is None or (int(found[1]), int(found[2])) <= newest:
        return code
    return (code[:found.start()] + f".version {newest[0]}.{newest[1]}"
            + code[found.end():])
