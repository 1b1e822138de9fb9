"""What compilers for GPUs make of maps and of kernels of threads; no device needed."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.rocm import RocmBackend
from nbfused.rocm.build.ahead import RecordingDevice
from nbfused.rocm.build.compile import unit
from nbfused.rocm.build.kernel import HIP
from nbfused.rocm.runtime.device import standing_in
from nbfused.support.dtypes import DTYPES
from tests.rocm.assembly import assembly, spilled

ALL = 0xffffffff


def put(*shape, dtype="float32"):
    return nf.array(np.ones(shape).astype(DTYPES[dtype]), device="rocm:0")


@nf.rawkernel
def turn(x, y):
    tile = nf.shared.array(64, "float32")
    t = nf.threadIdx.x
    tile[63 - t] = nf.shfl_xor_sync(ALL, x[t], 5)
    nf.syncthreads()
    nf.atomic.add(tile, t ^ 1, 2)
    nf.syncwarp()
    if nf.laneid < y.shape[0]:
        y[t] = tile[t]
        nf.atomic.max(y, 0, x[t])


def maps():
    for dtype in ("float32", "float16", "bfloat16", "float64", "int8", "complex64"):
        x = put(8, 64, dtype=dtype)
        nf.ops.multiply(x, x)
        nf.ops.multiply(x[:, ::-2], x[:, ::2])
        nf.ops.add(x, x[0])
    nf.ops.gelu(put(8, 64))
    nf.ops.where(put(8, 64, dtype="bool"), put(8, 1), 2.0)
    table = nf.Variable(put(8, 64), requires_grad=True)
    rows = nf.array(np.arange(3), device="rocm:0")
    nf.ops.take(table, rows, axis=0).backward(put(3, 64))


def threads():
    for dtype in ("float32", "float16", "bfloat16", "float64", "int8", "int64"):
        turn((1,), (64,), (put(64, dtype=dtype), put(64, dtype=dtype)))


def kernels_of(call, skeleton):
    """What a call launches; nothing runs."""
    recorder = RecordingDevice()
    with (config.override(rocm_emulate="0"), standing_in(recorder),
          nf.use_backend(RocmBackend())):
        call()
    return [k for k in recorder.kernels.values() if k.skeleton == skeleton]


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030"])
@pytest.mark.parametrize("call", [maps, threads])
def test_kernels_compile_for_amd_without_spills(tmp_path, call, arch):
    kernels = kernels_of(call, "map" if call is maps else "raw")
    assert len(kernels) == (23 if call is maps else 6)
    code = assembly(tmp_path, kernels, arch)
    assert not spilled(code)
    if call is maps:  # they know that their arrays lie in global memory
        assert not re.search(r"\bflat_(load|store|atomic)", code)


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64"])
def test_neighbours_are_moved_by_16_bytes(tmp_path, dtype):
    x = put(64, dtype=dtype)
    kernels = kernels_of(lambda: nf.ops.multiply(x, 2), "map")
    code = assembly(tmp_path, kernels, "gfx90a")
    assert "global_load_dwordx4" in code
    assert "global_store_dwordx4" in code


@pytest.mark.parametrize("call", [maps, threads])
def test_kernels_compile_for_nvidia(tmp_path, call):
    nvcc = shutil.which("nvcc") or pytest.skip("no nvcc in PATH")
    kernels = kernels_of(call, "map" if call is maps else "raw")
    source, code = tmp_path / "unit.cu", tmp_path / "unit.ptx"
    source.write_text(unit(kernels))
    done = subprocess.run(
        [nvcc, "-std=c++17", "-O3", "-arch=sm_90", "-ptx", f"-I{HIP}", "-Werror",
         "all-warnings", "-o", code, source], capture_output=True, text=True,
        check=False)
    assert done.returncode == 0, done.stderr
    assert code.read_text().count(".entry") == len(kernels)
    if call is maps:
        assert "ld.global.v4" in code.read_text()
