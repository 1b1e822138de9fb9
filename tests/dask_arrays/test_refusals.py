"""What Dask arrays do not do, by name, and nothing read on the way."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError, RangeError, ShapeError, UnsupportedError
from tests.refusal import refused

from .lazy import da, lazy, nothing_computed

X = np.random.default_rng(0).standard_normal((12, 8))


@pytest.fixture(autouse=True)
def no_scheduler():
    with nothing_computed():
        yield


def test_chunks_of_unknown_sizes():
    x = lazy(X)
    some = x[x[:, 0] > 0]
    for call in (ops.swish, lambda x: ops.add(1.0, x), nf.Variable):
        with refused(ShapeError, "unknown sizes", "compute_chunk_sizes()"):
            call(some)


def test_arrays_of_another_library():
    for y in (X, X[0]):
        with refused(KernelTypeError, "add", "y is an array of numpy", "from_array(y"):
            ops.add(lazy(X), y)
        with refused(KernelTypeError, "x is an array of numpy", "from_array(x"):
            ops.add(y, lazy(X))


def test_elements_that_are_needed_now():
    v = nf.Variable(lazy(X))
    for read in (v.to_numpy, v.tolist, lambda: bool(v.sum()), lambda: float(v.sum()),
                 v.sum().item, lambda: nf.to_numpy(v.data), lambda: nf.array(v.data),
                 lambda: v[v > 0], lambda: np.repeat(v[0], v.data[0].astype(int))):
        with refused(KernelTypeError, "Dask array", "compute()"):
            read()


def test_lists_of_them():
    with refused(KernelTypeError, "data", "dask.array", "compute()"):
        nf.Variable([lazy(X)])


def test_outputs_and_places():
    x = lazy(X)
    with refused(KernelTypeError, "out", "swish", "immutable", "out=None"):
        ops.swish(x, out=x)
    v = nf.Variable(x)
    with refused(KernelTypeError, "out", "immutable"):
        v += 1.0
    with refused(KernelTypeError, "Dask array"):
        ops.clip_by_global_norm({"w": v}, 1.0)


def test_gradients_of_another_library():
    v = nf.Variable(lazy(X), requires_grad=True)
    with refused(KernelTypeError, "grad", "numpy", "dask"):
        v.sum(axis=0).backward(np.ones(8))
    v.sum(axis=0).backward(da.ones(8))
    assert isinstance(v.grad, da.Array)


def test_functions_of_the_library():
    v = nf.Variable(lazy(X))
    for call in (np.sort, np.argsort, np.cumsum, np.median, np.fft.fft):
        with refused(KernelTypeError, "dask", "no such function"):
            call(v)


def test_writes_to_any_place():
    x = lazy(X)
    with refused(UnsupportedError, "name_last", "Dask", "map_blocks"):
        ops.set_at(x, x[:2], (da.from_array(np.array([1, 1]), chunks=1),))


def test_dtypes_without_kernels():
    x = da.from_array(np.array(["a", "b"]), chunks=1)
    with refused(KernelTypeError, "x", "U1"):
        ops.swish(x)


def test_chunks_without_kernels():
    """Found by what the array says of them, before anything is computed."""
    masked = da.ma.masked_less(lazy(X), 0)
    with refused(KernelTypeError, "x", "MaskedArray", "dask.array.ma.filled"):
        ops.sum(masked)

    class Own:
        shape, dtype, ndim, size = X.shape, X.dtype, 2, X.size

        def __getitem__(self, at):
            return self

        __array_function__ = __array_ufunc__ = lambda *args, **kwargs: NotImplemented

    with refused(KernelTypeError, "x", "chunks are Own", "map_blocks"):
        ops.swish(da.from_array(Own(), chunks=4, asarray=False, meta=Own()))


def test_a_chunk_of_another_dtype_than_its_array_says():
    x = da.from_array(X, chunks=4).map_blocks(lambda b: b.astype("f4"), dtype="f8",
                                              meta=X[:0])
    for call in (ops.swish, ops.sum, ops.softmax, lambda x: ops.matmul(x, x.T)):
        with pytest.raises(KernelTypeError, match=r"float32.*float64"):
            call(x).compute(scheduler="synchronous")


def test_a_chunk_of_another_shape_than_its_array_says():
    """A mean was divided by the number of elements that the array says it has."""
    x = da.from_array(X, chunks=(4, 8)).map_blocks(lambda b: b[:-1])
    y = da.from_array(X, chunks=(4, 8)).map_blocks(lambda b: b[0], dtype="f8")
    for call in (ops.swish, ops.mean, ops.softmax, lambda x: ops.add(x, 1.0),
                 lambda x: ops.var(x, axis=0)):
        for z in (x, y):
            with pytest.raises(ShapeError, match=r"a chunk has shape.*chunks="):
                call(z).compute(scheduler="synchronous")


def test_indices_out_of_range_are_found_in_their_chunk():
    x = lazy(X)
    for bad in (12, -13):
        found = ops.take(x, da.from_array(np.array([0, bad, 2]), chunks=1))
        with pytest.raises(RangeError, match=r"take.*indices"):
            found.compute(scheduler="synchronous")
    labels = da.from_array(np.full(12, 8), chunks=3)
    with pytest.raises(RangeError, match="labels"):
        ops.cross_entropy(x, labels).compute(scheduler="synchronous")
