"""Arrays of libraries that cannot run here: stand-ins over the host's memory."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nbfused.arrays import describe, host_view, is_array, library_of
from nbfused.arrays.libraries import interface
from nbfused.config import config
from nbfused.errors import KernelTypeError
from tests.refusal import refused


def elements(x):
    """Read the host's memory that stands for the device's."""
    return host_view(replace(describe(x), device="cpu"))


class Foreign:
    """An array that only has ``__cuda_array_interface__``."""

    def __init__(self, x, **changes):
        self.x = x
        self.interface = {
            "shape": x.shape, "strides": x.strides, "typestr": x.dtype.str,
            "data": (x.ctypes.data, False), "version": 3, **changes}

    @property
    def __cuda_array_interface__(self):
        return self.interface


def test_the_interface(monkeypatch):
    monkeypatch.setattr(interface, "_speaks_hip", lambda: False)  # nor in emulation
    x = np.arange(6.0).reshape(2, 3).T
    array = describe(Foreign(x))
    assert np.array_equal(elements(Foreign(x)), x)
    assert (array.device, array.stream, array.readonly) == ("cuda:0", None, False)
    assert array.library.name == "foreign"
    assert describe(Foreign(x, data=(64, True))).readonly
    assert describe(Foreign(np.zeros((2, 3)), strides=None)).strides == (3, 1)
    assert describe(Foreign(np.zeros((0, 3)), data=(0, False))).pointer == 0


@pytest.mark.parametrize(
    ("given", "handle"), [(None, None), (1, 0), (2, 2), (4711, 4711)])
def test_streams_of_the_interface(given, handle):
    x = Foreign(np.zeros(2), stream=given)
    assert describe(x).stream == handle
    with config.override(cuda_array_interface_sync=False):
        assert describe(x).stream is None


def test_interfaces_that_are_refused():
    x = np.zeros((2, 3))
    with pytest.raises(KernelTypeError, match=r"y: .*stream 0"):
        describe(Foreign(x, stream=0), "y")
    with pytest.raises(KernelTypeError, match=r"y: masked"):
        describe(Foreign(x, mask=Foreign(x)), "y")
    with pytest.raises(KernelTypeError, match=r"y: .*swapped"):
        describe(Foreign(x.astype(">f4")), "y")
    with pytest.raises(KernelTypeError, match="multiples"):
        describe(Foreign(x, strides=(25, 9)))


def test_addresses_between_elements_are_refused(cupy):
    """Such a load ends all work on a GPU."""
    x = np.zeros(9, np.uint8)[1:].view(np.float32)
    torch = pytest.importorskip("torch")
    for given in (cupy.wrap(x), Foreign(x), torch.from_dlpack(x)):
        with refused(KernelTypeError, "y: ", "multiples of 4 bytes", "float32",
                     "copy it first"):
            describe(given, "y")
    pair = np.zeros(5, np.float32)[1:].view(np.complex64)  # of two floats each
    assert describe(cupy.wrap(pair)).size == 2


def test_results_of_foreign_arrays_on_the_host_are_numpy_arrays():
    class Producer:
        def __init__(self, x):
            self.x = x

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            return self.x.__dlpack__(**options)

    library = library_of(Producer(np.zeros(2)))
    made = library.empty((2, 3), np.dtype("int8"), "cpu")
    assert type(library.finish(made)) is np.ndarray
    assert library.view(made, (6,), (1,), 0).shape == (6,)
    assert library.to_host(Producer(np.arange(3.0))).tolist() == [0, 1, 2]


@pytest.fixture
def cupy(monkeypatch):
    """As much of CuPy as is needed, on the host."""
    module: Any = ModuleType("cupy")
    entered, allocated = [], []

    def alloc(size):
        allocated.append(size)
        return Pointer(0)

    class Pointer(int):
        ptr = property(int)
        device_id = 1

        def __add__(self, offset):
            return Pointer(int(self) + offset)

    class ndarray:
        __module__ = "cupy"

        def __init__(self, shape, dtype, memptr=None, strides=None, owner=None):
            self.shape, self.dtype, self.strides = shape, np.dtype(dtype), strides
            if memptr is None:
                owner = np.empty(shape, dtype)
                memptr, self.strides = Pointer(owner.ctypes.data), owner.strides
            self.data, self.owner = memptr, owner
            self.device = SimpleNamespace(id=1)

    class Device(contextlib.AbstractContextManager):
        def __init__(self, number):
            self.number = number

        def __exit__(self, *details):
            entered.append(self.number)

    def wrap(x):
        return ndarray(x.shape, x.dtype, Pointer(x.ctypes.data), x.strides, x)

    streams = SimpleNamespace(get_current_stream=lambda number: SimpleNamespace(
        ptr=100 + number))
    module.ndarray, module.wrap, module.entered = ndarray, wrap, entered
    module.allocated = allocated
    module.cuda = SimpleNamespace(
        Device=Device, runtime=SimpleNamespace(is_hip=False, getDevice=lambda: 1),
        alloc=alloc,
        **vars(streams))
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_cupy(cupy):
    host = np.arange(6, dtype=np.float32).reshape(2, 3).T
    x = cupy.wrap(host)
    array = describe(x)
    assert (array.device, array.stream, array.library.name) == ("cuda:1", 101, "cupy")
    assert (array.shape, array.strides) == ((3, 2), (1, 3))
    assert np.array_equal(elements(x), host)
    library = library_of(x)
    view = library.view(x, (2,), (-1,), 4)
    assert elements(view).tolist() == [4, 3]
    made = library.empty((2, 2), np.dtype("int8"), "cuda:3")
    assert (type(made), made.dtype, cupy.entered) == (cupy.ndarray, np.int8, [3])
    small, large = (library.maker(shape, np.dtype("int8"), "cuda:3")
                    for shape in ((2, 2), (1 << 20,)))
    for make in (small, large):
        assert make().dtype == np.int8
    assert cupy.entered == [3, 3, 3]
    # A large one takes no memory of the device that happens to be current.
    assert cupy.allocated == [4]
    cupy.cuda.runtime.is_hip = True
    assert describe(x).device == "rocm:1"


def test_numba_device_arrays():
    """The class is Numba's own; only the memory that it points to is not."""
    driver = pytest.importorskip("numba.cuda.cudadrv.devicearray")
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    memory = SimpleNamespace(
        device_ctypes_pointer=SimpleNamespace(value=host.ctypes.data),
        context=SimpleNamespace(device=SimpleNamespace(id=2)))
    x = driver.DeviceNDArray((2, 3), host.strides, host.dtype, gpu_data=memory)
    assert is_array(x)
    array = describe(x)
    assert (array.device, array.stream, array.library.name) == ("cuda:2", None, "numba")
    assert np.array_equal(elements(x), host)
    assert describe(x.bind(77)).stream == 77


@pytest.mark.parametrize(("cuda", "rocm", "hip"), [
    (None, None, False), (None, "no", False), ("no", None, True), ("no", "no", False)])
def test_an_interface_is_hips_where_rocm_alone_is_there(cuda, rocm, hip, monkeypatch):
    """It does not name its device."""
    monkeypatch.setattr(interface.registry, "why_not",
                        {"cuda": cuda, "rocm": rocm}.get)
    assert interface._speaks_hip() is hip


@pytest.mark.parametrize(("code", "device", "found"), [
    (0, 3, "cuda:3"), (0, -2, "cuda:0"), (1, 3, "cuda:0"), (None, 3, "cuda:0")])
def test_the_device_of_an_interface_is_asked_of_the_driver(
        code, device, found, monkeypatch):
    class Driver:
        def __init__(self, name):
            if code is None:
                raise OSError(name)

        def cuPointerGetAttribute(self, answer, attribute, pointer):
            assert (attribute, pointer.value) == (9, 4096)
            answer._obj.value = device
            return code

    foreign = type("Foreign", (), {"__cuda_array_interface__": {
        "typestr": "<f4", "shape": (3,), "version": 3, "data": (4096, False)}})
    monkeypatch.setattr(interface.ctypes, "CDLL", Driver)
    monkeypatch.setattr(interface, "_speaks_hip", lambda: False)
    assert describe(foreign()).device == found
