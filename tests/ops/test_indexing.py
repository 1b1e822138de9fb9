"""Derivatives of reading by index."""

import numpy as np
import pytest

import nbfused as nf


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_repeated_rows_add_up_in_float32(dtype, device):
    table = nf.Variable(nf.array(np.zeros((3, 2), dtype), device=device),
                        requires_grad=True)
    rows = nf.array(np.zeros(4000, np.int64), device=device)
    g = np.ones((4000, 2), dtype)  # in 16 bits the sum would stick at 2048 or 256
    nf.ops.take(table, rows).backward(nf.array(g, device=device))
    grad = nf.to_numpy(table.grad)
    assert grad.dtype == np.dtype(dtype)
    expected = np.array([[4000, 4000], [0, 0], [0, 0]], dtype)
    np.testing.assert_array_equal(grad, expected)


def test_an_index_out_of_range_is_named():
    with pytest.raises(IndexError, match=r"axis 0 of extent 3.*got 3"):
        nf.ops.take(np.zeros((3, 2)), np.array([0, 3]))
