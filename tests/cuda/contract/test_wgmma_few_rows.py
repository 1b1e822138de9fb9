"""Few rows times a large matrix on Hopper's tensor cores: bound by memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.backend import Call
from nbfused.cuda.contract.wgmma.kernel import WgmmaText
from nbfused.cuda.contract.wgmma.plan import plans
from nbfused.cuda.contract.wgmma.tiling import TILINGS
from nbfused.cuda.tuning.tuner import Tuner
from tests.cuda.contract.products import biased_relu, integers, layer, placed
from tests.cuda.contract.test_wgmma import taken  # noqa: F401  # a fixture
from tests.cuda.recorded import assembled, needs_compiler, registers


@pytest.fixture(params=[(once, apart, few) for once in (False, True)
                        for apart in (False, True) for few in (False, True)], ids=str)
def way(request, monkeypatch):
    """How factors are read, whatever the rule says."""
    once, apart, few = request.param

    def only(self, key, call, device, outputs):
        plan = self._candidates(call, device)[0]
        return replace(plan, once=(once, once), apart=apart, few=few and plan.few)

    monkeypatch.setattr(Tuner, "__call__", only)


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [
    (16, 2056, 1032), (17, 4104, 200), (70, 1000, 72),  # ragged, few slices
    (3000, 2056, 328)], ids=str)  # several tiles a block
@pytest.mark.parametrize("transposed", [False, True])
def test_every_way_of_reading(shape, transposed, way, taken, hopper):  # noqa: F811
    m, n, k = shape
    a, b, c = integers(0, m, k), integers(1, k, n), integers(2, n)
    w = ops.transpose(placed(b.T, bfloat16)) if transposed else placed(b, bfloat16)
    got = ops.linear(placed(a, bfloat16), w, placed(c, bfloat16), activation=ops.relu)
    np.testing.assert_array_equal(nf.to_numpy(got),
                                  np.maximum(a @ b + c, 0).astype(bfloat16))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("few", [False, True])
def test_what_is_not_stored_does_no_harm(few, monkeypatch, taken,  # noqa: F811
                                         hopper):
    """NaN and infinities of B, multiplied in place of rows that A does not have."""
    def only(self, key, call, device, outputs):
        plan = self._candidates(call, device)[0]
        assert plan.few == 16
        return plan if few else replace(plan, few=0)

    monkeypatch.setattr(Tuner, "__call__", only)
    a, b = integers(0, 5, 136), integers(1, 136, 264)
    b[:, 3], b[7, 100] = np.nan, np.inf
    got = ops.matmul(placed(a, bfloat16), ops.transpose(placed(b.T, bfloat16)))
    with np.errstate(invalid="ignore"):
        want = np.einsum("mk,kn->mn", a, b)
    np.testing.assert_array_equal(nf.to_numpy(got).astype(float),  # NaN equals NaN
                                  want.astype(bfloat16).astype(float))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(16, 8192, 2056), (3, 8, 2056, 2056)], ids=str)
def test_by_the_rule(shape, taken, hopper):  # noqa: F811
    *batch, m, n, k = shape
    a, b = integers(0, *batch, m, k), integers(1, *batch, k, n)
    got = ops.matmul(placed(a, "float16"), placed(b, "float16"))
    np.testing.assert_array_equal(nf.to_numpy(got), (a @ b).astype("float16"))
    assert len(taken) == 1


# --- without a device


def first(m, n, k, *, transposed=False):
    text = layer(epilogue=biased_relu)
    right = (0, k, 1) if transposed else (0, 1, n)
    call = Call((m, n, k), (0, 0, 0, 0), ((k, 0, 1), right, (0, 1, 0), (n, 1, 0)))
    return plans(text, call, 132)[0]


@pytest.mark.parametrize("transposed", [False, True])
def test_the_rule(transposed):
    """Large factors that one block reads leave the cache; blocks begin apart."""
    few = first(16, 8192, 8192, transposed=transposed)
    assert (few.once, few.apart) == ((False, True), True)
    assert (few.tiling.rows, few.tiling.columns, few.few) == (64, 64, 16)
    assert first(64, 8192, 8192, transposed=transposed).tiling.columns == 128
    for shape in ((4096, 4096, 4096), (512, 512, 512), (16, 512, 8192)):
        plan = first(*shape, transposed=transposed)
        assert (plan.once, plan.apart) == ((False, False), False)
        assert plan.few == (16 if shape[0] == 16 else 0)
    small = first(16, 8192, 1024, transposed=transposed)  # stays for the next call
    assert (small.once, small.apart) == ((False, False), True)
    assert first(8192*16, 16, 1024, transposed=transposed).once == (True, False)


def test_the_text_compiles_without_spills():
    text = layer(epilogue=biased_relu)
    plan = first(16, 8192, 8192)
    kernel = WgmmaText(text, plan).kernel()
    assert plan.tiling in TILINGS
    needs_compiler()
    code, said = assembled(kernel, (9, 0))
    assert "createpolicy.fractional.L2::evict_first" in code
    assert code.count(".L2::cache_hint") > 0
    if said is not None:
        assert registers(said)[1] == 0
