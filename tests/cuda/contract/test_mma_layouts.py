"""Fragments and sums lie where the PTX manual says: a warp's product, in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from nbfused.errors import CompileError

try:
    from nbfused.cuda.runtime import compile
    compile._numba_cuda()
except CompileError as missing:
    pytest.skip(str(missing), allow_module_level=True)

from nbfused.cuda.contract import tf32 as contract_tf32
from nbfused.cuda.contract.mma import _lane_of_fragments
from nbfused.cuda.contract.plan import Factor, Plan
from nbfused.cuda.contract.results import _lane_of_sums
from nbfused.cuda.isa import hopper_tf32, mma
from nbfused.cuda.isa.engines import ENGINES
from tests.cuda.simulation.warp import LANES, Builder, Warp

DTYPES = {"fma": np.float32, "f16": np.float16, "bf16": bfloat16, "tf32": np.float32,
          "f64": np.float64, "f64h": np.float64}


def lanes_of(text):
    """The value of index text for each lane."""
    names = {"lane": LANES, "lane_m": (LANES >> 1) & 7,
             "lane_n": (LANES & 1) | ((LANES >> 4) << 1)}
    return eval(text, names) + 0*LANES


@pytest.mark.parametrize("engine", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("right", [True, False])
def test_a_warp(engine, left, right, monkeypatch):
    plan = Plan(ENGINES[engine], (2, 2), (1, 1), 32, 2, 1,
                (Factor(left, 1), Factor(right, 1)), vector=True)
    warp, builder, dtype = Warp(1 << 16), Builder(), DTYPES[engine]
    monkeypatch.setattr(mma, "several", warp.several)
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


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("warp", [0, 3, 6])
def test_fragments_of_swizzled_tiles(inner, warp, monkeypatch):
    """128 rows by 32 places along k, as TMA leaves them; wgmma's figure for A."""
    memory, builder = Warp(128*128), Builder()
    monkeypatch.setattr(hopper_tf32, "several", memory.several)
    tile = np.arange(128*32, dtype=np.float32).reshape(128, 32)
    boxes = [tile] if inner else [tile[c:c + 32].T for c in range(0, 128, 32)]
    rows = np.concatenate(boxes).reshape(-1, 8, 4)  # 16 bytes: 4 floats
    swizzled = np.stack([row[np.arange(8) ^ (r & 7)] for r, row in enumerate(rows)])
    memory.view(np.float32)[:] = swizzled.ravel()
    mine = eval(contract_tf32.lane_of_fragments(inner), {"warp": warp,
                                                             "lane": LANES})
    for step in range(4):
        found = hopper_tf32._fragment(builder, mine, step, inner)
        for r, values in enumerate(found):
            row, k = 16*warp + LANES//4 + 8*(r % 2), 8*step + LANES % 4 + 4*(r//2)
            np.testing.assert_array_equal(values, tile[row, k])


@pytest.mark.parametrize("engine", ["tf32a", "tf32b"])
def test_sums_of_wgmma(engine, monkeypatch):
    """64 rows by 256 columns for four warps, 16 of the rows this warp's own."""
    a = engine == "tf32a"
    plan = Plan(ENGINES[engine], *(((1, 1), (8, 1)) if a else ((4, 1), (1, 8))), 32, 4,
                1, (Factor(True, 4),)*2, vector=True)
    memory = Warp(1 << 16)
    monkeypatch.setattr(mma, "asm", memory.asm)
    tile = np.arange(16*256, dtype=np.float32).reshape(16, 256)
    sums = [tile[LANES//4 + 8*(r//2 % 2), 8*(r//4) + 2*(LANES % 4) + r % 2]
            for r in range(128)]
    mine, rows = lanes_of(_lane_of_sums(plan)), plan.engine.rows
    want = tile if a else tile.T
    for part in range(plan.units[0]):
        first = part*plan.engine.sums
        for at, (low, high) in mma._places(plan.engine, 0, plan.row_bytes):
            mma._store(Builder(), plan.engine, mine, at, sums[first + low:first + high])
        found = memory.view(np.float32)[:rows*plan.row_bytes//4].reshape(rows, -1)
        np.testing.assert_array_equal(found[:, :plan.warp_extents[1]],
                                      want[part*rows:(part + 1)*rows])
