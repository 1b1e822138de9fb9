"""Kernels recorded, built many at a time, found later; what a library says of them."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

import nbfused as nf
from nbfused import __main__ as command
from nbfused import cache
from nbfused.config import config
from nbfused.errors import CompileError
from nbfused.rocm import RocmBackend
from nbfused.rocm.build import compile, report, toolchain
from nbfused.rocm.build.ahead import RecordingDevice, batches, build_all
from nbfused.rocm.build.kernel import Kernel
from nbfused.rocm.runtime.device import device, runtime, standing_in
from nbfused.testing.recorded import rocm_kernels
from tests.rocm.emulating import emulating
from tests.rocm.test_compile import broken, kernel

# --- recording


def test_recording_launches_nothing():
    host, recorder = np.arange(6, dtype=np.float32).reshape(2, 3), RecordingDevice()
    with standing_in(recorder), nf.use_backend(RocmBackend()):
        x = nf.Variable(nf.array(host, device="rocm"), requires_grad=True)
        nf.ops.softmax(nf.ops.swish(x)).sum().backward()
        assert np.array_equal(nf.to_numpy(x), host)  # its memory is there
        assert x.grad.shape == (2, 3)
    names = [k.name for k in recorder.kernels.values()]
    assert any("swish_map" in name for name in names)
    assert any("softmax" in name for name in names)
    assert any("swish_vjp" in name for name in names)


def test_another_device_stands_in_only_for_a_while():
    before = device(0)
    with standing_in(RecordingDevice.like(before)):
        assert device(0) is not before
        assert device(0).processors == before.processors
    assert device(0) is before


def test_the_kernels_of_ops_need_no_device_and_no_compiler(monkeypatch):
    monkeypatch.setattr(toolchain.subprocess, "run", None)
    with config.override(rocm_emulate="0"):
        found = rocm_kernels(RecordingDevice(), ops=["swish", "sum"])
        halves = rocm_kernels(RecordingDevice(), ["float16"], ["swish"])
    assert {k.skeleton for k in found} == {"map", "reduce"}
    assert all("uint16" in k.parameters[0] or "float" in k.parameters[0]
               for k in halves)
    assert len(rocm_kernels(RecordingDevice(), ops=["sum"])) > len(
        rocm_kernels(RecordingDevice(), ops=["sum"], large=False))


# --- batches


def test_batches_are_even_and_of_one_skeleton():
    kernels = [kernel(n) for n in range(130)]
    kernels += [replace(kernel(n), skeleton="row") for n in range(3)]
    found = batches(kernels)
    assert sorted(map(len, found)) == [3, 43, 43, 44]
    assert all(len({k.skeleton for k in part}) == 1 for part in found)
    assert sorted(k.text for part in found for k in part) == sorted(
        k.text for k in kernels)


@pytest.fixture
def fresh(tmp_path):
    if config.rocm_emulate != "1":
        pytest.skip("for the compiler that emulates")
    runtime()  # libraries take its functions when they are loaded
    with config.override(cache_dir=str(tmp_path / "cache"), cache_disable=False):
        yield tmp_path / "cache"


def test_what_is_refused_is_told_and_the_rest_is_built(fresh):
    seen = []
    kernels = [*(kernel(n) for n in range(2, 9)), broken()]
    errors = build_all(kernels, ("emulation",),
                       lambda number, total, part: seen.append((number, total)))
    error, = errors
    assert isinstance(error, CompileError)
    assert "line 7: y[0] = 1" in str(error)
    assert seen == [(1, 1)]
    before = cache.stats().compilations
    for n in range(2, 9):
        assert compile.load(kernel(n), ("emulation",))
    assert cache.stats().compilations == before


def test_an_error_of_the_call_itself_is_told_once(fresh, monkeypatch):
    calls = []
    real = toolchain.Toolchain.compile

    def compiled(self, sources, library, flags):
        calls.append(flags)
        return real(self, sources, library, (*flags, "--no-such-option"))

    monkeypatch.setattr(toolchain.Toolchain, "compile", compiled)
    with pytest.raises(CompileError, match="no-such-option"):
        compile.load_many([kernel(n) for n in range(8)], ("emulation",))
    assert len(calls) == 1


@pytest.mark.parametrize("said", [
    "clang: error: cannot find ROCm device library for gfx1100; provide its path",
    "clang: error: invalid target ID 'gfx9999'; format is a processor name",
    "nvcc fatal   : Unsupported gpu architecture 'compute_10'"])
def test_an_architecture_that_the_compiler_does_not_know(said):
    error = compile._refusal("hipcc", said, "swish", [kernel()])
    assert "does not know the architecture" in str(error)
    assert "NBFUSED_ROCM_ARCH" in str(error)


# --- the command


def test_what_the_command_builds_is_found_by_later_processes(tmp_path):
    built = emulating("from nbfused.__main__ import main\n"
                      "print(main(['rocm', 'build', '--ops', 'swish,softmax', "
                      f"'--output', {str(tmp_path)!r}]))")
    assert "kernels for emulation" in built
    assert built.splitlines()[-1] == "0"
    said = emulating("""
import numpy as np, nbfused as nf
x = nf.Variable(nf.array(np.ones((5, 7), "f4"), device="rocm"), requires_grad=True)
nf.ops.swish(x)
nf.ops.softmax(x)
print(nf.cache.stats().compilations)
""", NBFUSED_CACHE_DIR=str(tmp_path))
    assert said.strip() == "0"


def test_the_command_says_what_is_missing(capsys, monkeypatch):
    with config.override(rocm_emulate="0", rocm_arch=None, hipcc="/nowhere/hipcc"):
        assert command.main(["rocm", "build", "--arch", "gfx90a"]) == 2
    assert "NBFUSED_HIPCC=/nowhere/hipcc" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "named"), [
    (["build", "--arch", "gfx90a;true"], "--arch: 'gfx90a;true'"),
    (["build", "--arch", "gfx90a", "--dtypes", "float33"], "--dtypes: 'float33'"),
    (["build", "--arch", "gfx90a", "--ops", "nosuch"], "ops: 'nosuch'"),
    (["build", "--arch", "gfx90a", "--output", __file__], "--output"),
    (["report", "/nowhere.so"], "/nowhere.so")])
def test_the_command_names_what_it_does_not_know(words, named, capsys):
    """hipcc hands its words to a shell."""
    assert command.main(["rocm", *words]) == 2
    assert named in capsys.readouterr().err


# --- the report


def packed(value):
    """MessagePack, as LLVM writes it."""
    if isinstance(value, dict):
        return bytes([0xde]) + struct.pack(">H", len(value)) + b"".join(
            packed(part) for pair in value.items() for part in pair)
    if isinstance(value, list):
        return bytes([0x90 | len(value)]) + b"".join(map(packed, value))
    if isinstance(value, str):
        data = value.encode()
        return (bytes([0xa0 | len(data)]) if len(data) < 32
                else bytes([0xd9, len(data)])) + data
    if isinstance(value, bool) or value is None:
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    return bytes([value]) if 0 <= value < 128 else b"\xcd" + struct.pack(">H", value)


def elf(sections):
    """An ELF file with these sections."""
    names, body, headers = b"\0", b"", [b"\0"*64]
    sections = {**sections, ".names": b""}
    for name in sections:
        names += name.encode() + b"\0"
    sections[".names"] = names
    for name, data in sections.items():
        headers.append(struct.pack(
            "<IIQQQQ", names.index(b"\0" + name.encode() + b"\0") + 1, 1, 0, 0,
            64 + len(body), len(data)) + b"\0"*24)
        body += data
    head = b"\x7fELF\2\1\1" + b"\0"*33 + struct.pack("<Q", 64 + len(body)) + b"\0"*10
    return head + struct.pack("<3H", 64, len(headers), len(headers) - 1) + body + \
        b"".join(headers)


def noted(*kernels):
    """A code object that says so of its kernels."""
    data = packed({"amdhsa.kernels": list(kernels), "amdhsa.version": [1, 2],
                   "flag": None})
    data += b"\0"*(-len(data) % 4)
    other = struct.pack("<3I", 4, 4, 1) + b"GNU\0" + b"\0"*4
    return elf({".text": b"code", ".note": other + struct.pack(
        "<3I", 7, len(data), 32) + b"AMDGPU\0\0" + data})


def bundled(**objects):
    """A library with a bundle of code objects."""
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(objects) + 1)
    entries = [("host-x86_64-unknown-linux-gnu", b"")]
    entries += [(f"hipv4-amdgcn-amd-amdhsa--{a}", data) for a, data in objects.items()]
    at = len(head) + sum(24 + len(t) for t, _ in entries)
    table, body = b"", b""
    for triple, data in entries:
        table += struct.pack("<3Q", at + len(body), len(data), len(triple))
        table += triple.encode()
        body += data
    return elf({".hip_fatbin": head + table + body})


SAID = {".name": "_ZN28k_swish_map_0123456789abcdef012334k_swish_map_"
                 "0123456789abcdef0123_kernelEN3nbf5WordsILi4EEE",
        ".vgpr_count": 42, ".sgpr_count": 300, ".group_segment_fixed_size": 4096,
        ".private_segment_fixed_size": 16, ".vgpr_spill_count": 3,
        ".wavefront_size": 64, ".args": [{".size": 8, ".access": "read_only"}]}


def test_what_a_library_says():
    wave32 = {**SAID, ".wavefront_size": 32, ".vgpr_spill_count": 0}
    found = report.resources(bundled(gfx90a=noted(SAID), gfx1030=noted(wave32, wave32)))
    assert [r.arch for r in found] == ["gfx1030", "gfx1030", "gfx90a"]
    assert found[2] == report.Resources(
        "swish_map_012345", "gfx90a", 42, 300, 4096, 16, 3, 64)
    table = report.as_table(found)
    assert len(table.splitlines()) == 4
    assert table.splitlines()[-1].split() == [
        "swish_map_012345", "gfx90a", "64", "42", "300", "4096", "16", "3"]


def test_other_files_have_no_kernels():
    for data in (b"", b"no library", elf({".text": b"code"})):
        assert report.resources(data) == []
    with pytest.raises(ValueError, match="compressed"):
        report.resources(elf({".hip_fatbin": b"CCOB" + b"\0"*20}))


def test_the_report_fails_where_registers_spill(tmp_path, capsys):
    library = tmp_path / "library.so"
    library.write_bytes(bundled(gfx90a=noted(SAID)))
    assert command.main(["rocm", "report", str(library)]) == 0
    assert command.main(["rocm", "report", "--check", str(library)]) == 1
    said = capsys.readouterr().out
    assert "gfx90a: 1 kernels, waves of 64; at most 42 VGPRs, 4096 bytes of LDS" in said
    assert "swish_map_012345: 3 spills" in said


def test_a_check_of_no_kernels_fails(tmp_path, capsys):
    with config.override(cache_dir=str(tmp_path)):
        assert command.main(["rocm", "report"]) == 0
        assert command.main(["rocm", "report", "--check"]) == 1
    assert f"no kernels for AMD devices in {tmp_path}" in capsys.readouterr().out


def test_what_hipcc_makes(tmp_path):
    """A real library: there is hipcc on some machines without a device."""
    with config.override(rocm_emulate="0", cache_dir=str(tmp_path)):
        try:
            compiler = toolchain.find()
        except ImportError as missing:
            pytest.skip(str(missing))
        made: Kernel = kernel()
        path = compile.build((made,), ("gfx90a", "gfx1030"))
        found = report.resources(path)
    assert compiler.name == "amd"
    assert [(r.arch, r.wave, r.spills) for r in found] == [
        ("gfx1030", 32, 0), ("gfx90a", 64, 0)]
    assert all(r.name == f"store_{compile.symbol(made)[-20:-14]}" for r in found)
    assert all(0 < r.vgprs < 32 for r in found)
