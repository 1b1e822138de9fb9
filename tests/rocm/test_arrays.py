"""Arrays on ROCm devices: our own, and those of PyTorch and CuPy, played by fakes.

No library for ROCm runs here.  What the fakes show is which streams are asked for and
passed on, and whose type comes back; not that two streams do not race.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays import DeviceArray, describe
from nbfused.arrays.libraries import interface
from nbfused.arrays.libraries.dlpack import read
from nbfused.errors import KernelTypeError
from nbfused.rocm.runtime.device import Device
from nbfused.support.dtypes import DTYPES
from tests.refusal import refused

HOST = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ALL = [ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name) for name in DTYPES]


# --- our own


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_goes_there_and_back(dtype):
    x = nf.array(HOST.astype(dtype), device="rocm")
    assert isinstance(x, DeviceArray)
    assert (x.device, x.dtype, x.stream) == ("rocm:0", dtype, 0)
    assert np.array_equal(nf.to_numpy(x), HOST.astype(dtype))


@pytest.mark.parametrize("view", [
    lambda x: x.T, lambda x: x[:, ::-1, 1:3], lambda x: x[1], lambda x: x[:, 1:1],
    lambda x: x[None, 0, ..., 2], lambda x: x[::-1, ::2].T])
def test_views_are_copied_as_they_are(view):
    found = nf.to_numpy(view(nf.array(HOST, device="rocm")))
    assert np.array_equal(found, view(HOST))
    assert found.flags.c_contiguous


def test_new_arrays():
    assert nf.to_numpy(nf.zeros((2, 2), "int8", device="rocm")).tolist() == [[0, 0]]*2
    assert nf.to_numpy(nf.full(3, 7, "float16", device="rocm")).tolist() == [7]*3
    host = np.arange(3.0)
    x = nf.array(host, device="rocm")
    host[0] = 9
    assert nf.to_numpy(x)[0] == 0
    assert nf.array(x).device == "rocm:0"
    assert nf.array(x, device="cpu").tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="to_numpy"):
        np.asarray(x)


def test_nothing_on_the_device_has_the_other_interface():
    assert not hasattr(nf.array(HOST, device="rocm"), "__cuda_array_interface__")


# --- DLPack


class Other:
    """Another library's array: passes on what ours exports, with the stream asked."""

    def __init__(self, x, versioned=True):
        self.x, self.versioned, self.streams = x, versioned, []

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        return self.x.__dlpack__(stream=stream, max_version=max_version if
                                 self.versioned else None)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_the_way_out_and_in(dtype):
    x = nf.array(HOST.astype(dtype), device="rocm")[:, ::2].T
    y = nf.from_dlpack(Other(x))
    assert (y.device, y.dtype, y.pointer) == ("rocm:0", dtype, x.pointer)
    assert np.array_equal(nf.to_numpy(y), HOST.astype(dtype)[:, ::2].T)


def test_the_capsule_says_rocm():
    x = nf.array(HOST, device="rocm")
    assert x.__dlpack_device__() == (10, 0)
    assert read(x.__dlpack__(), "x").device == "rocm:0"


def test_memory_lives_as_long_as_its_consumer():
    x = nf.array(HOST, device="rocm")
    y = nf.from_dlpack(Other(x))
    del x
    other = nf.array(HOST + 1, device="rocm")
    assert np.array_equal(nf.to_numpy(y), HOST)
    assert np.array_equal(nf.to_numpy(other), HOST + 1)


def test_what_others_export_is_asked_for_on_the_default_stream():
    other = Other(nf.array(HOST, device="rocm"))
    found = describe(other)
    assert other.streams == [0]  # 1, CUDA's word for it, does not exist on ROCm
    assert (found.device, found.stream, found.readonly) == ("rocm:0", 0, False)
    assert np.array_equal(nf.to_numpy(nf.ops.add(other, 1)), HOST + 1)


@pytest.mark.parametrize(("stream", "waits"), [(None, 0), (0, 0), (-1, 0), (4711, 1)])
def test_a_consumer_on_another_stream_waits(monkeypatch, stream, waits):
    calls = []
    x = nf.array(HOST, device="rocm")
    monkeypatch.setattr("nbfused.rocm.RocmBackend.synchronize",
                        lambda self: calls.append(1))
    x.__dlpack__(stream=stream)
    assert len(calls) == waits


@pytest.mark.parametrize("stream", [1, 2])
def test_streams_that_rocm_has_not_are_refused(stream):
    with pytest.raises(ValueError, match=f"stream={stream} does not exist on ROCm"):
        nf.array(HOST, device="rocm").__dlpack__(stream=stream)


def test_a_copy_on_the_host():
    x = nf.array(HOST, device="rocm")
    assert np.array_equal(np.from_dlpack(x, device="cpu"), HOST)


# --- the interface


class Interface:
    """Has nothing but ``__cuda_array_interface__``, as older libraries for HIP."""

    def __init__(self, x):
        self.owner = x

    @property
    def __cuda_array_interface__(self):
        x = self.owner
        return {"shape": x.shape, "strides": tuple(
                    s*x.dtype.itemsize for s in x.strides), "typestr": x.dtype.str,
                "data": (x.pointer, False), "version": 2}


class Both(Interface):
    """Also has DLPack, which names the device."""

    def __dlpack_device__(self):
        return self.owner.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.owner.__dlpack__(**options)


def test_the_interface_is_of_rocm_where_cuda_is_not(monkeypatch):
    x = nf.array(HOST, device="rocm").T
    why_not = interface.registry.why_not
    monkeypatch.setattr(interface.registry, "why_not", lambda name: (
        "none here" if name == "cuda" else why_not(name)))
    assert describe(Interface(x)).device == "rocm:0"
    assert np.array_equal(nf.to_numpy(nf.ops.add(Interface(x), 1)), HOST.T + 1)
    monkeypatch.setattr(interface.registry, "why_not", lambda name: None)
    assert describe(Interface(x)).device == "cuda:0"


def test_dlpack_goes_before_the_interface():
    assert describe(Both(nf.array(HOST, device="rocm"))).device == "rocm:0"


# --- R15: the stream of the arrays' library


@pytest.fixture
def launches(monkeypatch):
    """The streams that launches name."""
    streams, start = [], Device.start

    def started(self, entry, extents, shared, stream, words):
        streams.append(stream)
        return start(self, entry, extents, shared, 0, words)

    monkeypatch.setattr(Device, "start", started)
    return streams


class Current:
    """A library's current stream."""

    handle = 0

    def __enter__(self):
        Current.handle = 4711

    def __exit__(self, *details):
        Current.handle = 0


def tensor_class():
    """As much of a PyTorch tensor on a ROCm device as is asked for."""

    class Tensor:
        layout = "strided"
        is_nested = is_quantized = requires_grad = False
        device = SimpleNamespace(type="cuda", index=0)  # ROCm's are called so, too

        def __init__(self, memory):
            self.memory = memory
            self.shape, self.dtype = memory.shape, f"torch.{memory.dtype}"

        def data_ptr(self):
            return self.memory.pointer

        def stride(self):
            return self.memory.strides

        def is_conj(self):
            return False

        is_neg = is_conj

    Tensor.__module__ = "torch"
    return Tensor


@pytest.fixture
def torch(monkeypatch):
    """PyTorch for ROCm: its version has a ``hip``."""
    from nbfused.arrays.libraries import torch as of_torch
    from nbfused.autograd.torch_bridge import operation, readable

    module: Any = ModuleType("torch")
    module.Tensor = tensor_class()
    module.nn = SimpleNamespace(Parameter=type("Parameter", (module.Tensor,), {}))
    module.strided, module.is_grad_enabled = "strided", lambda: False
    module.version = SimpleNamespace(hip="6.2.41133")
    module.autograd = SimpleNamespace(
        Function=type("Function", (type("Base", (), {"apply": None}),), {}),
        forward_ad=SimpleNamespace(
            _current_level=-1, unpack_dual=lambda x: SimpleNamespace(tangent=None)))
    module.cuda = SimpleNamespace(empty_cache=lambda: None)
    module._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda n: Current.handle,
                                _get_tracing_state=lambda: None,
                                _len_torch_dispatch_stack=lambda: 0,
                                _are_functorch_transforms_active=lambda: False,
                                _functorch=SimpleNamespace(
                                    is_functorch_wrapped_tensor=lambda x: False,
                                    peek_interpreter_stack=lambda: None))
    module.device = lambda kind, index=0: f"{kind}:{index}"
    for name in DTYPES:
        setattr(module, name, f"torch.{name}")
    module.empty_strided = lambda shape, strides, *, dtype, device: module.Tensor(
        nf.empty(shape, dtype.removeprefix("torch."), device="rocm"))
    monkeypatch.setitem(sys.modules, "torch", module)
    kept = (of_torch._dtypes, of_torch._names, of_torch._place, operation, readable)
    for cached in kept:
        cached.cache_clear()
    yield module
    for cached in kept:
        cached.cache_clear()


def test_r15_pytorch_for_rocm(torch, launches):
    x = torch.Tensor(nf.array(HOST, device="rocm"))
    assert describe(x).device == "rocm:0"
    y = nf.ops.add(x, 1)
    assert type(y) is torch.Tensor
    assert np.array_equal(nf.to_numpy(y.memory), HOST + 1)
    with Current():
        assert describe(x).stream == 4711
        nf.ops.softmax(nf.ops.add(x, 1))
    nf.ops.add(x, 1)
    assert launches == [0, 4711, 4711, 0]


@pytest.fixture
def cupy(monkeypatch):
    """CuPy for ROCm."""
    module: Any = ModuleType("cupy")

    class ndarray:
        def __init__(self, memory, dtype=None, memptr=None):
            if dtype is not None:  # a shape
                memory = nf.empty(memory, dtype, device="rocm")
            self.memory, self.shape, self.dtype = memory, memory.shape, memory.dtype
            self.data = SimpleNamespace(ptr=memory.pointer, device_id=0)
            self.device = SimpleNamespace(id=0)
            self.strides = tuple(s*memory.dtype.itemsize for s in memory.strides)

    class Device:
        def __init__(self, number):
            self.number = number

        def __enter__(self):
            return self

        def __exit__(self, *details):
            return None

    ndarray.__module__ = "cupy"
    module.ndarray = ndarray
    module.cuda = SimpleNamespace(
        Device=Device, runtime=SimpleNamespace(is_hip=True),
        alloc=lambda size: SimpleNamespace(device_id=0),
        get_current_stream=lambda device: SimpleNamespace(ptr=Current.handle))
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_r15_cupy_for_rocm(cupy, launches):
    x = cupy.ndarray(nf.array(HOST.T, device="rocm"))
    assert describe(x).device == "rocm:0"
    with Current():
        y = nf.ops.add(x, 1)
    assert type(y) is cupy.ndarray
    assert np.array_equal(nf.to_numpy(y.memory), HOST.T + 1)
    assert launches == [4711]


def test_arrays_of_two_libraries_do_not_mix(cupy):
    x = nf.array(HOST, device="rocm")
    with refused(KernelTypeError, "'x' is of nbfused", "'y' is of cupy"):
        nf.ops.add(x, cupy.ndarray(nf.array(HOST, device="rocm")))
