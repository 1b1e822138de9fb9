"""Views: what shares memory does, what cannot is copied, values are NumPy's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from nbfused.arrays.libraries.numpy import NumpyLibrary
from nbfused.dispatch import execute, trace_launches
from nbfused.errors import (
    KernelTypeError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)
from nbfused.registry.backends import use_backend
from nbfused.specs import View
from tests.dispatch.numpy_backend import numpy_backend

BF16 = np.dtype(ml_dtypes.bfloat16)
X = np.arange(24.0).reshape(2, 3, 4)
TURN = View("transpose", (2, 0, 1))


@pytest.fixture(autouse=True)
def backend():
    fake = numpy_backend()
    with use_backend(fake):
        yield fake


SHARED = [
    (View("reshape", (6, 4)), X, X.reshape(6, 4)),
    (View("reshape", (1, 24, 1)), X, X.reshape(1, 24, 1)),
    (View("reshape", (2, 1, 2)), X[0, ::2, ::3], X[0, ::2, None, ::3]),
    (TURN, X, X.transpose(2, 0, 1)),
    (View("broadcast", (5, 2, 3, 4)), X[:, :1],
     np.broadcast_to(X[:, :1], (5, 2, 3, 4))),
    (View("expand", (0, 2)), X[0], X[0][None, :, None]),
    (View("squeeze", (1,)), X[:, 1:2], X[:, 1]),
    (View("slice", ((1, 2, 1), (2, -1, -1), (0, 4, 3))), X, X[1:2, ::-1, ::3]),
]


@pytest.mark.parametrize(("spec", "x", "expected"), SHARED,
                         ids=[spec.kind for spec, _, _ in SHARED])
def test_view_shares_memory(spec, x, expected):
    with trace_launches() as launches:
        (result,) = execute(spec, (x,))
    np.testing.assert_array_equal(result, expected)
    assert result.strides == expected.strides or 1 in expected.shape
    assert np.shares_memory(result, x)
    assert launches == []
    assert spec.out_shapes((x.shape,)) == (expected.shape,)


@pytest.mark.parametrize(("spec", "x", "expected"), SHARED,
                         ids=[spec.kind for spec, _, _ in SHARED])
def test_library_without_views_copies(spec, x, expected, monkeypatch):
    monkeypatch.setattr(NumpyLibrary, "writable", False)
    (result,) = execute(spec, (x,))
    np.testing.assert_array_equal(result, expected)
    assert result.flags.c_contiguous
    assert not np.shares_memory(result, x)


def test_library_without_negative_strides_copies(monkeypatch):
    whole = NumpyLibrary.view

    def view(self, native, shape, strides, offset):
        if min(strides) < 0:
            raise KernelTypeError("no negative strides")
        return whole(self, native, shape, strides, offset)

    monkeypatch.setattr(NumpyLibrary, "view", view)
    (result,) = execute(View("slice", ((0, 2, 1), (2, -1, -1), (0, 4, 1))), (X,))
    np.testing.assert_array_equal(result, X[:, ::-1])
    assert not np.shares_memory(result, X)


def test_empty_slice_stays_inside():
    (result,) = execute(View("slice", ((9, 9, 1), (0, 3, 1), (3, -1, -1))), (X,))
    assert result.shape == X[9:, :, ::-1].shape


def test_read_only_stays_read_only():
    x = X.copy()
    x.flags.writeable = False
    assert not execute(TURN, (x,))[0].flags.writeable


@pytest.mark.parametrize("x", [X.T, X[:, ::2], X[::-1]])
def test_reshape_across_a_gap_copies(x):
    target = (x.size // 2, 2)
    (result,) = execute(View("reshape", target), (x,))
    np.testing.assert_array_equal(result, x.reshape(target))
    assert not np.shares_memory(result, X)


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(3)), st.permutations(range(2)),
       st.sampled_from([(6, 4), (4, 6), (24, 1), (2, 12)]))
def test_reshape_into_any_output(order, back, target):
    x = np.arange(24.0).reshape(2, 3, 4).transpose(order)
    out = np.zeros([target[a] for a in back]).transpose(np.argsort(back))
    with use_backend(numpy_backend()):
        (result,) = execute(View("reshape", target), (x,), out=(out,))
    assert result is out
    np.testing.assert_array_equal(out, x.reshape(target))


def test_other_dtype_copies():
    (result,) = execute(TURN, (X,), dtypes=("float32",))
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, X.transpose(2, 0, 1))
    same, = execute(TURN, (X,), dtypes=("float64",))
    assert np.shares_memory(same, X)


@pytest.mark.parametrize("slices", [
    ((0, 2, 1), (1, 3, 1), (0, 4, 2)), ((1, -1, -1), (2, -1, -2), (3, -1, -1)),
    ((0, 0, 1), (0, 3, 1), (0, 4, 1)),
])
def test_unslice(slices):
    window = tuple(slice(a, None if b < 0 else b, c) for a, b, c in slices)
    expected = np.zeros((2, 3, 4))
    x = X[window] + 1
    expected[window] = x
    (result,) = execute(View("unslice", ((2, 3, 4), slices)), (x,))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concatenate(axis):
    arrays = [X, X[::-1, ::-1] + 100, np.take(X, [0], axis)]
    (result,) = execute(View("concatenate", (axis,)), arrays)
    np.testing.assert_array_equal(result, np.concatenate(arrays, axis))


def test_concatenate_promotes():
    f4, i4 = np.ones(2, np.float32), np.ones(3, np.int32)
    assert execute(View("concatenate", (0,)), (f4, i4))[0].dtype == np.float64
    assert execute(View("concatenate", (0,)), (i4.astype(BF16), i4))[0].dtype == BF16


def test_concatenate_fits():
    with pytest.raises(ShapeError, match=r"arrays\[1\]"):
        execute(View("concatenate", (0,)), (X, X[:, :1]))
    with pytest.raises(KernelTypeError, match="at least one"):
        execute(View("concatenate", (0,)), ())
    with pytest.raises(KernelTypeError, match=r"arrays\[1\] is a list"):
        execute(View("concatenate", (0,)), (X, [1.0]))
    with pytest.raises(KernelTypeError, match="takes one array, got 2"):
        execute(TURN, (X, X))


def test_out_is_filled():
    out = np.zeros((4, 2, 3))
    (result,) = execute(TURN, (X,), out=(out,))
    assert result is out
    np.testing.assert_array_equal(out, X.transpose(2, 0, 1))


def test_out_that_cannot_be():
    square = np.zeros((3, 3))
    for out, error in ((square, OverlapError), (np.zeros(9), ShapeError),
                       (np.zeros((3, 3), int), KernelTypeError),
                       (np.broadcast_to(0.0, (3, 3)), ReadOnlyError),
                       (as_strided(np.zeros(9), (3, 3), (8, 8)), OverlapError)):
        with pytest.raises(error):
            execute(View("transpose", (1, 0)), (square,), out=(out,))


class Exporter:
    """An array of a library that nobody knows."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_view_of_an_unknown_library_is_ours():
    x = X.copy()
    (result,) = execute(TURN, (Exporter(x),))
    assert type(result) is np.ndarray
    assert np.shares_memory(result, x)
    np.testing.assert_array_equal(result, x.transpose(2, 0, 1))


def test_unknown_kind():
    with pytest.raises((KernelTypeError, AttributeError)):
        execute(View("twist", ()), (X,))
