"""Integers where floating point is meant: they would wrap around."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused import ops
from nbfused.errors import KernelTypeError

INTEGERS = ["int8", "uint8", "int16", "int32", "uint32", "int64", "bool"]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("call", [
    ops.softmax, ops.log_softmax, ops.rms_norm,
    lambda x: ops.add_rms_norm(x, x.astype("float32")),
    lambda x: ops.add_rms_norm(x.astype("float32"), x),
    lambda x: ops.cross_entropy(x, np.zeros(2, np.int64))])
def test_rows_take_no_integers(call, dtype):
    with pytest.raises(KernelTypeError, match=f"must be floating, got dtype {dtype};"):
        call(np.ones((2, 3), dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("ord", [1, 2, float("inf")])
def test_norms_of_integers_are_numpys(dtype, ord):
    info = np.array([0, 1] if dtype == "bool" else
                    [np.iinfo(dtype).min, np.iinfo(dtype).max])
    x = np.tile(info.astype(dtype), 3)
    got, want = ops.norm(x, ord), np.linalg.norm(x.astype(float), ord)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=1e-15)
