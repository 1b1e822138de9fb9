"""From text to a library: what is cached, what is built again, what an error shows."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

import nbfused as nf
from nbfused import cache
from nbfused.config import config
from nbfused.errors import BackendNotAvailableError, CompileError
from nbfused.rocm.build import compile, index, toolchain
from nbfused.rocm.build.compile import build, key_of, load, symbol, unit
from nbfused.rocm.build.kernel import HIP, Kernel
from nbfused.rocm.build.toolchain import AMD, EMULATION, NVIDIA, Toolchain, find
from nbfused.rocm.runtime.device import device, runtime
from nbfused.rocm.runtime.launch import Program
from tests.rocm.emulating import emulating

ARCHS = ("emulation",)


def kernel(number=1, name="store"):
    """Stores a number to its first parameter."""
    return Kernel(name, "map", f"""struct S {{
  template <class W> NBF_DEVICE void run(const W &w) {{
    // 7: y[0] = {number}
    *w.template pointer<double>(0) = {number};
  }}
}};
NBF_KERNEL(1, 64, S::run(w))
""", ("*float64",), 64)


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty cache, in a process that has loaded no kernel."""
    if config.rocm_emulate != "1":
        pytest.skip("for the compiler that emulates")
    runtime()
    monkeypatch.setattr(compile, "_entries", {})
    monkeypatch.setattr(compile, "_loaded", {})
    index._read.cache_clear()
    with config.override(cache_dir=str(tmp_path / "cache"), cache_disable=False):
        yield tmp_path / "cache"
    index._read.cache_clear()


@pytest.fixture
def forget(monkeypatch):
    """Makes this process as good as a new one."""
    def clear():
        monkeypatch.setattr(compile, "_entries", {})
        monkeypatch.setattr(compile, "_loaded", {})
        index._read.cache_clear()
    return clear


def compiled(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "nbfused.compile"
            and r.levelno == logging.INFO]


# --- symbols and units


def test_symbols_tell_kernels_apart():
    one = kernel()
    others = (kernel(2), kernel(name="other"), replace(one, threads=128),
              replace(one, parameters=("*float32",)), replace(one, skeleton="reduce"))
    assert len({symbol(k) for k in (one, *others)}) == 6
    assert symbol(one) == symbol(kernel())
    assert symbol(one).startswith("k_store_")
    assert symbol(one).isidentifier()


def test_the_place_of_the_source_makes_no_other_kernel():
    here, there = (replace(kernel(), text=f"  // {k}: y = x\n" + kernel().text)
                   for k in (7, 12))
    assert symbol(here) == symbol(there) == symbol(kernel())


def test_symbols_depend_on_what_the_skeleton_includes(monkeypatch):
    before = symbol(kernel())
    assert {"map.hip", "kernel.h", "portable.h", "numbers.h"} <= compile._included(
        "map.hip")
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + (
        b"// changed" if path.name == "numbers.h" else b""))
    compile._digest.cache_clear()
    assert symbol(kernel()) != before
    compile._digest.cache_clear()


def test_a_unit_includes_each_skeleton_once():
    text = unit([kernel(1), kernel(2)])
    assert text.count('#include "map.hip"') == 1
    assert text.count("namespace k_store_") == 2


# --- the cache


def test_a_kernel_is_built_once(fresh, forget, caplog):
    caplog.set_level(logging.INFO, "nbfused.compile")
    first = load(kernel(), ARCHS)
    assert load(kernel(), ARCHS) == first
    assert len(compiled(caplog)) == 1
    forget()
    assert load(kernel(), ARCHS)
    assert len(compiled(caplog)) == 1
    load(kernel(2), ARCHS)
    assert len(compiled(caplog)) == 2


def test_it_counts_as_one_compilation(fresh):
    before = cache.stats().compilations
    load(kernel(), ARCHS)
    load(kernel(), ARCHS)
    assert cache.stats().compilations == before + 1


def test_without_a_cache_it_is_built_in_every_process(fresh, forget, caplog):
    caplog.set_level(logging.INFO, "nbfused.compile")
    with config.override(cache_disable=True):
        load(kernel(), ARCHS)
        forget()
        load(kernel(), ARCHS)
    assert len(compiled(caplog)) == 2
    assert not list(fresh.rglob("*.so"))


def libraries(folder):
    return sorted(folder.rglob("*.so"))


@pytest.mark.parametrize("damage", [
    lambda data: data[:len(data)//2], lambda data: b"", lambda data: b"\0"*len(data)])
def test_a_damaged_library_is_built_again(fresh, forget, caplog, damage):
    load(kernel(), ARCHS)
    path, = libraries(fresh)
    good = path.read_bytes()
    path.unlink()  # what is mapped must not change
    path.write_bytes(damage(good))
    forget()
    load(kernel(), ARCHS)
    assert "damaged" in caplog.text
    assert path.read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize("content", [
    b"no library at all", b"\x7fELF\2\1\1" + b"\0"*99, b""])
def test_what_does_not_load_is_built_again(fresh, forget, caplog, content):
    cache.put_file(key_of(find(), [symbol(kernel())], ARCHS), content)
    load(kernel(), ARCHS)
    assert "made again" in caplog.text
    forget()
    caplog.clear()
    load(kernel(), ARCHS)
    assert "made again" not in caplog.text


def test_a_library_without_the_symbol_is_built_again(fresh, forget, caplog):
    """As one that was made for another architecture, or by somebody else."""
    other = build((kernel(2),), ARCHS).read_bytes()
    cache.put_file(key_of(find(), [symbol(kernel())], ARCHS), other)
    load(kernel(), ARCHS)
    assert "no library with the kernel" in caplog.text


def test_an_index_that_leads_nowhere_does_no_harm(fresh):
    target = compile._target(find(), ARCHS)
    index.add(target, {symbol(kernel()): "0"*64})
    assert load(kernel(), ARCHS)
    # To a library that is in use: it stays.
    index.add(target, {symbol(kernel(2)): key_of(find(), [symbol(kernel())], ARCHS)})
    assert load(kernel(2), ARCHS)
    y = nf.empty(1, "float64", device="rocm")
    for n in (1, 2):
        Program(kernel(n)).launch(device(0), 0, 1, (y.pointer,))
        assert nf.to_numpy(y) == [n]


def test_the_index_keeps_what_others_added(fresh):
    index.add("target", {"a": "1"})
    index.add("target", {"b": "2"})
    index.add("other", {"c": "3"})
    assert index.read("target") == {"a": "1", "b": "2"}


# --- R05, R12


def test_r05_one_call_of_the_compiler_and_none_in_the_next_process(tmp_path):
    code = """
import logging
seen = []
class Keep(logging.Handler):
    def emit(self, record):
        if record.levelno == logging.INFO:
            seen.append(record.getMessage())
logging.getLogger("nbfused.compile").addHandler(Keep())
logging.getLogger("nbfused.compile").setLevel("INFO")
import numpy as np, nbfused as nf
x = nf.array(np.ones(1000, "f4"), device="rocm")
for _ in range(3):
    y = nf.ops.swish(x)
print(len([s for s in seen if "swish" in s]), len(seen))
print(nf.cache.stats().compilations)
"""
    first, second = (emulating(code, NBFUSED_CACHE_DIR=str(tmp_path)).split()
                     for _ in range(2))
    # The other one is the runtime's library, of which there is one for all kernels.
    assert first == ["1", "2", "2"]
    assert second == ["0", "0", "0"]


@pytest.fixture
def hipcc(monkeypatch):
    monkeypatch.setattr(toolchain, "_version", lambda compiler: "HIP version: 6.2")
    return Toolchain(AMD, "/opt/rocm/bin/hipcc")


def test_r12_the_architecture_is_part_of_the_key(hipcc):
    keys = {key_of(hipcc, ["k"], archs) for archs in (
        ("gfx90a",), ("gfx1030",), ("gfx90a", "gfx1030"))}
    assert len(keys) == 3
    assert "--offload-arch=gfx90a" in hipcc.flags(("gfx90a",))


def test_r12_the_compiler_and_its_version_are_part_of_the_key(hipcc, monkeypatch):
    before = key_of(hipcc, ["k"], ("gfx90a",))
    assert key_of(Toolchain(AMD, "/usr/bin/hipcc"), ["k"], ("gfx90a",)) == before
    monkeypatch.setattr(toolchain, "_version", lambda compiler: "HIP version: 7.0")
    assert key_of(hipcc, ["k"], ("gfx90a",)) != before


def test_versions_are_asked_once(tmp_path, fresh):
    """A process that finds its kernels calls no program."""
    program = tmp_path / "compiler"
    log = tmp_path / "calls"
    program.write_text(f"#!/bin/sh\necho called >> {log}\necho version 7\n")
    program.chmod(0o700)
    for _ in range(2):
        toolchain._version.cache_clear()
        assert toolchain._version(str(program)) == "version 7\n"
    assert log.read_text() == "called\n"


@pytest.mark.parametrize(("name", "archs", "words"), [
    (AMD, ("gfx90a", "gfx1030"),
     ("-O3", "--offload-arch=gfx90a", "--offload-arch=gfx1030", "-fPIC",
      "-fvisibility=hidden", "-no-hip-rt")),
    (NVIDIA, ("sm_90",), ("-O3", "-x", "cu", "-gencode=arch=compute_90,code=sm_90")),
    (EMULATION, ("emulation",), ("-DNBF_EMULATION", "-ffp-contract=off"))])
def test_how_compilers_are_called(name, archs, words, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(toolchain.subprocess, "run",
                        lambda command, **options: calls.append((command, options)))
    chosen = Toolchain(name, "/bin/compiler")
    chosen.compile([tmp_path / "a.hip"], tmp_path / "a.so", chosen.flags(archs))
    (command, options), = calls
    assert {*words, "-std=c++17", "-shared", f"-I{HIP}"} <= set(command)
    assert options["env"]["HIP_PLATFORM"] == "amd"
    # hipcc links a runtime whatever it is told, unless it finds something else first.
    assert (f"-L{tmp_path}" in command) == (name == AMD)


# --- errors


def broken():
    good = kernel()
    return replace(good, text=good.text.replace("= 1;", "= undefined_name;"))


def test_an_error_shows_the_text_the_log_the_command_and_the_line_of_python(fresh):
    with pytest.raises(CompileError) as caught:
        load(broken(), ARCHS)
    error = caught.value
    assert str(error).startswith("store: the compiler refuses it:")
    assert "line 7: y[0] = 1" in str(error)
    assert "   4     *w.template pointer<double>(0) = undefined_name;" in str(error)
    assert "undefined_name" in error.log
    assert error.source == broken().text
    assert error.command.startswith(find().compiler)
    assert not libraries(fresh)


@pytest.mark.parametrize(("text", "error", "said"), [
    ("no program\n", BackendNotAvailableError, "does not run here"),
    ("#!/bin/sh\nexit 3\n", CompileError, "its status was 3"),
    ("#!/bin/sh\n", CompileError, "it said nothing")])
def test_what_is_no_compiler(fresh, tmp_path, monkeypatch, text, error, said):
    program = tmp_path / "compiler"
    program.write_text(text)
    program.chmod(0o700)
    monkeypatch.setenv("CXX", str(program))
    with pytest.raises(error, match=said):
        load(kernel(), ARCHS)


def test_a_runtime_that_is_another_library(fresh, monkeypatch):
    other = build((kernel(),), ARCHS)
    with pytest.raises(OSError, match="another library"):
        compile._loaded_runtime(other)
    content = other.read_bytes()
    monkeypatch.setattr(compile, "_compiled", lambda *_: content)
    with pytest.raises(CompileError, match="does not load: another library"):
        compile.runtime_library()
    assert libraries(fresh) == [other]


def test_a_failed_kernel_leaves_nothing_that_is_taken_for_it(fresh):
    for _ in range(2):
        with pytest.raises(CompileError):
            load(broken(), ARCHS)
    assert load(kernel(), ARCHS)


def test_one_of_many_is_named(fresh):
    with pytest.raises(CompileError, match="line 7: y"):
        build([kernel(2), broken(), kernel(3)], ARCHS)


def test_the_source_is_dumped_where_it_is_asked_for(fresh, tmp_path):
    with config.override(dump_source=str(tmp_path / "dump")):
        load(kernel(), ARCHS)
    file, = (tmp_path / "dump").iterdir()
    assert file.name.startswith("rocm_store_")
    assert kernel().text in file.read_text()


# --- many at once


def test_many_kernels_in_one_library(fresh, forget, caplog):
    caplog.set_level(logging.INFO, "nbfused.compile")
    kernels = [kernel(n) for n in range(60)]
    compile.load_many(kernels, ARCHS)
    assert len(libraries(fresh)) == 1
    assert len(compiled(caplog)) == 1
    forget()
    entries = {load(k, ARCHS) for k in kernels}
    assert len(entries) == 60
    assert len(compiled(caplog)) == 1


def test_kernels_of_a_library_run(fresh):
    kernels = [kernel(n) for n in range(3)]
    compile.load_many(kernels, ARCHS)
    y = nf.empty(1, "float64", device="rocm")
    for n, k in enumerate(kernels):
        Program(k).launch(device(0), 0, 1, (y.pointer,))
        assert nf.to_numpy(y) == [n]


def test_the_good_ones_are_built_when_one_is_bad(fresh, forget):
    kernels = [kernel(2), kernel(3), broken(), kernel(4), kernel(5)]
    with pytest.raises(CompileError, match="line 7: y"):
        compile.load_many(kernels, ARCHS)
    forget()
    before = cache.stats().compilations
    for good in (2, 3, 4, 5):
        load(kernel(good), ARCHS)
    assert cache.stats().compilations == before


@pytest.mark.parametrize("bound", [0, 1, 50 << 10])
def test_a_bound_smaller_than_a_library_stops_no_program(fresh, forget, bound):
    """What had just been built was removed before it was loaded."""
    with config.override(cache_size=bound):
        for n in (1, 2, 3):
            assert load(kernel(n), ARCHS)
    forget()
    assert load(kernel(1), ARCHS)
