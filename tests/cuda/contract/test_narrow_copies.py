"""Factors that come by narrow copies: thin tiles, and long sums in parts.

Those of 16 bits that no copy brings come through registers.
"""

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
#: The same where rows of a factor are odd, or elements of it apart.
ODD = [(38, 63, 31_907), (38, 63, 31_908), (31_907, 63, 38), (16, 61, 33_377),
       (65, 95, 20_001), (33_377, 61, 16), (45, 1023, 30_001), (40, 64, 30_003),
       (33, 5000, 65), (17, 97, 12_001)]


@pytest.mark.parametrize(("engine", "which"), EVERY)
@pytest.mark.parametrize("along", [False, True])
def test_the_copies_of_all_threads_are_a_whole_tile(engine, which, along):
    """A tile of fewer wide copies than threads had none at all."""
    shape, item = SHAPES[engine][which], ENGINES[engine].item
    for size in (2, 4, 8, 16):
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


@pytest.mark.parametrize(("shape", "name"), [
    ((38, 63, 31_907), "bf1664x64"), ((16, 61, 33_377), "bf1616x128"),
    ((31_907, 63, 38), "bf1664x64"), ((38, 1001, 3001), "pack"),
    ((700, 61, 7001), "pack")])
@pytest.mark.parametrize("apart", [False, True])
def test_short_odd_factors_come_through_registers(shape, name, apart):
    needs_compiler()
    m, k, n = shape
    a, b = np.zeros((m, 2*k), bfloat16)[:, ::2], np.zeros((k, n), bfloat16)
    with recording() as kernels:
        ops.matmul(a if apart else a.copy(), b)
    found = [kernel.name for kernel in kernels.values()]
    assert name in found[0]
    assert len(found) == 1 + (name == "pack")
    for kernel in kernels.values():
        assert ("fetch2(" in kernel.text) == (name != "pack")
        _, said = assembled(kernel)
        assert said is None or registers(said)[1] == 0


@pytest.mark.parametrize(("shape", "packed"), [
    ((54, 2091, 83_271), False), ((150, 777, 20_001), False),
    ((9931, 3268, 75), True), ((2001, 2001, 2003), True)])
def test_float32_is_packed_only_if_that_is_sooner(shape, packed):
    """Packing moves 1.4 GB for the first, and 3 MB for the third."""
    needs_compiler()
    m, k, n = shape
    a, b = (np.lib.stride_tricks.as_strided(x, s, (4*s[1], 4)) for x, s in (
        (np.zeros(1, np.float32), (m, k)), (np.zeros(1, np.float32), (k, n))))
    assert any("pack" in x for x in names_of(lambda: ops.matmul(a, b))) == packed


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", bfloat16])
@pytest.mark.parametrize("shape", PRODUCTS + ODD, ids=str)
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


@pytest.mark.cuda
@pytest.mark.parametrize("shape", ODD, ids=str)
def test_elements_apart(shape):
    m, k, n = shape
    a, b = np.sign(integers(0, m, 2*k)), np.sign(integers(1, k, 2*n))
    x, y = placed(a, bfloat16)[:, ::2], placed(b, bfloat16)[:, ::2]
    got = nf.to_numpy(ops.matmul(x, y))
    np.testing.assert_array_equal(got, (a[:, ::2] @ b[:, ::2]).astype(bfloat16))
