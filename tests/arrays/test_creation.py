"""New arrays, on the host and on a device that the host's memory stands for."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nbfused.arrays import (
    DeviceArray,
    array,
    canonical_device,
    creation,
    describe,
    empty,
    from_dlpack,
    full,
    host_view,
    ordinal,
    to_numpy,
    zeros,
)
from nbfused.arrays.libraries.dlpack import HostExport
from nbfused.config import config
from nbfused.errors import (
    AllocationError,
    DeviceError,
    KernelTypeError,
    RangeError,
    ShapeError,
)
from nbfused.registry.backends import use_backend
from tests.refusal import refused


class Host:
    """Owns devices of some kinds, all of which are the host's memory."""

    name = "host"
    protocol = 1

    def __init__(self, *kinds):
        self.kinds = kinds

    def available(self):
        return None

    def owns(self, device):
        return device.partition(":")[0] in self.kinds

    def devices(self):
        return tuple("cpu" if kind == "cpu" else f"{kind}:0" for kind in self.kinds)

    def empty(self, shape, dtype, device):
        return self.from_host(np.empty(shape, dtype), device)

    def from_host(self, x, device):
        copy = np.ascontiguousarray(x).copy().reshape(x.shape)
        return DeviceArray(copy.ctypes.data, x.shape, None, x.dtype, device, None, copy)

    def to_host(self, x):
        return host_view(replace(describe(x), device="cpu")).copy()

    def synchronize(self):
        return None

    def build(self, spec, signature):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def both(monkeypatch):
    monkeypatch.setattr(creation, "cupy", lambda: None)
    with use_backend(Host("cpu"), Host("cuda")):
        yield


@pytest.mark.parametrize(("given", "dtype", "expected"), [
    ([1, 2, 3], None, "int64"), ([1, 2.5], None, "float64"), (2, "float32", "float32"),
    ([[True], [False]], None, "bool"), ([1, 2], "bfloat16", "bfloat16"),
    (np.arange(3, dtype="f2"), None, "float16"), ([1j], None, "complex128")])
@pytest.mark.parametrize("device", [None, "cpu", "cuda"])
def test_values_and_dtypes(given, dtype, expected, device):
    x = array(given, dtype, device)
    assert isinstance(x, DeviceArray if device == "cuda" else np.ndarray)
    assert x.dtype.name == expected
    assert np.array_equal(to_numpy(x), np.array(given, dtype=x.dtype))


def test_array_copies():
    host = np.arange(3.0)
    x = array(host)
    x[0] = 9
    assert host[0] == 0
    device = array(host, device="cuda:0")
    host[1] = 7
    assert device.to_numpy().tolist() == [0, 1, 2]
    assert array(device).device == "cuda:0"  # stays where it is
    assert array(device, device="cpu").tolist() == [0, 1, 2]
    assert array(device, "int8").to_numpy().dtype == np.int8


def test_layouts_do_not_matter():
    host = np.arange(24.0).reshape(2, 3, 4)
    layouts = (host.T, host[::-1, ::2], np.asfortranarray(host), host[:0], host[0, 0])
    for x in layouts:
        for device in ("cpu", "cuda"):
            assert np.array_equal(to_numpy(array(x, device=device)), x)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_shapes(device):
    shapes: list[tuple[Any, tuple[int, ...]]] = [
        (3, (3,)), ((2, 3), (2, 3)), ((), ()), ((0, 2), (0, 2)), ([2, 2], (2, 2))]
    for shape, expected in shapes:
        assert empty(shape, "float32", device).shape == expected
        assert empty(shape, "float32", device).dtype == np.float32
        assert np.array_equal(to_numpy(zeros(shape, "int8", device)),
                              np.zeros(expected, "int8"))
        assert np.array_equal(to_numpy(full(shape, 2.5, "bfloat16", device)),
                              np.full(expected, 2.5, ml_dtypes.bfloat16))
    assert zeros(2).dtype == empty(2).dtype == np.float64


def test_the_default_device_is_that_of_the_first_backend():
    assert isinstance(zeros(2), np.ndarray)
    with use_backend(Host("cuda"), Host("cpu")):
        assert isinstance(zeros(2), DeviceArray)
        assert isinstance(array([1.0]), DeviceArray)
        assert isinstance(array([1.0], device="cpu"), np.ndarray)


def test_devices_nobody_owns_are_refused():
    with pytest.raises(DeviceError, match="device='rocm:0'"):
        zeros(2, device="rocm")
    with use_backend(Host("cpu")), pytest.raises(DeviceError, match="allows only host"):
        array([1], device="cuda")
    wrong: tuple[Any, ...] = ("gpu 0", "cuda:", "cuda:x", "", 0, None, "cpu:1",
                              "cuda:²", "cuda:" + "9" * 20)
    for device in wrong:
        with pytest.raises(DeviceError, match="names no device"):
            canonical_device(device)
    assert [canonical_device(d) for d in ("cpu", "cpu:0", "cuda", "cuda:3")] == [
        "cpu", "cpu", "cuda:0", "cuda:3"]
    assert (ordinal("cuda:3"), ordinal("cpu")) == (3, 0)


@pytest.mark.parametrize("make", [empty, zeros, lambda shape: full(shape, 1.0)])
def test_what_is_no_shape(make):
    for shape in ("3", None, 2.5, (1.5,), {"a": 1}, [None]):
        with refused(KernelTypeError, "shape: expected an integer or a tuple",
                     repr(shape)):
            make(shape)
    for shape in (-1, (2, -1), 10**30, (10**10, 10**10)):
        with refused(ShapeError, "shape: expected extents", "got (", "2**59"):
            make(shape)


@pytest.mark.parametrize("make", [empty, zeros])
def test_what_has_no_room(make):
    with refused(AllocationError, "shape: the host has no room", "8.00 PiB", "smaller"):
        make(2**50)


VALUES = {
    "text": (KernelTypeError, lambda: full(3, "a"), "value: dtype <U1"),
    "masked": (KernelTypeError, lambda: full(2, np.ma.array([1, 2], mask=[0, 1])),
               "masked arrays", "x.filled"),
    "none": (KernelTypeError, lambda: full(3, None), "value: dtype object"),
    "nones": (KernelTypeError, lambda: full(1, [None]), "value: dtype object"),
    "complex": (KernelTypeError, lambda: full(3, 1j), "value: 1j is complex",
                "dtype='complex128'"),
    "shape": (ShapeError, lambda: full(3, np.ones((3, 4))), "value:", "(3,4)"),
    "range": (RangeError, lambda: full(3, 300, "int8"), "value:", "300", "int8"),
    "huge": (RangeError, lambda: full(3, 10**400), "value:", "too large"),
    "array-range": (RangeError, lambda: array(-1, "uint8"), "x:", "-1", "uint8"),
    "ragged": (ShapeError, lambda: array([[1], [1, 2]]), "x:", "rows of equal length"),
    "array-complex": (KernelTypeError, lambda: array(1j, "float32"), "x:", "complex"),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_that_no_array_holds(kind):
    error, call, *words = VALUES[kind]
    with refused(error, *words):
        call()


@pytest.mark.parametrize("value", [["a", "b"], [None], [object()], np.zeros(2, ">f4")])
def test_what_kernels_do_not_take_is_not_made(value):
    with pytest.raises(KernelTypeError):
        array(value)
    with pytest.raises(KernelTypeError, match="float9"):
        zeros(2, "float9")


def test_to_numpy():
    host = np.arange(3.0)
    assert to_numpy(host) is host
    assert to_numpy(np.float32(2)).shape == ()

    class Wrapper:
        def to_numpy(self):
            return host

    assert to_numpy(Wrapper()) is host
    with pytest.raises(KernelTypeError, match="x is a list"):
        to_numpy([1, 2])


def test_from_dlpack_shares_unless_told_otherwise():
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    shared = from_dlpack(host)
    shared[0, 0] = 7
    assert host[0, 0] == 7
    copied = from_dlpack(host, copy=True)
    copied[0, 0] = 1
    assert host[0, 0] == 7
    half = host.astype(ml_dtypes.bfloat16)
    assert np.array_equal(from_dlpack(HostExport(half.T)), half.T)


def test_from_dlpack_between_devices():
    host = np.arange(3.0)
    device = from_dlpack(host, device="cuda")
    assert isinstance(device, DeviceArray)
    again = from_dlpack(device)
    assert again.pointer == device.pointer
    assert from_dlpack(device, device="cpu").tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="copy=False forbids"):
        from_dlpack(device, device="cpu", copy=False)
    with pytest.raises(KernelTypeError, match="without __dlpack__"):
        from_dlpack([1, 2])


def test_torch_gradients_are_not_lost():
    torch = pytest.importorskip("torch")
    wants = torch.ones(2, requires_grad=True)
    for use in (array, to_numpy, from_dlpack):
        with pytest.raises(KernelTypeError, match=r"detach\(\)"):
            use(wants)
        assert np.array_equal(use(wants.detach()), [1, 1])


@pytest.mark.parametrize(("kind", "other", "number"), [
    ("cuda", "rocm", 2), ("rocm", "cuda", 10)])
def test_cupy_makes_the_arrays_where_it_is_imported(monkeypatch, kind, other, number):
    class ndarray(np.ndarray):
        data = SimpleNamespace(device_id=7)

        def set(self, host):
            self[...] = host

    module: Any = ModuleType("cupy")
    places = []

    class Place:
        def __init__(self, number):
            places.append(number)

        def __enter__(self):
            return self

        def __exit__(self, *details):
            return None

    module.cuda = SimpleNamespace(
        Device=Place, runtime=SimpleNamespace(is_hip=kind == "rocm"),
        alloc=lambda size: ndarray.data)
    module.empty = lambda *args: np.empty(*args).view(ndarray)
    module.ndarray = ndarray
    module.from_dlpack = lambda x: ("from_dlpack", x.__dlpack_device__())
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(creation, "cupy", lambda: module)
    with use_backend(Host("cpu"), Host(kind), Host(other)), \
            config.override(rocm_emulate="0"):
        made = array([[1.0, 2.0], [3.0, 4.0]], device=kind)
        assert type(made) is ndarray
        assert made.tolist() == [[1, 2], [3, 4]]
        assert array(made.T, device="cpu").flags.f_contiguous
        assert type(empty((2, 3), device=kind)) is ndarray
        assert type(empty((2, 3), device=other)) is DeviceArray
        assert type(zeros(3, device="cpu")) is np.ndarray
        assert places == [0, 0]
        host = np.zeros(2)
        device = DeviceArray(host.ctypes.data, (2,), None, host.dtype, f"{kind}:0",
                             None, host)
        assert from_dlpack(device) == ("from_dlpack", (number, 0))


def test_cupy_is_not_imported(monkeypatch):
    monkeypatch.undo()
    for module in (None, ModuleType("cupy")):
        monkeypatch.setitem(sys.modules, "cupy", module)
        assert creation.cupy() is module
    monkeypatch.delitem(sys.modules, "cupy")
    assert creation.cupy() is None
    assert "cupy" not in sys.modules


def test_devices_start_while_modules_are_imported():
    begun = []

    class Slow(Host):
        def start(self, device, meanwhile):
            begun.append(device)
            meanwhile()

    with use_backend(Host("cpu"), Slow("cuda")):
        for make in (lambda d: array([1], device=d), lambda d: empty(2, device=d),
                     lambda d: zeros(2, device=d)):
            make("cpu")
            make("cuda:1")
    assert begun == ["cuda:1"]*3
