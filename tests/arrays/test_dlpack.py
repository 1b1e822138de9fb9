"""DLPack in both directions, against NumPy's, PyTorch's and JAX's own."""

from __future__ import annotations

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from nbfused.arrays import describe, host_view
from nbfused.arrays.dtypes import check_extents
from nbfused.arrays.libraries import dlpack, interface
from nbfused.arrays.libraries.dlpack import HostExport, device_name, read
from nbfused.arrays.libraries.jax import JAX
from nbfused.errors import KernelTypeError

LAYOUTS = [
    np.arange(24.0).reshape(2, 3, 4), np.arange(24.0).reshape(2, 3, 4).T,
    np.arange(24.0)[::-2], np.broadcast_to(np.arange(3.0), (2, 3)).copy()[:, 1:],
    np.array(2.5), np.zeros((0, 3)),
]


class Producer:
    """Another library: passes NumPy's capsules on, with or without a version."""

    def __init__(self, x, versioned=True, device=(1, 0)):
        self.x, self.versioned, self.device = x, versioned, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, max_version=None):
        return self.x.__dlpack__(max_version=max_version if self.versioned else None)


class Oldest:
    """Written before DLPack 1.0."""

    def __init__(self, x):
        self.x = x

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self):
        return self.x.__dlpack__()


@pytest.mark.parametrize("x", LAYOUTS)
@pytest.mark.parametrize("version", [None, (1, 0), (1, 7), (2, 0)])
def test_numpy_reads_what_we_export(x, version):
    class Consumer(HostExport):
        def __dlpack__(self, **options):
            return super().__dlpack__(**options | {"max_version": version})

    y = np.from_dlpack(Consumer(x))
    assert np.array_equal(x, y)
    assert y.dtype == x.dtype
    assert x.size == 0 or y.ctypes.data == x.ctypes.data


@pytest.mark.parametrize("x", LAYOUTS)
@pytest.mark.parametrize("kind", [Producer, Oldest])
def test_we_read_what_numpy_exports(x, kind):
    array = describe(kind(x))
    assert np.array_equal(host_view(array), x)
    assert array.pointer == x.ctypes.data or x.size == 0
    assert array.device == "cpu"


@pytest.mark.parametrize("dtype", [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128", ml_dtypes.bfloat16])
def test_every_dtype_survives_the_way_out_and_in(dtype):
    x = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)[::-1]
    y = host_view(describe(HostExport(x)))
    assert y.dtype == x.dtype
    assert np.array_equal(x, y)
    if x.dtype != ml_dtypes.bfloat16:  # which NumPy does not read; below PyTorch does
        assert np.from_dlpack(HostExport(x)).dtype == x.dtype


def test_capsules_without_a_version_are_read_only():
    x = np.arange(3.0)
    assert not describe(Producer(x)).readonly
    assert describe(Producer(x, versioned=False)).readonly
    x.flags.writeable = False
    assert describe(Producer(x)).readonly


def test_an_offset_counts():
    x = np.arange(5, dtype=np.int16)
    capsule = HostExport(x).__dlpack__()
    dlpack._struct(capsule, "x")[0].byte_offset = 4
    assert read(capsule, "x").pointer == x[2:].ctypes.data


def test_immutable_libraries_are_read_only_whatever_the_capsule_says():
    array = interface.describe_dlpack(Producer(np.arange(3.0)), "x", JAX)
    assert array.readonly


def test_read_only_memory_is_marked_or_kept():
    x = np.arange(3.0)
    x.flags.writeable = False
    assert read(HostExport(x).__dlpack__(max_version=(1, 0)), "x").readonly
    with pytest.raises(BufferError):
        HostExport(x).__dlpack__()


def test_memory_lives_as_long_as_its_consumer():
    x = np.arange(1000.0)
    released = weakref.ref(x)
    y = np.from_dlpack(HostExport(x))
    del x
    gc.collect()
    assert released() is not None
    assert y[999] == 999
    del y
    gc.collect()
    assert released() is None


def test_a_description_keeps_the_memory_and_then_lets_it_go():
    x = np.arange(1000.0)
    released = weakref.ref(x)
    array = describe(HostExport(x))
    del x
    gc.collect()
    assert host_view(array)[999] == 999
    del array
    gc.collect()
    assert released() is None


def test_devices_are_spelled_out():
    assert device_name(1, 0, "x") == device_name(3, 0, "x") == "cpu"
    assert device_name(2, 1, "x") == device_name(13, 1, "x") == "cuda:1"
    assert device_name(10, 0, "x") == "rocm:0"
    with pytest.raises(KernelTypeError, match="weight is on a device of DLPack type 8"):
        describe(Producer(np.zeros(2), device=(8, 0)), "weight")


def test_what_refuses_to_export_says_why():
    class Refusing(Producer):
        def __dlpack__(self, **options):
            raise BufferError("sharded over two devices")

    with pytest.raises(KernelTypeError, match=r"x: Refusing .* sharded over two"):
        describe(Refusing(np.zeros(2)))


@pytest.mark.parametrize("asked", [{"stream": 1}, {"dl_device": (2, 0)},
                                   {"copy": True}], ids=str)
def test_host_memory_has_no_stream_and_goes_nowhere(asked):
    with pytest.raises(BufferError, match="host memory"):
        HostExport(np.zeros(2)).__dlpack__(**asked)


def test_a_version_of_another_layout_is_refused():
    capsule = HostExport(np.zeros(2)).__dlpack__(max_version=(1, 0))
    address = dlpack._capsule_pointer(capsule, b"dltensor_versioned")
    dlpack._Versioned.from_address(address).major = 2
    with pytest.raises(KernelTypeError, match=r"x: DLPack version 2\.0; expected"):
        read(capsule, "x")


def test_what_is_no_capsule_is_refused():
    class Wrong(Producer):
        def __dlpack__(self, **options):
            return "tensor"

    with pytest.raises(KernelTypeError, match="is no tensor"):
        describe(Wrong(np.zeros(2)))


def test_negative_extents_are_refused():
    assert check_extents((), "w") == ()
    assert check_extents((0, 3), "w") == (0, 3)
    with pytest.raises(KernelTypeError, match=r"w: .* shape \(2, -3\)"):
        check_extents((2, -3), "w")


def test_dtypes_without_kernels_are_refused():
    torch = pytest.importorskip("torch")
    x = torch.zeros(4, dtype=torch.float8_e4m3fn)
    with pytest.raises(KernelTypeError, match="DLPack dtype"):
        read(x.__dlpack__(), "x")


@pytest.mark.parametrize("x", LAYOUTS[:2] + LAYOUTS[3:])
def test_torch_reads_what_we_export(x):
    torch = pytest.importorskip("torch")
    assert np.array_equal(torch.from_dlpack(HostExport(x)).numpy(), x)
    half = x.astype(ml_dtypes.bfloat16)
    tensor = torch.from_dlpack(HostExport(half))
    assert tensor.dtype is torch.bfloat16
    assert np.array_equal(tensor.float().numpy(), half.astype(np.float32))


def test_we_read_bfloat16_of_torch():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6.0).reshape(2, 3).to(torch.bfloat16).T
    found = read(tensor.__dlpack__(), "x")
    assert (found.shape, found.strides) == ((3, 2), (1, 3))
    assert found.dtype == ml_dtypes.bfloat16
