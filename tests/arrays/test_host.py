"""NumPy arrays, their dtypes, and what is refused."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from nbfused import ops
from nbfused.arrays import check_dtype, describe, host_view, is_array, library_of
from nbfused.arrays.libraries.numpy import aligned_empty
from nbfused.errors import DeviceError, KernelTypeError
from nbfused.support.dtypes import BFLOAT16, DTYPES

LAYOUTS = {
    "C": lambda x: x,
    "Fortran": lambda x: np.asfortranarray(x),
    "transposed": lambda x: x.transpose(2, 0, 1),
    "negative": lambda x: x[::-1, :, ::-2],
    "broadcast": lambda x: np.broadcast_to(x[:, :1], (4, 7, 5)),
    "slice": lambda x: x[1:3, 2],
    "0-d": lambda x: x[1, 2, 3, ...],
    "empty": lambda x: x[:0],
}


def element(array, index):
    """Read one element through its address alone."""
    step = sum(i * s for i, s in zip(index, array.strides, strict=True))
    address = array.pointer + step * array.dtype.itemsize
    return ctypes.c_float.from_address(address).value


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_index_finds_its_element(layout):
    base = np.arange(4 * 6 * 5, dtype=np.float32).reshape(4, 6, 5)
    x = LAYOUTS[layout](base)
    array = describe(x)
    assert array.shape == x.shape
    assert (array.size, array.ndim) == (x.size, x.ndim)
    assert all(element(array, index) == x[index] for index in np.ndindex(x.shape))
    assert np.array_equal(host_view(array), x)


@pytest.mark.parametrize("dtype", [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128", ml_dtypes.bfloat16])
def test_every_dtype_has_a_view_that_shares_memory(dtype):
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    array = describe(x)
    view = host_view(array)
    view[0, 0] = 1
    assert array.dtype == view.dtype == x.dtype
    assert x[0, 0] == 1
    assert np.array_equal(view[::-1, ::2], x[::-1, ::2])


def test_what_a_description_says_of_the_rest():
    x = np.zeros(3)
    array = describe(x)
    assert (array.device, array.stream, array.readonly) == ("cpu", None, False)
    assert array.owner is x
    assert array.library.name == "numpy"
    x.flags.writeable = False
    assert describe(x).readonly
    assert not host_view(describe(x)).flags.writeable


def test_views_of_device_memory_are_refused():
    with pytest.raises(DeviceError, match=r"on cuda:0; expected the host"):
        host_view(replace(describe(np.zeros(3)), device="cuda:0"))


def test_scalars_of_numpy_are_arrays_and_numbers_are_not():
    array = describe(np.float32(2.5))
    assert (array.shape, array.dtype) == ((), np.dtype("float32"))
    assert element(array, ()) == 2.5
    assert is_array(np.int8(1))
    assert is_array(np.zeros(2))
    for other in (1, 2.0, [1, 2], (3,), "x", None, np.float32):
        assert not is_array(other)


def test_dtypes_that_are_equal_become_one_object():
    assert describe(np.zeros(1, "longlong")).dtype is describe(np.zeros(1, "l")).dtype
    assert check_dtype("bfloat16") is BFLOAT16


@pytest.mark.parametrize(("dtype", "way_out"), [
    (">f4", "newbyteorder"), ("O", "astype"), ("U3", "astype"), ("S3", "astype"),
    ("M8[s]", "view"), ("m8[s]", "view"), ([("re", "f4"), ("im", "f4")], "x\\['re'\\]"),
    ("longdouble", "float64"), ("clongdouble", "complex128"),
    (ml_dtypes.float8_e4m3fn, "float32"), (ml_dtypes.int4, "float32")])
def test_other_dtypes_are_refused_with_the_way_out(dtype, way_out):
    with pytest.raises(KernelTypeError, match=f"(?s)labels.*{way_out}"):
        describe(np.zeros(3, dtype), "labels")


def test_what_is_no_dtype_is_refused():
    with pytest.raises(KernelTypeError, match="dtype: 'floaty' is no dtype"):
        check_dtype("floaty")


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_of_torch_are_dtypes(name):
    torch = pytest.importorskip("torch")
    if hasattr(torch, name):
        assert check_dtype(getattr(torch, name)) == DTYPES[name]


def test_dtypes_of_torch_without_kernels_are_refused():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float8_e4m3fn, torch.complex32, torch.qint8):
        with pytest.raises(KernelTypeError, match=r"dtype: torch.* is no dtype"):
            check_dtype(dtype)


@pytest.mark.parametrize("value", [[1.0], 3, "text", None, object()])
def test_what_is_no_array_is_refused_by_name(value):
    with pytest.raises(KernelTypeError, match=f"bias is a {type(value).__name__}"):
        describe(value, "bias")
    with pytest.raises(KernelTypeError, match="expected an array"):
        library_of(value)


def test_strides_that_are_no_multiples_are_refused():
    records = np.zeros(4, [("a", "i1"), ("b", "f4")])
    with pytest.raises(KernelTypeError, match=r"x: strides .* copy it first"):
        describe(records["b"])
    assert describe(records["b"].copy()).strides == (1,)


def test_elements_off_their_alignment_are_refused():
    x = np.zeros(9, np.uint8)[1:].view(np.float32)
    with pytest.raises(KernelTypeError, match=r"multiples of 4 bytes.*copy"):
        describe(x)


def test_a_mask_is_never_lost():
    with pytest.raises(KernelTypeError, match="masked"):
        describe(np.ma.masked_array([1.0, 2.0], [False, True]))


def test_subclasses_are_described_as_plain_arrays():
    class Meters(np.ndarray):
        pass

    x = np.arange(6.0).reshape(2, 3).view(Meters)
    array = describe(x.T)
    assert type(host_view(array)) is np.ndarray
    assert np.array_equal(host_view(array), np.asarray(x).T)


def test_views_of_the_library():
    x = np.arange(12.0)
    numpy = library_of(x)
    view = numpy.view(x, (3, 2), (-4, 1), 8)
    assert np.array_equal(view, [[8, 9], [4, 5], [0, 1]])
    view[0, 0] = -1
    assert x[8] == -1
    repeated = numpy.view(x[1:], (2, 3), (1, 0), 1)
    assert np.array_equal(repeated, [[2, 2, 2], [3, 3, 3]])


def test_a_view_keeps_the_memory_alive():
    view = library_of(np.zeros(1)).view(np.arange(1000.0), (2,), (999,), 0)
    junk = [np.full(1000, 7.0) for _ in range(20)]
    assert view.tolist() == [0.0, 999.0]
    del junk


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 7)])
def test_aligned_memory(shape):
    x = aligned_empty(shape, np.dtype("float32"), 64)
    assert x.shape == shape
    assert x.size == 0 or x.ctypes.data % 64 == 0


def test_a_view_that_repeats_elements_is_not_written_to():
    """As with `numpy.broadcast_to`: one assignment would change many elements."""
    x = np.zeros((3, 1))
    assert not ops.broadcast_to(x, (3, 4)).flags.writeable
    assert ops.broadcast_to(x, (1, 3, 1)).flags.writeable
    assert ops.transpose(np.zeros((3, 0))).flags.writeable  # there is none to repeat
    assert ops.transpose(x).flags.writeable
