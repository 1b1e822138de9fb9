"""The libraries themselves, on an NVIDIA GPU; CuPy lends `DeviceArray` its memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nbfused.arrays import (
    DeviceArray,
    array,
    creation,
    describe,
    empty,
    from_dlpack,
    library_of,
    to_numpy,
    zeros,
)
from nbfused.registry.backends import use_backend

pytestmark = pytest.mark.cuda
cupy = pytest.importorskip("cupy")


class CupyMemory:
    """As much of a backend as arrays need."""

    name = "cuda"
    protocol = 1

    def __init__(self):
        self.waits = 0

    def available(self):
        return None

    def owns(self, device):
        return device.startswith("cuda") or device == "cpu"

    def empty(self, shape, dtype, device):
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = cupy.cuda.alloc(max(count, 1))
        return DeviceArray(memory.ptr, shape, None, dtype, device, 0, memory)

    def from_host(self, x, device):
        made = self.empty(x.shape, x.dtype, device)
        made.owner.copy_from_host(np.ascontiguousarray(x).ctypes.data, x.nbytes)
        return made

    def to_host(self, x):
        return cupy.asnumpy(cupy.from_dlpack(x))

    def synchronize(self):
        self.waits += 1
        cupy.cuda.Device().synchronize()

    def build(self, spec, signature):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def backend():
    backend = CupyMemory()
    with use_backend(backend):
        yield backend


HOST = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def check(x, name):
    """One array of a library and what its library does with it."""
    a = describe(x)
    assert (a.device, a.library.name, a.dtype.name) == ("cuda:0", name, "float32")
    assert np.array_equal(to_numpy(x), HOST)
    made = a.library.empty((2, 3), np.dtype("int32"), "cuda:0")
    assert describe(made).device == "cuda:0"
    assert describe(made).shape == (2, 3)
    return a


def test_cupy():
    x = cupy.asarray(HOST)
    a = check(x, "cupy")
    assert (a.pointer, a.strides, a.stream) == (x.data.ptr, (12, 4, 1), 0)
    view = a.library.view(x, (4, 2), (-1, 12), 3)
    assert np.array_equal(cupy.asnumpy(view), HOST[:, 0, ::-1].T)
    assert describe(x[:, ::-1].T).strides == (1, -4, 12)
    stream = cupy.cuda.Stream()
    with stream:
        assert describe(x).stream == stream.ptr != 0


def test_torch():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(HOST.copy()).cuda()
    a = check(x, "torch")
    assert (a.pointer, a.strides, a.stream) == (x.data_ptr(), (12, 4, 1), 0)
    view = a.library.view(x, (4, 2), (1, 12), 4)
    assert np.array_equal(view.cpu().numpy(), HOST[:, 1].T)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert describe(x).stream == stream.cuda_stream != 0
    half = to_numpy(x.to(torch.bfloat16))
    assert half.dtype == ml_dtypes.bfloat16
    assert np.array_equal(half, HOST)


def test_jax():
    jax = pytest.importorskip("jax")
    x = jax.device_put(HOST, jax.devices("gpu")[0])
    a = check(x, "jax")
    assert a.readonly
    assert np.array_equal(cupy.asnumpy(cupy.from_dlpack(DeviceArray(
        a.pointer, a.shape, a.strides, a.dtype, a.device, a.stream, a.owner))), HOST)
    for dtype in ("float32", "bfloat16", "bool", "int8"):
        made = array(HOST % 2, dtype, "cpu")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(creation, "cupy", lambda: None)
            made = array(made, device="cuda")
        result = a.library.finish(made)
        assert result.dtype == dtype
        assert np.array_equal(np.asarray(result), (HOST % 2).astype(result.dtype))
        assert result.unsafe_buffer_pointer() == made.pointer


@pytest.mark.parametrize("host", [
    np.float32(3), np.empty((0, 3)), np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(9)[::-2],
    np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2), np.arange(1 << 20)],
    ids=lambda x: f"{x.shape} {x.strides}")
@pytest.mark.parametrize("null", [True, False])
def test_copies_to_cupy(host, null):
    """As `cupy.asarray` makes them; another stream's memory may be in use."""
    with cupy.cuda.Stream(null=null, non_blocking=not null):
        expected = cupy.asarray(host)
        made = array(host, device="cuda")
        assert type(made) is cupy.ndarray
        assert (made.dtype, made.shape, made.strides) == (
            expected.dtype, expected.shape, expected.strides)
        assert np.array_equal(cupy.asnumpy(made), host)


def test_numba():
    cuda = pytest.importorskip("numba.cuda")
    x = cuda.to_device(HOST)
    a = check(x, "numba")
    assert a.stream is None
    view = a.library.view(x, (4, 2), (1, 12), 4)
    assert np.array_equal(view.copy_to_host(), HOST[:, 1].T)


def test_other_libraries_read_device_arrays(monkeypatch, backend):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(creation, "cupy", lambda: None)
    for dtype in ("float32", "int64", "bool", "complex64", "bfloat16"):
        x = array(HOST % 3, dtype, "cuda")
        assert isinstance(x, DeviceArray)
        expected = (HOST % 3).astype(x.dtype)
        assert torch.from_dlpack(x).data_ptr() == x.pointer
        assert np.array_equal(to_numpy(torch.from_dlpack(x.T)), expected.T)
        if dtype != "bfloat16":  # which the interface and NumPy's DLPack lack
            assert np.array_equal(np.from_dlpack(x, device="cpu"), expected)
            assert cupy.asnumpy(cupy.asarray(x.T)).tolist() == expected.T.tolist()
            assert torch.as_tensor(x, device="cuda").data_ptr() == x.pointer
    assert backend.waits == 0
    with cupy.cuda.Stream():
        cupy.from_dlpack(x)
    assert backend.waits == 1


def test_foreign():
    class Foreign:
        def __init__(self, x):
            self.x = x

        @property
        def __cuda_array_interface__(self):
            return self.x.__cuda_array_interface__

    x = cupy.asarray(HOST)
    a = describe(Foreign(x.T))
    assert (a.device, a.strides, a.library.name) == ("cuda:0", (1, 4, 12), "foreign")
    assert np.array_equal(to_numpy(Foreign(x.T)), HOST.T)


def test_arrays_are_made_by_cupy():
    x = array(HOST, "bfloat16" if hasattr(cupy, "bfloat16") else "float16", "cuda")
    assert type(x) is cupy.ndarray
    assert np.array_equal(to_numpy(x), HOST)
    assert type(empty(3, device="cuda")) is cupy.ndarray
    assert zeros((2, 2), device="cuda").sum() == 0
    assert type(from_dlpack(library_of(x).empty((2,), np.dtype("f4"), "cuda:0"))) is (
        cupy.ndarray)
