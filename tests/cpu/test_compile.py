"""Compiled objects: cached, reloaded without Numba, refused on another processor."""

from __future__ import annotations

import ctypes
import json
import struct
import subprocess
import sys
import textwrap
from collections import Counter
from contextlib import nullcontext

import llvmlite.binding
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import cpu_target

from nbfused import cache
from nbfused.config import config
from nbfused.cpu.runtime import compile as compiling
from nbfused.cpu.runtime import objects, pipeline
from nbfused.errors import CompileError, SettingError
from tests.refusal import refused

TEXT = """
@inlined
def point(j, x, y):
    y[j] = x[j] + f32({constant})

def kernel(a, begin, end):
    parallel_for(point, begin, end, (f32_pointer(a[0]), f32_pointer(a[1])))
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path):
    with config.override(cache_dir=str(tmp_path), cache_disable=False):
        yield


def run(entry, x):
    y = np.empty_like(x)
    entry(struct.pack("qq", x.ctypes.data, y.ctypes.data), 0, x.size)
    return y


def test_a_second_build_compiles_nothing(monkeypatch):
    x = np.arange(100, dtype=np.float32)
    first = compiling.build(TEXT.format(constant=2.5))
    monkeypatch.setattr(compiling, "compile_text", lambda text: pytest.fail("compiled"))
    second = compiling.build(TEXT.format(constant=2.5))
    assert np.array_equal(run(first, x), x + 2.5)
    assert np.array_equal(run(second, x), x + 2.5)


def test_kernels_do_not_share_symbols():
    x = np.arange(100, dtype=np.float32)
    entries = [compiling.build(TEXT.format(constant=float(k))) for k in range(4)]
    for k, entry in enumerate(entries):
        assert np.array_equal(run(entry, x), x + k)


def instructions(packed):
    code = llvmlite.binding.ObjectFileRef.from_data(objects.unpack(packed).code)
    return b"".join(s.data() for s in code.sections() if s.is_text())


SUMMED = """
@inlined
def add(l, total, a, b):
    total[a + l] = total[a + l] + f32(math.sqrt(b[l]))

def kernel(a, begin, end):
    x = f32_pointer(a[0])
    total = f32_local(64)
    done = 0
    while done < end:
        if begin < 5 or end // 3 == 7:
            parallel_for(add, 0, 64, (total, 0, x,))
        unit = 64
        done += unit
        unit = f32(0.5)
        total[1] = total[0]*unit
    f32_pointer(a[1])[0] = total[1]
"""


@pytest.mark.parametrize("text", [TEXT.format(constant=1.5), SUMMED])
def test_machine_code_is_that_of_all_of_numbas_passes(text, monkeypatch):
    """Those that are left out change nothing in it, nor does typing each call once."""
    fewer = instructions(compiling.compile_text(text))
    monkeypatch.setattr(pipeline._Compiler, "define_pipelines",
                        Compiler.define_pipelines)
    monkeypatch.setattr(pipeline._Library, "_optimize_final_module",
                        JITCodeLibrary._optimize_final_module)
    monkeypatch.setattr(pipeline, "_cached_signatures", nullcontext)
    assert fewer
    assert instructions(compiling.compile_text(text)) == fewer


TWICE = """
@inlined
def point(j, x, y):
    y[j] = x[j] + f32(2.0)

@inlined
def other(j, x, y):
    y[j] = x[j] * f32(3.0)

def kernel(a, begin, end):
    x = f32_pointer(a[0])
    y = f32_pointer(a[1])
    parallel_for(point, begin, end, (x, y))
    parallel_for(other, begin, end, (y, x))
"""


def test_no_loop_looks_whether_its_arrays_overlap(monkeypatch):
    """Each is marked with its own accesses: one may store where it reads."""
    texts = []
    monkeypatch.setattr(compiling, "_emit", lambda text, name: texts.append(text))
    compiling.compile_text(TWICE)
    (text,) = texts
    assert text.count('"llvm.loop.parallel_accesses"') == 2
    assert "diff.check" not in text
    assert "memcheck" not in text


def test_numba_resolves_calls_as_before_after_a_failure():
    with pytest.raises(CompileError):
        compiling.compile_text("def kernel(a, begin, end):\n    return a + 'x'\n")
    assert "resolve_function_type" not in vars(cpu_target.typing_context)


def test_a_builder_of_passes_serves_a_bounded_number_of_runs():
    """Every run leaves callbacks in it, and all the later ones call them."""
    codegen = pipeline.target().codegen()
    held = [codegen._pass_builder() for _ in range(5*pipeline._SHARED)]
    uses = Counter(map(id, held)).values()
    assert max(uses) == pipeline._SHARED
    assert len(uses) <= 6


def test_only_the_range_is_written():
    x, y = np.arange(100, dtype=np.float32), np.full(100, 7, np.float32)
    entry = compiling.build(TEXT.format(constant=1.0))
    entry(struct.pack("qq", x.ctypes.data, y.ctypes.data), 10, 90)
    assert np.all(y[:10] == 7)
    assert np.all(y[90:] == 7)
    assert np.array_equal(y[10:90], x[10:90] + 1)


def head_of(data):
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8:8 + size]), data[8 + size:]


def test_objects_of_another_processor_are_refused():
    head, code = head_of(objects.pack([], b"code"))
    packed = objects.unpack(objects.pack([], b"code"))
    assert objects.usable(packed)
    assert packed.code == b"code"
    head["host"] = ["another", "+features"]
    text = json.dumps(head).encode()
    assert not objects.usable(
        objects.unpack(len(text).to_bytes(8, "little") + text + code))


def test_the_key_has_the_processor_in_it(monkeypatch):
    keys = []
    monkeypatch.setattr(cache, "get", lambda key, parse: keys.append(key))
    monkeypatch.setattr(cache, "put", lambda key, data: None)
    compiling.build(TEXT.format(constant=1.0))
    name, features = objects.host()
    monkeypatch.setattr(objects, "host", lambda: (name, features + ",+more"))
    compiling.build(TEXT.format(constant=1.0))
    assert len(set(keys)) == 2


def test_objects_with_unknown_symbols_are_refused():
    for name, known in (("no_such_symbol_anywhere", False), ("expf", True)):
        assert objects.usable(objects.unpack(objects.pack([name], b"code"))) == known


def test_a_damaged_object_is_compiled_again():
    text = TEXT.format(constant=3.0)
    entry = compiling.build(text)
    key = cache.digest("cpu", text, compiling._revision(), *objects.host())
    data = cache.get(key)
    head, code = head_of(data)
    head["symbols"] = ["no_such_symbol_anywhere"]
    line = json.dumps(head).encode()
    cache.put(key, len(line).to_bytes(8, "little") + line + code)
    x = np.arange(5, dtype=np.float32)
    assert np.array_equal(run(compiling.build(text), x), run(entry, x))


def test_text_that_numba_refuses():
    with pytest.raises(CompileError) as caught:
        compiling.build("def kernel(a, begin, end):\n    a[0] = unknown_name\n")
    assert "unknown_name" in caught.value.source
    with pytest.raises(CompileError):
        compiling.build("def kernel(a, begin, end)\n    pass\n")


def test_sources_are_dumped_on_request(tmp_path):
    text = TEXT.format(constant=4.0)
    compiling.build(text)
    with config.override(dump_source=str(tmp_path / "sources")):
        compiling.build(text)  # from the cache, and yet
    (file,) = (tmp_path / "sources").iterdir()
    assert file.read_text() == text


def test_sources_that_cannot_be_dumped_name_the_setting(tmp_path):
    (tmp_path / "file").write_text("")
    with (config.override(dump_source=str(tmp_path / "file")),
          refused(SettingError, "NBFUSED_DUMP_SOURCE=", str(tmp_path / "file"),
                  "expected a folder", "unset it")):
        compiling.build(TEXT.format(constant=5.0))


def test_library_functions_are_listed_and_found():
    text = """
def kernel(a, begin, end):
    f64_pointer(a[0])[0] = math.lgamma(f64(5.5))*math.atan2(f64(begin), f64(end))
"""
    key = cache.digest("cpu", text, compiling._revision(), *objects.host())
    entry = compiling.build(text)
    out = np.zeros(1)
    entry(struct.pack("q", out.ctypes.data), 1, 2)
    import math

    assert np.isclose(out[0], math.lgamma(5.5)*math.atan2(1, 2))
    head, _ = head_of(cache.get(key))
    assert all(isinstance(name, str) for name in head["symbols"])


PROGRAM = """
import sys
import numpy as np
from nbfused.backend import Call, Signature
from nbfused.cpu import CpuBackend
from nbfused.scalar.parse.functions import parse_definition
from nbfused.specs import COMBINES, Contract, Map, Reduce
from nbfused.specs.vjp.functions import identity

assert "numba" not in sys.modules and "llvmlite" not in sys.modules
backend = CpuBackend()
assert backend.available() is None
f32 = np.dtype(np.float32)
x = np.linspace(-2, 2, 500, dtype=f32)
y = np.empty_like(x)
swish = Map(parse_definition("def f(x): return x/(1.0 + exp(-x))"), ("element",))
backend.build(swish, Signature((f32,), (f32,), (1,), ("1", "1")))(
    Call((500,), (x.ctypes.data, y.ctypes.data), ((1,), (1,))))
assert np.allclose(y, x/(1 + np.exp(-x)), atol=1e-6)
total = np.zeros(1, f32)
spec = Reduce(identity(), ("element",), COMBINES["sum"], identity())
backend.build(spec, Signature((f32,), (f32,), (1, 1), ("1", "0")))(
    Call((1, 500), (x.ctypes.data, total.ctypes.data), ((0, 1), (1, 0))))
assert abs(total[0] - x.sum()) < 1e-4
print("numba" in sys.modules)
"""


def test_a_warm_process_does_not_import_numba(tmp_path):
    def program():
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True,
            text=True, check=False, timeout=120,
            env={"NBFUSED_CACHE_DIR": str(tmp_path / "warm"), "PATH": ""})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert program() == "True"
    assert program() == "False"


@pytest.mark.variants
def test_a_warm_process_finds_functions_that_only_numba_has(tmp_path):
    """Complex powers are one."""
    code = """if True:
        import numpy as np
        from nbfused import ops
        print(ops.power(np.array([2j]), np.array([3 + 1j])))
    """
    found = [subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        timeout=120, env={"NBFUSED_CACHE_DIR": str(tmp_path / "warm"), "PATH": "",
                          "NBFUSED_LOG_LEVEL": "INFO"}) for _ in range(2)]
    assert [run.returncode for run in found] == [0, 0], found[1].stderr
    assert found[0].stdout == found[1].stdout != ""
    assert "raise_to" in found[0].stderr
    assert "raise_to" not in found[1].stderr  # not compiled again


def test_entries_release_the_gil():
    assert not objects._PROTOTYPE._flags_ & ctypes._FUNCFLAG_PYTHONAPI


def test_a_numba_that_compiles_nothing_is_named(monkeypatch):
    numba = pytest.importorskip("numba")
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with refused(CompileError, "NUMBA_DISABLE_JIT=1", "unset it"):
        compiling.build(TEXT.format(constant=7.25))
