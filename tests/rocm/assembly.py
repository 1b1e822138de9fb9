"""What hipcc makes of kernels: their machine code as text, and what it needs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from nbfused.rocm.compile import unit
from nbfused.rocm.kernel import HIP, Kernel
from nbfused.rocm.toolchain import AMD, Toolchain


def assembly(folder, kernels: Sequence[Kernel], arch: str) -> str:
    """Of a unit of `kernels` for one architecture; skips where hipcc is missing."""
    hipcc = shutil.which("hipcc")
    if hipcc is None:
        pytest.skip("no hipcc in PATH")
    tool = Toolchain(AMD, hipcc)
    source = folder / "unit.hip"
    source.write_text(unit(kernels))
    command = [hipcc, *tool.flags((arch,)), "-std=c++17", "-Wall", "-Wextra",
               "-Wno-unused-command-line-argument",
               f"-I{HIP}", "--offload-device-only", "-S", "-o", "-", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env=tool._environment())
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr
    return done.stdout


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
