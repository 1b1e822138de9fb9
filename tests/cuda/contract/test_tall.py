"""Products of tall factors with short rows: which are taken, and exact on integers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.cuda.contract.tall import BLOCKS, COLUMNS, Plan, TallText
from tests.cuda.contract.products import biased_relu, integers, layer, placed
from tests.cuda.recorded import assembled, needs_compiler, recording, registers
from tests.variants import sampled_together


def is_tall(a, b):
    """Whether each thread multiplies rows of its own."""
    with recording() as kernels:
        ops.matmul(a, b)
    (*_, name) = [k.name for k in kernels.values()]
    return "_tall" in name


@pytest.mark.parametrize(("dtype", "shape", "wanted"), [
    ("float32", (200_000, 19, 31), True), ("float32", (200_000, 85, 31), False),
    ("float32", (200_000, 8, 7), False), ("float32", (200_000, 8, 3), True),
    ("float32", (5000, 19, 10), False), ("float64", (200_000, 40, 16), True),
    (bfloat16, (200_000, 85, 31), True), (bfloat16, (200_000, 64, 10), True),
    (bfloat16, (200_000, 64, 16), False), (bfloat16, (200_000, 8, 16), True),
    ("float16", (200_000, 250, 3), True), ("float16", (200_000, 250, 4), False),
    ("int32", (200_000, 19, 10), False)], ids=str)
def test_which_products_are_taken(dtype, shape, wanted):
    needs_compiler()
    m, k, n = shape
    a, b = np.zeros((m, k), dtype), np.zeros((k, n), dtype)
    assert is_tall(a, b) == wanted
    if wanted:
        assert is_tall(b.T, a.T)
        assert not is_tall(np.zeros((m, k + 1), dtype)[:, :-1], b)


@pytest.mark.parametrize(("whole", "dtype"), sampled_together(
    product([False, True], ["float16", "float32", "float64"]),
    (False, "float64"), (True, "float16")))
def test_sums_stay_in_registers(dtype, whole):
    needs_compiler()
    text = layer(dtype, epilogue=biased_relu)
    _, said = assembled(TallText(text, Plan(0, *BLOCKS[0], COLUMNS, whole)).kernel())
    assert said is None or registers(said)[1] == 0


@nf.contraction("mk,kn->mn")
def residual(total, other, s, t):
    return total*s + other*t, total*total


SHAPES = [(70_001, 2, 6), (50_003, 19, 31), (9001, 44, 12), (20_000, 64, 10),
          (8193, 85, 3), (12_345, 8, 2), (10_000, 96, 5), (8200, 1, 4)]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", bfloat16, "float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("across", [False, True])
def test_exact_on_integers(shape, dtype, across):
    """Of -1, 0 and 1; the tall factor begins at any element, and in a batch."""
    m, k, n = shape
    a, b, c = (np.sign(integers(seed, *extents)) for seed, extents in enumerate(
        ((m + 1, k), (n, k), (n,))))
    x, y, bias = placed(a, dtype)[1:], placed(b, dtype), placed(c, dtype)
    expected = a[1:] @ b.T
    found = ops.contract("nk,mk->nm", y, x) if across else ops.matmul(x, y.T)
    np.testing.assert_array_equal(
        nf.to_numpy(found), (expected.T if across else expected).astype(dtype))
    if not across:
        np.testing.assert_array_equal(
            nf.to_numpy(ops.linear(x, y.T, bias, activation="relu")),
            np.maximum(expected + c, 0).astype(dtype))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("k", [16, 19])
def test_numbers_and_several_results(dtype, k):
    a, b, other = (np.sign(integers(seed, *extents)) for seed, extents in enumerate(
        ((9001, k), (k, 5), (9001, 5))))
    found = residual(*(placed(x, dtype) for x in (a, b, other)), 0.5, 3.0)
    for y, expected in zip(found, (a @ b*0.5 + other*3, (a @ b)**2), strict=True):
        np.testing.assert_array_equal(nf.to_numpy(y), expected.astype(dtype))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [bfloat16, "float32"])
def test_a_batch_whose_products_begin_anywhere(dtype):
    a, b = np.sign(integers(1, 3, 8197, 11)), np.sign(integers(2, 3, 11, 5))
    found = ops.matmul(placed(a, dtype), placed(b, dtype))
    np.testing.assert_array_equal(nf.to_numpy(found), (a @ b).astype(dtype))
