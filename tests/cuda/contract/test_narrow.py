"""Narrow products: which kernels take them, and exact on integers."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.cuda.contract.general.kernel import GeneralText
from nbfused.cuda.contract.general.launch import TILES, tile_for
from tests.cuda.contract.products import integers, layer, placed
from tests.cuda.recorded import assembled, names_of, needs_compiler, registers
from tests.variants import sampled

PROCESSORS = 132


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(("extents", "wanted"), [
    ((1, 1_753_550, 6, 2), (512, 8, 2)), ((1, 19_694_672, 12, 6), (256, 16, 8)),
    ((1, 277_538, 11, 10), (256, 16, 16)), ((1, 11, 277_538, 10), (16, 256, 16)),
    ((1, 5833, 1119, 16), (64, 64, 16)), ((1, 4096, 4096, 4096), (128, 128, 8))])
def test_tiles_are_as_narrow_as_the_product(extents, wanted):
    tile = tile_for(extents, 4, PROCESSORS)
    assert (tile.m, tile.n, tile.k) == wanted
    assert tile.whole == (extents[3] <= tile.k)


@pytest.mark.parametrize(("extents", "wanted"), [
    ((1, 64, 256, 64), (16, 16, 8)), ((1, 64, 256, 256), (8, 16, 16)),
    ((1, 64, 10, 256), (8, 8, 32)), ((1, 256, 256, 256), (16, 32, 8))])
def test_few_results_share_k_among_groups(extents, wanted):
    tile = tile_for(extents, 4, PROCESSORS)
    assert (tile.m, tile.n, tile.groups) == wanted
    assert tile.k % tile.groups == 0


@pytest.mark.parametrize(("dtype", "shape", "few"), [
    ("float32", (64, 256, 10), True), ("float64", (64, 256, 256), True),
    ("float64", (256, 256, 256), False),
    ("float32", (128, 1024, 128), True), ("float32", (512, 512, 512), False),
    ("float32", (3, 633, 20_001), True), ("float32", (230, 799, 4467), False),
    ("float16", (64, 256, 10), True), ("float16", (64, 256, 256), False),
    ("float32", (5833, 16, 1119), False)])
def test_which_products_have_few_results(dtype, shape, few):
    m, k, n = shape
    (name, *more) = names_of(lambda: ops.matmul(zeros(m, k, dtype=dtype),
                                             zeros(k, n, dtype=dtype)))
    assert ("by" in name.rpartition("_")[2], more) == (few, [])


@pytest.mark.parametrize("item", [1, 4, 8, 16])
@pytest.mark.parametrize("k", [0, 1, 2, 3, 17, 5000])
def test_every_tile_fits_the_smallest_shared_memory(item, k):
    for m in (1, 3, 70, 100_000):
        for n in (1, 9, 300, 100_000):
            assert tile_for((1, m, n, k), item, PROCESSORS).shared(item) <= 64 << 10


NARROW = [t for t in TILES if t.m > t.n and t.rows == 4]


@pytest.mark.parametrize("tile", sampled(NARROW, NARROW[-1]), ids=str)
def test_narrow_tiles_spill_nowhere(tile):
    needs_compiler()
    _, said = assembled(GeneralText(layer(), tile).kernel())
    assert said is None or registers(said)[1] <= 64


def test_vectors_are_reductions():
    needs_compiler()
    wide, tall = zeros(1, 2819), zeros(2819, 3064)
    (name, *more) = names_of(lambda: ops.matmul(wide, tall))
    assert name.startswith("contract_identity_vectors_reduce_columns")
    assert not more or "finish" in more[0]
    (name,) = names_of(lambda: ops.matmul(zeros(1490, 1237), zeros(1237, 4)))
    assert name.startswith("contract_identity_vectors_reduce_rows")


def test_few_rows_of_tensor_cores_stay_theirs():
    needs_compiler()
    x, w = (zeros(*s, dtype=bfloat16) for s in ((4, 8192), (8192, 8192)))
    (name,) = names_of(lambda: ops.matmul(x, w))
    assert "wgmma" in name


def test_narrow_factors_are_not_packed():
    needs_compiler()
    x, w = (zeros(*s, dtype=bfloat16) for s in ((125_491, 283), (283, 11)))
    (name,) = names_of(lambda: ops.matmul(x, w))
    assert "pack" not in name
    assert "x16x" in name


@pytest.mark.parametrize(("shape", "packed"), [
    ((28, 2256, 25_604), False), ((21, 56, 33_378), False), ((12_340, 4516, 54), False),
    ((30_001, 130, 254), True), ((286, 782, 27_870), True)])
def test_large_factors_of_small_products_are_not_packed(shape, packed):
    """Rows of even lengths, which copies of four bytes bring."""
    needs_compiler()
    m, k, n = shape
    names = names_of(lambda: ops.matmul(zeros(m, k, dtype=bfloat16),
                                        zeros(k, n, dtype=bfloat16)))
    assert ("pack" in names[0]) == packed
    assert packed or "bf1664x64" in names[0]


def test_large_float32_of_rows_that_begin_anywhere_is_packed():
    needs_compiler()
    x, w = zeros(787, 31_214), zeros(31_214, 2006)
    pack, product = names_of(lambda: ops.matmul(x, w))
    assert "pack" in pack
    assert "f32" in product


SHAPES = [(1, 2819, 3064), (2003, 321, 1), (4, 70_001, 3), (3, 40, 2), (1, 1, 70_001),
          (70_001, 2, 6), (50_003, 10, 11), (3001, 18, 74), (12, 81, 12_441),
          (390, 307, 49), (3335, 3, 295), (9001, 44, 12), (5, 3, 70_001),
          (128, 437, 170)]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", bfloat16, "float32", "float64", "int32"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("across", [False, True])
def test_exact_on_integers(shape, dtype, across):
    """Of -1, 0 and 1; `across`: both factors transposed, every sum exact."""
    m, k, n = shape
    a, b, c = (np.sign(integers(seed, *extents)) for seed, extents in enumerate(
        ((m, k), (k, n), (n,))))
    x, y = placed(a.T, dtype), placed(b.T, dtype)
    x, y = (ops.transpose(x), ops.transpose(y)) if across else (
        placed(a, dtype), placed(b, dtype))
    np.testing.assert_array_equal(nf.to_numpy(ops.matmul(x, y)), (a @ b).astype(dtype))
    got = ops.linear(x, y, placed(c, dtype), activation="relu")
    np.testing.assert_array_equal(nf.to_numpy(got),
                                  np.maximum(a @ b + c, 0).astype(dtype))
