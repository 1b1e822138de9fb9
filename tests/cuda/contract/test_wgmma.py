"""Products on Hopper's tensor cores: exact on integers, and only where they belong."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.backend import Call
from nbfused.cuda.contract.wgmma.kernel import WgmmaText
from nbfused.cuda.contract.wgmma.launch import WgmmaLauncher
from nbfused.cuda.contract.wgmma.plan import plans, tiles
from nbfused.cuda.contract.wgmma.tiling import TILINGS, WgmmaPlan
from nbfused.cuda.tuning.tuner import Tuner
from nbfused.scalar.language import names as language
from tests.cuda.contract.products import (
    biased_gelu,
    biased_relu,
    integers,
    layer,
    placed,
)
from tests.cuda.recorded import NoDevice, assembled, needs_compiler, registers
from tests.variants import sampled

SHAPES = [(128, 256, 64), (512, 512, 512), (130, 264, 72), (2, 8, 8), (77, 1000, 200),
          (1000, 72, 1032), (3000, 520, 640)]


@pytest.fixture
def taken(monkeypatch):
    """Which calls tensor cores did."""
    calls = []
    run = WgmmaLauncher.__call__

    def noted(self, call, where):
        calls.append(call)
        run(self, call, where)

    monkeypatch.setattr(WgmmaLauncher, "__call__", noted)
    return calls


@pytest.fixture(params=range(len(TILINGS)), ids=lambda k: str(TILINGS[k]))
def tiling(request, monkeypatch):
    """Calls are tiled so, whatever the model of their time says."""
    chosen = TILINGS[request.param]

    def only(self, key, call, device, outputs):
        (plan,) = (p for p in self._candidates(call, device) if p.tiling == chosen)
        return plan

    monkeypatch.setattr(Tuner, "__call__", only)
    return chosen


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_layer(shape, dtype, taken, hopper):
    m, n, k = shape
    a, b, c = integers(0, m, k), integers(1, k, n), integers(2, n)
    got = ops.linear(placed(a, dtype), placed(b, dtype), placed(c, dtype),
                     activation=ops.relu)
    want = np.maximum(np.einsum("mk,kn->mn", a, b) + c, 0).astype(dtype)
    np.testing.assert_array_equal(nf.to_numpy(got), want)
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(512, 512, 512), (77, 1000, 200), (3000, 520, 640),
                                   (200, 333, 72), (300, 770, 136)], ids=str)
def test_every_tiling(shape, tiling, taken, hopper):
    m, n, k = shape
    a, b, c = integers(0, m, k), integers(1, n, k), integers(2, n)
    got = ops.linear(placed(a, bfloat16), ops.transpose(placed(b, bfloat16)),
                     placed(c, bfloat16), activation=ops.relu)
    want = np.maximum(a @ b.T + c, 0).astype(bfloat16)
    np.testing.assert_array_equal(nf.to_numpy(got), want)
    assert len(taken) == 1


def several(total, s):
    x = total + s
    y = abs(x) + abs(x - 2.0) - abs(x + 3.0)
    return max(y, 0.5*x) + min(x, 4.0)


def many(total, s):
    x = total + s
    y = abs(x) + abs(x - 2.0) - abs(x + 3.0)
    z = abs(y) + abs(y - 1.0) - abs(y + 4.0)
    w = abs(z) + abs(z + 2.0) - abs(z - 5.0)
    return max(w, 0.5*y) + min(x, 4.0) - max(z, 1.0)


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(512, 512, 512), (77, 1000, 200), (3000, 520, 640),
                                   (200, 333, 264), (300, 770, 256), (130, 72, 192)],
                         ids=str)
@pytest.mark.parametrize("epilogue", [several, many])
def test_every_tiling_takes_long_epilogues(epilogue, shape, tiling, taken, hopper):
    """Printed for each element, or once for 64 columns."""
    m, n, k = shape
    a, b, s = integers(0, m, k), integers(1, n, k), integers(2, n)
    got = ops.matmul(placed(a, bfloat16), ops.transpose(placed(b, bfloat16)),
                     epilogue=epilogue, extras=(placed(s, bfloat16),))
    want = np.vectorize(epilogue, otypes=[float])(a @ b.T, s)
    np.testing.assert_array_equal(nf.to_numpy(got), want.astype(bfloat16))
    assert len(taken) == 1


@pytest.mark.cuda
def test_every_tiling_stores_batches(tiling, taken, hopper):
    a, b, s = (integers(k, *t) for k, t in enumerate(
        ((5, 300, 136), (5, 136, 264), (5, 300, 264))))
    got = ops.batched_matmul(*(placed(x, "float16") for x in (a, b)),
                             epilogue=lambda acc, s: acc + s,
                             extras=(placed(s, "float16"),), permute=(1, 0, 2))
    want = np.transpose(np.einsum("bmk,bkn->bmn", a, b) + s, (1, 0, 2))
    np.testing.assert_array_equal(nf.to_numpy(got), want.astype("float16"))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", bfloat16])
@pytest.mark.parametrize("shape", [(136, 200), (136, 1), (1, 200), (1, 1), (2, 1, 200)],
                         ids=str)
def test_extras_of_every_kind(dtype, shape, taken, hopper):
    """float32 and float64 make the result so."""
    a, b, s = integers(0, 2, 136, 64), integers(1, 2, 64, 200), integers(2, *shape)
    got = ops.batched_matmul(placed(a, "float16"), placed(b, "float16"),
                             epilogue=lambda acc, s: acc*s,
                             extras=(placed(s, dtype),))
    want = a @ b * s
    assert got.dtype in (dtype, "float16", "float32")
    np.testing.assert_array_equal(nf.to_numpy(got), want.astype(got.dtype))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_transposed_operands(left, right, taken, hopper):
    a, b = integers(0, 200, 136), integers(1, 136, 328)
    x = placed(a.T if left else a, bfloat16)
    y = placed(b.T if right else b, bfloat16)
    got = ops.matmul(ops.transpose(x) if left else x, ops.transpose(y) if right else y)
    np.testing.assert_array_equal(nf.to_numpy(got), (a @ b).astype(bfloat16))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("shapes", [
    ((3, 130, 64), (3, 64, 136)), ((3, 130, 64), (64, 136)),
    ((2, 3, 70, 64), (2, 3, 64, 72)), ((2, 1, 70, 64), (1, 3, 64, 72))], ids=str)
def test_batches(shapes, taken, hopper):
    a, b = (integers(k, *s) for k, s in enumerate(shapes))
    got = ops.matmul(placed(a, "float16"), placed(b, "float16"))
    np.testing.assert_array_equal(nf.to_numpy(got), (a @ b).astype("float16"))
    assert len(taken) == 1


@pytest.mark.cuda
def test_a_permuted_store_with_extras(taken, hopper):
    a, b, c, s = (integers(k, *t) for k, t in enumerate(
        ((4, 200, 64), (4, 64, 136), (136,), (4, 200, 136))))
    got = ops.batched_matmul(*(placed(x, "float16") for x in (a, b, c)),
                             epilogue=lambda acc, s: acc*s,
                             extras=(placed(s, "float16"),), permute=(1, 0, 2))
    want = np.transpose((np.einsum("bmk,bkn->bmn", a, b) + c)*s, (1, 0, 2))
    np.testing.assert_array_equal(nf.to_numpy(got), want.astype("float16"))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("edge", [(65, 71, 40), (64, 129, 48)], ids=str)
def test_columns_that_are_no_whole_accesses(edge, taken, hopper):
    m, n, k = edge
    a, b = integers(0, m, k), integers(1, n, k)
    got = ops.matmul(placed(a, bfloat16), ops.transpose(placed(b, bfloat16)))
    np.testing.assert_array_equal(nf.to_numpy(got), (a @ b.T).astype(bfloat16))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("place", [np.s_[5:-6, 3:-2], np.s_[:, 1::2], np.s_[::3]],
                         ids=str)
def test_rows_of_any_stride_leave_what_is_beside_them(place, dtype, tiling, taken,
                                                      hopper):
    """Where TMA cannot store: rows that begin anywhere, columns apart; many tiles."""
    whole = np.full((2211, 2333), 77.0)
    m, n = whole[place].shape
    a, b = integers(0, m, 72), integers(1, n, 72)
    out = placed(whole, dtype)
    ops.matmul(placed(a, "float16"), ops.transpose(placed(b, "float16")),
               epilogue=ops.relu, out=out[place])
    whole[place] = np.maximum(a @ b.T, 0)
    np.testing.assert_array_equal(nf.to_numpy(out), whole.astype(dtype))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(301, 257, 259), (300, 257, 264), (264, 256, 257)],
                         ids=str)
def test_factors_out_of_reach_are_copied(shape, taken, hopper):
    m, n, k = shape
    a, b, c = integers(0, m, k), integers(1, k, n), integers(2, n)
    got = ops.linear(placed(a, bfloat16), placed(b, bfloat16), placed(c, bfloat16),
                     activation=ops.relu)
    np.testing.assert_array_equal(nf.to_numpy(got),
                                  np.maximum(a @ b + c, 0).astype(bfloat16))
    assert len(taken) == 1


@pytest.mark.cuda
def test_strided_and_reversed_factors(taken, hopper):
    a, b = integers(0, 3, 300, 512), integers(1, 512, 264)
    x = placed(a, "float16")[:, ::-1, ::2]
    y = placed(b, "float16")[::2]
    got = ops.matmul(x, y)
    np.testing.assert_array_equal(nf.to_numpy(got),
                                  (a[:, ::-1, ::2] @ b[::2]).astype("float16"))
    assert len(taken) == 1


@pytest.mark.cuda
def test_nan_and_inf_outside_a_tile_do_no_harm(taken, hopper):
    """What lies beyond the operands in memory is not read as part of them."""
    whole = np.full((256, 256), np.nan)
    whole[:40, :72] = integers(0, 40, 72)
    a = placed(whole, bfloat16)[:40, :72]
    b = integers(1, 72, 80)
    got = ops.matmul(a, placed(b, bfloat16))
    np.testing.assert_array_equal(nf.to_numpy(got),
                                  (whole[:40, :72] @ b).astype(bfloat16))
    assert len(taken) == 1


@pytest.mark.cuda
def test_other_products_go_elsewhere(taken, hopper):
    a, b = integers(0, 33, 65), integers(1, 65, 40)
    for dtype in ("float32", "float16"):  # 65 float16 are no multiple of 16 bytes
        got = ops.matmul(placed(a, dtype), placed(b, dtype))
        np.testing.assert_array_equal(nf.to_numpy(got), (a @ b).astype(dtype))
    assert not taken


@pytest.mark.cuda
def test_gradients(taken, hopper):
    a, b, g = integers(0, 264, 136), integers(1, 136, 200), integers(2, 264, 200)
    x, w = (nf.Variable(placed(v, bfloat16), requires_grad=True) for v in (a, b))
    ops.matmul(x, w).backward(placed(g, bfloat16))
    np.testing.assert_array_equal(nf.to_numpy(x.grad), (g @ b.T).astype(bfloat16))
    np.testing.assert_array_equal(nf.to_numpy(w.grad), (a.T @ g).astype(bfloat16))
    assert len(taken) == 3


# --- without a device


@pytest.mark.parametrize("tiling", sampled(
    TILINGS, *(t for t in TILINGS if t.columns == 256 and not t.paired
               and not t.turns)), ids=str)
@pytest.mark.parametrize("along", sampled(
    [(True, False), (False, True)], (True, False)))
def test_the_text_compiles_without_spills(tiling, along):
    text = layer()
    plan = WgmmaPlan(tiling, along, ((), (), ()), ("pair",), ("tile",), 2)
    kernel = WgmmaText(text, plan).kernel()
    needs_compiler()
    code, said = assembled(kernel, (9, 0))
    assert ("next_m_first" in kernel.text) == (tiling.columns == 256)
    count = code.count("wgmma.mma_async")  # a short loop is unrolled
    assert count >= 4*tiling.high
    assert count % (4*tiling.high) == 0
    assert code.count(".b8 " + kernel.name + "_param_") == 3
    assert not re.search(
        rf"ld\.param\.[ub]64\s+%rd\d+, \[{kernel.name}_param_[012]\]", code)
    assert plan.shared <= 232448
    if said is not None:
        used, spilled = registers(said)
        assert spilled == 0
        assert used <= 65536//tiling.threads
        assert "serialized" not in said


def test_how_operands_are_reached():
    """By pairs and TMA where addresses allow it."""
    text = layer()

    def plan(pointers=(0, 0, 0, 0), shape=(64, 40, 24), out=(40, 1, 0)):
        call = Call(shape, pointers, ((24, 0, 1), (0, 1, 40), (0, 1, 0), out))
        first = plans(text, call, 132)[0]
        return first.loads + first.stores

    assert plan() == ("pair", "tile")
    assert plan(pointers=(0, 0, 2, 0)) == ("each", "tile")
    assert plan(pointers=(0, 0, 0, 8)) == ("pair", "lanes")
    assert plan(out=(44, 1, 0)) == ("pair", "lanes")
    assert plan(shape=(64, 39, 24), out=(39, 1, 0)) == ("each", "lanes")
    assert plan(out=(1, 64, 0)) == ("pair", "lanes")


def digamma(total, bias):
    return language.digamma(total + bias)


def test_large_tiles_for_large_products():
    def first(m, n, k, epilogue=biased_relu):
        text = layer(epilogue=epilogue)
        call = Call((m, n, k), (0, 0, 0, 0),
                    ((k, 0, 1), (0, 1, n), (0, 1, 0), (n, 1, 0)))
        found = plans(text, call, 132)
        assert {p.tiling for p in found} == set(TILINGS)
        return found[0].tiling

    assert first(4096, 4096, 4096) == TILINGS[0]
    assert first(4096, 4096, 4096, biased_gelu) == TILINGS[0]  # short for 16 bits
    assert first(4096, 4096, 4096, digamma).turns  # a long way out
    assert first(4104, 4072, 4040).paired  # lines of the cache are read twice
    assert first(16, 8192, 8192).rows == 64
    assert first(512, 512, 512).rows == 64


@pytest.mark.parametrize(("m", "n", "count"), [
    (256, 512, 2), (384, 512, 3), (384, 768, 5), (100, 100, 1), (130, 100, 1)])
def test_pairs_of_tiles(m, n, count):
    """One below the other; side by side in an odd last row."""
    (tiling,) = (t for t in TILINGS if t.paired)
    assert tiles(Call((3, m, n, 64), (), ()), 1, tiling) == 3*count


def test_what_tensor_cores_take():
    launcher, hopper = WgmmaLauncher(layer()), NoDevice((9, 0))

    def call(shape=(64, 40, 24), pointers=(0, 0, 0, 0), left=(24, 0, 1),
             right=(0, 1, 40)):
        return Call(shape, pointers, (left, right, (0, 1, 0), (40, 1, 0)))

    assert launcher.takes(call(), hopper)
    assert launcher.takes(call(left=(1, 0, 64), right=(0, 24, 1)), hopper)
    assert not launcher.takes(call(pointers=(2, 0, 0, 0)), hopper)
    assert not launcher.takes(call(left=(25, 0, 1)), hopper)
    assert not launcher.takes(call(left=(48, 0, 2)), hopper)
    assert not launcher.takes(call(left=(-24, 0, 1)), hopper)
    assert not launcher.takes(call(shape=(64, 40, 0)), hopper)
    assert not launcher.takes(call(shape=(1 << 32, 8, 8)), hopper)
    assert not launcher.takes(call(), NoDevice((8, 0)))
