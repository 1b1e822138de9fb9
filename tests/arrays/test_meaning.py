"""Arrays that compute otherwise than their elements say, or that are not in memory."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from tests.refusal import refused


class Metres(np.ndarray):
    """An array with a unit, as those of astropy, pint and unyt."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        raise TypeError("units have to fit")


class Noted(np.ndarray):
    """An array that carries a note, and computes as NumPy does."""

    note = ""

    def __array_finalize__(self, other):
        self.note = getattr(other, "note", "")


#: Ways to give an array to nbfused.
WAYS = {
    "op": nf.ops.exp, "second": lambda x: nf.ops.add(np.ones(3), x),
    "out": lambda x: nf.ops.exp(np.ones(3), out=x), "sum": nf.ops.sum,
    "Variable": nf.Variable, "operator": lambda x: nf.Variable(np.ones(3)) + x,
    "ufunc": lambda x: np.add(nf.Variable(np.ones(3)), x),
    "grad": nf.grad(lambda x: nf.ops.sum(x)), "array": nf.array,
    "to_numpy": nf.to_numpy, "view": lambda x: nf.ops.reshape(x, (1, -1)),
    "fuse": nf.fuse(lambda x: x * 2.0 + 1.0),
    "kernel": nf.ElementwiseKernel("T x", "T y", "y = x + 1", "plus_one"),
    "row": lambda x: nf.ops.softmax(x),
}


@pytest.mark.parametrize("way", [w for w in WAYS if w not in ("operator", "ufunc")])
def test_units_are_not_passed_over(way):
    with refused(KernelTypeError, "Metres", "says itself what is computed",
                 "numpy.asarray("):
        WAYS[way](np.ones(3).view(Metres))


@pytest.mark.parametrize("way", WAYS)
def test_quantities_of_astropy(way):
    units = pytest.importorskip("astropy.units")
    for x in (np.ones(3) * units.km, (np.ones(3) * units.km)[:1]):
        with refused(KernelTypeError, "Quantity", "numpy.asarray("):
            WAYS[way](x)


@pytest.mark.parametrize("way", [w for w in WAYS if w not in ("fuse", "row")])
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_multiplies_otherwise(way):
    with refused(KernelTypeError, "numpy.matrix", "numpy.asarray("):
        WAYS[way](np.matrix([1.0, 2.0, 3.0]))


def test_subclasses_that_only_carry_notes_are_arrays(tmp_path):
    mapped = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=(3,))
    records = np.ones(3).view(np.recarray)
    for x in (mapped, records, np.ones(3).view(Noted)):
        x[:] = [1.0, 2.0, 3.0]
        np.testing.assert_array_equal(nf.ops.square(x), [1, 4, 9])
        np.testing.assert_array_equal(nf.grad(lambda x: (x * x).sum())(x), [2, 4, 6])
        nf.ops.negative(x, out=x)
        np.testing.assert_array_equal(np.asarray(x), [-1, -2, -3])


class Lazy:
    """What NumPy would make an array of, at any expense."""

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("it was read")

    def compute(self):
        return np.ones(3)


def nested(x):
    return [[1.0, 2.0], [3.0, x]]


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x, x], lambda x: (1.0, x),
                                  nested])
def test_what_is_not_in_memory_is_not_read(wrap):
    with refused(KernelTypeError, "data is a ", "Lazy", "data.compute()"):
        nf.Variable(wrap(Lazy()))


def test_what_has_no_way_to_be_read_but_numpys():
    class Stored:
        __array__ = Lazy.__array__

    with refused(KernelTypeError, "Stored", "numpy.asarray(data)"):
        nf.Variable(Stored())


@pytest.mark.parametrize("way", [w for w in WAYS if w not in (
    "array", "fuse", "Variable", "operator", "ufunc", "out")])
def test_what_is_not_in_memory_is_no_argument(way):
    with pytest.raises(KernelTypeError, match="Lazy"):
        WAYS[way](Lazy())


def test_arrays_of_dask():
    dask = pytest.importorskip("dask.array")
    with refused(KernelTypeError, "dask.array.core.Array", "data.compute()"):
        nf.Variable([dask.ones((3,))])
    with refused(KernelTypeError, "numpy", "from_array"):
        nf.Variable(np.ones(3)) + dask.ones((3,))


def test_sparse_matrices():
    sparse = pytest.importorskip("scipy.sparse")
    for x in (sparse.eye(3).tocsr(), sparse.csr_array(np.eye(3))):
        with refused(KernelTypeError, "scipy.sparse", "data.toarray()"):
            nf.Variable(x)


def test_what_python_has_in_memory_is_data():
    for x in ([1.0, 2.0], (1.0, 2.0), [np.float64(1.0), 2.0], [np.array(1.0), 2.0],
              memoryview(np.array([1.0, 2.0])), range(1, 3), [[1.0, 2.0]][0]):
        np.testing.assert_array_equal(nf.Variable(x).data, [1.0, 2.0])
    assert nf.Variable([]).shape == (0,)
    assert nf.Variable([[], []]).shape == (2, 0)
