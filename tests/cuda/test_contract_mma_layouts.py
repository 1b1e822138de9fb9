"""Fragments and sums lie where the PTX manual says: a warp's product, in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from nbfused.errors import CompileError

try:
    from nbfused.cuda import compile
    compile._numba_cuda()
except CompileError as missing:
    pytest.skip(str(missing), allow_module_level=True)

from nbfused.cuda import mma
from nbfused.cuda.contract_mma import _lane_of_fragments
from nbfused.cuda.contract_mma_plan import ENGINES, Factor, Plan
from nbfused.cuda.contract_mma_results import _lane_of_sums
from tests.cuda.warp import LANES, Builder, Warp

DTYPES = {"fma": np.float32, "f16": np.float16, "bf16": bfloat16, "tf32": np.float32,
          "f64": np.float64}


def lanes_of(text):
    """The value of index text for each lane."""
    names = {"lane": LANES, "lane_m": (LANES >> 1) & 7,
             "lane_n": (LANES & 1) | ((LANES >> 4) << 1)}
    return eval(text, names) + 0*LANES


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("right", [True, False])
def test_a_warp(engine, left, right, monkeypatch):
    plan = Plan(ENGINES[engine], (2, 2), (1, 1), 32, 2, 1,
                (Factor(left, 1), Factor(right, 1)), vector=True)
    warp, builder, dtype = Warp(1 << 16), Builder(), DTYPES[engine]
    monkeypatch.setattr(mma, "_several", warp.several)
    monkeypatch.setattr(mma, "asm", warp.asm)
    rng, item = np.random.default_rng(0), plan.engine.item
    whole = [rng.integers(-3, 4, (extent, plan.depth)).astype(dtype)
             for extent in plan.extents]
    starts = (0, plan.tile_bytes(0))
    for w, (x, start) in enumerate(zip(whole, starts, strict=True)):
        rows = x if plan.inner(w) else x.T
        pitch = plan.pitch(w)//item
        for r, row in enumerate(rows):
            warp.view(dtype)[start//item + r*pitch:][:row.size] = row
    tiles = [mma._Tiles(plan.engine, bool(w), plan.units[w], plan.pitch(w),
                        plan.inner(w)) for w in (0, 1)]
    addresses = [start + lanes_of(_lane_of_fragments(plan, w))
                 for w, start in enumerate(starts)]
    kept = np.dtype(plan.engine.kept)
    sums = [np.zeros(32, kept)]*(plan.units[0]*plan.units[1]*plan.engine.sums)
    for step in range(plan.depth//plan.engine.step):
        values = [*sums, *(x for t, a in zip(tiles, addresses, strict=True)
                           for x in t.load(builder, a, step))]
        sums = mma._State(plan.engine, *plan.units, values).multiply(builder)
    want = whole[0].astype(kept) @ whole[1].astype(kept).T
    rows = plan.engine.rows
    for part in range(plan.units[0]):
        mine = 32768 + lanes_of(_lane_of_sums(plan))
        for unit in range(plan.units[1]):
            first = (part*plan.units[1] + unit)*plan.engine.sums
            for at, (low, high) in mma._places(plan.engine, unit, plan.row_bytes):
                mma._store(builder, plan.engine, mine, at,
                           sums[first + low:first + high])
        found = warp.view(kept)[32768//kept.itemsize:][
            :rows*plan.row_bytes//kept.itemsize].reshape(rows, -1)
        np.testing.assert_array_equal(found[:, :plan.extents[1]],
                                      want[part*rows:(part + 1)*rows])
