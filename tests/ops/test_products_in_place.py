"""Products that store into an array that their epilogue reads, on every rung."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import OverlapError
from tests.variants import sampled

BF16 = ml_dtypes.bfloat16
#: Products by the rules of every backend: narrow, blocked, packed, split, a batch, by
#: the matrix units of a GPU.
SHAPES = [((5, 7), (7, 3)), ((64, 96), (96, 80)), ((130, 70), (70, 258)),
          ((16, 20_000), (20_000, 24)), ((3, 40, 50), (3, 50, 60)),
          ((1024, 512), (512, 1032))]


def integers(seed, *shape):
    """Small enough for every sum to be exact."""
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.float64)


def placed(x, dtype, device):
    return nf.array(np.ascontiguousarray(x, dtype), device=device)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", sampled(
    ["float32", "float64", "float16", BF16], "float32", "float16"), ids=str)
def test_the_array_that_is_updated(shapes, dtype, device):
    a, b = (integers(k, *s) for k, s in enumerate(shapes))
    old = integers(2, *(a @ b).shape)
    state = placed(old, dtype, device)
    found = ops.matmul(placed(a, dtype, device), placed(b, dtype, device),
                       epilogue=lambda total, s: s - total*0.5, extras=(state,),
                       out=state)
    assert found is state
    np.testing.assert_array_equal(nf.to_numpy(state).astype("f8"),
                                  (old - (a @ b)*0.5).astype(dtype).astype("f8"))


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_in_columns_order(transposed, device):
    a, b = integers(0, 40, 30), integers(1, 30, 50)
    old = integers(2, 40, 50)
    state = placed(old.T if transposed else old, "float32", device)
    view = ops.transpose(state) if transposed else state
    ops.matmul(placed(a, "float32", device), placed(b, "float32", device),
               epilogue=lambda total, s: s + total, extras=(view,), out=view)
    np.testing.assert_array_equal(nf.to_numpy(view), old + a @ b)


def test_what_is_read_elsewhere_is_refused(device):
    x = placed(integers(0, 30, 30), "float32", device)
    y = placed(integers(1, 30, 30), "float32", device)
    with pytest.raises(OverlapError, match="'a'"):
        ops.matmul(x, y, out=x)
    add = {"epilogue": lambda total, s: total + s, "extras": (x,)}
    with pytest.raises(OverlapError, match=r"'extras\[0\]'"):
        ops.matmul(y, y, out=ops.transpose(x), **add)
    with pytest.raises(OverlapError, match=r"'extras\[0\]'"):
        ops.batched_matmul(y, y, permute=(1, 0), out=x, **add)
