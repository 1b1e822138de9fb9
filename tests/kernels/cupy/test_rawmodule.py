"""RawKernel and RawModule up to the driver: what is refused, what is packed."""

from __future__ import annotations

import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays import DeviceArray
from nbfused.errors import (
    BackendNotAvailableError,
    DeviceError,
    KernelTypeError,
    NotDifferentiableError,
    RangeError,
)
from nbfused.kernels.cupy import rawmodule
from nbfused.kernels.cupy.rawmodule import RawKernel, RawModule

X = np.zeros(4, "f4")
FLOAT3 = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4")])


class Recorded:
    """A kernel that is only described."""

    def __init__(self, sizes):
        self.sizes, self.launches, self.known = sizes, [], {"num_regs": 8}

    def launch(self, grid, block, values, shared, stream):
        self.launches.append((grid, block, values, shared, stream))

    def attributes(self):
        return self.known

    def set_attribute(self, name, value):
        self.known[name] = value


class Accelerator:
    """A backend whose device memory is the host's, or (`host` False) is not."""

    name = "cuda"

    def __init__(self, sizes=None, host=True):
        self.kernel, self.loads, self.host = Recorded(sizes), [], host
        self.variable_ = np.arange(4, dtype="f4")

    def owns(self, device):
        return (self.host and device == "cpu") or device.startswith("cuda")

    def native(self, code, device):
        self.loads.append((code, device))
        return SimpleNamespace(
            kernel=lambda name: self.kernel,
            variable=lambda name: (self.variable_.ctypes.data, self.variable_.nbytes))

    def synchronize(self):
        pass


@pytest.fixture
def use(monkeypatch):
    def use(*sizes, host=True):
        fake = Accelerator(sizes or None, host)
        monkeypatch.setattr(rawmodule, "registry",
                            SimpleNamespace(load=lambda name: fake))
        return fake
    return use


def kernel():
    return RawKernel("__global__ void f() {}", "f")


def test_nothing_is_compiled_before_the_first_call(use):
    fake = use(8)
    made = kernel()
    assert not fake.loads
    for _ in range(2):
        made((3,), (64, 2), (X,), shared_mem=16, stream=7)
    ((native, device),) = fake.loads
    assert (native.code, native.names, device) == (made.code, ("f",), "cpu")
    assert fake.kernel.launches == [
        ((3, 1, 1), (64, 2, 1), [struct.pack("Q", X.ctypes.data)], 16, 7)] * 2


@pytest.mark.parametrize(("value", "size", "expected"), [
    (True, 1, b"\1"),
    (-5, 8, struct.pack("q", -5)),
    (5, 4, struct.pack("i", 5)),
    (2**32 - 1, 4, b"\xff" * 4),
    (2**63, None, struct.pack("Q", 2**63)),
    (1.5, 8, struct.pack("d", 1.5)),
    (1 - 2j, 16, struct.pack("2d", 1, -2)),
    (np.float32(1.5), 4, struct.pack("f", 1.5)),
    (np.float16(1.5), 2, np.float16(1.5).tobytes()),
    (np.complex64(3j), 8, struct.pack("2f", 0, 3)),
    (np.zeros((), FLOAT3)[()], 12, bytes(12)),
    (None, 8, bytes(8)),
])
def test_values_are_the_bytes_of_their_type(use, value, size, expected):
    fake = use(*([size] if size else []))
    kernel()((1,), (1,), (value,))
    assert fake.kernel.launches[0][2] == [expected]


def test_one_element_of_numpy_goes_by_value(use):
    fake = use(12, 4, host=False)
    point = np.array([(1, 2, 3)], FLOAT3)
    kernel()((1,), (1,), (point, np.float32([7])))
    assert fake.kernel.launches[0][2] == [struct.pack("3f", 1, 2, 3),
                                          struct.pack("f", 7)]


@pytest.mark.parametrize(("args", "error", "message"), [
    ((X,), DeviceError, r"args\[0\].*host.*nbfused.array"),
    ((1,), KernelTypeError, "takes 2 arguments, got 1"),
    ((None, "text"), KernelTypeError, r"args\[1\] is a str"),
    ((None, [1.0]), KernelTypeError, r"args\[1\] is a list"),
    ((None, 1.0), KernelTypeError, r"args\[1\] is a float of 8 bytes.*has 4"),
    ((None, 2**32), RangeError, r"args\[1\].*32 bits"),
    ((None, np.datetime64("2020-01-01")), KernelTypeError, "dtype"),
    ((nf.Variable(X, requires_grad=True), 1), NotDifferentiableError, r"args\[0\]"),
    (X, KernelTypeError, "args is a ndarray"),
])
def test_wrong_arguments_are_named_and_nothing_is_launched(use, args, error, message):
    fake = use(8, 4, host=False)
    with pytest.raises(error, match=message):
        kernel()((1,), (1,), args)
    assert not fake.kernel.launches


@pytest.mark.parametrize(("grid", "block", "shared", "error", "message"), [
    ((0,), (1,), 0, RangeError, "grid"),
    ((1,), (0,), 0, RangeError, "block"),
    ((1, 70000), (1,), 0, RangeError, "grid.*65535"),
    ((1,), (1025,), 0, RangeError, "block"),
    ((1,), (1, 1, 65), 0, RangeError, "block"),
    ((1,), (32, 33), 0, RangeError, "1056 threads"),
    ((1, 1, 1, 1), (1,), 0, KernelTypeError, "grid"),
    ((), (1,), 0, KernelTypeError, "grid"),
    ((1.0,), (1,), 0, KernelTypeError, "grid"),
    ((1,), (1,), -1, RangeError, "shared_mem"),
    ((1,), (1,), 1.5, KernelTypeError, "shared_mem"),
])
def test_wrong_shapes_of_launches(use, grid, block, shared, error, message):
    fake = use()
    with pytest.raises(error, match=message):
        kernel()(grid, block, (), shared_mem=shared)
    assert not fake.loads


@pytest.mark.parametrize("stream", [
    9, SimpleNamespace(ptr=9), SimpleNamespace(cuda_stream=9),
    SimpleNamespace(__cuda_stream__=lambda: (0, 9)), SimpleNamespace(handle=9)])
def test_streams_of_other_libraries(use, stream):
    fake = use()
    kernel()((1,), (1,), (), stream=stream)
    assert fake.kernel.launches[0][-1] == 9
    with pytest.raises(KernelTypeError, match="stream is a str"):
        kernel()((1,), (1,), (), stream="fast")


def test_arrays_that_are_used_on_another_stream_are_waited_for(use, monkeypatch):
    """Also afterwards, unless the caller names the stream, and so knows of it."""
    fake, waits = use(), []
    monkeypatch.setattr(fake, "synchronize",
                        lambda: waits.append(len(fake.kernel.launches)))
    x = DeviceArray(X.ctypes.data, (4,), None, X.dtype, "cuda:0", 5, X)
    kernel()((1,), (4,), (x,))
    assert waits == [0, 1]
    kernel()((1,), (4,), (x,), stream=0)
    assert waits == [0, 1, 1]
    kernel()((1,), (4,), (x,), stream=5)
    assert waits == [0, 1, 1]


def test_threads_that_load_a_module_at_once_have_the_same_one(use, monkeypatch):
    """Another copy has other variables: what is stored there, kernels do not see."""
    fake, both = use(), threading.Barrier(2, timeout=10)

    def native(code, device):
        both.wait()
        return object()

    monkeypatch.setattr(fake, "native", native)
    module = RawModule(code="")
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(module.loaded, ["cuda:0"]*2)
    assert first is second is module.loaded("cuda:0")


def test_launches_are_traced(use):
    use()
    with nf.trace_launches() as launches:
        kernel()((3,), 64, (X,))
    (launch,) = launches
    assert (launch.kind, launch.name, launch.bytes) == ("Native", "f", 16)
    assert (launch.grid, launch.block) == ((3, 1, 1), (64, 1, 1))


def test_attributes_are_read_and_some_are_set(use):
    use()
    made = kernel()
    assert made.num_regs == made.attributes["num_regs"] == 8
    made.max_dynamic_shared_size_bytes = 50000
    assert made.max_dynamic_shared_size_bytes == 50000
    with pytest.raises(AttributeError):
        made.num_regs = 3


def test_variables_are_the_memory_itself(use):
    fake = use()
    module = RawModule(code="__device__ float v[4];")
    found = module.get_global("v", "float32")
    assert (found.pointer, found.shape) == (fake.variable_.ctypes.data, (4,))
    assert module.get_global("v").shape == (16,)


def test_kernels_of_a_module_share_its_code(use):
    fake = use()
    module = RawModule(code="…", options=("-DN=4",), name_expressions=["f<float>"])
    for name in ("f<float>", "g"):
        module.get_function(name)((1,), (1,), ())
    ((native, _),) = fake.loads
    assert (native.options, native.names) == (("-DN=4",), ("f<float>",))


def test_a_compiled_file(use, tmp_path):
    fake = use()
    path = tmp_path / "kernels.ptx"
    path.write_bytes(b".version 8.0")
    module = RawModule(path=path)
    module.compile()
    assert fake.loads[0][0].code == b".version 8.0"
    assert module.code is None
    with pytest.raises(KernelTypeError, match="name_expressions"):
        RawModule(path=path, name_expressions=["f"])


@pytest.mark.parametrize(("make", "message"), [
    (lambda: RawModule(), "either code= or path="),
    (lambda: RawModule(code="", path="x"), "either code= or path="),
    (lambda: RawModule(code=b""), "code is a bytes"),
    (lambda: RawKernel("", 3), "name is a int"),
    (lambda: RawKernel("", "f", "-O3"), "options is '-O3'; expected a tuple"),
    (lambda: RawKernel("", "f", (3,)), "options"),
    (lambda: RawKernel("", "f", backend="nvcc"), "'nvcc' is no compiler"),
    (lambda: RawKernel("", "f", (), "nvrtc", True), "cuda/std/complex"),
    (lambda: RawModule(code="", jitify=True), "cuda/std/complex"),
])
def test_wrong_constructors(make, message):
    with pytest.raises(KernelTypeError, match=message):
        make()


@pytest.mark.skipif(nf.backends()["cuda"].available, reason="there is a device")
def test_without_a_device_the_call_says_why():
    made = kernel()
    for use in (lambda: made((1,), (1,), ()), lambda: made.attributes, made.compile):
        with pytest.raises(BackendNotAvailableError, match="'cuda' is not usable"):
            use()
