"""From text to PTX: names, versions, errors."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nbfused.config import config
from nbfused.cuda.runtime import compile, driver
from nbfused.cuda.runtime.assemble import DRIVER, Assembly
from nbfused.cuda.runtime.compile import Kernel, ptx
from nbfused.errors import CompileError
from tests.cuda.recorded import needs_compiler

KERNEL = Kernel("double_it", """def double_it(p0, p1, n0):
    i = i64(cuda.blockIdx.x)*32 + i64(cuda.threadIdx.x)
    if i < n0:
        p1[i] = p0[i]*f32(2)
""", ("*float32", "*float32", "int64"), 32)


def test_the_entry_has_the_kernels_name():
    needs_compiler()
    code = ptx(KERNEL, (9, 0))
    assert re.findall(r"\.entry (\w+)", code) == ["double_it"]
    assert re.search(r"\.target sm_90", code)
    assert re.search(r"\.maxntid 32", code)
    # 64-bit parameters, nothing of Numba's array records.
    assert re.findall(r"\.param \.(\w+) ", code) == ["u64"]*3


def test_numbas_own_cuda_target_is_not_taken_for_numba_cuda(monkeypatch):
    monkeypatch.setattr(compile, "find_spec", lambda name: None)
    compile._numba_cuda.cache_clear()
    with pytest.raises(CompileError, match="numba-cuda is not installed; install"):
        ptx(KERNEL, (9, 0))


def test_an_error_shows_the_text():
    needs_compiler()
    text = "def broken(p0):\n    p0[0] = undefined\n"
    broken = Kernel("broken", text, ("*int64",), 1)
    with pytest.raises(CompileError, match=r"(?s)broken.*undefined") as caught:
        ptx(broken, (9, 0))
    assert "   2     p0[0] = undefined" in str(caught.value)
    assert caught.value.source == broken.text


def test_numpy_keeps_no_borrowed_name(monkeypatch):
    monkeypatch.setattr(compile, "_REMOVED", ("nonsense_name",))
    with compile._removed_names():
        assert hasattr(np, "nonsense_name")
        with pytest.raises(NotImplementedError):
            np.nonsense_name()
    assert not hasattr(np, "nonsense_name")


class Target:
    arch, cuda = (9, 0), (13, 0)


def test_the_cache_tells_kernels_apart(monkeypatch, tmp_path):
    made = []

    def ptx(kernel, arch):
        made.append(kernel)
        return f".entry {kernel.name} {arch}"

    monkeypatch.setattr(compile, "ptx", ptx)
    with config.override(cache_dir=str(tmp_path), cache_disable=False, ptxas=DRIVER):
        for _ in range(2):
            compile.assembly(KERNEL, Target())
        assert len(made) == 1
        other = Target()
        other.arch = (10, 0)
        compile.assembly(KERNEL, other)
        wider = Kernel(KERNEL.name, KERNEL.text, ("*float64", "*float64", "int64"), 32)
        compile.assembly(wider, Target())
        compile.assembly(replace(KERNEL, threads=64), Target())
        assert len(made) == 4
        keys = {compile.key_of(KERNEL, other)}
        for ptxas in (None, "/opt/ptxas"):  # other machine code
            with config.override(ptxas=ptxas):
                keys.add(compile.key_of(KERNEL, other))
        assert len(keys) == 3


class Assembler:
    """The driver as it takes PTX, or says what is wrong with it."""

    def __init__(self, said=b""):
        self.said, self.given, self.machine = said, [], []
        self.CUjit_option = SimpleNamespace(CU_JIT_ERROR_LOG_BUFFER=5,
                                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES=6)

    def cuModuleLoadDataEx(self, code, count, options, values):
        assert (count, options) == (2, [5, 6])
        self.given.append(code)
        values[0][:len(self.said)] = self.said  # keeps its length
        return (218, None) if self.said else (0, "module")

    def cuModuleLoadData(self, code):
        self.machine.append(code)
        return (200, None) if self.said else (0, "module of machine code")

    def CUresult(self, code):
        return SimpleNamespace(name="CUDA_ERROR_INVALID_PTX")

    def cuGetErrorString(self, result):
        return 0, b"a PTX JIT compilation failed"


@pytest.mark.parametrize("arch", [(7, 5), (8, 0), (9, 0)])
def test_the_cache_knows_every_file_that_text_takes_names_from(arch):
    from nbfused.cuda.isa.intrinsics import namespace

    modules = {getattr(getattr(f, "_defn", f), "__module__", None)
               for f in namespace(arch).values()}
    ours = {m for m in modules
            if isinstance(m, str) and m.startswith("nbfused.cuda.")}
    assert len(ours) > 5
    assert all(m.startswith("nbfused.cuda.isa.") for m in ours)


def test_the_driver_gets_ptx_that_it_understands(monkeypatch):
    """Whatever is kept: another driver may have been installed since."""
    made = Assembler()
    monkeypatch.setattr(compile, "cu", lambda: made)
    monkeypatch.setattr(compile, "assembly", lambda *of: Assembly(".version 9.4\nret;"))
    for version in ((13, 0), (12, 9)):
        monkeypatch.setattr(compile, "driver_version", lambda version=version: version)
        assert compile.loaded(KERNEL, Target()) == "module"
    assert made.given == [b".version 9.0\nret;\0", b".version 8.8\nret;\0"]


def test_what_the_driver_refuses_is_shown(monkeypatch):
    made = Assembler(b"line 7: unknown instruction")
    for module in (compile, driver):
        monkeypatch.setattr(module, "cu", lambda: made)
    monkeypatch.setattr(compile, "assembly", lambda *of: Assembly("nonsense"))
    monkeypatch.setattr(compile, "driver_version", lambda: (13, 0))
    with pytest.raises(CompileError, match=r"(?s)double_it.*unknown instr") as caught:
        compile.loaded(KERNEL, Target())
    assert caught.value.source == "nonsense"
    assert caught.value.log == made.said.decode()


@pytest.mark.parametrize(("driver_of", "said", "module", "asked"), [
    ((13, 0), b"", "module of machine code", (1, 0)),
    ((12, 9), b"", "module", (0, 1)),  # older than the machine code
    ((13, 0), b"damaged", None, (1, 1))])
def test_machine_code_is_loaded_where_the_driver_can(monkeypatch, driver_of, said,
                                                     module, asked):
    made = Assembler(said)
    for module_of in (compile, driver):
        monkeypatch.setattr(module_of, "cu", lambda: made)
    monkeypatch.setattr(compile, "assembly",
                        lambda *of: Assembly("ret;", b"code", (13, 0)))
    monkeypatch.setattr(compile, "driver_version", lambda: driver_of)
    with nullcontext() if module else pytest.raises(CompileError, match="assemble"):
        assert compile.loaded(KERNEL, Target()) == module
    assert (len(made.machine), len(made.given)) == asked


def test_the_source_is_dumped_where_it_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(compile, "ptx", lambda kernel, arch: "")
    target = tmp_path / "dump"
    with config.override(cache_dir=str(tmp_path / "cache"), dump_source=str(target),
                         ptxas=DRIVER):
        compile.assembly(KERNEL, Target())
    (file,) = target.iterdir()
    assert file.read_text() == KERNEL.text


def test_numba_compiles_where_numpy_has_lost_names():
    needs_compiler()
    code = """
import numpy as np
if "row_stack" in vars(np):
    del np.row_stack
from nbfused.cuda.runtime.compile import Kernel, ptx
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
with recording() as kernels:
    for op in (nf.ops.swish, nf.ops.softmax, nf.ops.sum):
        op(x)
    nf.ops.matmul(x, x)
print(len(kernels), "numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True,
                          check=False)
    assert done.stdout.split() == ["4", "False"], done.stderr
