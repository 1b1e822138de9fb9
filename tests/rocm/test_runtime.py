"""Devices, memory, streams; which HIP runtime is loaded; what a device is called."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import AllocationError, BackendNotAvailableError, DeviceError
from nbfused.rocm.runtime import device as runtime
from nbfused.rocm.runtime import hip_library, topology
from nbfused.rocm.runtime.device import (
    TO_DEVICE,
    TO_HOST,
    WITHIN,
    HipError,
    check,
    device,
)
from nbfused.rocm.runtime.pool import Pool, rounded
from tests.refusal import refused
from tests.rocm.emulating import emulating, python

# --- devices


def test_a_device_knows_what_launchers_ask():
    found = device(0)
    assert found.ordinal == 0
    assert found.wave in (32, 64)
    assert found.processors > 0
    assert found.threads_limit >= 1024
    assert found.shared_limit >= 48*1024
    free, total = found.memory()
    assert 0 < free <= total


def test_a_device_that_does_not_exist_is_named():
    with refused(DeviceError, "rocm:77", "does not exist", "rocm:0"):
        nf.array(np.zeros(3), device="rocm:77")


def test_used_devices_are_those_asked_for():
    device(0)
    assert device(0) in runtime.used_devices()
    nf.synchronize()


def test_several_devices_have_memory_of_their_own():
    code = """
import numpy as np, nbfused as nf
print(nf.backends()["rocm"].devices)
x = nf.array(np.arange(5.0), device="rocm:1")
y = nf.ops.swish(x)
print(y.device, nf.to_numpy(y)[0])
try:
    nf.ops.add(x, nf.array(np.arange(5.0), device="rocm:0"))
except nf.errors.DeviceError as error:
    print(error)
"""
    said = emulating(code, NBFUSED_EMULATION_DEVICES="2")
    assert "('rocm:0', 'rocm:1')" in said
    assert "rocm:1 0.0" in said
    assert "rocm:0" in said.splitlines()[-1]


def test_no_device_is_a_reason_not_a_crash():
    said = python("import nbfused", NBFUSED_BACKEND="rocm", NBFUSED_ROCM_EMULATE="1",
                  NBFUSED_EMULATION_DEVICES="0")
    # Whether there is one is asked when the first array comes: nothing compiles before.
    assert said.returncode == 0, said.stderr
    said = python("import numpy, nbfused; nbfused.array(numpy.zeros(2))",
                  NBFUSED_BACKEND="rocm", NBFUSED_ROCM_EMULATE="1",
                  NBFUSED_EMULATION_DEVICES="0")
    assert "BackendNotAvailableError" in said.stderr
    assert "hipErrorNoDevice" in said.stderr


# --- memory


def test_copies_in_every_direction():
    where, host = device(0), np.arange(100, dtype=np.uint8)
    first, second = where.allocate(100), where.allocate(100)
    back = np.zeros(100, np.uint8)
    where.copy(first, host.ctypes.data, 100, TO_DEVICE)
    where.copy(second, first, 100, WITHIN)
    where.copy(back.ctypes.data, second, 100, TO_HOST)
    where.free(first)
    where.free(second)
    assert np.array_equal(back, host)


@pytest.mark.parametrize("address", [0, 0xdeadbeef000])
def test_copies_touch_the_memory_of_devices_only(address):
    where, host = device(0), np.zeros(8, np.uint8)
    known = where.allocate(8)
    for to, source, kind in ((address, host.ctypes.data, TO_DEVICE),
                             (host.ctypes.data, address, TO_HOST),
                             (known, address, WITHIN)):
        with refused(DeviceError, f"{address:#x}", "8 bytes"):
            where.copy(to, source, 8, kind)
    where.free(known)


def test_nothing_is_allocated_for_nothing():
    assert device(0).allocate(0) == 0
    device(0).free(0)
    assert nf.to_numpy(nf.empty((0, 3), device="rocm")).shape == (0, 3)


def test_out_of_memory_says_how_much_there_is():
    free, total = device(0).memory()
    with refused(AllocationError, "rocm:0", f"{total:,}", "release arrays"):
        nf.empty(total, "float64", device="rocm")
    assert device(0).memory()[0] >= free - 2**20


def test_a_workspace_is_freed_also_when_the_launch_fails():
    addresses = []

    def fail():
        with device(0).workspace(1 << 20, 0) as address:
            addresses.append(address)
            assert device(0).first_unknown(addresses) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    if device(0).arch == "emulation":  # elsewhere it is kept
        assert device(0).first_unknown(addresses) == 0


def test_arrays_give_their_memory_back():
    if device(0).arch != "emulation":
        pytest.skip("freed memory is kept for later arrays")
    x = nf.zeros(1000, device="rocm")
    address, view = x.pointer, x[10:20]
    del x
    gc.collect()
    assert device(0).first_unknown([address]) == 1
    del view
    gc.collect()
    assert device(0).first_unknown([address]) == 0


def test_refusals_have_the_name_of_the_error():
    with pytest.raises(HipError, match=r"hipErrorInvalidValue|cudaErrorInv") as said:
        check(1)
    assert said.value.code == 1
    check(0)


# --- addresses


def test_unknown_addresses_are_found():
    where = device(0)
    a, b = where.allocate(64), where.allocate(64)
    local = ctypes.create_string_buffer(64)
    assert device(0).first_unknown([a, b, a + 63]) == 3
    assert device(0).first_unknown([a, 0]) == 1
    assert device(0).first_unknown([a, b, ctypes.addressof(local)]) == 2
    where.free(a)
    where.free(b)


# --- the pool


class Blocks:
    """Memory whose addresses count up."""

    def __init__(self):
        self.live, self.next = {}, 4096

    def malloc(self, size):
        self.next += 1 << 20
        self.live[self.next] = size
        return self.next

    def free(self, address):
        del self.live[address]


def test_freed_blocks_are_used_again_in_their_stream_only():
    blocks = Blocks()
    pool = Pool(blocks.malloc, blocks.free)
    a = pool.allocate(1000, 0)
    pool.free(a, 0)
    assert pool.allocate(1000, 7) != a
    assert pool.allocate(700, 0) == a
    assert pool.allocate(700, 0) != a


def test_trimming_frees_what_is_not_used():
    blocks = Blocks()
    pool = Pool(blocks.malloc, blocks.free)
    a, b = pool.allocate(100, 0), pool.allocate(100, 0)
    pool.free(a, 0)
    pool.trim()
    assert set(blocks.live) == {b}
    pool.free(b, 3)
    pool.trim()
    assert not blocks.live
    assert pool.allocate(100, 0) not in (a, b)


def test_without_keeping_freed_is_freed():
    blocks = Blocks()
    pool = Pool(blocks.malloc, blocks.free, keep=False)
    pool.free(pool.allocate(100, 0), 0)
    assert not blocks.live


@pytest.mark.parametrize("size", [1, 511, 512, 513, 4096, 100_000, 123_456_789])
def test_rounding_wastes_little(size):
    assert size <= rounded(size) <= max(512, size + size//8 + 512)
    assert rounded(rounded(size)) == rounded(size)
    assert rounded(size) % 512 == 0


# --- which runtime is loaded

MAPS = """\
55d0-55d1 r--p 00000000 08:01 11 /usr/bin/python3.11
7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libc.so.6
7f02-7f03 rw-p 00000000 00:00 0
7f04-7f05 r--p 00000000 08:01 13 {}
7f06-7f07 rw-p 00000000 00:00 0 [heap]
"""


@pytest.mark.parametrize("path", [
    "/opt/venv/lib/python3.12/site-packages/torch/lib/libamdhip64.so",
    "/opt/rocm-6.2/lib/libamdhip64.so.6.2.60200", "/a b/libamdhip64.so.7"])
def test_the_runtime_that_is_loaded_already_is_used(tmp_path, path):
    maps = tmp_path / "maps"
    maps.write_text(MAPS.format(path))
    assert hip_library.loaded_path(maps) == path
    assert hip_library.candidates(maps) == [path]


@pytest.mark.parametrize("path", ["/lib/libamdhip64-notes.txt", "/lib/libcuda.so.1"])
def test_other_libraries_are_not_taken_for_it(tmp_path, path):
    maps = tmp_path / "maps"
    maps.write_text(MAPS.format(path))
    assert hip_library.loaded_path(maps) is None
    assert hip_library.loaded_path(tmp_path / "none") is None


def test_else_that_of_rocm_path_then_any(tmp_path, monkeypatch):
    library = tmp_path / "lib" / "libamdhip64.so.6"
    library.parent.mkdir()
    library.touch()
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    found = hip_library.candidates(tmp_path / "none")
    assert found[0] == str(library)
    assert found[-1] == "libamdhip64.so"


def test_without_a_runtime_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(hip_library, "candidates", lambda: ["libamdhip64_missing.so"])
    with refused(BackendNotAvailableError, "libamdhip64", "apt install", "ROCM_PATH"):
        hip_library.hip_library.__wrapped__()


def test_a_loaded_runtime_is_found_in_this_process():
    code = """
import ctypes, sys
from nbfused.rocm.runtime import hip_library
try:
    ctypes.CDLL("libamdhip64.so.5")
except OSError:
    print("none here")
    sys.exit()
path = hip_library.loaded_path()
print(path)
assert hip_library.candidates() == [path]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "none here" or "libamdhip64.so.5" in done.stdout


# --- architectures


@pytest.mark.parametrize(("version", "name"), [
    (90000, "gfx900"), (90006, "gfx906"), (90008, "gfx908"), (90010, "gfx90a"),
    (90402, "gfx942"), (90500, "gfx950"), (100300, "gfx1030"), (110000, "gfx1100"),
    (110501, "gfx1151"), (120001, "gfx1201")])
def test_names_of_architectures(version, name):
    assert topology.gfx_name(version) == name


@pytest.fixture
def nodes(tmp_path):
    """A processor, and two devices of different kinds."""
    for number, lines in enumerate((
            "cpu_cores_count 8\ngfx_target_version 0\n",
            "gfx_target_version 90010\nlocation_id 49408\ndomain 0\n",
            "gfx_target_version 110000\nlocation_id 768\ndomain 1\n")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "properties").write_text(lines)
    return tmp_path


def test_the_driver_knows_the_architecture_at_a_bus(nodes):
    assert topology.gfx_target("0000:c1:00.0", nodes) == "gfx90a"
    assert topology.gfx_target("0001:03:00.0", nodes) == "gfx1100"
    with refused(DeviceError, "0000:99:00.0", "NBFUSED_ROCM_ARCH"):
        topology.gfx_target("0000:99:00.0", nodes)


def test_one_kind_of_device_needs_no_bus(nodes):
    (nodes / "2" / "properties").unlink()
    assert topology.gfx_target("0000:99:00.0", nodes) == "gfx90a"


def test_what_the_driver_does_not_know_the_setting_says(nodes):
    with config.override(rocm_arch="gfx1030,gfx90a"):
        assert topology.gfx_target("0000:c1:00.0", nodes) == "gfx90a"
        assert topology.gfx_target("0000:99:00.0", nodes) == "gfx1030"


def test_a_device_may_pretend_to_be_another(nodes, monkeypatch):
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
    assert topology.gfx_target("0000:c1:00.0", nodes) == "gfx1030"


def test_r12_what_kernels_are_compiled_for():
    assert topology.chosen("rocm:0", "gfx90a") == ("gfx90a",)
    with config.override(rocm_arch="gfx1030, gfx90a"):
        assert topology.chosen("rocm:0", "gfx90a") == ("gfx90a", "gfx1030")
    with config.override(rocm_arch="gfx1030"), refused(
            DeviceError, "NBFUSED_ROCM_ARCH=gfx1030", "rocm:0 is gfx90a", "unset it"):
        topology.chosen("rocm:0", "gfx90a")
