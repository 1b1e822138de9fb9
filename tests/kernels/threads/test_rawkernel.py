"""Kernels of threads: what they are launched on, and how that can go wrong."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import (
    DeviceError,
    InplaceModificationError,
    KernelTypeError,
    NotDifferentiableError,
    RangeError,
    ReadOnlyError,
    ScalarSyntaxError,
)
from nbfused.support.dtypes import DTYPES
from tests.variants import sampled


@nf.rawkernel
def copy(x, y):
    for i in range(nf.grid(1), y.shape[0], nf.gridsize(1)):
        y[i] = x[i]


@nf.rawkernel
def store(value, y):
    y[0] = value


@pytest.mark.parametrize("dtype", sampled(
    DTYPES, "bool", "int8", "uint64", "float16", "bfloat16", "float32", "complex64"))
def test_every_dtype(dtype, device):
    x = np.arange(10).astype(DTYPES[dtype])
    y = nf.zeros(10, dtype, device=device)
    copy((2,), (3,), (nf.array(x, device=device), y))
    np.testing.assert_array_equal(nf.to_numpy(y), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_scalars_are_what_their_dtype_says(dtype, device):
    value = DTYPES[dtype].type(3)
    y = nf.zeros(1, dtype, device=device)
    store((1,), (1,), (value, y))
    assert nf.to_numpy(y)[0] == value


@pytest.mark.parametrize(("value", "dtype"), [
    (True, "bool"), (2**62 + 1, "int64"), (0.1, "float64"), (1 + 2j, "complex128")])
def test_python_numbers(value, dtype, device):
    y = nf.zeros(1, dtype, device=device)
    store((1,), (1,), (value, y))
    assert nf.to_numpy(y)[0] == value


def test_a_new_number_compiles_nothing(device):
    y = nf.zeros(1, device=device)
    kernel = nf.rawkernel(store.pyfunc)
    for value in (1.5, 2.5, 3.5):
        kernel((1,), (1,), (value, y))
        assert nf.to_numpy(y) == [value]
    assert kernel.cached_signatures == (("float", "float64[1]"),)


def test_any_strides(device):
    @nf.rawkernel
    def transpose(x, y):
        i, j = nf.grid(2)
        if i < y.shape[0] and j < y.shape[1]:
            y[i, j] = x[j, i]

    x = np.arange(60.0).reshape(6, 10)
    given = nf.array(x, device=device)
    target = nf.zeros((20, 12), device=device)
    transpose((2, 2), (8, 8), (given[::2, ::-3], target[1:9:2, ::4]))
    expected = np.zeros((20, 12))
    expected[1:9:2, ::4] = x[::2, ::-3].T
    np.testing.assert_array_equal(nf.to_numpy(target), expected)


def test_three_axes(device):
    @nf.rawkernel
    def places(y):
        i, j, k = nf.grid(3)
        if i < y.shape[0] and j < y.shape[1] and k < y.shape[2]:
            y[i, j, k] = 100*i + 10*j + k

    y = nf.zeros((5, 6, 7), device=device)
    places((3, 2, 2), (2, 4, 4), (y,))
    i, j, k = np.indices((5, 6, 7))
    np.testing.assert_array_equal(nf.to_numpy(y), 100*i + 10*j + k)


def test_float32_stays_float32_beside_positions(device):
    @nf.rawkernel
    def ramp(x, y):
        i = nf.grid(1)
        y[i] = x[i] * i / 3

    x = np.linspace(0, 1, 8, dtype=np.float32)
    y = nf.zeros(8, "float32", device=device)
    ramp((1,), (8,), (nf.array(x, device=device), y))
    expected = x * np.arange(8, dtype=np.float32) / np.float32(3)
    np.testing.assert_array_equal(nf.to_numpy(y), expected)


def test_defaults(device):
    @nf.rawkernel
    def fill(y, value=2.0):
        y[nf.threadIdx.x] = value

    y = nf.zeros(2, device=device)
    fill[1, 2](y)
    np.testing.assert_array_equal(nf.to_numpy(y), [2, 2])
    fill[1, 2](y, value=3.0)
    np.testing.assert_array_equal(nf.to_numpy(y), [3, 3])


def test_numpy_types_as_annotations(device):
    @nf.rawkernel
    def third(x: np.float32, y):
        y[0] = x / 3

    y = nf.zeros(1, device=device)
    third((1,), (1,), (1, y))
    assert nf.to_numpy(y)[0] == np.float32(1) / np.float32(3)


@pytest.mark.parametrize(("grid", "block", "error"), [
    (0, 1, RangeError), (1, 0, RangeError), ((1, 0), 1, RangeError),
    (-1, 1, RangeError), (2**31, 1, RangeError), ((1, 65536), 1, RangeError),
    (1, 1025, RangeError), (1, (32, 33), RangeError), (1, (1, 1, 65), RangeError),
    ((1, 1, 1, 1), 1, KernelTypeError), ((), 1, KernelTypeError),
    (1.5, 1, KernelTypeError), ((1,), "x", KernelTypeError)])
def test_grids_and_blocks(grid, block, error):
    y = np.full(1, 7.0)
    with pytest.raises(error, match="store"):
        store[grid, block](1.0, y)
    assert y == [7]


def test_large_grids(device):
    count = nf.zeros(1, "int32", device=device)

    @nf.rawkernel
    def bump(count):
        if nf.threadIdx.x == 0 and nf.blockIdx.x % 1000 == 0:
            nf.atomic.add(count, 0, 1)

    bump((200_000,), (1,), (count,))
    assert nf.to_numpy(count) == [200]


@pytest.mark.parametrize("call", [
    lambda k, x: k(x, x), lambda k, x: k(1, 32, x), lambda k, x: k(1),
    lambda k, x: k[1](x, x), lambda k, x: k[1, 2, 3, 4, 5]])
def test_wrong_ways_to_launch(call):
    with pytest.raises(KernelTypeError, match="copy"):
        call(copy, np.zeros(3))


@pytest.mark.parametrize(("args", "error", "message"), [
    ((np.zeros(3), {1, 2}), KernelTypeError, "'y' is a set"),
    ((np.zeros(3), None), KernelTypeError, "'y' is a NoneType"),
    ((np.zeros(3), "text"), KernelTypeError, "'y' is a str"),
    ((1.0, np.zeros(3)), ScalarSyntaxError, "a number cannot be indexed"),
    ((np.zeros((3, 3)), np.zeros(3)), ScalarSyntaxError, "2 axes"),
    ((np.zeros(3), np.zeros(3, "O")), KernelTypeError, "y"),
    ((np.zeros(3), np.broadcast_to(np.zeros(1), 3)), ReadOnlyError, "'y'")])
def test_wrong_arguments(args, error, message):
    with pytest.raises(error, match=message):
        copy((1,), (3,), args)


def test_written_arrays_are_read_only_for_no_one(device):
    x = np.zeros(3)
    x.flags.writeable = False
    y = np.ones(3)
    copy((1,), (3,), (x, y))
    assert not y.any()
    with pytest.raises(ReadOnlyError, match=r"writes to 'y'.*y\.copy"):
        copy((1,), (3,), (y, x))


def test_arrays_of_other_libraries():
    torch = pytest.importorskip("torch")
    x, y = torch.arange(3.0), torch.zeros(3)
    copy((1,), (3,), (x, y))
    assert y.tolist() == [0, 1, 2]
    with pytest.raises(KernelTypeError, match=r"'x' is of torch.*'y' is of numpy"):
        copy((1,), (3,), (x, np.zeros(3, np.float32)))


def test_gradients_of_other_libraries_are_not_lost():
    torch = pytest.importorskip("torch")
    x, y = torch.arange(3.0, requires_grad=True), torch.zeros(3)
    with pytest.raises(NotDifferentiableError, match="'x' is an array of torch"):
        copy((1,), (3,), (x, y))
    with torch.no_grad():
        copy((1,), (3,), (x, y))
    assert y.tolist() == [0, 1, 2]


def test_immutable_arrays():
    jax = pytest.importorskip("jax")
    with pytest.raises(ReadOnlyError, match=r"writes to 'y'.*immutable"):
        copy((1,), (3,), (jax.numpy.zeros(3), jax.numpy.zeros(3)))


def test_backends_that_are_not_enabled():
    with nf.use_backend("cpu"), pytest.raises(DeviceError):
        copy((1,), (3,), (FakeArray(), FakeArray()))


class FakeArray:
    """Says that it is on a device that nobody has."""

    @property
    def __cuda_array_interface__(self):
        return {"shape": (3,), "typestr": "<f8", "data": (256, False), "version": 3,
                "stream": None}


def test_writes_are_seen_by_the_tape(device):
    x = nf.Variable(nf.array([1.0, 2.0], device=device), requires_grad=True)
    y = x * x
    copy((1,), (2,), (nf.zeros(2, device=device), x.data))
    with pytest.raises(InplaceModificationError, match="changed in place"):
        y.sum().backward()


def test_reads_are_no_writes(device):
    x = nf.Variable(nf.array([1.0, 2.0], device=device), requires_grad=True)
    y = x * x
    copy((1,), (2,), (x.data, nf.zeros(2, device=device)))
    y.sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(x.grad), [2, 4])


def test_variables(device):
    """Those that want no gradient are arrays; others would lose theirs."""
    x = nf.Variable(nf.array([1.0, 2.0], device=device))
    y = nf.zeros(2, device=device)
    copy((1,), (2,), (x, y))
    np.testing.assert_array_equal(nf.to_numpy(y), [1, 2])
    x.requires_grad = True
    with pytest.raises(NotDifferentiableError, match="differentiable=True"):
        copy((1,), (2,), (x, y))


def test_launches_are_traced(device):
    x, y = (nf.zeros(10, device=device) for _ in range(2))
    with nf.trace_launches() as launches:
        copy((2, 1), (3,), (x, y))
    (launch,) = launches
    assert (launch.kind, launch.name) == ("Raw", "copy")
    assert (launch.grid, launch.block, launch.bytes) == ((2, 1, 1), (3, 1, 1), 160)


def test_shared_memory_that_was_not_allowed(device):
    kernel = nf.rawkernel(copy.pyfunc)
    x, y = (nf.zeros(4, device=device) for _ in range(2))
    with pytest.raises(RangeError, match="raise launch_config"):
        kernel((1,), (4,), (x, y), shared_mem=50_000)
    kernel.launch_config.max_dynamic_shared_size_bytes = 50_000
    kernel((1,), (4,), (x, y), shared_mem=50_000)
    for wrong in (-1, 1.5):
        with pytest.raises((RangeError, KernelTypeError), match="shared_mem"):
            kernel((1,), (4,), (x, y), shared_mem=wrong)


def test_streams(device):
    x, y = (nf.array([1.0, 2.0], device=device) for _ in range(2))

    class Stream:
        ptr = 0

    copy((1,), (2,), (x, y), stream=Stream())
    copy[1, 2, 0](x, y)
    copy(x=x, y=y).launch(grid=1, block=2, stream=0)
    with pytest.raises(KernelTypeError, match="stream is a str"):
        copy((1,), (2,), (x, y), stream="fast")


def test_from_many_threads():
    kernel = nf.rawkernel(copy.pyfunc)
    x = np.arange(10_000.0)
    found = [np.zeros(10_000) for _ in range(8)]
    threads = [threading.Thread(target=kernel, args=((20,), (100,), (x, y)))
               for y in found]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((y == x).all() for y in found)


def test_rules_where_kernels_are_wrapped_in_custom_vjp():
    assert nf.custom_vjp(copy) is copy


class Point(NamedTuple):
    x: nf.View[np.float64, 1]
    scale: float


class Outer(NamedTuple):
    point: Point
    out: nf.View


def test_nested_structs(device):
    @nf.rawkernel
    def scaled(p: Outer):
        i = nf.grid(1)
        p.out[i] = p.point.x[i] * p.point.scale

    x, y = nf.array([1.0, 2.0], device=device), nf.zeros(2, device=device)
    scaled((1,), (2,), (Outer(Point(x, 3.0), y),))
    np.testing.assert_array_equal(nf.to_numpy(y), [3, 6])
    with pytest.raises(KernelTypeError, match=r"'p\.point' must have the fields"):
        scaled((1,), (2,), (({"x": x}, y),))


def test_names():
    assert repr(copy) == "<nbfused rawkernel copy(x, y)>"
    assert (repr(nf.View[np.float32, 2]), repr(nf.DiffView[1])) == (
        "View[float32, 2]", "DiffView[1]")
    with pytest.raises(KernelTypeError, match="only floating arrays"):
        nf.DiffView[np.int32]


def test_source(device):
    kernel = nf.rawkernel(differentiable=True)(copy.pyfunc)
    with pytest.raises(KernelTypeError, match="before the first launch"):
        kernel.source()
    x, y = (nf.zeros(3, "float32", device=device) for _ in range(2))
    assert kernel.source("primal", x, y).startswith("def copy(x, y):")
    kernel((1,), (3,), (x, y))
    assert "y[" in kernel.source()
    assert "def copy_vjp(x, y, x_bar, y_bar):" in kernel.source("vjp")
    assert "def copy_jvp(" in kernel.source("jvp")
    own = {"cpu": ("numba",), "cuda": ("numba", "ptx"), "rocm": ("hip",)}[device]
    marks = {"numba": "def ", "ptx": ".entry copy", "hip": "NBF_KERNEL("}
    for kind, mark in marks.items():
        if kind in own:
            assert mark in kernel.source(kind)
        else:
            with pytest.raises(KernelTypeError, match=f"'{device}', which has the t"):
                kernel.source(kind)
    with pytest.raises(KernelTypeError, match="'kind' must be"):
        kernel.source("fortran")


def test_the_text_can_be_pasted_back(device):
    x, y = nf.array([1.0, 2.0], device=device), nf.zeros(2, device=device)
    text = copy.source("primal", x, y)
    again: dict[str, object] = {"nf": nf, "np": np}
    import linecache
    linecache.cache["<pasted>"] = (len(text), None, text.splitlines(True), "<pasted>")
    exec(compile(text, "<pasted>", "exec"), again)
    nf.rawkernel(again["copy"])((1,), (2,), (x, y))
    np.testing.assert_array_equal(nf.to_numpy(y), [1, 2])


@pytest.mark.parametrize(("op", "dtype"), [
    ("add", "bool"), ("max", "bool"), ("exch", "bool"), ("or_", "float32"),
    ("xor", "float16"), ("and_", "bfloat16"), ("cas", "complex64"),
    ("min", "complex128"), ("exch", "complex64")])
def test_atomics_that_do_not_exist(op, dtype, device):
    act = getattr(nf.atomic, op)

    @nf.rawkernel
    def update(y):
        act(y, 0, 1)

    @nf.rawkernel
    def compare(y):
        act(y, 0, 0, 1)

    y = nf.zeros(1, dtype, device=device)
    with pytest.raises(KernelTypeError, match=rf"atomic {op.rstrip('_')}.*got {dtype}"):
        (compare if op == "cas" else update)((1,), (1,), (y,))


def test_threads_are_for_kernels_only(device):
    @nf.elementwise
    def shifted(x):
        return x + nf.threadIdx.x

    with pytest.raises(KernelTypeError, match=r"in @nf\.rawkernel only"):
        shifted(nf.zeros(3, device=device))
