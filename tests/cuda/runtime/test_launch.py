"""Packing, contexts and memory, on a driver made of Python."""

from __future__ import annotations

import ctypes
import math
import re
import struct
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from nbfused.arrays import allocation
from nbfused.backend import NumberOf
from nbfused.cuda.runtime import compile, driver, launch
from nbfused.cuda.runtime.compile import Kernel
from nbfused.cuda.runtime.driver import Device, DriverError
from nbfused.cuda.runtime.launch import Program
from nbfused.cuda.runtime.notes import Launched
from nbfused.errors import AllocationError, DeviceError, KernelTypeError
from nbfused.gpu.devices import Devices


class Driver:
    """As much of the driver as is used; remembers calls."""

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")
    CUresult = staticmethod(lambda code: SimpleNamespace(name=f"CUDA_ERROR_{code}"))

    def __init__(self):
        self.calls, self.stack, self.room = [], [], 1000
        self.raw, self.refusal, self.mode = b"", 0, "global"

    def __getattr__(self, name):
        if not name.startswith("cu"):
            return SimpleNamespace(**{k: k for k in (
                "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
                "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES")})

        def call(*args):
            self.calls.append((name, *args))
            return (0, f"<{name}>")
        return call

    def cuModuleGetFunction(self, module, name):
        return 0, 99

    def cuGetErrorString(self, result):
        return 0, b"a reason"

    def cuFuncGetAttribute(self, attribute, function):
        return 0, 1024  # of static shared memory

    def cuCtxGetCurrent(self):
        return 0, self.stack[-1] if self.stack else 0

    def cuCtxPushCurrent(self, context):
        self.stack.append(context)
        return (0,)

    def cuCtxPopCurrent(self):
        return 0, self.stack.pop()

    def cuThreadExchangeStreamCaptureMode(self, mode):
        self.mode, before = mode, self.mode
        return 0, before

    def load(self, kernel, device):
        assert self.mode == "relaxed"
        self.calls.append(("load", kernel.name))
        return 98

    def cuCtxSetCurrent(self, context):
        self.stack = [context]
        return (0,)

    def entries(self):
        """The functions that are called through ctypes."""
        return driver.Entries(self.launch,
                              lambda: self.stack[-1] if self.stack else None)

    def launch(self, configuration, function, parameters, extra):
        *sizes, stream, attributes, count = struct.unpack(
            "=7I4xQQI4x", ctypes.string_at(configuration.value, 56))
        assert (attributes, count, extra) == (0, 0, None)
        if not self.stack or self.stack[-1] != 77:
            return 400 if self.stack else 201
        self.calls.append(("launch", self.stack[-1], function.value, *sizes, stream))
        table = (ctypes.c_void_p*self.count).from_address(parameters.value)
        self.raw = b"".join(ctypes.string_at(p, 8) for p in table)
        return self.refusal

    def cuMemAllocFromPoolAsync(self, size, pool, stream):
        self.calls.append(("allocate", size))
        return (0, 4096) if size <= self.room else (2, None)

    def cuMemPoolTrimTo(self, pool, keep):
        self.room += 1000
        return (0,)

    def cuMemGetInfo(self):
        return 0, 10, 2000


@pytest.fixture
def fake(monkeypatch):
    made = Driver()
    monkeypatch.setattr(driver, "cu", lambda: made)
    monkeypatch.setattr(launch, "cu", lambda: made)
    for module in (driver, launch):
        monkeypatch.setattr(module, "entries", made.entries)
    monkeypatch.setattr(launch, "loaded", made.load)
    return made


@pytest.fixture
def device(fake):
    made = object.__new__(Device)
    made.ordinal, made.address, made.context, made._pool = 0, 77, 77, "pool"
    made._dropped = deque()
    return made


def bind(device, kernel, blocks, values):
    return kernel.bind(device, Launched(kernel, (blocks, 1, 1), (128, 1, 1), values, 0))


def launches(fake):
    return [c for c in fake.calls if c[0] == "launch"]


def program(fake, *parameters):
    fake.count = len(parameters)
    return Program(Kernel("k", "def k(): pass\n", parameters, 128))


def test_numbers_are_packed_as_the_kernel_reads_them(fake, device):
    fake.stack = [77]
    program(fake, "*float32", "int64", "float32", "uint8").launch(
        device, 5, 3, (0xFFFF_FFFF_FFFF, -2, 1.5, True), 64)
    assert fake.raw == struct.pack("<Qqf4xB7x", 0xFFFF_FFFF_FFFF, -2, 1.5, 1)
    (call,) = launches(fake)
    assert call[2:] == (99, 3, 1, 1, 128, 1, 1, 64, 5)


def test_complex_numbers_are_two(fake, device):
    fake.stack = [77]
    kernel = program(fake, "complex64")
    fake.count = 2
    kernel.launch(device, 0, 1, (1 - 2j,))
    assert fake.raw == struct.pack("<f4xf4x", 1, -2)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_as_many_words_as_the_machine_code_takes(dtype):
    pytest.importorskip("numba.cuda")
    kernel = Kernel("k", "def k(p0, a0):\n    p0[0] = a0\n", (f"*{dtype}", dtype), 128)
    code = compile.ptx(kernel, (9, 0))
    words = re.search(r"\.entry k\((.*?)\)", code, re.DOTALL)[1].count(".param")
    assert Program(kernel)._memory.words.count == words


def test_beyond_float32_is_infinite(fake, device):
    fake.stack = [77]
    program(fake, "float32").launch(device, 0, 1, (1e300,))
    assert fake.raw[:4] == struct.pack("<f", float("inf"))


def test_a_number_that_does_not_fit_is_named(fake, device):
    fake.stack = [77]
    with pytest.raises(KernelTypeError, match=r"300.*uint8"):
        program(fake, "uint8").launch(device, 0, 1, (300,))


def test_another_context_is_put_back(fake, device):
    fake.stack = [11]
    program(fake, "int64").launch(device, 0, 1, (1,))
    assert fake.stack == [11]
    (call,) = launches(fake)
    assert call[1] == 77


def test_a_context_is_made_current_where_none_is(fake, device):
    program(fake, "int64").launch(device, 0, 1, (1,))
    assert fake.stack == [77]


def test_a_bound_launch_keeps_what_is_not_open(fake, device):
    fake.stack = [77]
    bound = bind(device, program(fake, "*float32", "*float32", "int64", "float32",
                                 "uint8", "float64"),
                 7, (0, 0, 1000, NumberOf(0), NumberOf(1), NumberOf(0)))
    bound((16, 32), (2.5, True), 5)
    assert fake.raw == struct.pack("<QQqf4xB7xd", 16, 32, 1000, 2.5, 1, 2.5)
    bound((48, 64), (1e300, 7), 0)
    assert fake.raw == struct.pack("<QQqf4xB7xd", 48, 64, 1000, math.inf, 7, 1e300)
    with pytest.raises(KernelTypeError, match=r"300.*uint8"):
        bound((48, 64), (1.0, 300), 0)
    assert [call[2:] for call in launches(fake)] == [
        (99, 7, 1, 1, 128, 1, 1, 0, stream) for stream in (5, 0)]
    fake.stack = [11]
    bound((48, 64), (0.0, 0), 0)
    assert fake.stack == [11]
    assert launches(fake)[-1][1] == 77


def test_bound_launches_of_several_threads_do_not_mix(fake, device):
    fake.stack = [77]
    seen, take = [], fake.launch

    def slow(*args):
        take(*args)
        first = fake.raw
        time.sleep(1e-4)
        table = (ctypes.c_void_p*2).from_address(args[2].value)
        seen.append((first, b"".join(ctypes.string_at(p, 8) for p in table)))
        return 0

    fake.launch = slow
    bound = bind(device, program(fake, "*float32", "int64"), 1, (0, NumberOf(0)))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: bound((k,), (k,), k), range(64)))
    assert all(before == after for before, after in seen)
    assert sorted(before for before, _ in seen) == sorted(
        struct.pack("<Qq", k, k) for k in range(64))


def test_a_refused_launch_is_an_error(fake, device):
    fake.stack, fake.refusal = [77], 9
    bound = bind(device, program(fake, "int64"), 1, (NumberOf(0),))
    for call in (lambda: bound((), (1,), 0),
                 lambda: program(fake, "int64").launch(device, 0, 1, (1,))):
        with pytest.raises(DriverError, match="CUDA_ERROR_9"):
            call()


def test_another_device_than_the_first_is_current_only_meanwhile(fake, device):
    """It would become the current device of PyTorch and CuPy in this thread."""
    device.ordinal = 1
    with device.current():
        assert fake.stack == [77]
    assert fake.stack == []
    device.ordinal = 0
    with device.current():
        pass
    assert fake.stack == [77]


def test_modules_are_loaded_once_and_large_shared_memory_asked_for_once(fake, device):
    fake.stack = [77]
    kernel = program(fake, "int64")
    for shared in (100_000, 90_000, 110_000):
        kernel.launch(device, 0, 1, (1,), shared)
    names = [c[0] for c in fake.calls]
    assert names.count("load") == 1
    assert fake.mode == "global"
    assert [c[-1] for c in fake.calls if c[0] == "cuFuncSetAttribute"] == [
        100_000, 110_000]


def test_static_shared_memory_counts_too(fake, device):
    fake.stack = [77]
    program(fake, "int64").launch(device, 0, 1, (1,), 48*1024)
    assert [c[-1] for c in fake.calls if c[0] == "cuFuncSetAttribute"] == [48*1024]


def test_memory_is_asked_for_again_after_the_pool_was_trimmed(fake, device):
    assert device.allocate(1500) == 4096
    assert [c for c in fake.calls if c[0] == "allocate"] == [("allocate", 1500)]*2


def test_out_of_memory_says_how_much_there_is(fake, device):
    with pytest.raises(AllocationError, match=r"cuda:0.*5,000.*10 of\s*2,000"):
        device.allocate(5000)


def test_a_workspace_is_freed_also_when_the_launch_fails(fake, device):
    with pytest.raises(RuntimeError, match="no launch"), device.workspace(8, 3):
        raise RuntimeError("no launch")
    assert ("cuMemFreeAsync", 4096, 3) in fake.calls


def test_nothing_is_allocated_for_nothing(fake, device):
    assert device.allocate(0) == 0
    device.free(0)
    assert fake.calls == []


def test_the_memory_of_arrays_is_freed_with_the_next_allocation(fake, device):
    """Not when they die: somebody may capture a graph, or this may be a forked child.

    On other streams than the default one graphs are captured.
    """
    allocation.Allocation(device, 100)  # gone at once
    assert [name for name, *_ in fake.calls if "Free" in name] == []
    with device.workspace(8, stream=3):
        assert ("cuMemFreeAsync", 4096, 0) not in fake.calls
    kept = allocation.Allocation(device, 100)
    assert [c[0] for c in fake.calls[-2:]] == ["cuMemFreeAsync", "allocate"]
    assert fake.calls[-2] == ("cuMemFreeAsync", 4096, 0)
    del kept
    device.trim()
    assert fake.calls.count(("cuMemFreeAsync", 4096, 0)) == 2


def test_a_refusal_has_its_name(fake):
    with pytest.raises(DriverError, match=r"CUDA_ERROR_9: a reason") as caught:
        driver.check((9,))
    assert caught.value.code == 9


@pytest.mark.parametrize(("code", "words"), [
    (3, "forked after CUDA had started.*'spawn'"), (709, "reset the device")])
def test_what_to_do_is_said_where_the_driver_does_not(fake, code, words):
    with pytest.raises(DriverError, match=rf"CUDA_ERROR_{code}: a reason; .*{words}"):
        driver.check((code,))


def test_a_device_that_does_not_exist(fake, monkeypatch):
    none = Devices("cuda", "driver", driver.Device, lambda: 2)
    monkeypatch.setattr(driver, "_devices", none)
    with pytest.raises(DeviceError, match=r"cuda:7 does not exist.*cuda:0 to cuda:1"):
        driver.device(7)
