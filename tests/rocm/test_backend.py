"""Whether the backend can be used here, why not, and which calls it refuses."""

from __future__ import annotations

from shutil import which

import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays import DeviceArray
from nbfused.config import config
from nbfused.errors import DeviceError, KernelTypeError
from nbfused.rocm import RocmBackend, backend
from nbfused.rocm.build import toolchain
from nbfused.rocm.runtime import hip_library
from nbfused.specs import Map
from tests.refusal import refused
from tests.rocm.emulating import emulating, python

# --- available


@pytest.fixture
def machine(monkeypatch):
    """A machine with hipcc, the runtime and a device."""
    monkeypatch.setattr(toolchain.shutil, "which", lambda program: f"/bin/{program}")
    monkeypatch.setattr(backend, "hip_library", lambda: None)
    monkeypatch.setattr(backend, "_DEVICE_FILES", (__file__,))
    for variable in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    backend._missing_of.cache_clear()
    with config.override(rocm_emulate="0", hipcc=None):
        yield monkeypatch
    backend._missing_of.cache_clear()


def test_available(machine):
    assert RocmBackend().available() is None


@pytest.mark.parametrize(("emulate", "words"), [
    ("0", ("hipcc", "apt install hipcc", "NBFUSED_HIPCC", "ROCM_PATH")),
    ("1", ("C++ compiler", "apt install g++", "CXX")), ("nvidia", ("nvcc", "CUDA"))])
def test_without_a_compiler_it_says_what_to_install(machine, emulate, words):
    machine.setattr(toolchain.shutil, "which", lambda program: None)
    with config.override(rocm_emulate=emulate):
        why = RocmBackend().available()
    assert all(word in why for word in words)


def test_a_compiler_that_is_not_there_is_named(machine):
    machine.setattr(toolchain.shutil, "which", lambda program: None)
    with config.override(hipcc="/nowhere/hipcc"):
        assert "NBFUSED_HIPCC=/nowhere/hipcc" in RocmBackend().available()


def test_without_a_runtime(machine):
    machine.setattr(backend, "hip_library", hip_library.hip_library.__wrapped__)
    machine.setattr(hip_library, "candidates", lambda: ["libamdhip64_missing.so"])
    assert "libamdhip64" in RocmBackend().available()


@pytest.mark.parametrize("variable", ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
@pytest.mark.parametrize("hidden", ["", "-1"])
def test_with_every_device_hidden(machine, variable, hidden):
    machine.setenv(variable, hidden)
    assert RocmBackend().available() == f"{variable}={hidden} hides every device"


def test_without_a_device_file_the_runtime_is_asked(machine):
    class NoDevice:
        @staticmethod
        def hipGetDeviceCount(count):
            return 100

        @staticmethod
        def hipGetErrorName(code):
            return {100: b"hipErrorNoDevice"}[code]

    machine.setattr(backend, "_DEVICE_FILES", ("/nowhere",))
    machine.setattr(hip_library, "hip_library", lambda: NoDevice)
    assert "hipErrorNoDevice" in RocmBackend().available()


def test_a_broken_installation_is_a_reason_not_an_error(machine):
    def broken():
        raise ValueError("half an installation")

    machine.setattr(backend, "hip_library", broken)
    assert "half an installation" in RocmBackend().available()


def test_rocm_path_and_path_are_searched_in_order(machine, tmp_path):
    (tmp_path / "bin").mkdir()
    hipcc = tmp_path / "bin" / "hipcc"
    hipcc.write_text("#!/bin/sh\n")
    hipcc.chmod(0o700)
    machine.setattr(toolchain.shutil, "which", which)
    machine.setenv("ROCM_PATH", str(tmp_path))
    assert toolchain.find().compiler == str(hipcc)
    machine.setenv("ROCM_PATH", str(tmp_path / "none"))
    assert f"no hipcc in {tmp_path / 'none'}" in RocmBackend().available()
    machine.delenv("ROCM_PATH")
    machine.setenv("PATH", str(tmp_path / "bin"))
    assert toolchain.find().compiler == str(hipcc)


def test_a_machine_without_a_device_refuses_cleanly():
    done = python("import nbfused", NBFUSED_BACKEND="rocm", NBFUSED_ROCM_EMULATE="0",
                  ROCR_VISIBLE_DEVICES="-1", HIP_VISIBLE_DEVICES="-1")
    assert done.returncode == 1
    assert "BackendNotAvailableError: NBFUSED_BACKEND=rocm: backend 'rocm' is not " \
        "usable: " in done.stderr
    listed = python("import nbfused as nf; print(nf.backends())",
                    NBFUSED_ROCM_EMULATE="0", HIP_VISIBLE_DEVICES="-1",
                    ROCR_VISIBLE_DEVICES="-1")
    assert "rocm  not available: " in listed.stdout


def test_importing_compiles_nothing_and_loads_no_runtime(tmp_path):
    said = emulating("""
import sys, nbfused as nf
print(nf.cache.stats().compilations, "nbfused.rocm.runtime.device" in sys.modules,
      "numba" in sys.modules)
""", NBFUSED_CACHE_DIR=str(tmp_path))
    assert said.split() == ["0", "False", "False"]


@pytest.mark.parametrize(("device", "owned"), [
    ("rocm", True), ("rocm:3", True), ("cuda:0", False), ("cpu", False),
    ("rocmx:0", False)])
def test_owns(device, owned):
    assert RocmBackend().owns(device) is owned


# --- R06 and addresses


def test_r06_a_host_array_is_refused_by_name():
    said = emulating("""
import numpy as np, nbfused as nf
try:
    nf.ops.swish(np.ones(3))
except nf.errors.DeviceError as error:
    print(error)
""")
    assert said.startswith("'x' is on cpu")
    assert "nbfused.array(x, device='rocm:0')" in said


def test_r06_host_and_device_arrays_do_not_mix():
    x = nf.array(np.ones(3), device="rocm")
    with refused(KernelTypeError, "'x' is of nbfused", "'y' is of numpy"):
        nf.ops.add(x, np.ones(3))


def test_r06_what_is_not_contiguous_is_taken():
    host = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    x = nf.array(host, device="rocm")
    for found, expected in ((x.T, host.T), (x[::2, ::-1], host[::2, ::-1])):
        assert np.array_equal(nf.to_numpy(nf.ops.add(found, 1)), expected + 1)


def pretending(address, shape=(4,)):
    """An array that says it is on the device."""
    return DeviceArray(address, shape, None, np.dtype("f4"), "rocm:0", 0, None)


def test_addresses_are_looked_at_before_the_launch():
    host, y = np.ones(4, np.float32), nf.empty(4, "float32", device="rocm")
    with refused(DeviceError, "x has no memory", "address is 0"):
        nf.ops.swish(pretending(0))
    with refused(DeviceError, f"x is at {host.ctypes.data:#x}", "nbfused.array"):
        nf.ops.swish(pretending(host.ctypes.data))
    with refused(DeviceError, "an output is at"):
        nf.ops.swish(y, out=pretending(host.ctypes.data))


def test_stale_addresses_are_refused():
    # So large that nothing of the size of a result comes to lie there.
    x = nf.array(np.ones(1 << 20, np.float32), device="rocm")
    stale = pretending(x.pointer)
    assert nf.to_numpy(nf.ops.add(stale, 1)).tolist() == [2]*4
    del x
    if config.rocm_emulate == "1":  # elsewhere freed memory is kept
        with refused(DeviceError, f"is at {stale.pointer:#x}", "not been freed"):
            nf.ops.add(stale, 1)


def test_empty_arrays_need_no_memory():
    empty = pretending(0, (0, 3))
    assert nf.to_numpy(nf.ops.sum(empty, axis=0)).tolist() == [0, 0, 0]


def test_names_of_array_inputs():
    spec = nf.ops.swish.spec(("element", "scalar"))
    assert isinstance(spec, Map)
    checked = backend._Checked(spec, lambda call: None)
    assert checked._names == ["x"]
