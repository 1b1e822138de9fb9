"""Products in float32 by TMA and multiply-adds: exact on integers, however cut up."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.backend import Call
from nbfused.cuda.contract.f32 import launch as contract_f32_launch
from nbfused.cuda.contract.f32.kernel import F32Text, shared_of
from nbfused.cuda.contract.f32.launch import DEPTH, STAGES, WARPS, F32Launcher
from nbfused.cuda.contract.f32.tiles import TURNING, Tiles
from nbfused.cuda.contract.plan import Factor, Plan
from nbfused.cuda.isa.engines import ENGINES
from nbfused.cuda.text.source import Source
from tests.cuda.contract.products import (
    integers,
    layer,
    no_other_ways,
    placed,
    whole_sums,
)
from tests.cuda.recorded import NoDevice, assembled, needs_compiler, registers
from tests.variants import sampled_together

EXTENTS = [(256, 128, 64), (260, 264, 72), (4, 8, 4), (77, 1000, 200), (1000, 72, 1032),
           (513, 388, 36), (2052, 1000, 260), (4100, 2052, 12)]


@pytest.fixture
def taken(monkeypatch):
    """The calls that came this way, which takes all that it can."""
    from nbfused.cuda.runtime.driver import device

    if device(0).arch[0] != 9:
        pytest.skip("no Hopper GPU")
    calls = []

    def noted(self, call, where):
        calls.append(call)
        self._run(self._work(call, where), call, where)  # nothing is kept

    monkeypatch.setattr(F32Launcher, "__call__", noted)
    monkeypatch.setattr(contract_f32_launch, "LEAST", 1)
    monkeypatch.setattr(contract_f32_launch, "NARROW", 0)
    whole_sums(monkeypatch)
    no_other_ways(monkeypatch)
    return calls


def poisoned(*shape):
    return nf.array(np.full(shape, np.nan, np.float32), device="cuda")


@pytest.mark.cuda
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("shared", [1, 3, 8])
def test_any_extents(left, right, warps, shared, taken, monkeypatch):
    """Tiles of one block or of several, of several at once; factors in any order."""
    monkeypatch.setattr(contract_f32_launch, "WARPS", (warps,))
    monkeypatch.setattr(contract_f32_launch, "SHARED", shared)
    monkeypatch.setattr(contract_f32_launch, "PASSING", -1e9)
    reachable = 0
    for m, n, k in EXTENTS:
        a, b, c = integers(0, m, k), integers(1, k, n), integers(2, n)
        x = placed(a.T if left else a, "f4")
        y = placed(b.T if right else b, "f4")
        out = poisoned(m, n)
        ops.linear(ops.transpose(x) if left else x, ops.transpose(y) if right else y,
                   placed(c, "f4"), activation=ops.relu, out=out)
        np.testing.assert_array_equal(nf.to_numpy(out), np.maximum(a @ b + c, 0))
        reachable += not left or m % 4 == 0
    assert len(taken) == reachable


@pytest.mark.cuda
@pytest.mark.parametrize("shapes", [
    ((3, 300, 64), (3, 64, 136)), ((3, 130, 64), (64, 136)),
    ((2, 3, 70, 64), (2, 3, 64, 72)), ((2, 1, 70, 64), (1, 3, 64, 72))], ids=str)
def test_batches(shapes, taken):
    a, b = (integers(k, *s) for k, s in enumerate(shapes))
    got = ops.matmul(placed(a, "f4"), placed(b, "f4"))
    np.testing.assert_array_equal(nf.to_numpy(got), a @ b)
    assert len(taken) == 1


@pytest.mark.cuda
def test_a_permuted_store_with_extras(taken):
    a, b, c, s = (integers(k, *t) for k, t in enumerate(
        ((4, 200, 64), (4, 64, 136), (136,), (4, 200, 136))))
    got = ops.batched_matmul(*(placed(x, "f4") for x in (a, b, c)),
                             epilogue=lambda acc, s: acc*s, extras=(placed(s, "f4"),),
                             permute=(1, 0, 2))
    want = np.transpose((np.einsum("bmk,bkn->bmn", a, b) + c)*s, (1, 0, 2))
    np.testing.assert_array_equal(nf.to_numpy(got), want)
    assert len(taken) == 1


@pytest.mark.cuda
def test_the_same_bits_every_time(taken):
    rng = np.random.default_rng(0)
    a, b = (placed(rng.standard_normal(s), "f4") for s in ((700, 1000), (1000, 900)))
    first = nf.to_numpy(ops.matmul(a, b))
    for _ in range(20):
        np.testing.assert_array_equal(nf.to_numpy(ops.matmul(a, b)), first)
    x, y = (nf.to_numpy(v).astype("f8") for v in (a, b))
    assert (np.abs(first - x @ y) <= 1e-5*(np.abs(x) @ np.abs(y))).all()
    assert len(taken) == 21


@pytest.mark.cuda
def test_what_is_kept_is_of_one_shape_and_alignment(taken, monkeypatch):
    monkeypatch.undo()
    for m, n, k in ((1000, 1000, 1024), (1024, 1000, 1000), (1000, 1000, 1024)):
        a, b = integers(0, m, k), integers(1, k, n)
        for first in (0, 1):
            out = poisoned(m, n + 1)[:, first:first + n]
            ops.matmul(placed(a, "f4"), placed(b, "f4"), out=out)
            np.testing.assert_array_equal(nf.to_numpy(out), a @ b)


@pytest.mark.cuda
def test_nan_outside_an_operand_does_no_harm(taken):
    whole = np.full((512, 256), np.nan)
    whole[:300, :72] = integers(0, 300, 72)
    b = integers(1, 72, 80)
    got = ops.matmul(placed(whole, "f4")[:300, :72], placed(b, "f4"))
    np.testing.assert_array_equal(nf.to_numpy(got), whole[:300, :72] @ b)
    assert len(taken) == 1


# --- without a device


@pytest.mark.parametrize(("left", "right"), sampled_together(
    [(False, False), (True, False), (False, True), (True, True)],
    (True, True)))
@pytest.mark.parametrize("warps", WARPS)
def test_it_compiles_without_spills(left, right, warps):
    needs_compiler()
    text = layer("float32")
    plan = Plan(ENGINES["fma"], (2, 4), warps, DEPTH, STAGES, 1,
                (Factor(left, 4), Factor(right, 4)), vector=True)
    tiles = Tiles(text, plan, ((), ()))
    assert shared_of(tiles) <= NoDevice((9, 0)).shared_limit
    code, said = assembled(F32Text(text, tiles).kernel(), (9, 0))
    assert "cp.async.bulk.tensor.2d" in code
    assert "fma.rn.f32" in code
    if said is not None:
        assert registers(said)[1] == 0


@pytest.mark.parametrize(("left", "right"), [(True, False), (False, True), (True,)*2])
@pytest.mark.parametrize("depth", [8, 16])
def test_tiles_are_turned(left, right, depth):
    """The kernel's own lines, thread by thread, on memory of NumPy."""
    text = layer("float32")
    plan = Plan(ENGINES["fma"], (2, 4), (4, 2), depth, STAGES, 1,
                (Factor(left, 4), Factor(right, 4)), vector=True)
    tiles, out = Tiles(text, plan, ((), ())), Source("turn")
    assert tiles.stage_bytes % 128 == 0  # TMA
    memory = np.full(tiles.stage_bytes//4, np.nan)
    whole = [np.arange(e*depth).reshape(e, depth) for e in plan.extents]
    for w, along in enumerate((left, right)):
        assert tiles._first_raw(w) % 128 == 0
        rows = whole[w] if along else whole[w].T
        memory[tiles._first_raw(w)//4:][:rows.size] = rows.ravel()

    def turn_4x4(target, source, pitch, row):
        assert target % 16 == source % 16 == 0
        for r in range(4):
            for c in range(4):
                memory[(target + c*pitch)//4 + r] = memory[(source + r*row)//4 + c]

    out.integer("target", "mover")
    tiles.turn(out)
    scope = {"turn_4x4": turn_4x4, "divide": lambda a, b: a//b, "i64": int}
    exec(out.kernel(TURNING).text, scope)
    for mover in range(TURNING):
        scope["turn"](0, mover)
    for w, extent in enumerate(plan.extents):
        for k in range(depth):
            row = (tiles.first(w) + k*tiles.pitch(w))//4
            found, column = memory[row:row + extent], whole[w][:, k]
            if (left, right)[w]:  # each 64 as rows of four from columns of 16
                column = column.reshape(-1, 4, 16).transpose(0, 2, 1).ravel()
            np.testing.assert_array_equal(found, column)


def test_blocks():
    """Equal shares, unless passing sums on takes longer than what they save."""
    def blocks(m, n, k):
        launcher = F32Launcher(layer("float32"))
        call = Call((m, n, k), (0,)*4, ((k, 0, 1), (0, 1, n), (0, 1, 0), (n, 1, 0)))
        return launcher._blocks(call, launcher._plan(call), NoDevice((9, 0)))

    assert blocks(4096, 4096, 4096) == 132  # of 512 tiles
    assert blocks(2048, 2048, 2048) == 132  # of 128
    assert blocks(4096, 1024, 1024) == 128  # of 128
    assert blocks(4096, 4224, 4096) == 132  # of 528, four each
    assert blocks(1024, 1024, 1024) == 132  # of 32
    assert blocks(128, 256, 4096) == 16  # of one
    assert blocks(128, 256, 8) == 1


def test_which_calls_are_taken():
    def takes(dtype="float32", arch=(9, 0), shape=(4096, 4096, 4096),
              pointers=(0, 0, 0, 0), left=(4096, 0, 1), right=(0, 1, 4096),
              precision=None):
        call = Call(shape, pointers, (left, right, (0, 1, 0), (4096, 1, 0)))
        return F32Launcher(layer(dtype, precision)).takes(call, NoDevice(arch))

    assert takes()
    assert takes(left=(1, 0, 4096))
    assert takes(right=(0, 4096, 1))
    assert not takes(left=(4097, 0, 1))
    assert not takes(pointers=(4, 0, 0, 0))
    assert not takes(arch=(8, 0))
    assert not takes(arch=(10, 0))
    assert not takes("float16")
    assert not takes(precision="tf32")
    assert not takes(shape=(4, 4, 4))
