"""Tiles that the blocks of a cluster share, on Hopper's tensor cores."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.backend import Call
from nbfused.cuda.contract_wgmma import SHARED, TILINGS
from nbfused.cuda.launch import Program
from nbfused.cuda.tune import Tuner
from nbfused.cuda.wgmma import WgmmaLauncher
from nbfused.cuda.wgmma_plan import plans
from tests.cuda.recorded import NoDevice
from tests.cuda.test_contract_wgmma import (  # noqa: F401  # fixtures
    biased_relu,
    hopper,
    integers,
    placed,
    product_text,
    taken,
)

SPLIT = [t for t in TILINGS if t.split > 1]


@pytest.fixture(params=SPLIT, ids=str)
def split(request, monkeypatch):
    """Calls are tiled so, whatever the model of their time says."""
    def only(self, key, call, device, outputs):
        (plan,) = (p for p in self._candidates(call, device)
                   if p.tiling == request.param)
        return plan

    monkeypatch.setattr(Tuner, "__call__", only)


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [
    (16, 8192, 1024),  # one round of clusters
    (1, 264, 64), (70, 1000, 72),  # blocks without slices, parts without columns
    (130, 520, 200), (3000, 2056, 328)], ids=str)  # ragged, several rounds
@pytest.mark.parametrize("transposed", [False, True])
def test_any_shape(shape, transposed, split, taken, hopper):  # noqa: F811
    m, n, k = shape
    a, b, c = integers(0, m, k), integers(1, k, n), integers(2, n)
    w = ops.transpose(placed(b.T, bfloat16)) if transposed else placed(b, bfloat16)
    got = ops.linear(placed(a, bfloat16), w, placed(c, bfloat16), activation=ops.relu)
    np.testing.assert_array_equal(nf.to_numpy(got),
                                  np.maximum(a @ b + c, 0).astype(bfloat16))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
@pytest.mark.parametrize("shape", [(136, 200), (136, 1), (1, 200), (3, 136, 200)],
                         ids=str)
def test_extras_of_every_kind(dtype, shape, split, taken, hopper):  # noqa: F811
    a, b, s = integers(0, 3, 136, 264), integers(1, 3, 264, 200), integers(2, *shape)
    got = ops.batched_matmul(placed(a, "float16"), placed(b, "float16"),
                             epilogue=lambda acc, s: acc*s, extras=(placed(s, dtype),),
                             permute=(1, 0, 2))
    want = np.transpose(a @ b * s, (1, 0, 2))
    np.testing.assert_array_equal(nf.to_numpy(got), want.astype(got.dtype))
    assert len(taken) == 1


@pytest.mark.cuda
def test_columns_that_are_no_whole_accesses(split, taken, hopper):  # noqa: F811
    a, b = integers(0, 65, 136), integers(1, 71, 136)
    got = ops.matmul(placed(a, bfloat16), ops.transpose(placed(b, bfloat16)))
    np.testing.assert_array_equal(nf.to_numpy(got), (a @ b.T).astype(bfloat16))
    assert len(taken) == 1


@pytest.mark.cuda
def test_sums_are_the_same_every_time(split, taken, hopper):  # noqa: F811
    """Shares are added in the order of the blocks, not as they come."""
    rng = np.random.default_rng(0)
    a, b = (placed(rng.standard_normal(shape), "float16")
            for shape in ((48, 4104), (4104, 520)))
    first = nf.to_numpy(ops.matmul(a, b))
    want = nf.to_numpy(a).astype(float) @ nf.to_numpy(b).astype(float)
    np.testing.assert_allclose(first, want, rtol=2e-3, atol=0.3)
    for _ in range(5):
        np.testing.assert_array_equal(nf.to_numpy(ops.matmul(a, b)), first)
    assert len(taken) == 6


# --- without a device


def call(m, n, k):
    return Call((m, n, k), (0, 0, 0, 0), ((k, 0, 1), (0, 1, n), (0, 1, 0), (n, 1, 0)))


def test_split_where_tiles_are_few():
    text, _ = product_text(biased_relu)

    def first(*shape):
        return plans(text, call(*shape), 132)[0].tiling.split

    assert first(16, 8192, 8192) == 2
    assert first(4096, 4096, 4096) == 1
    assert first(512, 512, 512) == 1


@pytest.mark.parametrize("tiling", SPLIT, ids=str)
def test_whole_clusters_are_launched(tiling, monkeypatch):
    launched = []
    monkeypatch.setattr(Program, "launch", lambda self, where, stream, blocks, *rest:
                        launched.append((self.kernel.cluster, blocks)))
    monkeypatch.setattr("nbfused.cuda.wgmma._tensor_map", lambda *array: bytes(128))
    text, signature = product_text(biased_relu)
    launcher, where = WgmmaLauncher(text, signature), NoDevice((9, 0))
    for shape in ((16, 512, 512), (4096, 4096, 64)):
        (plan,) = (p for p in plans(text, call(*shape), where.processors)
                   if p.tiling == tiling)
        assert plan.shared <= SHARED
        assert plan.stages >= 3
        launcher.run(call(*shape), where, plan)
    columns = 512//tiling.columns
    assert launched == [(tiling.split, columns*tiling.split),
                        (tiling.split, 132//tiling.split*tiling.split)]
