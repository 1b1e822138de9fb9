"""Arrays like others, and fill."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import nbfused as nf
from nbfused.errors import (
    InplaceModificationError,
    KernelTypeError,
    OverlapError,
    RangeError,
    ReadOnlyError,
    ShapeError,
    TapeError,
)
from nbfused.ops import empty_like, fill, full_like, ones_like, zeros_like

pytestmark = pytest.mark.interpreted

DTYPES = ("bool", "int8", "uint64", "float16", ml_dtypes.bfloat16, "float64",
          "complex64")
READ_ONLY = np.zeros(2)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize("dtype", DTYPES)
def test_library_shape_device_and_dtype_are_those_of_the_other(dtype, device):
    x = nf.array(np.ones((2, 3)).astype(dtype), device=device)
    for made, value in ((zeros_like(x), 0), (ones_like(x), 1), (full_like(x, True), 1),
                        (empty_like(x), None)):
        assert type(made) is type(x)
        assert made.shape == (2, 3)
        assert nf.to_numpy(made).dtype == dtype
        if value is not None:
            np.testing.assert_array_equal(nf.to_numpy(made), np.full((2, 3), value))


def test_another_dtype(device):
    x = nf.zeros((2, 3), "int32", device=device)
    found = nf.to_numpy(full_like(x, 2.5, "float32"))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, 2.5)
    assert nf.to_numpy(full_like(x, 2.5)).max() == np.full_like([1], 2.5)[0] == 2
    assert nf.to_numpy(empty_like(x, "float16")).dtype == np.float16


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_other_libraries(library):
    module = pytest.importorskip(library)
    x = (module if library == "torch" else module.numpy).asarray([[1.0, 2.0]])
    for made in (zeros_like(x), ones_like(x), empty_like(x)):
        assert type(made) is type(x)
        assert tuple(made.shape) == (1, 2)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_fill(shape, device):
    x = nf.zeros(shape, "float32", device=device)
    fill(x, 7)
    np.testing.assert_array_equal(nf.to_numpy(x), np.full(shape, 7))
    x.fill(8)
    np.testing.assert_array_equal(nf.to_numpy(x), np.full(shape, 8))


def test_fill_of_views_leaves_the_rest(device):
    x = nf.zeros((4, 5), "int64", device=device)
    fill(x[::2, 1:4], 3)
    expected = np.zeros((4, 5))
    expected[::2, 1:4] = 3
    np.testing.assert_array_equal(nf.to_numpy(x), expected)


def test_nan_infinity_and_large_integers(device):
    for value, dtype in ((np.nan, "float32"), (-np.inf, "float16"),
                         (2**64 - 1, "uint64"), (-2**63, "int64")):
        x = nf.zeros(3, dtype, device=device)
        fill(x, value)
        np.testing.assert_array_equal(nf.to_numpy(x), np.full(3, value, dtype))


def test_variables():
    x = nf.Variable(np.ones((2, 3)), requires_grad=True)
    made = ones_like(x)
    assert isinstance(made, nf.Variable)
    assert not made.requires_grad
    with pytest.raises(TapeError):
        fill(x, 1.0)
    with nf.no_grad():
        fill(x, 2.0)
    np.testing.assert_array_equal(x.to_numpy(), 2.0)


def test_a_fill_of_what_the_tape_saved_is_seen():
    x = np.ones(3)
    y = nf.ops.square(nf.Variable(x, requires_grad=True)).sum()
    fill(x, 5.0)
    with pytest.raises(InplaceModificationError):
        y.backward()


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: zeros_like(3.0), KernelTypeError, "'x' must be an array"),
    (lambda: fill([1.0], 2), KernelTypeError, "'x' must be an array"),
    (lambda: fill(np.zeros(2), "a"), KernelTypeError, "'fill_value'"),
    (lambda: fill(np.zeros(2), None), KernelTypeError, "'fill_value'"),
    (lambda: full_like(np.zeros(2), np.zeros(3)), ShapeError, "'fill_value'"),
    (lambda: fill(np.zeros(2, "int8"), 300), RangeError, r"300.*int8"),
    (lambda: fill(READ_ONLY, 2), ReadOnlyError, "read"),
    (lambda: fill(np.broadcast_to(1.0, 3), 2), ReadOnlyError, "read"),
    (lambda: fill(as_strided(np.zeros(1), (3,), (0,)), 2), OverlapError,
     "share memory"),
])
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_vectors_as_elements_are_a_trailing_dimension(device):
    for made in (nf.zeros((4, 4), ("float32", 3), device=device),
                 nf.empty((4, 4), np.dtype(("f4", 3)), device=device),
                 nf.full(4, 1, ("float32", (4, 3)), device=device)):
        assert made.shape[-1] == 3
        assert made.ndim == 3
        assert made.dtype == np.float32
    with pytest.raises(KernelTypeError, match="vector"):
        nf.zeros(3, ("floot", 3))


def test_a_bool_of_numpy_is_a_number(device):
    x = nf.zeros(3, "bool", device=device)
    np.testing.assert_array_equal(nf.to_numpy(nf.ops.logical_or(x, np.True_)), True)
