"""The compilers that build HIP text: hipcc; g++ and our emulation; nvcc.

All three build the same text.  ``NBFUSED_ROCM_EMULATE`` chooses, so that what runs on
AMD devices is tested where there is none.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import nbfused.cache as cache

from ...config import config, logger
from ...errors import BackendNotAvailableError
from ...support.records import record
from .kernel import HIP

__all__ = ["AMD", "EMULATION", "NVIDIA", "Toolchain", "find", "rocm_folders"]

_log = logger("compile")

AMD, EMULATION, NVIDIA = "amd", "emulation", "nvidia"
#: What ``NBFUSED_ROCM_EMULATE`` may be.
_NAMES = {"0": AMD, "1": EMULATION, "nvidia": NVIDIA}

_SHARED = ("-std=c++17", "-shared", f"-I{HIP}")


@record(frozen=True)
class Toolchain:
    """A compiler and how it is called.

    Attributes
    ----------
    name
        ``"amd"``, ``"emulation"`` or ``"nvidia"``.
    compiler
        The program's path.
    """

    name: str
    compiler: str

    @property
    def version(self) -> str:
        """The compiler's own words for its version; asked once, then from the cache."""
        return _version(self.compiler)

    def flags(self, archs: Sequence[str]) -> tuple[str, ...]:
        """Options for kernels that run on `archs`."""
        if self.name == AMD:
            return ("-O3", "-fPIC", "-fvisibility=hidden", "-no-hip-rt",
                    *(f"--offload-arch={arch}" for arch in archs))
        if self.name == NVIDIA:
            return ("-O3", "-x", "cu", "-Xcompiler", "-fPIC,-fvisibility=hidden",
                    *(_gencode(arch) for arch in archs))
        return ("-x", "c++", *_emulated(self.compiler), "-fvisibility=hidden")

    def runtime_flags(self) -> tuple[str, ...]:
        """Options for the runtime, which is compiled for the host alone."""
        if self.name == AMD:
            return ("-x", "c++", "-D__HIP_PLATFORM_AMD__", "-O2", "-fPIC",
                    "-fvisibility=hidden", "-no-hip-rt")
        if self.name == NVIDIA:
            return ("-x", "cu", "-O2", "-Xcompiler", "-fPIC,-fvisibility=hidden")
        # Visible: the kernels' libraries call what emulates the device.
        return ("-x", "c++", *_emulated(self.compiler), "-O2", "-pthread")

    def runtime_sources(self) -> tuple[str, ...]:
        """The files that the runtime library is made of."""
        return ("runtime.hip", *(("emulation.cpp",) if self.name == EMULATION else ()))

    def compile(self, sources: Sequence[Path], library: Path,
                flags: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Call the compiler; its messages are in ``stdout``."""
        command = [self.compiler, *flags, *_SHARED, *self._links(library.parent),
                   "-o", str(library), *map(str, sources)]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False,
                              stderr=subprocess.STDOUT, env=self._environment())

    def _links(self, folder: Path) -> tuple[str, ...]:
        """Keep hipcc from linking a runtime: a process has one, which we choose."""
        if self.name != AMD:
            return ()
        # hipcc adds -lamdhip64 whatever it is told, and finds this script first.
        (folder / "libamdhip64.so").write_text("/* nothing */\n")
        return (f"-L{folder}",)

    def _environment(self) -> dict[str, str]:
        # hipcc takes the nvidia platform where it finds nvcc.
        return {**os.environ, "HIP_PLATFORM": "amd", "LC_ALL": "C"}


def find() -> Toolchain:
    """The toolchain that the settings ask for; calls no program.

    Raises
    ------
    BackendNotAvailableError
        The compiler is not there; the text says what to install.
    """
    name = _NAMES[config.rocm_emulate]
    search = {AMD: _hipcc, EMULATION: _cxx, NVIDIA: _nvcc}[name]
    return Toolchain(name, search())


def rocm_folders() -> list[Path]:
    """Folders that ROCm may be installed in."""
    named = os.environ.get("ROCM_PATH")
    return [Path(named)] if named else [Path("/opt/rocm"), Path("/usr")]


def _hipcc() -> str:
    if config.hipcc is not None:
        return _given("NBFUSED_HIPCC", config.hipcc)
    found = _first([str(f / "bin" / "hipcc") for f in rocm_folders()]
                   if os.environ.get("ROCM_PATH") else ["hipcc", "/opt/rocm/bin/hipcc"])
    if found is None:
        where = os.environ.get("ROCM_PATH", "PATH and /opt/rocm")
        raise BackendNotAvailableError(
            f"no hipcc in {where}; install ROCm (Debian: apt install hipcc), or set "
            "ROCM_PATH or NBFUSED_HIPCC; NBFUSED_ROCM_EMULATE=1 needs a C++ compiler "
            "only")
    return found


def _cxx() -> str:
    if os.environ.get("CXX"):
        return _given("CXX", os.environ["CXX"])
    found = _first(["g++", "c++", "clang++"])
    if found is None:
        raise BackendNotAvailableError(
            "NBFUSED_ROCM_EMULATE=1 needs a C++ compiler, and there is no g++, c++ or "
            "clang++ in PATH; install one (Debian: apt install g++), or set CXX")
    return found


def _nvcc() -> str:
    homes = [os.environ[v] for v in ("CUDA_HOME", "CUDA_PATH") if v in os.environ]
    found = _first([*(f"{home}/bin/nvcc" for home in homes), "nvcc",
                    "/usr/local/cuda/bin/nvcc"])
    if found is None:
        raise BackendNotAvailableError(
            "NBFUSED_ROCM_EMULATE=nvidia needs nvcc, which is not in PATH; install the "
            "CUDA toolkit, or set CUDA_HOME")
    return found


def _given(variable: str, program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise BackendNotAvailableError(
            f"{variable}={program}: there is no such program; set it to the path of "
            "one, or unset it")
    return found


def _first(programs: Sequence[str]) -> str | None:
    return next(filter(None, map(shutil.which, programs)), None)


def _gencode(arch: str) -> str:
    number = arch.removeprefix("sm_")
    return f"-gencode=arch=compute_{number},code=sm_{number}"


def _emulated(compiler: str) -> tuple[str, ...]:
    """The emulation: compiles fast, as tests need it, and rounds as NumPy does."""
    tls: tuple[str, ...] = ()
    if platform.machine() == "x86_64" and "clang" not in Path(compiler).name:
        # Shared arrays are thread-local, more than the loader reserves for others.
        tls = ("-mtls-dialect=gnu2",)
    return ("-DNBF_EMULATION", "-O1", "-fPIC", "-ffp-contract=off",
            "-fno-strict-aliasing", *tls)


@lru_cache(maxsize=8)
def _version(compiler: str) -> str:
    status = Path(compiler).resolve().stat()
    key = cache.digest("version", compiler, f"{status.st_mtime_ns} {status.st_size}")
    known = cache.noted(key, bytes.decode)
    if known is not None:
        return known
    try:
        said = subprocess.run(
            [compiler, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            check=False, env={**os.environ, "HIP_PLATFORM": "amd"}).stdout
    except OSError as error:
        raise BackendNotAvailableError(
            f"{compiler} does not run here ({error}); set NBFUSED_HIPCC, or CXX for "
            "emulation, to a compiler that does") from error
    text = said.decode(errors="replace")
    cache.note(key, text.encode())
    return text
