"""Objects of other packages that hold arrays: called through their own protocols."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError
from tests.refusal import refused

X = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
SWISH = X / (1 + np.exp(-X))


def test_arrays_of_xarray():
    xarray = pytest.importorskip("xarray")
    x = xarray.DataArray(X, dims=("row", "column"), coords={"row": [10, 20]})
    y = xarray.apply_ufunc(ops.swish, x)
    assert y.dims == ("row", "column")
    assert y.coords["row"].values.tolist() == [10, 20]
    np.testing.assert_allclose(y.values, SWISH)
    total = xarray.apply_ufunc(ops.logsumexp, x, input_core_dims=[["column"]],
                               kwargs={"axis": -1})
    assert total.dims == ("row",)
    for use in (ops.swish, ops.sum, nf.Variable):
        with refused(KernelTypeError, "DataArray", "xarray.apply_ufunc("):
            use(x)


def test_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abc"), index=["x", "y"])
    made = frame.pipe(lambda f: pandas.DataFrame(
        ops.swish(f.to_numpy()), index=f.index, columns=f.columns))
    np.testing.assert_allclose(made.to_numpy(), SWISH)
    for x in (frame, frame.a):
        with refused(KernelTypeError, "pandas", ".to_numpy()", "index="):
            ops.swish(x)


def test_quantities_of_pint():
    pint = pytest.importorskip("pint")
    x = X * pint.UnitRegistry().metre
    for use in (ops.swish, nf.Variable, lambda x: ops.add(X, x)):
        with refused(KernelTypeError, "Quantity", ".magnitude", "unit"):
            use(x)


def test_sparse_arrays():
    scipy = pytest.importorskip("scipy.sparse")
    for use in (ops.swish, lambda x: ops.matmul(X.T, x)):
        with refused(KernelTypeError, "scipy.sparse", ".toarray()"):
            use(scipy.csr_array(X))
    sparse = pytest.importorskip("sparse")
    with refused(KernelTypeError, "sparse", ".todense()"):
        ops.swish(sparse.COO(X))
