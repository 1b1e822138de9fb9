"""From text to PTX: names, versions, errors."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from nbfused.config import config
from nbfused.cuda import compile
from nbfused.cuda.compile import Kernel, ptx, target_version
from nbfused.errors import CompileError

KERNEL = Kernel("double_it", """def double_it(p0, p1, n0):
    i = i64(cuda.blockIdx.x)*32 + i64(cuda.threadIdx.x)
    if i < n0:
        p1[i] = p0[i]*f32(2)
""", ("*float32", "*float32", "int64"), 32)


def needs_compiler():
    try:
        compile._numba_cuda()
    except CompileError as missing:
        pytest.skip(str(missing))


def test_the_entry_has_the_kernels_name():
    needs_compiler()
    code = ptx(KERNEL, (9, 0))
    assert re.findall(r"\.entry (\w+)", code) == ["double_it"]
    assert re.search(r"\.target sm_90", code)
    assert re.search(r"\.maxntid 32", code)
    # 64-bit parameters, nothing of Numba's array records.
    assert re.findall(r"\.param \.(\w+) ", code) == ["u64"]*3


def test_an_error_shows_the_text():
    needs_compiler()
    text = "def broken(p0):\n    p0[0] = undefined\n"
    broken = Kernel("broken", text, ("*int64",), 1)
    with pytest.raises(CompileError, match=r"(?s)broken.*undefined") as caught:
        ptx(broken, (9, 0))
    assert "   2     p0[0] = undefined" in str(caught.value)
    assert caught.value.source == broken.text


@pytest.mark.parametrize(("cuda", "want"), [
    ((12, 0), "8.0"), ((12, 5), "8.5"), ((12, 9), "8.8"), ((13, 0), "9.0"),
    ((13, 4), "9.4"), ((14, 0), "9.4")])
def test_ptx_is_no_newer_than_the_driver(cuda, want):
    code = "//\n.version 9.4\n.target sm_90\nbody .version 9.9"
    assert target_version(code, cuda) == code.replace("9.4", want)


def test_older_ptx_is_left_alone():
    code = ".version 8.0\n.target sm_90\n"
    assert target_version(code, (13, 0)) == code


def test_numpy_keeps_no_borrowed_name(monkeypatch):
    monkeypatch.setattr(compile, "_REMOVED", ("nonsense_name",))
    with compile._removed_names():
        assert hasattr(np, "nonsense_name")
        with pytest.raises(NotImplementedError):
            np.nonsense_name()
    assert not hasattr(np, "nonsense_name")


class Target:
    arch = (9, 0)


def test_the_cache_tells_kernels_apart(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(compile, "ptx", lambda kernel, arch: f"{kernel.name} {arch}")
    monkeypatch.setattr(compile, "driver_version", lambda: (13, 0))

    def link(kernel, code, device):
        made.append(code)
        return code.encode()

    monkeypatch.setattr(compile, "_link", link)
    with config.override(cache_dir=str(tmp_path), cache_disable=False):
        for _ in range(2):
            compile.cubin(KERNEL, Target())
        assert len(made) == 1
        other = Target()
        other.arch = (10, 0)
        compile.cubin(KERNEL, other)
        wider = Kernel(KERNEL.name, KERNEL.text, ("*float64", "*float64", "int64"), 32)
        compile.cubin(wider, Target())
        compile.cubin(Kernel(KERNEL.name, KERNEL.text, KERNEL.parameters, 64), Target())
        assert len(made) == 4


def test_the_source_is_dumped_where_it_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(compile, "ptx", lambda kernel, arch: "")
    monkeypatch.setattr(compile, "driver_version", lambda: (13, 0))
    monkeypatch.setattr(compile, "_link", lambda *args: b"machine code")
    target = tmp_path / "dump"
    with config.override(cache_dir=str(tmp_path / "cache"), dump_source=str(target)):
        compile.cubin(KERNEL, Target())
    (file,) = target.iterdir()
    assert file.read_text() == KERNEL.text


def test_numba_compiles_where_numpy_has_lost_names():
    needs_compiler()
    code = """
import numpy as np
for name in ("row_stack", "in1d", "trapz", "fix"):
    if name in vars(np):
        delattr(np, name)
from nbfused.cuda.compile import Kernel, ptx
text = "def k(p0, n0):\\n    p0[0] = f32(n0)\\n"
kernel = Kernel("k", text, ("*float32", "int64"), 1)
print(".entry k" in ptx(kernel, (9, 0)), hasattr(np, "row_stack"))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], text=True,
                          capture_output=True, check=False)
    assert done.stdout.split() == ["True", "False"], done.stderr


def test_writing_a_kernel_imports_no_numba():
    code = """
import sys
import numpy as np
import pytest
import nbfused as nf
from tests.cuda.recorded import recording
x = np.zeros((8, 8), np.float32)
with recording(pytest.MonkeyPatch()) as kernels:
    for op in (nf.ops.swish, nf.ops.softmax, nf.ops.sum):
        op(x)
    nf.ops.matmul(x, x)
print(len(kernels), "numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True,
                          check=False)
    assert done.stdout.split() == ["4", "False"], done.stderr
