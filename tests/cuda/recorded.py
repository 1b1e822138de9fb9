"""Recorded CUDA kernels, compiled and assembled without a device."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess

import pytest

from nbfused.cuda.runtime import compile
from nbfused.cuda.runtime.compile import ptx, target_version
from nbfused.errors import CompileError
from nbfused.testing.recorded_cuda import HostArrays, NoDevice, recording

__all__ = ["PTXAS", "HostArrays", "NoDevice", "assembled", "needs_compiler",
           "overwritten_parameters", "recording", "registers"]

PTXAS = shutil.which("ptxas")


def needs_compiler(**where):
    """Skip where kernels cannot be compiled; `where` as of `pytest.skip`."""
    try:
        compile._numba_cuda()
    except CompileError as missing:
        pytest.skip(str(missing), **where)


def names_of(call):
    """The names of the kernels that a call launches."""
    with recording() as kernels:
        call()
    return [k.name for k in kernels.values()]


def overwritten_parameters(kernel):
    """The parameters that a kernel overwrites: names of its own would hide them."""
    *_, function = ast.parse(kernel.text).body
    stored = {node.id for node in ast.walk(function)
              if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored & {a.arg for a in function.args.args}


def assembled(kernel, arch=(9, 0)):
    """PTX, and what ptxas says of its registers and spills (None without ptxas)."""
    assert not overwritten_parameters(kernel), kernel.text
    code = ptx(kernel, arch)
    if PTXAS is None:
        return code, None
    target = f"-arch=sm_{arch[0]}{arch[1]}{kernel.feature}"
    done = subprocess.run(
        [PTXAS, target, "-v", "-o", "/dev/null", "/dev/stdin"],
        input=target_version(code, assembler_version()), text=True,
        capture_output=True, check=False)
    assert done.returncode == 0, done.stderr + kernel.text
    return code, done.stderr + done.stdout


def assembler_version():
    """The CUDA version of ptxas."""
    said = subprocess.run([PTXAS, "--version"], text=True, capture_output=True,
                          check=True).stdout
    found = re.search(r"release (\d+)\.(\d+)", said)
    return int(found[1]), int(found[2])


def registers(said):
    """Registers per thread and bytes of spill stores."""
    used = re.search(r"Used (\d+) registers", said)
    spilled = re.search(r"(\d+) bytes spill stores", said)
    return int(used[1]), int(spilled[1])
