"""`execute` on a backend of NumPy views: layouts, checks, dtypes, plans."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbfused import calls
from nbfused.allocation import allocate
from nbfused.arrays import describe
from nbfused.dispatch import execute, trace_launches
from nbfused.errors import (
    AllocationError,
    DeviceError,
    KernelTypeError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)
from nbfused.plans import arguments
from nbfused.registry import use_backend
from nbfused.scalar.ir import literal
from nbfused.specs import COMBINES, Contract, Map, Out, Reduce, Row, Stage
from tests.numpy_backend import NumpyBackend, function, numpy_backend

BF16 = np.dtype(ml_dtypes.bfloat16)
COPY = calls.COPY
ADD = Map(function("add", ("x", "y"), ("z", "add", "x", "y")), ("element", "element"))
SCALE = Map(function("scale", ("x", "c"), ("z", "mul", "x", "c")),
            ("element", "scalar"))
BOTH = Map(function("both", ("x", "y"), ("s", "add", "x", "y"), ("d", "sub", "x", "y"),
                    results=("s", "d")), ("element", "element"))
COUNT = Map(function("count", ("x", "i", "n"), ("a", "mul", "x", "n"),
                     ("z", "add", "a", "i")), ("element", "index", "size"))
TAKE = Map(function("take", ("table", "i"), ("z", "load", "table", "i")),
           ("raw", "element"))
SUM = Reduce(function("id", ("x",), ("z", "id", "x")), ("element",), COMBINES["sum"],
             function("post", ("s",), ("z", "id", "s")))
MATMUL = function("id", ("acc",), ("z", "id", "acc"))


@pytest.fixture(autouse=True)
def backend():
    fake = numpy_backend()
    with use_backend(fake):
        yield fake


def reduce_of(axes, keepdims=False):
    return Reduce(SUM.map, SUM.kinds, SUM.combine, SUM.post, axes, keepdims)


@st.composite
def operands(draw, count=2):
    """Arrays in many layouts that broadcast together."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 5]), max_size=4))
    arrays = []
    for _ in range(count):
        own = [draw(st.sampled_from([n, n, 1])) for n in shape]
        own = own[draw(st.integers(0, len(own))):]
        order = draw(st.permutations(range(len(own))))
        base = np.random.default_rng(len(shape)).standard_normal(
            [own[a] * 2 for a in order])
        step = [draw(st.sampled_from([1, 1, 2, -1])) for _ in own]
        index = [slice(None, n) if s == 1 else slice(None, 2 * n, 2) if s == 2
                 else slice(n - 1, None, -1)
                 for n, s in zip([own[a] for a in order], step, strict=True)]
        arrays.append(base[tuple(index)].transpose(np.argsort(order)))
    return arrays


@settings(max_examples=200, deadline=None)
@given(operands())
def test_map_on_any_layout(arrays):
    with use_backend(numpy_backend()):
        (result,) = execute(ADD, arrays)
        (counted,) = execute(COUNT, arrays[:1])
    expected = arrays[0] + arrays[1]
    np.testing.assert_array_equal(result, expected)
    assert result.strides == expected.strides
    assert result.flags.owndata or result.base is not None
    x = arrays[0]
    np.testing.assert_array_equal(
        counted, x * x.size + np.arange(x.size).reshape(x.shape))


@settings(max_examples=200, deadline=None)
@given(operands(1), st.data())
def test_reduce_on_any_layout(arrays, data):
    (x,) = arrays
    axes = data.draw(st.none() | st.sets(st.integers(0, max(x.ndim - 1, 0))))
    axes = None if axes is None or x.ndim == 0 else tuple(axes)
    keepdims = data.draw(st.booleans())
    with use_backend(numpy_backend()):
        (result,) = execute(reduce_of(axes, keepdims), (x,))
    expected = x.sum(axis=axes, keepdims=keepdims)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, atol=1e-12)


ROW = Row(
    "centre", ("x", "r", "c", "a"), ("element", "row", "column", "scalar"),
    (Stage(("m",), function("map", ("x", "c"), ("z", "mul", "x", "c")), COMBINES["sum"],
           function("post", ("s",), ("z", "id", "s"))),),
    (Out("element", function("out", ("x", "m", "r", "a"), ("y", "sub", "x", "m"),
                             ("z", "add", "y", "r"), ("w", "mul", "z", "a"))),
     Out("row", function("row", ("m",), ("z", "id", "m"))),
     Out("column", function("column", ("x", "r"), ("z", "mul", "x", "r"))),
     Out("scalar", function("scalar", ("x",), ("z", "id", "x")))))


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (0, 4, 5), (3, 0, 1)])
def test_row_on_any_layout(axis, order, shape):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).transpose(order)
    n = x.shape[axis]
    r = rng.standard_normal(tuple(np.delete(x.shape, axis)))
    c = rng.standard_normal(n * 2)[::2]
    spec = Row(ROW.title, ROW.inputs, ROW.kinds, ROW.stages, ROW.outs, axis)
    results = execute(spec, (x, r, c, 2.0))
    y, r, c = np.moveaxis(x, axis, -1), r[..., None], c
    m = (y * c).sum(-1, keepdims=True)
    expected = (np.moveaxis((y - m + r) * 2.0, -1, axis), m[..., 0],
                (y * r).sum(axis=(0, 1)), y.sum())
    for result, value in zip(results, expected, strict=True):
        assert result.shape == value.shape
        np.testing.assert_allclose(result, value, atol=1e-12)


EPILOGUE = function("bias", ("acc", "bias", "c"), ("y", "add", "acc", "bias"),
                    ("z", "mul", "y", "c"))


@pytest.mark.parametrize(("subscripts", "a", "b"), [
    ("mk,kn->mn", (2, 3), (3, 4)),
    ("mk,nk->nm", (2, 3), (4, 3)),
    ("m,n->mn", (2,), (4,)),
    ("k,k->", (5,), (5,)),
    ("mk,k->m", (1, 3), (3,)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("abc,cbd->ad", (2, 3, 4), (4, 3, 5)),
    ("...mk,...kn->...mn", (7, 1, 2, 3), (5, 3, 4)),
    ("...mk,...kn->...mn", (7, 2, 3), (1, 3, 4)),
    ("...mk,...kn->...mn", (1, 2, 3), (7, 3, 4)),
    ("...mk,kn->...mn", (7, 5, 2, 3), (3, 4)),
    ("mk,kn->mn", (2, 0), (0, 4)),
    ("mk,kn->mn", (0, 3), (3, 4)),
])
@pytest.mark.parametrize("turned", [False, True])
def test_contract(subscripts, a, b, turned):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(a), rng.standard_normal(b)
    if turned:
        x, y = np.asfortranarray(x), np.asfortranarray(y)
    expected = np.einsum(subscripts, x, y)
    bias = rng.standard_normal(expected.shape[-1:])
    axes = tuple(range(expected.ndim))[::-1 if turned else 1]
    spec = Contract(subscripts, EPILOGUE, ("element", "scalar"), out_axes=axes)
    (result,) = execute(spec, (x, y, bias, 2.0))
    np.testing.assert_allclose(result, ((expected + bias) * 2.0).transpose(axes),
                               atol=1e-12)
    assert result.flags.c_contiguous


def test_layouts_merge(backend):
    x = np.zeros((3, 4, 5))
    w = np.zeros((5, 6))
    execute(ADD, (x.T, x.T))
    execute(ADD, (x, x[0, 0]))
    execute(COUNT, (x.T,))
    execute(reduce_of((1, 2)), (x,))
    execute(reduce_of((0, 1)), (x.T,))
    execute(Contract("...k,kn->...n", MATMUL), (x, w))
    execute(Contract("...mk,...kn->...mn", MATMUL), (x, w))
    execute(Contract("...mk,...kn->...mn", MATMUL), (x, w[None]))
    shapes = [call.shape for call in backend.calls]
    assert shapes == [(60,), (12, 5), (5, 4, 3), (3, 20), (3, 20),
                      *[(12, 6, 5)] * 3]
    codes = [signature.inner for _, signature in backend.built]
    assert codes[0] == ("1", "1", "1")
    assert codes[1] == ("1", "1", "1")
    assert codes[3] == ("1", "0")
    assert codes[-1] == ("s1", "s1", "s1")


def test_kernels_are_shared(backend):
    """Shapes, axes and subscripts are not in the kernel; strides only as classes."""
    execute(ADD, (np.zeros((3, 4)), np.zeros((3, 4))))
    execute(ADD, (np.zeros((4, 3)).T, np.zeros((4, 3)).T))
    execute(ADD, (np.zeros(()), np.zeros(())))
    execute(reduce_of(None), (np.zeros((3, 4)),))
    execute(reduce_of((0, 1), True), (np.zeros((5, 6)),))
    execute(Contract("mk,kn->mn", MATMUL), (np.zeros((3, 4)), np.zeros((4, 5))))
    execute(Contract("mk,nk->nm", MATMUL, out_axes=(1, 0)),
            (np.zeros((3, 4)), np.zeros((5, 4)).copy("F")))
    assert len(backend.built) == 3


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


def test_out_is_returned_and_may_be_larger():
    out = np.empty((2, 3))
    (result,) = execute(ADD, (np.arange(3.0), np.ones(3)), out=(out,))
    assert result is out
    np.testing.assert_array_equal(out, [[1, 2, 3]] * 2)


def test_out_in_place_and_reversed():
    x = np.arange(6.0)
    execute(ADD, (x[::-1], np.ones(6)), out=(x[::-1],))
    np.testing.assert_array_equal(x, np.arange(6) + 1)


X = np.zeros((2, 3))


@pytest.mark.parametrize(("spec", "inputs", "out", "error", "words"), [
    (ADD, (X, X), np.zeros(3), ShapeError, r"shape \(3,\), but .* shape \(2, 3\)"),
    (reduce_of((0,)), (X,), np.zeros((2, 3)), ShapeError, r"\(2, 3\).*\(3,\)"),
    (ADD, (X, X), np.zeros((2, 3), int), KernelTypeError, "dtype int64"),
    (ADD, (X, X), np.broadcast_to(np.zeros(3), (2, 3)), ReadOnlyError, "read-only"),
    (ADD, (X, X), [1, 2], KernelTypeError, "out is a list"),
    (reduce_of((0,), True), (X,), X[:1], OverlapError, "'x'.*cannot work in place"),
    (COPY, (X[:, :2],), X[:, 1:], OverlapError, "exactly 'x' is allowed"),
])
def test_outputs_that_cannot_be_written(spec, inputs, out, error, words, backend):
    if error is ReadOnlyError:
        out = np.zeros((2, 3))
        out.flags.writeable = False
    with pytest.raises(error, match=words):
        execute(spec, inputs, out=(out,))
    assert not backend.calls


def test_output_with_repeated_elements(backend):
    out = np.lib.stride_tricks.as_strided(np.zeros(4), (2, 3), (8, 8))
    with pytest.raises(OverlapError, match="share memory"):
        execute(COPY, (X,), out=(out,))
    assert not backend.calls


def test_outputs_that_overlap(backend):
    out = np.zeros((3, 3))
    with pytest.raises(OverlapError, match=r"out\[1\] and out\[0\]"):
        execute(BOTH, (X, X), out=(out[:2], out[1:]))
    assert not backend.calls


def test_raw_input_is_never_written_in_place():
    table = np.arange(4.0)
    with pytest.raises(OverlapError, match="'table'"):
        execute(TAKE, (table, np.array([1, 0, 3, 2])), out=(table,))


@pytest.mark.parametrize(("source", "target", "casting", "ok"), [
    ("f8", "f4", "same_kind", True), ("f8", "f4", "safe", False),
    ("f8", "i4", "same_kind", False), ("f8", "i4", "unsafe", True),
    (BF16, "f2", "same_kind", True), ("f8", BF16, "same_kind", True),
    (BF16, "i4", "same_kind", False), ("c8", BF16, "same_kind", False),
    ("i4", BF16, "same_kind", True), ("f4", BF16, "safe", False),
    (BF16, "f4", "safe", True), ("f2", BF16, "safe", False), (BF16, BF16, "no", True),
])
def test_casting(source, target, casting, ok):
    x, out = np.ones(3, source), np.zeros(3, target)
    if ok:
        execute(COPY, (x,), out=(out,), casting=casting)
        np.testing.assert_array_equal(out, np.ones(3))
    else:
        with pytest.raises(KernelTypeError, match=f"'{casting}'"):
            execute(COPY, (x,), out=(out,), casting=casting)


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
    with pytest.raises(OverflowError, match="'alpha' is"):
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
    execute(spec, (g, index), out=(None, out))
    np.testing.assert_array_equal(out, summed)
    with pytest.raises(OverlapError):
        execute(spec, (out[:5], index), out=(None, out))
    empty = execute(spec, (g[:0], index[:0]))
    np.testing.assert_array_equal(empty[1], np.zeros(64))


def test_nothing_to_do_launches_nothing():
    with trace_launches() as launches:
        assert execute(ADD, (np.zeros((0, 3)), np.zeros(3)))[0].shape == (0, 3)
        assert execute(reduce_of((1,)), (np.zeros((0, 3)),))[0].shape == (0,)
        shape = execute(Contract("mk,kn->mn", MATMUL),
                        (np.zeros((0, 3)), np.zeros((3, 4))))[0].shape
        assert shape == (0, 4)
    assert launches == []
    np.testing.assert_array_equal(execute(reduce_of((0,)), (np.zeros((0, 3)),))[0],
                                  np.zeros(3))


def test_trace():
    with trace_launches() as outer:
        execute(ADD, (X, X))
        with trace_launches() as inner:
            execute(reduce_of(None), (X,))
        worker = threading.Thread(target=execute, args=(COPY, (X,)))
        worker.start()
        worker.join()
    assert [(one.kind, one.name, one.shape, one.backend) for one in outer] \
        == [("Map", "add", (6,), "cpu")]
    assert [one.kind for one in inner] == ["Reduce"]
    execute(ADD, (X, X))
    assert len(outer) == 1


def unique(name):
    return Map(function(name, ("x",), ("z", "id", "x")), ("element",))


def test_plans_are_bounded(monkeypatch, backend):
    monkeypatch.setattr(calls, "_LIMIT", 4)
    spec = unique("bounded")
    for n in range(10):
        (result,) = execute(spec, (np.ones((n + 2, 3))[:, ::2],))
        np.testing.assert_array_equal(result, np.ones((n + 2, 2)))
    assert len(arguments(spec).plans) == 4
    assert len(backend.built) == 1


def test_plans_do_not_depend_on_the_array():
    spec = unique("unique")
    for _ in range(5):
        execute(spec, (np.zeros(7),))
    assert len(arguments(spec).plans) == 1


class Scarce:
    """A library whose memory runs out."""

    name, writable = "scarce", True

    def __init__(self, room):
        self.room, self.freed = room, 0

    def empty(self, shape, dtype, device):
        if self.room < 1:
            raise MemoryError("none left")
        self.room -= 1
        return np.empty(shape, dtype)

    def free_cache(self, device):
        self.freed += 1
        self.room += self.freed


def test_allocation_is_tried_again():
    library: Any = Scarce(0)
    assert allocate(library, (2,), np.dtype("f4"), "cpu").shape == (2,)
    assert library.freed == 1
    library.freed = -1
    with pytest.raises(AllocationError, match=r"\(2,\) and dtype float32.*scarce"):
        allocate(library, (2,), np.dtype("f4"), "cpu")


def test_other_errors_of_an_allocator_pass():
    class Broken(Scarce):
        def empty(self, shape, dtype, device):
            raise RuntimeError("driver shut down")

    broken: Any = Broken(1)
    with pytest.raises(RuntimeError, match="driver"):
        allocate(broken, (2,), np.dtype("f4"), "cpu")


def test_work_on_another_stream_is_waited_for(backend, monkeypatch):
    waits = []
    monkeypatch.setattr(backend, "synchronize", lambda: waits.append(1))
    array = describe(X, "x")
    array.stream = 5
    calls.run(COPY, (array,))
    assert waits == [1]
    array.stream = 0
    calls.run(COPY, (array,))
    assert waits == [1]
