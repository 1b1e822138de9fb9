"""`execute` on a backend of NumPy views: inputs, dtypes, devices, errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nbfused.arrays import describe
from nbfused.dispatch import calls, execute
from nbfused.errors import (
    DeviceError,
    KernelTypeError,
    OverlapError,
    RangeError,
    ShapeError,
)
from nbfused.registry.backends import use_backend
from nbfused.scalar.ir.nodes import literal
from nbfused.specs import Contract, Map
from tests.dispatch.numpy_backend import (
    ADD,
    BOTH,
    COPY,
    MATMUL,
    ROW,
    SCALE,
    TAKE,
    NumpyBackend,
    function,
    numpy_backend,
)

BF16 = np.dtype(ml_dtypes.bfloat16)

X = np.zeros((2, 3))


@pytest.fixture(autouse=True)
def backend():
    fake = numpy_backend()
    with use_backend(fake):
        yield fake


def test_scalars_are_passed_by_value(backend):
    x = np.ones(3, np.float32)
    assert execute(SCALE, (x, 2.5))[0].dtype == np.float32
    assert execute(SCALE, (x, np.float64(2.5)))[0].dtype == np.float64
    assert [call.scalars for call in backend.calls] == [(2.5,), (2.5,)]
    execute(SCALE, (x, 3.5))
    assert len(backend.built) == 2
    execute(SCALE, (x, 3))
    execute(SCALE, (x, True))
    assert len(backend.built) == 4


def test_call_of_numbers_only():
    spec = Map(function("f", ("a",), ("z", "mul", "a", literal(2.0))), ("scalar",))
    (result,) = execute(spec, (3.0,))
    assert type(result) is np.ndarray
    assert result.shape == ()
    assert result == 6.0


def test_result_dtypes():
    f4, i4 = np.ones(3, np.float32), np.ones(3, np.int32)
    assert execute(ADD, (f4, i4))[0].dtype == np.float64
    assert execute(ADD, (i4, i4), dtypes=("int8",))[0].dtype == np.int8
    out = np.empty(3, np.float32)
    execute(BOTH, (f4, f4), out=(out, None))
    assert execute(BOTH, (f4, f4), dtypes=(None, "float64"))[1].dtype == np.float64
    np.testing.assert_array_equal(out, 2)


@pytest.mark.parametrize(("inputs", "words"), [
    ((X,), "takes 2 inputs"),
    ((X, 1.0), "y is a float"),
    ((X, [1.0]), "y is a list"),
])
def test_inputs_that_are_no_arrays(inputs, words):
    with pytest.raises(KernelTypeError, match=words):
        execute(ADD, inputs)


def test_numbers_that_are_none():
    with pytest.raises(KernelTypeError, match="'c' must be a number, got a ndarray"):
        execute(SCALE, (X, X))
    with pytest.raises(RangeError, match="'alpha' is"):
        execute(SCALE, (X, 2**63), names=("x", "alpha"))


def test_count_of_outputs():
    with pytest.raises(KernelTypeError, match="has 1 outputs, got out of length 2"):
        execute(ADD, (X, X), out=(None, None))
    with pytest.raises(KernelTypeError, match="has 1 outputs, got dtypes of length 2"):
        execute(ADD, (X, X), dtypes=(None, None))


def test_shapes_that_clash_are_named():
    with pytest.raises(ShapeError, match=r"'left' of shape \(2, 3\) and 'right' of"):
        execute(ADD, (X, np.zeros(4)), names=("left", "right"))
    with pytest.raises(ShapeError, match=r"'A'.*'B'"):
        execute(Contract("mk,kn->mn", MATMUL), (X, np.zeros((4, 2))), names=("A", "B"))
    with pytest.raises(ShapeError, match="'r' has one value for each row"):
        execute(ROW, (X, np.zeros(3), np.zeros(3), 1.0))


class ForeignArray:
    """An array of another library on the host."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_two_libraries_in_one_call():
    with pytest.raises(KernelTypeError, match="'x' is of numpy, 'y' is of foreign"):
        execute(ADD, (X, ForeignArray(X)))
    with pytest.raises(KernelTypeError, match="out is an array of foreign"):
        execute(ADD, (X, X), out=(ForeignArray(np.zeros((2, 3))),))


def test_device_that_nobody_owns():
    class Elsewhere(NumpyBackend):
        def owns(self, device):
            return False

    elsewhere: Any = Elsewhere()
    with use_backend(elsewhere), pytest.raises(DeviceError, match="is on cpu"):
        execute(COPY, (X,))


def test_library_without_arrays_in_the_inputs():
    (result,) = execute(calls.ZERO, (), out=(np.ones((2, 3), BF16),))
    np.testing.assert_array_equal(result, np.zeros((2, 3)))
    (result,) = execute(calls.ZERO, (), like=ForeignArray(X), dtypes=("float32",))
    assert (result.shape, result.dtype) == ((), np.float32)


def test_raw_input():
    table = np.arange(128.0)[::2]
    index = np.array([[3, 1], [0, 63]])
    (result,) = execute(TAKE, (table, index))
    np.testing.assert_array_equal(result, table[index])


def test_scatter_adds_to_zeros(backend):
    spec = Map(function("scatter", ("g", "i", "buffer"),
                        ("", "atomic_add", "buffer", "i", "g"), results=("g",)),
               ("element", "element", "scatter"), ((64,),))
    g, index = np.arange(5.0), np.array([1, 63, 1, 0, 1])
    same, summed = execute(spec, (g, index))
    np.testing.assert_array_equal(same, g)
    np.testing.assert_array_equal(summed, np.bincount(index, g, 64))
    assert backend.built[0][1].inner == ("1", "1", "1", "r1")
    out = np.full(64, 7.0)
    execute(spec, (g, index), out=(None, out))  # given, it keeps what it holds
    np.testing.assert_array_equal(out, 7.0 + summed)
    with pytest.raises(OverlapError):
        execute(spec, (out[:5], index), out=(None, out))
    empty = execute(spec, (g[:0], index[:0]))
    np.testing.assert_array_equal(empty[1], np.zeros(64))


@pytest.mark.parametrize("which", ["x", "out"])
def test_an_array_of_another_stream_is_waited_for_twice(backend, monkeypatch, which):
    """Before, as it may be made there; after, as nobody there knows of the launch."""
    events, out = backend.calls, describe(np.empty_like(X), "out")
    monkeypatch.setattr(backend, "synchronize", lambda: events.append("wait"))
    given = {"x": describe(X, "x"), "out": out}
    for stream, waits in ((5, 1), (5, 1), (0, 0), (None, 0)):
        given[which].stream = stream
        events.clear()
        calls.run(COPY, (given["x"],), outs=(out,))
        assert [e == "wait" for e in events] == [True]*waits + [False] + [True]*waits
    np.testing.assert_array_equal(out.owner, X)
    out.stream = 5
    events.clear()
    calls.zero(out)
    assert len(events) == 3


def test_numpy_scalar_is_no_output():
    with pytest.raises(KernelTypeError, match="out is a NumPy scalar"):
        execute(COPY, (np.float64(1),), out=(np.float64(1),))
