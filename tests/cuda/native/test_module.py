"""CUDA C++ by NVRTC, which needs no device; loading and launching on a fake driver."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from nbfused import cache
from nbfused.backend import Native
from nbfused.config import config
from nbfused.cuda.native import module as native
from nbfused.cuda.native import nvrtc
from nbfused.cuda.native.nvrtc import compile_native
from nbfused.cuda.runtime import attributes, driver
from nbfused.cuda.runtime.driver import Device
from nbfused.errors import (
    BackendNotAvailableError,
    CompileError,
    KernelTypeError,
    RangeError,
)

TRIPLE = """
template<typename T> __global__ void triple(T* x) { x[threadIdx.x] *= 3; }
extern "C" __global__ void scale(float* x, float a) { x[threadIdx.x] *= a; }
"""


def installed():
    try:
        nvrtc._nvrtc()
    except BackendNotAvailableError:
        return False
    return True


compiled = pytest.mark.skipif(not installed(), reason="NVRTC is not installed")


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with config.override(cache_dir=str(tmp_path)):
        yield tmp_path


@compiled
def test_templates_are_instantiated_and_named():
    made = compile_native(Native(TRIPLE, (), ("triple<float>", "scale")), (9, 0))
    assert made.code.startswith(b"\x7fELF")
    assert made.names["scale"] == "scale"
    assert made.names["triple<float>"].startswith("_Z6triple")


@compiled
def test_the_cache_knows_options_names_and_architecture():
    before = cache.stats()
    for options, arch in (((), (9, 0)), ((), (9, 0)), (("-DN=1",), (9, 0)),
                          ((), (8, 0)), (("-DN=1",), (9, 0))):
        made = compile_native(Native(TRIPLE, options, ("scale",)), arch)
        assert made.names == {"scale": "scale"}
    after = cache.stats()
    assert after.compilations - before.compilations == 3
    assert after.hits - before.hits == 2


@compiled
def test_what_includes_files_of_the_user_is_never_stale(tmp_path):
    header = tmp_path / "size.h"
    text = '#include "size.h"\nextern "C" __global__ void f(char (*x)[SIZE]) {}'
    for size in ("1", "no_number"):
        header.write_text(f"#define SIZE {size}\n")
        code = Native(text, (f"-I{tmp_path}",), ("f",))
        if size == "1":
            compile_native(code, (9, 0))
        else:
            with pytest.raises(CompileError, match="no_number"):
                compile_native(code, (9, 0))


@compiled
def test_refusals_show_the_log_with_its_line():
    with pytest.raises(CompileError, match=r'kernel\.cu\(2\): error.*"y"') as caught:
        compile_native(Native("__global__ void f() {\n y = 3;\n}"), (9, 0))
    assert "y = 3" in caught.value.log
    assert "y = 3" in caught.value.source
    with pytest.raises(CompileError, match="unrecognized option --bogus"):
        compile_native(Native(TRIPLE, ("--bogus",)), (9, 0))
    with pytest.raises(CompileError, match='"missing" is undefined'):
        compile_native(Native(TRIPLE, (), ("missing",)), (9, 0))
    with pytest.raises(CompileError, match="follows from the device"):
        compile_native(Native(TRIPLE, ("-arch=sm_80",)), (9, 0))


@compiled
def test_headers_of_the_toolkit_are_found():
    if not nvrtc._headers():
        pytest.skip("no headers are installed")
    text = ('#include <cuda_fp16.h>\n'
            'extern "C" __global__ void f(__half* x) { *x = __hadd(*x, *x); }')
    assert compile_native(Native(text, (), ("f",)), (9, 0)).code


def test_without_nvrtc_it_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings", None)
    nvrtc._nvrtc.cache_clear()
    try:
        with pytest.raises(BackendNotAvailableError, match="NVRTC, which cannot"):
            compile_native(Native("", ("-I.",)), (9, 0))
    finally:
        nvrtc._nvrtc.cache_clear()


class Driver:
    """As much of the driver as native code needs; remembers calls."""

    CUresult = staticmethod(lambda code: SimpleNamespace(name=f"CUDA_ERROR_{code}"))
    CUjit_option = SimpleNamespace(CU_JIT_ERROR_LOG_BUFFER=1,
                                   CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES=2)
    CUfunction_attribute = SimpleNamespace(**{
        f"CU_FUNC_ATTRIBUTE_{name.upper()}": name for name in attributes.NAMES})

    def __init__(self):
        self.values = dict.fromkeys(attributes.NAMES, 0) | {
            "max_threads_per_block": 256, "shared_size_bytes": 1024,
            "max_dynamic_shared_size_bytes": 48 * 1024 - 1024}
        self.launched = []

    def cuGetErrorString(self, result):
        return 0, b"a reason"

    def cuModuleLoadDataEx(self, code, count, options, values):
        if code.startswith(b"bad"):
            values[0][:9] = b"line 3: x"
            return 218, None
        return 0, "module"

    def cuModuleGetFunction(self, module, name):
        return (0, "function") if name == b"scale" else (500, None)

    def cuModuleGetGlobal(self, module, name):
        return (0, 4096, 16) if name == b"table" else (500, None, None)

    def cuFuncGetParamInfo(self, function, k):
        return (0, 8 * k, (8, 4)[k]) if k < 2 else (1, 0, 0)

    def cuFuncGetAttribute(self, name, function):
        assert function == "function"
        return 0, self.values[name]

    def cuFuncSetAttribute(self, function, name, value):
        assert function == "function"
        self.values[name] = value
        return (0,)

    def cuLaunchKernel(self, function, *args):
        table = (ctypes.c_void_p * 2).from_address(args[8])
        self.launched.append((args[:8], [ctypes.string_at(p, 4) for p in table]))
        return (0,)

    def cuLaunchCooperativeKernel(self, function, *args):
        assert len(args) == 9
        return self.cuLaunchKernel(function, *args)


@pytest.fixture
def fake(monkeypatch):
    made = Driver()
    for module in (driver, native, attributes):
        monkeypatch.setattr(module, "cu", lambda: made)
    monkeypatch.setattr(driver, "entries", lambda: driver.Entries(None, lambda: 77))
    return made


@pytest.fixture
def device(fake):
    made = object.__new__(Device)
    made.ordinal, made.address, made.context = 0, 77, 77
    made.arch, made.shared_limit = (9, 0), 200_000
    return made


def loaded(device, **options):
    return native.load(Native(b"ELF", **options), device)


@pytest.mark.parametrize("cooperative", [False, True])
def test_parameters_reach_the_driver(fake, device, cooperative):
    kernel = loaded(device, cooperative=cooperative).kernel("scale")
    assert kernel.sizes == (8, 4)
    kernel.launch((3, 2, 1), (64, 1, 1), [b"pointer!", b"1234"], 16, 5)
    assert fake.launched == [((3, 2, 1, 64, 1, 1, 16, 5), [b"poin", b"1234"])]


def test_an_old_driver_does_not_tell_sizes(fake, device, monkeypatch):
    monkeypatch.delattr(Driver, "cuFuncGetParamInfo")
    assert loaded(device).kernel("scale").sizes is None


def test_more_shared_memory_is_asked_for(fake, device):
    kernel = loaded(device).kernel("scale")
    kernel.launch((1,) * 3, (1,) * 3, [b"", b""], 47 * 1024, 0)
    assert kernel.attributes()["max_dynamic_shared_size_bytes"] == 47 * 1024
    kernel.launch((1,) * 3, (1,) * 3, [b"", b""], 100_000, 0)
    assert kernel.attributes()["max_dynamic_shared_size_bytes"] == 100_000
    with pytest.raises(RangeError, match=r"199000 bytes besides 1024.*200000"):
        kernel.launch((1,) * 3, (1,) * 3, [b"", b""], 199_000, 0)
    assert len(fake.launched) == 2


def test_registers_bound_the_block(fake, device):
    kernel = loaded(device).kernel("scale")
    with pytest.raises(RangeError, match=r"512 threads.*256"):
        kernel.launch((1,) * 3, (512, 1, 1), [b"", b""], 0, 0)
    assert not fake.launched


def test_attributes_are_set_within_the_devices_bounds(fake, device):
    kernel = loaded(device).kernel("scale")
    kernel.set_attribute("max_dynamic_shared_size_bytes", 50_000)
    kernel.set_attribute("preferred_shared_memory_carveout", -1)
    found = kernel.attributes()
    assert found["max_dynamic_shared_size_bytes"] == 50_000
    assert found["preferred_shared_memory_carveout"] == -1
    for name, value, error in (
            ("max_dynamic_shared_size_bytes", 200_000, RangeError),
            ("max_dynamic_shared_size_bytes", -1, RangeError),
            ("max_dynamic_shared_size_bytes", 1.0, KernelTypeError),
            ("preferred_shared_memory_carveout", 101, RangeError),
            ("num_regs", 3, KernelTypeError)):
        with pytest.raises(error, match=name):
            kernel.set_attribute(name, value)


def test_missing_names_say_how_they_are_mangled(fake, device):
    module = loaded(device)
    assert module.variable("table") == (4096, 16)
    with pytest.raises(KernelTypeError, match=r"no kernel 'f'.*name_expressions"):
        module.kernel("f")
    with pytest.raises(KernelTypeError, match="no variable 'f'"):
        module.variable("f")


def test_the_driver_refuses_with_its_log(fake, device):
    with pytest.raises(CompileError, match=r"kernel\.cu.*a reason\s*line 3: x"):
        native.load(Native(b"bad"), device)
