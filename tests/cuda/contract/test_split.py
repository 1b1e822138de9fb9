"""Long sums of few products: into which parts, and exact on integers."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.cuda.contract.sums.parts import EACH, ENGINES, UNIT, parts_of
from tests.cuda.contract.products import integers, placed
from tests.cuda.recorded import (
    assembled,
    names_of,
    needs_compiler,
    recording,
    registers,
)

PROCESSORS = 132


@pytest.mark.parametrize(("shape", "engine"), [
    ((4096, 4096, 4096), "fma"), ((64, 64, 64), "general"), ((512, 512, 512), "fma"),
    ((4096, 64, 65536), "f32"), ((9000, 64, 1024), "fma"), ((64, 64, 2048), "bf16"),
    ((512, 512, 8192), "f16"),
    ((0, 64, 65536), "fma"), ((64, 0, 65536), "fma"), ((64, 64, 0), "fma"),
    ((133, 64, 64, 65536), "fma")])
def test_other_products_are_not_split(shape, engine):
    assert parts_of(shape if len(shape) > 3 else (1, *shape), engine,
                    PROCESSORS) is None


@pytest.mark.parametrize("shape", [
    (1, 64, 64, 65536), (1, 64, 64, 65537), (1, 33, 77, 99_991), (1, 256, 256, 8192),
    (3, 64, 64, 1 << 20), (1, 128, 128, 4099),
    (1, 1, 1, 1_000_003)])
@pytest.mark.parametrize("engine", ["fma", "f64", "general"])
def test_the_parts_are_all_of_k_and_fill_the_device(shape, engine):
    parts = parts_of(shape, engine, PROCESSORS)
    assert parts.count*parts.size + parts.left == shape[-1]
    least, (rows, columns) = ENGINES[engine].least, ENGINES[engine].large
    assert parts.size >= least
    assert parts.size % UNIT == 0
    assert 0 <= parts.left < parts.size
    assert parts.slots == parts.count + (parts.left > 0)
    tiles = shape[0]*-(-shape[1]//rows)*-(-shape[2]//columns)
    assert parts.count*tiles > min(PROCESSORS, shape[-1]//(2*least))/2
    assert parts.count*tiles <= EACH*PROCESSORS


@pytest.mark.parametrize(("shape", "found"), [
    ((1, 190, 2098, 88_546), (4, 22_112, 98)), ((1, 512, 512, 8192), (4, 2048, 0)),
    ((1, 500, 500, 700), None), ((1, 512, 1056, 8192), None)])
def test_tiles_of_one_round_are_split_where_rounds_of_parts_are_fuller(shape, found):
    """198 and 128 tiles of float64 for 264 places; 264 tiles fill them."""
    parts = parts_of(shape, "f64", PROCESSORS)
    assert (parts and (parts.count, parts.size, parts.left)) == found


def test_16_bit_factors_that_no_copy_brings_are_split_sooner():
    shape = (1, 4, 65, 2500)
    assert parts_of(shape, "f16", PROCESSORS) is None
    assert parts_of(shape, "general", PROCESSORS).count == 7


def test_tiles_of_multiply_adds_that_fill_a_part_of_the_device_are_split():
    """282 tiles of 64 by 32 are three rounds, of which the last is nearly empty."""
    needs_compiler()
    x, y = np.zeros((33, 4001), np.float32), np.zeros((4001, 9001), np.float32)
    names = names_of(lambda: ops.matmul(x, y))
    assert names[0] == "contract_identity_part_fma64x64"
    assert parts_of((1, 33, 9001, 4001), "fma", PROCESSORS).count == 13


def test_two_blocks_of_each_multiprocessor_multiply():
    needs_compiler()
    x = np.zeros((64, 65536), np.float32)
    with recording() as kernels:
        ops.matmul(x, x.T)
    names = [k.name for k in kernels.values()]
    assert names == ["contract_identity_part_fma64x64",
                     "contract_identity_parts_reduce_columns_whole"]
    for kernel in kernels.values():
        _, said = assembled(kernel)
        assert said is None or registers(said)[1] == 0


SHAPES = [(64, 64, 65536), (33, 77, 99_991), (64, 65, 40_001), (1, 1, 1_000_003),
          (256, 256, 8192), (7, 200, 65_540)]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", bfloat16, "float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("left", [False, True])
def test_exact_on_integers(shape, dtype, left):
    """Of -1, 0 and 1: every sum here is exact in float32."""
    m, n, k = shape
    a, b, c = (np.sign(integers(seed, *extents)) for seed, extents in enumerate(
        ((m, k), (k, n), (n,))))
    x = ops.transpose(placed(a.T, dtype)) if left else placed(a, dtype)
    got = nf.to_numpy(ops.linear(x, placed(b, dtype), placed(c, dtype),
                                 activation="relu"))
    want = np.maximum(a @ b + c, 0).astype(dtype)
    np.testing.assert_array_equal(got, want)


@pytest.mark.cuda
def test_a_batch_with_a_prologue_both_ways():
    x, w = (np.sign(integers(k, *s)) for k, s in enumerate(
        ((2, 40, 50_021), (2, 50_021, 24))))
    v = [nf.Variable(placed(a, "f4"), requires_grad=True) for a in (x, w)]
    y = nf.ops.contract("bmk,bkn->bnm", *v, prologue_a="relu")
    g = np.sign(integers(2, 2, 24, 40))
    y.backward(placed(g, "f4"))
    z = np.maximum(x, 0)
    np.testing.assert_array_equal(nf.to_numpy(y.data), (z @ w).swapaxes(1, 2))
    dz = g.swapaxes(1, 2) @ w.swapaxes(1, 2)
    np.testing.assert_array_equal(nf.to_numpy(v[0].grad), dz*(x > 0))
    np.testing.assert_array_equal(nf.to_numpy(v[1].grad),
                                  z.swapaxes(1, 2) @ g.swapaxes(1, 2))


@pytest.mark.cuda
def test_special_values_and_the_same_bits():
    x = np.random.default_rng(0).standard_normal((5, 65_536)).astype(np.float32)
    y = x.T.copy()
    found = {nf.to_numpy(ops.matmul(placed(x, "f4"), placed(y, "f4"))).tobytes()
             for _ in range(5)}
    assert len(found) == 1
    np.testing.assert_allclose(np.frombuffer(found.pop(), np.float32).reshape(5, 5),
                               x.astype("f8") @ y.astype("f8"), rtol=1e-5, atol=1e-3)
    x[2, -1], x[3, 7] = np.nan, np.inf
    got = nf.to_numpy(ops.matmul(placed(x, "f4"), placed(np.abs(y), "f4")))
    assert np.isnan(got[2]).all()
    assert np.isinf(got[3]).all()
    assert np.isfinite(got[[0, 1, 4]]).all()
