"""Tuning of products on Hopper's tensor cores, on a device."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.config import config
from nbfused.cuda.contract.wgmma import launch as contract_wgmma_launch
from nbfused.cuda.tuning import choices
from nbfused.cuda.tuning.tuner import Tuner

pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Nothing kept or shipped."""
    monkeypatch.setattr(choices, "_tables", {})
    monkeypatch.setattr(choices, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(choices, "folder", lambda: tmp_path / "tuned")
    with config.override(autotune="1", deterministic=False, cache_disable=False):
        yield tmp_path


@pytest.fixture
def launched(monkeypatch):
    """The plans that were launched."""
    found = []
    run = contract_wgmma_launch.WgmmaLauncher.run

    def noted(self, call, where, plan):
        found.append(plan)
        run(self, call, where, plan)

    monkeypatch.setattr(contract_wgmma_launch.WgmmaLauncher, "run", noted)
    return found


def layer(m, n, k, seed=0):
    random = np.random.default_rng(seed)
    a, b, c = (random.integers(-3, 4, s).astype(np.float64)
               for s in ((m, k), (k, n), (n,)))
    want = np.maximum(a @ b + c, 0).astype(bfloat16)
    return [nf.array(x.astype(bfloat16), device="cuda:0") for x in (a, b, c)], want


@pytest.mark.parametrize("shape", [(512, 512, 512), (77, 1000, 200), (1000, 72, 1032)],
                         ids=str)
def test_every_variant_is_right_and_the_fastest_stays(shape, hopper, launched):
    """B09 of the acceptance list: every tile gives the same result."""
    arrays, want = layer(*shape)
    for _ in range(2):
        got = ops.linear(*arrays, activation=ops.relu)
        np.testing.assert_array_equal(nf.to_numpy(got), want)
    variants = set(launched)
    assert len(variants) > 1
    (path,) = choices.kept_files()
    assert len(choices.read(path).choices) == 1
    before = len(launched)
    ops.linear(*arrays, activation=ops.relu)
    assert len(launched) == before + 1
    for plan in variants:  # each of them alone
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Tuner, "__call__", lambda *_, plan=plan: plan)
            got = ops.linear(*arrays, activation=ops.relu)
            np.testing.assert_array_equal(nf.to_numpy(got), want)
            assert launched[-1] == plan


def test_a_graph_records_one_kernel(hopper, launched):
    torch = pytest.importorskip("torch")
    a, b = (torch.ones((256, 256), device="cuda", dtype=torch.bfloat16)
            for _ in range(2))
    with config.override(autotune="0"):
        ops.matmul(a, b)  # loaded, as recording demands
    launched.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = ops.matmul(a, b)
    assert len(launched) == 1
    a.fill_(2)
    graph.replay()
    assert (c == 512).all()
