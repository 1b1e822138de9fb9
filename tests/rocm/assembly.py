"""What compilers make of kernels for AMD: machine code as text, and what it needs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from nbfused.rocm.build.compile import unit
from nbfused.rocm.build.kernel import HIP, Kernel
from nbfused.rocm.build.toolchain import AMD, Toolchain

#: What every hipcc knows, Debian's 5.2 included.
EVERYWHERE = ("gfx906", "gfx908", "gfx90a", "gfx1030")
_TEXT = ("-std=c++17", "-Wall", "-Wextra", "-Wno-unused-command-line-argument",
         f"-I{HIP}", "--offload-device-only", "-S", "-o", "-")


def assembly(folder: Path, kernels: Sequence[Kernel], arch: str) -> str:
    """Of a unit of `kernels` for one architecture; skips where there is no compiler."""
    source = folder / "unit.hip"
    source.write_text(unit(kernels))
    command = _hipcc(arch) if arch in EVERYWHERE else _newer_clang(arch)
    done = subprocess.run([*command, *_TEXT, str(source)], capture_output=True,
                          text=True, check=False,
                          env=Toolchain(AMD, command[0])._environment())
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr
    assert done.stdout.count(".amdhsa_kernel") == len(kernels)
    return done.stdout


def _hipcc(arch: str) -> list[str]:
    hipcc = shutil.which("hipcc") or pytest.skip("no hipcc in PATH")
    return [hipcc, *Toolchain(AMD, hipcc).flags((arch,))]


def _newer_clang(arch: str) -> list[str]:
    """On HIP's headers, without the device library: assembly does not need it."""
    names = (f"clang++-{version}" for version in range(30, 18, -1))
    clang = next(filter(None, map(shutil.which, names)), None)
    if clang is None or not Path("/usr/include/hip").exists():
        pytest.skip(f"no clang++ of version 19 or newer with HIP's headers for {arch}")
    wave = 64 if arch.startswith("gfx9") else 32
    return [clang, "-x", "hip", "-O3", "--rocm-path=/usr", "-nogpulib",
            f"--offload-arch={arch}", f"-D__AMDGCN_WAVEFRONT_SIZE={wave}",
            "-D__llvm_amdgcn_rcp_f16=__builtin_amdgcn_rcph"]


def spilled(text: str) -> dict[str, int]:
    """Kernels whose registers do not suffice, with the bytes or registers beyond."""
    found = {}
    keys = "private_segment_fixed_size|sgpr_spill_count|vgpr_spill_count"
    for part in re.split(r"^  - \.", text.partition("amdhsa.kernels:")[2],
                         flags=re.MULTILINE)[1:]:
        name = re.search(r"\.name: +(\S+)", part)
        beyond = sum(map(int, re.findall(rf"\.(?:{keys}): +(\d+)", part)))
        if beyond and name:
            found[name[1]] = beyond
    return found
