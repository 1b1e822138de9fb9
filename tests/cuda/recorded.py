"""The kernels that calls would launch, without a device: recorded, not run.

Arrays are NumPy's and results are whatever memory held; only the kernels count.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess

import numpy as np
import pytest

import nbfused as nf
from nbfused.cuda import (
    CudaBackend,
    bound,
    compile,
    contract_tma,
    contract_wgmma_launch,
    driver,
    launch,
    scratch,
)
from nbfused.cuda.compile import ptx, target_version
from nbfused.errors import CompileError

PTXAS = shutil.which("ptxas")


class HostArrays(CudaBackend):
    """Takes NumPy arrays for device arrays."""

    name = "host-arrays"

    def available(self):
        return None

    def devices(self):
        return ("cpu",)

    def owns(self, device):
        return device == "cpu"

    def empty(self, shape, dtype, device):
        return np.empty(shape, dtype)

    def from_host(self, array, device):
        return np.array(array)

    def to_host(self, array):
        return np.array(array)


class NoDevice:
    """A device like an H200 as the launchers see it; its memory is the host's."""

    ordinal, address, processors = 0, 0, 132
    name, cuda = "no device", (13, 0)
    shared_limit, shared_total, cache_size = 232448, 233472, 50 << 20

    def __init__(self, arch):
        self.arch = arch

    @contextlib.contextmanager
    def current(self):
        yield

    @contextlib.contextmanager
    def workspace(self, size, stream):
        yield 1 << 20

    def synchronize(self):
        pass


@contextlib.contextmanager
def recording(monkeypatch, arch=(9, 0)):
    """The kernels launched in the ``with`` block, each once, for a device of `arch`."""
    kernels = {}

    def record(self, device, stream, blocks, values, shared=0, block=None):
        assert len(values) == len(self.kernel.parameters)
        assert 0 < np.prod(blocks) < 2**31
        kernels.setdefault(self.kernel.text, self.kernel)

    with monkeypatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(driver, "_devices", {0: NoDevice(arch)})
        patch.setattr(launch.Program, "launch", record)
        patch.setattr(launch.Program, "clusters", lambda self, device, shared: 16)
        patch.setattr(scratch, "_SCRATCHES", {})
        patch.setattr(scratch.Scratch, "_grown",
                      lambda self, old, size, stream: scratch._Block(1 << 20, size))
        patch.setattr(bound.Bindable, "bind", lambda self, call: None)
        for module in (contract_tma, contract_wgmma_launch):
            patch.setattr(module, "tensor_map", lambda *array: bytes(128))
        with nf.use_backend(HostArrays()):
            yield kernels


def needs_compiler(**where):
    """Skip where kernels cannot be compiled; `where` as of `pytest.skip`."""
    try:
        compile._numba_cuda()
    except CompileError as missing:
        pytest.skip(str(missing), **where)


def assembled(kernel, arch=(9, 0)):
    """PTX, and what ptxas says of its registers and spills (None without ptxas)."""
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
