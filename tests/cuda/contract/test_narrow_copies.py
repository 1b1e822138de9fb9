"""16-bit factors that come by narrow copies: thin tiles, and long sums in parts."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.cuda.contract.mma import MmaText
from nbfused.cuda.contract.mma_launch import SHAPES
from nbfused.cuda.contract.plan import Factor, Plan
from nbfused.cuda.isa.engines import ENGINES
from tests.cuda.contract.products import integers, placed
from tests.cuda.contract.test_mma import dtype_of, layer
from tests.cuda.recorded import (
    assembled,
    names_of,
    needs_compiler,
    recording,
    registers,
)

EVERY = [(name, k) for name, shapes in SHAPES.items() for k in range(len(shapes))]
#: Rows, columns and terms; rows of a factor are whole copies of 4, 8 or 16 bytes.
PRODUCTS = [(14, 10_970, 2330), (16, 4104, 4100), (526, 5486, 8), (1000, 10_004, 12),
            (9, 20_002, 402), (300, 16_002, 16), (7, 58_406, 28), (60, 4100, 1204),
            (16, 8200, 130), (3, 59_116, 14), (130, 12_004, 260), (40, 56, 3330)]


@pytest.mark.parametrize(("engine", "which"), EVERY)
@pytest.mark.parametrize("along", [False, True])
def test_the_copies_of_all_threads_are_a_whole_tile(engine, which, along):
    """A tile of fewer wide copies than threads had none at all."""
    shape, item = SHAPES[engine][which], ENGINES[engine].item
    for size in (4, 8, 16):
        factor = Factor(along, max(1, size // item))
        plan = Plan(ENGINES[engine], shape.units, shape.warps, shape.depth,
                    shape.stages, shape.blocks, (factor, factor), True).fitted()
        text = MmaText(layer(dtype_of(engine)), plan)
        for k, fitted in enumerate(plan.factors):
            brought = len(text._pieces(k))*plan.threads*fitted.width
            assert brought == plan.extents[k]*plan.depth


@pytest.mark.parametrize(("shape", "name"), [
    ((14, 10_970, 2330), "part_bf1616x128"), ((526, 5486, 8), "part_bf16128x16"),
    ((60, 4100, 4100), "part_bf1664x64"), ((16, 4096, 4096), "wgmma")])
def test_long_sums_are_split_before_factors_are_packed(shape, name):
    needs_compiler()
    m, k, n = shape
    a, b = np.zeros((m, k), bfloat16), np.zeros((k, n), bfloat16)
    with recording() as kernels:
        found = names_of(lambda: ops.matmul(a, b))
    assert name in found[0]
    assert not any("pack" in name for name in found)
    for kernel in kernels.values():
        _, said = assembled(kernel)
        assert said is None or registers(said)[1] == 0


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", bfloat16])
@pytest.mark.parametrize("shape", PRODUCTS, ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_exact_on_integers(shape, dtype, turned):
    """Of -1, 0 and 1: every sum here is exact in float32."""
    m, k, n = shape
    a, b = np.sign(integers(0, m, k)), np.sign(integers(1, k, n))
    x, y = placed(a, dtype), placed(b, dtype)
    if turned:
        x, y = ops.transpose(placed(a.T, dtype)), ops.transpose(placed(b.T, dtype))
    got = nf.to_numpy(ops.matmul(x, y))
    np.testing.assert_array_equal(got, (a @ b).astype(dtype))
