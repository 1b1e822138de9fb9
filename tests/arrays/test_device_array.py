"""`DeviceArray` on host memory that stands for a device's; indexing against NumPy."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbfused.arrays import DeviceArray, describe, host_view, library_of, to_numpy
from nbfused.arrays.libraries.dlpack import read
from nbfused.errors import KernelTypeError, ShapeError
from nbfused.registry.backends import use_backend


class HostBackend:
    """Takes the host's memory for that of ``cuda:0``."""

    name = "fake"
    protocol = 1

    def __init__(self):
        self.waits = 0

    def available(self):
        return None

    def owns(self, device):
        return device == "cuda:0"

    def empty(self, shape, dtype, device):
        return on_device(np.empty(shape, dtype))

    def from_host(self, array, device):
        return on_device(array.copy())

    def to_host(self, array):
        return elements(array).copy()

    def synchronize(self):
        self.waits += 1

    def build(self, spec, signature):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def backend():
    backend = HostBackend()
    with use_backend(backend):
        yield backend


def elements(x):
    """Read the host's memory that stands for the device's."""
    return host_view(replace(describe(x), device="cpu"))


def on_device(x, device="cuda:0", stream=None):
    strides = tuple(s // x.itemsize for s in x.strides)
    return DeviceArray(x.ctypes.data, x.shape, strides, x.dtype, device, stream, x)


def test_attributes():
    x = on_device(np.zeros((3, 4), np.float32))
    assert (x.shape, x.strides, x.ndim, x.size, x.nbytes) == ((3, 4), (4, 1), 2, 12, 48)
    assert repr(x) == "DeviceArray(shape=(3, 4), dtype=float32, device='cuda:0')"
    assert len(x) == 3
    assert DeviceArray(0, (2, 3), None, np.dtype("i4"), "cuda:0").strides == (3, 1)


def test_description_and_library():
    x = on_device(np.arange(6.0).reshape(2, 3), stream=7)
    array = describe(x.T)
    assert (array.device, array.stream, array.library.name) == ("cuda:0", 7, "nbfused")
    assert (array.shape, array.strides) == ((3, 2), (1, 3))
    library = library_of(x)
    assert library.view(x, (2,), (-3,), 4).to_numpy().tolist() == [4, 1]
    made = library.empty((2, 2), np.dtype("int8"), "cuda:0")
    assert (type(made), made.shape, made.dtype) == (DeviceArray, (2, 2), np.int8)
    assert library.finish(made) is made


indices = st.one_of(st.integers(-4, 3), st.just(Ellipsis), st.none(), st.slices(4))


@given(st.lists(indices, max_size=4).map(tuple))
def test_indexing_is_that_of_numpy(key):
    host = np.arange(24.0).reshape(2, 3, 4)
    try:
        expected = host[key]
    except IndexError:
        with pytest.raises(IndexError):
            on_device(host)[key]
        return
    found = on_device(host)[key]
    assert found.shape == expected.shape
    assert np.array_equal(elements(found), expected)


@pytest.mark.parametrize("key", [True, "a", 1.0])
def test_other_indices_are_refused(key):
    with pytest.raises(KernelTypeError, match="expected an integer, a slice"):
        on_device(np.zeros((2, 3)))[key]


def test_iteration_and_transposition():
    host = np.arange(6.0).reshape(2, 3)
    x = on_device(host)
    assert [row.to_numpy().tolist() for row in x] == host.tolist()
    assert np.array_equal(x.T.to_numpy(), host.T)
    assert x[1, 2].item() == 5


def test_reshape():
    host = np.arange(24.0)
    x = on_device(host)
    for shape in ((2, 3, 4), (4, -1), (-1,), (24, 1)):
        assert np.array_equal(x.reshape(shape).to_numpy(), host.reshape(shape))
    assert x.reshape(4, 6).shape == (4, 6)
    assert x[:0].reshape(0, 5).shape == (0, 5)
    for shape in ((5, 5), (-1, 7), (-1, -1), (-2, -12)):
        with pytest.raises(ShapeError, match=r"cannot reshape \(24,\) \(24 elements\)"):
            x.reshape(shape)
    with pytest.raises(ShapeError, match="C-contiguous"):
        x.reshape(4, 6).T.reshape(24)
    with pytest.raises(KernelTypeError, match="integers"):
        x.reshape(2.0, 12)


def test_nothing_is_copied_to_the_host_unasked():
    x = on_device(np.ones(3))
    uses = (lambda: np.asarray(x), lambda: np.array([x, x]), lambda: bool(x),
            lambda: np.array(x, dtype="f4"))
    for use in uses:
        with pytest.raises(TypeError, match=r"use \.to_numpy\(\)"):
            use()
    for use in (lambda: np.add(x, 1), lambda: np.ones(3) + x):
        with pytest.raises(TypeError):
            use()
    assert to_numpy(x).tolist() == [1, 1, 1]


def test_views_keep_the_owner_alive():
    host = np.arange(100.0)
    released = weakref.ref(host)
    view = on_device(host)[10:20].T
    del host
    gc.collect()
    assert released() is not None
    assert view[0].item() == 10
    del view
    gc.collect()
    assert released() is None


def test_array_interface():
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = on_device(host, stream=0).__cuda_array_interface__
    assert found == {
        "shape": (2, 3), "strides": None, "typestr": "<f4", "version": 3, "stream": 1,
        "data": (host.ctypes.data, False)}
    found = on_device(host, stream=99).T.__cuda_array_interface__
    assert (found["strides"], found["stream"]) == ((4, 12), 99)
    assert on_device(host).__cuda_array_interface__["stream"] is None
    assert on_device(host)[:0].__cuda_array_interface__["data"][0] == 0
    half = on_device(host.astype(ml_dtypes.bfloat16))
    assert not hasattr(half, "__cuda_array_interface__")
    assert not hasattr(on_device(host, "rocm:0"), "__cuda_array_interface__")


@pytest.mark.parametrize("dtype", ["float32", "bool", "complex128", ml_dtypes.bfloat16])
def test_dlpack(dtype):
    host = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    x = on_device(host, "cuda:3").T
    assert x.__dlpack_device__() == (2, 3)
    for version in (None, (1, 0)):
        found = read(x.__dlpack__(max_version=version), "x")
        assert (found.pointer, found.device) == (host.ctypes.data, "cuda:3")
        assert (found.shape, found.strides) == ((3, 2), (1, 3))
        assert found.dtype == dtype
    assert on_device(host, "rocm:1").__dlpack_device__() == (10, 1)


def test_dlpack_of_an_empty_array_has_no_address():
    empty = on_device(np.zeros((0, 2)))
    assert read(empty.__dlpack__(), "x").pointer == 0


def test_dlpack_to_the_host_is_a_copy():
    host = np.arange(3.0)
    copied = np.from_dlpack(on_device(host), device="cpu")
    assert np.array_equal(copied, host)
    assert copied.ctypes.data != host.ctypes.data
    with pytest.raises(BufferError):
        on_device(host).__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError):
        on_device(host).__dlpack__(copy=True)


def test_a_consumer_on_another_stream_waits(backend):
    x = on_device(np.zeros(2), stream=0)
    for stream, waits in ((None, 0), (1, 0), (-1, 0), (2, 1), (4711, 2)):
        x.__dlpack__(stream=stream)
        assert backend.waits == waits
    on_device(np.zeros(2)).__dlpack__(stream=2)
    assert backend.waits == 2
    with pytest.raises(ValueError, match="stream=0"):
        x.__dlpack__(stream=0)


def test_jax_results_on_a_device_are_device_arrays_until_they_are_finished():
    jax = pytest.importorskip("jax")
    library = library_of(jax.numpy.zeros(1))
    made = library.empty((2, 3), np.dtype("float32"), "cuda:0")
    assert type(made) is DeviceArray
    assert library.view(made, (3, 2), (1, 3), 0).shape == (3, 2)
