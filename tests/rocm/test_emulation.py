"""The emulated devices: settings, launches that are refused, memory, threads, forks."""

from __future__ import annotations

import ctypes
import re
import signal
import threading
from ctypes import byref, c_int, c_int64, c_size_t, c_uint, c_void_p

import numpy as np
import pytest

from nbfused.config import config
from nbfused.errors import BackendNotAvailableError
from nbfused.rocm.build import toolchain
from nbfused.rocm.runtime import device as runtime
from tests.rocm.emulated import HERE, find, run, said, start
from tests.rocm.emulating import python

INVALID, MEMORY, CONFIGURATION, NO_DEVICE, FAILURE = 1, 2, 9, 100, 719


@pytest.fixture(autouse=True)
def only_emulated():
    """Other devices have tests of their own."""
    find()


def places(blocks, threads, shared=0, y=None):
    """Launch the kernel of that name; its code."""
    return start("blocks", "places_of", y, (c_uint*3)(*blocks), (c_uint*3)(*threads),
                 c_size_t(shared))


# --- launches


@pytest.mark.parametrize(("blocks", "threads", "shared", "text"), [
    ((0, 1, 1), (1, 1, 1), 0, "0 x 1 x 1 blocks"),
    ((1, 1, 1), (1, 0, 1), 0, "of 1 x 0 x 1 threads"),
    ((1, 65536, 1), (1, 1, 1), 0, "1 x 65536 x 1 blocks"),
    ((1, 1, 65536), (1, 1, 1), 0, "below 2147483648, 65536, 65536"),
    ((2**31, 1, 1), (1, 1, 1), 0, "2147483648 x 1 x 1 blocks"),
    ((1, 1, 1), (1025, 1, 1), 0, "1025 x 1 x 1 threads in a block; at most 1024"),
    ((1, 1, 1), (2**31, 2**31, 4), 0, "threads in a block; at most 1024"),
    ((1, 1, 1), (1, 1, 1), 65537, "65537 bytes of shared memory; .* at most 65536"),
])
def test_what_a_gpu_refuses_is_refused(blocks, threads, shared, text):
    assert places(blocks, threads, shared) == CONFIGURATION
    assert re.search(text, said(CONFIGURATION))


@pytest.mark.parametrize(("name", "value", "text"), [
    ("WAVE", "48", "NBFUSED_EMULATION_WAVE is '48'; it must be"),
    ("WAVE", "wide", "NBFUSED_EMULATION_WAVE is 'wide'; it must be"),
    ("SCHEDULE", "fast", "NBFUSED_EMULATION_SCHEDULE is 'fast'; it must be step"),
])
def test_settings_that_mean_nothing_are_refused(monkeypatch, name, value, text):
    monkeypatch.setenv(f"NBFUSED_EMULATION_{name}", value)
    assert places((1, 1, 1), (1, 1, 1)) == CONFIGURATION
    assert text in said(CONFIGURATION)


def test_an_error_is_told_once():
    y = np.zeros(6, np.int32)
    assert places((0, 1, 1), (1, 1, 1)) == CONFIGURATION
    assert places((1, 1, 1), (1, 1, 1), y=y) == 0


def test_as_many_threads_as_asked_for(monkeypatch):
    x = np.random.default_rng(0).integers(-9, 9, 300_000).astype(float)
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("NBFUSED_EMULATION_THREADS", threads)
        y = np.zeros(600)
        run("blocks", "sums", x, y, c_int64(x.size), c_uint(600))
        assert y.sum() == x.sum()


@pytest.mark.parametrize("schedule", ["step", "first", "last"])
def test_a_failure_among_many_blocks_ends_the_launch(monkeypatch, schedule):
    monkeypatch.setenv("NBFUSED_EMULATION_SCHEDULE", schedule)
    x, y = np.ones(512, np.float32), np.zeros(512, np.float32)
    for _ in range(20):
        assert start("planted", "barrier_in_a_loop", 1, x, y) == FAILURE
        run("planted", "missing_barrier", 0, x, y)


def test_launches_from_several_threads():
    x = np.random.default_rng(0).integers(-9, 9, 50_000).astype(float)
    failures = []

    def launch(k):
        own, y = x + k, np.zeros(30)
        for _ in range(20):
            code = start("blocks", "sums", own, y, c_int64(x.size), c_uint(30))
            if code or y.sum() != own.sum():
                failures.append((k, code, y.sum()))
            wrong, ones = k % 2, np.ones((2, 512), np.float32)
            code = start("planted", "divergent_barrier", wrong, *ones)
            if code != (FAILURE if wrong else 0):
                failures.append((k, code))

    threads = [threading.Thread(target=launch, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_process_that_was_forked_emulates_too():
    code = """
import os, numpy as np
from ctypes import c_int64, c_uint
from nbfused.config import config
from tests.rocm.emulated import run
x = np.arange(300_000.0)
def check():
    y = np.zeros(600)
    run("blocks", "sums", x, y, c_int64(x.size), c_uint(600))
    assert y.sum() == x.sum()
check()
for k in range(3):
    child = os.fork()
    if child == 0:
        check()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    check()
"""
    done = python(code, NBFUSED_ROCM_EMULATE="1", NBFUSED_EMULATION_THREADS="4")
    assert done.returncode == 0, done.stderr


def test_a_stack_that_overflows_hits_its_guard():
    """In a process of its own: the system ends it."""
    code = "from tests.rocm.emulated import run; import numpy as np\n" \
           "run('blocks', 'recursion', np.zeros(2, np.int32), 1000)"
    assert python(code, NBFUSED_ROCM_EMULATE="1").returncode == -signal.SIGSEGV


# --- memory


def allocated(size):
    address = c_void_p()
    return runtime.runtime().nbf_malloc(0, byref(address), c_size_t(size)), address


def test_memory_begins_as_no_number():
    code, address = allocated(64)
    assert code == 0
    assert address.value % 256 == 0
    assert np.isnan(np.ctypeslib.as_array((ctypes.c_double*8).from_address(
        address.value))).all()
    assert runtime.runtime().nbf_free(0, address) == 0


def test_memory_is_as_much_as_there_is(monkeypatch):
    free, total = c_size_t(), c_size_t()
    found = runtime.runtime()
    assert found.nbf_memory(0, byref(free), byref(total)) == 0
    used = total.value - free.value
    monkeypatch.setenv("NBFUSED_EMULATION_MEMORY", str(used + 1000))
    assert allocated(1001)[0] == MEMORY
    code, address = allocated(600)
    assert code == 0
    assert allocated(600)[0] == MEMORY
    assert found.nbf_memory(0, byref(free), byref(total)) == 0
    assert (free.value, total.value) == (400, used + 1000)
    assert found.nbf_free(0, address) == 0


def test_addresses_are_known_until_they_are_freed():
    found = runtime.runtime()
    _, address = allocated(100)
    host = np.zeros(4)

    def known(at):
        return found.nbf_first_unknown((c_void_p*1)(at), 1) == 1

    start = address.value
    assert [known(at) for at in (start, start + 99, start + 100, 0, host.ctypes.data)] \
        == [True, True, False, False, False]
    assert found.nbf_free(0, address) == 0
    assert not known(start)
    assert found.nbf_free(0, address) == INVALID


def test_copies_stay_in_their_arrays():
    found = runtime.runtime()
    _, address = allocated(80)
    host = np.arange(11.0)

    def copy(to, source, size, kind):
        return found.nbf_copy(0, c_void_p(to), c_void_p(source), c_size_t(size), kind,
                              None)

    device, here = address.value, host.ctypes.data
    assert copy(device, here, 80, runtime.TO_DEVICE) == 0
    assert copy(device, here, 88, runtime.TO_DEVICE) == INVALID
    assert copy(device + 8, here, 80, runtime.TO_DEVICE) == INVALID
    assert copy(here, here, 8, runtime.TO_HOST) == INVALID
    assert copy(device, device + 40, 40, runtime.WITHIN) == 0
    assert copy(here, device, 80, runtime.TO_HOST) == 0
    assert list(host) == [5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 10]
    assert found.nbf_free(0, address) == 0


def test_devices_are_as_many_as_asked_for(monkeypatch):
    found, count = runtime.runtime(), c_int()
    for devices in (1, 3):
        monkeypatch.setenv("NBFUSED_EMULATION_DEVICES", str(devices))
        assert found.nbf_device_count(byref(count)) == 0
        assert count.value == devices
    monkeypatch.setenv("NBFUSED_EMULATION_DEVICES", "0")
    assert found.nbf_device_count(byref(count)) == NO_DEVICE
    assert places((1, 1, 1), (1, 1, 1)) == NO_DEVICE
    assert allocated(8)[0] == NO_DEVICE
    assert "no device" in said(NO_DEVICE)


@pytest.mark.parametrize("wave", [32, 64])
def test_a_device_tells_its_wave(monkeypatch, wave):
    monkeypatch.setenv("NBFUSED_EMULATION_WAVE", str(wave))
    value = c_int()
    assert runtime.runtime().nbf_attribute(byref(value), 1, 0) == 0
    assert value.value == wave


# --- the same kernels for GPUs


@pytest.mark.parametrize("name", ["planted", "blocks"])
@pytest.mark.parametrize(("emulate", "archs"), [("0", ("gfx90a", "gfx1030")),
                                                ("nvidia", ("sm_90",))])
def test_compilers_for_gpus_take_the_test_kernels(tmp_path, emulate, archs, name):
    with config.override(rocm_emulate=emulate):
        try:
            chain = toolchain.find()
        except BackendNotAvailableError as missing:
            pytest.skip(str(missing))
    done = chain.compile([HERE / f"{name}.hip"], tmp_path / "kernels.so",
                         chain.flags(archs))
    assert done.returncode == 0, done.stdout
